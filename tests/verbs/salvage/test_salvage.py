"""Salvage of damaged stores: what was not touched comes back, and nothing is certain that was not written."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.formats.message import Message, encode_record, record_size
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.salvage import SalvageReport, salvage
from tests.conftest import CopyOf
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.support.salvaging import (
    Touched,
    flip_bit_in_a_body,
    records_of,
    remove_a_segment,
    rewrite,
    segments,
    zero_a_page,
)

ROUNDS = int(os.environ.get("SALVAGE_ROUNDS", "2"))
STORES = ("normal", "many", "batch", "normal5", "ipv6")


def cut_a_file(root: Path, rng: random.Random) -> Touched:
    segment = rng.choice(segments(root))
    size = segment.stat().st_size
    at = rng.randrange(100, size)
    os.truncate(segment, at)
    return [(int(segment.name) + at, int(segment.name) + size)]


def swap_segments(root: Path, rng: random.Random) -> Touched:
    if len(segments(root)) > 1:
        one, other = rng.sample(segments(root), 2)
        one.rename(root / "aside")
        other.rename(one)
        (root / "aside").rename(other)
    return []


def lose_the_names(root: Path, rng: random.Random) -> Touched:
    for number, segment in enumerate(rng.sample(segments(root), len(segments(root)))):
        segment.rename(segment.with_name(f"recovered.{number}"))
    return []


def overwrite_a_header(root: Path, rng: random.Random) -> Touched:
    offset = rng.choice(list(records_of(root)))
    segment = max((one for one in segments(root) if int(one.name) <= offset), key=lambda one: int(one.name))
    at, noise = offset - int(segment.name), rng.randbytes(36)
    rewrite(segment, lambda data: data.__setitem__(slice(at, at + 36), noise))
    return [(offset, offset + 36)]


def insert_bytes(root: Path, rng: random.Random) -> Touched:
    segment = rng.choice(segments(root))
    at = rng.randrange(segment.stat().st_size)
    noise = rng.randbytes(rng.randrange(1, 200))
    rewrite(segment, lambda data: data.__setitem__(slice(at, at), noise))
    return [(int(segment.name) + at, int(segment.name) + at)]


def remove_bytes(root: Path, rng: random.Random) -> Touched:
    segment = rng.choice(segments(root))
    at = rng.randrange(segment.stat().st_size)
    count = rng.randrange(1, 200)
    rewrite(segment, lambda data: data.__delitem__(slice(at, at + count)))
    return [(int(segment.name) + at, int(segment.name) + at + count)]


DAMAGES = (
    flip_bit_in_a_body,
    zero_a_page,
    cut_a_file,
    remove_a_segment,
    swap_segments,
    lose_the_names,
    overwrite_a_header,
    insert_bytes,
    remove_bytes,
)


def is_touched(offset: int, size: int, touched: Touched) -> bool:
    """Whether a byte of the record was changed, or bytes were inserted inside of it."""
    return any(start < offset + size and (stop > offset or (start == stop > offset)) for start, stop in touched)


@pytest.mark.parametrize(("damage", "name", "seed"), one_of(13, DAMAGES, STORES, range(ROUNDS)))
def test_untouched_records_come_back_and_touched_ones_are_not_certain(
    damage: Callable[[Path, random.Random], Touched], name: str, seed: int, copy_of: CopyOf
) -> None:
    _, root = copy_of(name)
    written = records_of(root)
    touched = damage(root, random.Random(seed))
    report = SalvageReport()
    found = records_of(root, report)
    for offset, (_, record) in written.items():
        if not is_touched(offset, len(record), touched):
            grade, data = found.get(offset, (None, b""))
            assert data == record, offset
            # Bytes inserted behind a record may as well have been inserted into it.
            assert grade is Grade.CERTAIN or (offset + len(record),) * 2 in touched
    for offset, (grade, record) in found.items():
        if grade is Grade.CERTAIN:
            assert record == written[offset][1]
    for offset in written.keys() - found.keys():
        # Segments before the first one may have expired.
        assert any(gap.log_offset <= offset < gap.stop for gap in report.gaps) or offset < report.first_log_offset
    kept = [(offset, offset + len(record)) for offset, (_, record) in found.items()]
    assert not [gap for gap in report.gaps for start, stop in kept if start < gap.stop and gap.log_offset < stop]


def test_a_sound_store_is_certain_from_end_to_end() -> None:
    for name in STORES:
        report = SalvageReport()
        found = records_of(golden(name).store, report)
        assert found
        assert {grade for grade, _ in found.values()} == {Grade.CERTAIN}
        assert (report.torn, report.gaps, report.skipped, report.duplicate_count) == ([], [], [], 0)


@pytest.mark.parametrize("seed", one_of(3, range(ROUNDS * 3)))
def test_several_damages_at_once_lose_only_what_they_touched(seed: int, copy_of: CopyOf) -> None:
    rng = random.Random(seed)
    _, root = copy_of("many")
    written = records_of(root)
    in_place = (flip_bit_in_a_body, zero_a_page, overwrite_a_header)
    touched = [one for _ in range(4) for one in rng.choice(in_place)(root, rng)]
    found = records_of(root)
    lost = [o for o, (_, record) in written.items() if o not in found and not is_touched(o, len(record), touched)]
    assert lost == []


def carrying(body: bytes) -> bytes:
    """A sound record at log offset 0 with this body."""
    topic, properties = b"TopicA", b"TAGS\x01a"
    size = record_size(len(body), len(topic), len(properties))
    message = Message("TopicA", body, properties=properties)
    data = encode_record(message, topic=topic, sys_flag=0, queue_offset=0, log_offset=0, store_timestamp_ms=1)
    assert len(data) == size
    return data


def test_records_inside_a_whole_body_are_never_seen(tmp_path: Path) -> None:
    inner = golden("normal").store / "commitlog/00000000000000000000"
    (tmp_path / "00000000000000000000").write_bytes(carrying(inner.read_bytes()[:20_000]) + bytes(1000))
    assert list(records_of(tmp_path)) == [0]


def test_records_of_elsewhere_inside_a_damaged_body_are_not_taken_for_records(tmp_path: Path) -> None:
    inner = golden("normal").store / "commitlog/00000000000000131072"
    data = bytearray(carrying(inner.read_bytes()[:20_000]) + bytes(1000))
    data[0:4] = bytes(4)
    (tmp_path / "00000000000000000000").write_bytes(data)
    assert not records_of(tmp_path)


def test_a_walk_without_records_names_no_first_log_offset_and_a_cleared_report_nothing(tmp_path: Path) -> None:
    report = SalvageReport()
    (tmp_path / "00000000000000000000").write_bytes(bytes(4096))
    assert records_of(tmp_path, report) == {}
    assert report.first_log_offset == -1
    (tmp_path / "00000000000000000000").write_bytes(carrying(b"x") + b"\1" * 500)
    for _ in range(2):
        report.duplicate_count = 7
        report.clear()
        records_of(tmp_path, report)
        assert report.duplicate_count == 0
        assert (report.files, report.records, len(report.gaps)) == (["00000000000000000000"], {"certain": 1}, 1)
        assert (report.first_log_offset, report.size_bytes) == (0, {"certain": len(carrying(b"x"))})


@pytest.mark.turns(2)
@pytest.mark.parametrize(("worst", "saved"), [(Grade.CERTAIN, 499), (Grade.BODY_CRC, 500), (Grade.PARTIAL, 500)])
def test_records_up_to_the_worst_grade_are_handed_to_a_writer(
    worst: Grade, saved: int, copy_of: CopyOf, tmp_path: Path
) -> None:
    _, root = copy_of("normal")
    flip_bit_in_a_body(root, random.Random(1))
    grades: list[Grade] = []

    def write(runs: Iterator[SalvagedRun]) -> int:
        grades.extend(run.grade for run in runs for _ in range(run.count))
        return len(grades)

    report = salvage(str(root), write, worst=worst)
    assert (report.saved, len(grades), report.lost.messages) == (saved, saved, 500 - saved)
    assert salvage(root, worst=worst).saved == saved
    store = salvage(root, tmp_path / "new", worst=worst)
    assert (store.saved, store.new_store and store.new_store.left_out_count, store.is_whole) == (499, 1, False)
