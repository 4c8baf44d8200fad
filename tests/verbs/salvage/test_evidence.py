"""Records are held against queues and index by stretches of the log, with the result of a look at all of them."""

from __future__ import annotations

import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import Message, open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from store.formats.queue_unit import MAX_EXT_ADDRESS
from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue.expect import Units
from store.verbs.salvage import derived_files, new_store
from store.verbs.salvage.derived_files import NOTHING, DerivedFiles, NamedUnits, Stretch
from store.verbs.salvage.evidence import Evidence, _zero_tails
from store.verbs.salvage.salvage import SalvageReport, salvage_runs
from tests.conftest import CopyOf
from tests.support.five_stores import copy_of_five, fivefive
from tests.support.golden import copy_store, golden
from tests.support.small_log import SmallLog, SmallSegment

UNIT_SIZE = 20
NORMAL_SLOTS = 500
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PROPERTY_CRC = {"enabledAppendPropCRC": True, "mappedFileSizeCommitLog": 16384, "messageIndexEnable": False}
Found = list[tuple[int, str, str]]


def salvaged(root: Path) -> tuple[Found, int, int]:
    """Log offset, grade and reason of each record; the gaps, and the units in front of the log."""
    report = SalvageReport()
    runs = list(salvage_runs(root, Filesystem(), report))
    found = [(offset, run.grade.value, run.reason) for run in runs for offset in run.log_offsets.tolist()]
    return sorted(found), report.gap_bytes, report.units_before


def damage(root: Path, seed: int) -> None:
    """Flips bits in ten places of queue files and index, and takes the log's first segment away."""
    rng = random.Random(seed)
    files = sorted(one for one in [*root.glob("consumequeue/*/*/*"), *root.glob("index/*")] if one.is_file())
    for _ in range(10):
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    min((root / "commitlog").iterdir()).unlink()


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(6))
def test_stretches_of_any_size_give_the_same_grades(
    seed: int, copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, root = copy_of("many")
    damage(root, seed)
    whole = salvaged(root)
    monkeypatch.setattr(derived_files, "STRETCH_ITEMS", 1 + 40 * seed)
    assert salvaged(root) == whole


def test_a_stretch_holds_what_names_its_log_offsets_alone(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    _, root = copy_of("many")
    whole = DerivedFiles(StoreReader(str(root))).stretch(0, 1)
    monkeypatch.setattr(derived_files, "STRETCH_ITEMS", 100)
    part = DerivedFiles(StoreReader(str(root))).stretch(20_000, 30_000)
    for mine, every in ((part.units, whole.units), (part.entries, whole.entries)):
        inside = (every.log_offset >= part.start) & (every.log_offset < part.stop)
        assert 0 < inside.sum() < len(inside)
        assert [column.tolist() for column in mine] == [column[inside].tolist() for column in every]


@pytest.mark.parametrize("name", ["lmq", "lmq-poison1", "lmq-poison2", "bcq", "rocksdb", "timer", "dledger"])
def test_units_of_light_queues_contradict_no_record(name: str, tmp_path: Path) -> None:
    found, _, _ = salvaged(copy_of_five(name, tmp_path))
    assert {(grade, reason) for _, grade, reason in found} == {("certain", "")}


@pytest.mark.parametrize(("is_own_unit_there", "grade"), [(True, "certain"), (False, "partial")])
def test_a_unit_of_another_queue_contradicts_a_record_without_a_right_one(
    is_own_unit_there: bool, grade: str, copy_of: CopyOf
) -> None:
    _, root = copy_of("normal")
    own, other = (root / f"consumequeue/{queue}/00000000000000000000" for queue in ("TopicA/1", "TopicA/3"))
    unit = own.read_bytes()[:UNIT_SIZE]
    other.write_bytes(unit + other.read_bytes()[UNIT_SIZE:])
    if not is_own_unit_there:
        own.write_bytes(bytes(UNIT_SIZE) + own.read_bytes()[UNIT_SIZE:])
    found, _, _ = salvaged(root)
    assert [one[1] for one in found if one[0] == int.from_bytes(unit[:8], "big")] == [grade]


@pytest.mark.parametrize(
    ("properties", "graded"),
    [
        (b"", ("partial", "its __CRC32# is of other bytes")),
        (b"RETRY_TOPIC\x01Orders\x02", ("certain", "")),
    ],
)
def test_a_property_crc_of_other_bytes_contradicts_a_record_that_is_no_copy(
    properties: bytes, graded: tuple[str, str], tmp_path: Path
) -> None:
    with open_store(tmp_path, read_only=False, compat="5.3", settings=PROPERTY_CRC) as store:
        for _ in range(3):
            store.put(Message("Orders", b"body", 0, properties))
    shutil.rmtree(tmp_path / "consumequeue")
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[size + FLAG_AT] ^= 1
    log.write_bytes(data)
    found, _, _ = salvaged(tmp_path)
    assert found == [(0, "certain", ""), (size, *graded), (2 * size, "certain", "")]


def test_index_entries_of_tags_make_no_record_doubtful() -> None:
    grades = [grade for _, grade, _ in salvaged(fivefive("plain") / "store")[0]]
    assert grades == ["certain"] * 31


def test_a_record_with_a_key_that_the_index_lacks_is_doubtful(tmp_path: Path) -> None:
    root = copy_store(fivefive("plain") / "store", tmp_path / "store")
    log = next((root / "commitlog").iterdir())
    data = log.read_bytes()
    at = data.index(b"KEYS\x01") + 5
    log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    doubtful = [(grade, reason) for _, grade, reason in salvaged(root)[0] if grade != "certain"]
    assert doubtful == [("partial", "its index entries name other keys")]


@pytest.mark.parametrize("byte", [0, 3, 11, 15, 19], ids=["hash", "hash end", "offset", "time", "previous"])
@pytest.mark.parametrize("number", [1, 500, 924])
def test_a_flipped_bit_of_an_index_entry_makes_no_record_doubtful(byte: int, number: int, copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    index = min((root / "index").iterdir())
    data = bytearray(index.read_bytes())
    data[HEADER_SIZE + SLOT_SIZE * NORMAL_SLOTS + ENTRY_SIZE * number + byte] ^= 1
    index.write_bytes(data)
    assert {grade for _, grade, _ in salvaged(root)[0]} == {"certain"}


@pytest.mark.parametrize("byte", [8, 9, 11])
def test_a_wrong_size_in_a_queue_unit_makes_no_record_doubtful(byte: int, copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    queue = root / "consumequeue/TopicA/1/00000000000000000000"
    data = bytearray(queue.read_bytes())
    data[3 * UNIT_SIZE + byte] ^= 1
    queue.write_bytes(data)
    assert {grade for _, grade, _ in salvaged(root)[0]} == {"certain"}


@pytest.mark.parametrize("compat", ["4.9", "5.5"])
@pytest.mark.parametrize("lost", range(3))
def test_a_lost_index_file_makes_no_record_doubtful(lost: int, compat: str, tmp_path: Path) -> None:
    settings = {"maxHashSlotNum": 7, "maxIndexNum": 8, "mappedFileSizeCommitLog": 16384}
    with open_store(tmp_path, read_only=False, compat=compat, settings=settings) as store:
        for number in range(6):
            store.put(Message.of("Orders", b"body", keys=[f"a{number}", f"b{number}", f"c{number}"], tags="paid"))
    files = sorted((tmp_path / "index").iterdir())
    files[lost].unlink()
    assert [grade for _, grade, _ in salvaged(tmp_path)[0]] == ["certain"] * 6
    assert len(files) == (4 if compat == "5.5" else 3)


@pytest.mark.parametrize(
    ("first", "last", "is_read"),
    [(100, 199, False), (150, 199, False), (150, 200, True), (99, 150, True), (100, 100, False), (200, 300, True)],
)
def test_a_stretch_is_read_where_the_one_before_does_not_hold_the_records(first: int, last: int, is_read: bool) -> None:
    read: list[tuple[int, int]] = []

    def stretch(start: int, stop: int) -> Stretch:
        read.append((start, stop))
        return replace(NOTHING, start=start, stop=stop)

    files: Any = SimpleNamespace(queues={}, stretch=stretch)
    evidence = Evidence(files, ())
    for log_offsets in ([100, 199], [first, last]):
        found: Any = SimpleNamespace(log_offsets=np.array(log_offsets))
        evidence._reach(found)
    assert read == [(100, 200), *([(first, last + 1)] if is_read else [])]


@pytest.mark.parametrize(
    ("units", "end"),
    [
        ([], 1000),
        ([(1000, 1100)], 1100),
        ([(500, 900)], 1000),
        ([(2000, 2100)], 2100),
        ([(2001, 2100)], 1000),
        ([(1000, 1100), (2100, 2200), (3200, 3300)], 3300),
        ([(1000, 1100), (2101, 2200), (3200, 3300)], 1100),
    ],
)
def test_a_unit_more_than_a_segment_behind_all_others_ends_the_log_in_front_of_it(
    units: list[tuple[int, int]], end: int
) -> None:
    starts, stops = np.array(units, np.int64).reshape(-1, 2).T
    files: Any = SimpleNamespace(queues={}, units_from=lambda covered: (starts, stops))
    assert Evidence(files, ()).log_end(0, 1000, 1000) == end


def test_progress_ends_with_all_bytes_of_the_log() -> None:
    told: list[tuple[int, int]] = []
    list(salvage_runs(golden("many").store, Filesystem(), SalvageReport(), on_progress=lambda *done: told.append(done)))
    done, sizes = [one for one, _ in told], {size for _, size in told}
    assert (done[0], {done[-1]}, done) == (0, sizes, sorted(done))
    # More than once in each of the nine segments.
    assert len(told) == 19


def test_the_units_asked_for_are_required_and_no_more() -> None:
    asked: list[tuple[int, int]] = []
    derived_files._require_units(SimpleNamespace(require=lambda *range_: asked.append(range_)), 3, 5)
    assert asked == [(60, 100)]


@pytest.mark.parametrize(
    ("positions", "sizes", "joined"),
    [([2], [3], b"cde"), ([2, 5], [3, 1], b"cdef"), ([2, 6], [3, 2], b"cdegh"), ([0, 4, 9], [1, 2, 1], b"aefj")],
)
def test_records_are_joined_without_what_is_between_them(positions: list[int], sizes: list[int], joined: bytes) -> None:
    columns = SimpleNamespace(position=np.array(positions), size=np.array(sizes))
    run: Any = SimpleNamespace(columns=columns, buffer=memoryview(b"abcdefghij"))
    assert bytes(new_store._records_of(run)) == joined


# A unit of queue, queue offset, size and tags code; the record's is (0, 5, 100, 7).
@pytest.mark.parametrize(
    ("unit", "has_tags", "differs"),
    [
        ((0, 5, 100, 7), True, False),
        ((1, 5, 100, 7), True, True),
        ((0, 4, 100, 7), True, False),
        ((0, 5, 99, 7), True, False),
        ((0, 5, 100, 8), True, True),
        ((0, 5, 100, 8), False, False),
        ((0, 5, 100, MAX_EXT_ADDRESS + 1), True, True),
        ((0, 5, 100, MAX_EXT_ADDRESS), True, False),
    ],
)
def test_a_unit_differs_in_any_field_but_size_and_place_and_an_extension_address(
    unit: tuple[int, int, int, int], has_tags: bool, differs: bool
) -> None:
    evidence = Evidence(cast(Any, SimpleNamespace(queues={})), ())
    evidence._numbers, evidence._has_tags = np.array([0]), np.array([has_tags])
    queue, queue_offset, size, tags_code = (np.array([one]) for one in unit)
    units = NamedUnits(np.array([0]), queue_offset, tags_code, queue, size)
    expected = Units([("T", 0)], *(np.array([one]) for one in (0, 5, 0, 100, 7)))
    assert evidence._differ(units, expected).tolist() == [differs]


# Runs of (queue, shift) in log order, and the shared ones.
@pytest.mark.parametrize(
    ("runs", "shared"),
    [
        ([[(0, 0)]], [[True]]),
        ([[(0, 1)]], [[False]]),
        ([[(0, 1), (0, 1)]], [[True, True]]),
        ([[(0, 1), (0, 2)]], [[False, False]]),
        ([[(0, 1), (1, 1)]], [[False, False]]),
        ([[(0, 0), (0, 1), (1, 0), (0, 1), (0, 7), (0, 1)]], [[True, True, True, True, False, False]]),
        ([[(0, 1), (1, 2)], [], [(1, 2), (0, 1), (0, 0)]], [[False, False], [], [True, True, True]]),
        ([[(0, 1), (0, 2)], [(0, 1)], [(0, 2)]], [[False, False], [False], [False]]),
    ],
)
def test_a_shift_counts_if_the_unit_before_or_after_in_its_queue_has_it_too(
    runs: list[list[tuple[int, int]]], shared: list[list[bool]]
) -> None:
    evidence = Evidence(cast(Any, SimpleNamespace(queues={})), ())
    columns = [np.array(run, np.int64).reshape(-1, 2).T for run in runs]
    assert [evidence._are_shared(*run).tolist() for run in columns] == shared


def give_queue_offsets(root: Path, offsets: dict[int, int]) -> None:
    """Gives the records at these log offsets other queue offsets; no CRC covers the field."""
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    for log_offset, queue_offset in offsets.items():
        struct.pack_into(">q", data, log_offset + QUEUE_OFFSET_AT, queue_offset)
    log.write_bytes(data)


# The queue's entries were built from a log in which 4 and later have one more than their place.
@pytest.mark.parametrize(("damaged", "doubtful"), [({}, []), ({6: 60}, [6]), ({9: 90}, [9])])
def test_a_queue_that_was_built_over_a_lost_record_contradicts_no_later_one(
    damaged: dict[int, int], doubtful: list[int], tmp_path: Path
) -> None:
    with open_store(tmp_path, read_only=False, settings={"mappedFileSizeCommitLog": 16384}) as store:
        offsets = [store.put(Message("Orders", b"body")).log_offset for _ in range(10)]
    give_queue_offsets(tmp_path, {offsets[at]: damaged.get(at, at + 1) for at in range(4, 10)})
    reason = "its queue entry contradicts it"
    graded = [("partial", reason) if at in doubtful else ("certain", "") for at in range(10)]
    assert salvaged(tmp_path)[0] == [(at, *grade) for at, grade in zip(offsets, graded, strict=True)]


def test_properties_that_end_in_zeros_are_told_by_their_last_byte() -> None:
    log = SmallLog()
    for properties in ({"a": "x\0"}, {"a": "\0x"}, {}, {"a": "xyz"}, {"b": "\0\0"}):
        log.put(**properties)
    run = next(scan_segment(SmallSegment(memoryview(log.data))))
    assert isinstance(run, Run)
    assert _zero_tails(run).tolist() == [0, 4]
