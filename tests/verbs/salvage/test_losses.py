"""The loss report of salvage: what the target does not get, counted as a cut's losses are."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import open_store
from store.files.filesystem import Filesystem
from store.formats.message import RECORD_MIN_SIZE
from store.verbs.recover.lost import UNKNOWN, LossReport
from store.verbs.salvage.derived_files import NamedUnits
from store.verbs.salvage.evidence import Evidence
from store.verbs.salvage.grade import Grade, SalvagedRun, TornRecord
from store.verbs.salvage.log_gaps import Gap
from store.verbs.salvage.losses import SalvageLosses, _Room
from store.verbs.salvage.queue_gaps import Missing
from store.verbs.salvage.sources import open_source
from store.verbs.salvage.walk import walk_file
from tests.cli.running import rmqctl
from tests.engine.services.stores import OP_TOPIC, Builder, build
from tests.support.stores import make_store
from tests.verbs.salvage.records import LENGTH, record, write

COUNT = 60


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """60 messages in queue 0 of topic T; a group has consumed 10 of them."""
    root = make_store(tmp_path / "store", COUNT, queues=1)
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"0": 10}}}))
    return root


def place(root: Path, number: int) -> tuple[int, int]:
    """Log offset and size of a message."""
    with open_store(root, as_is=True) as opened:
        message = opened.get("T", 0, number).messages[0]
        return message.log_offset, message.size


def overwrite(root: Path, position: int, data: bytes) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        file.write(data)


def salvaged(root: Path, *arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = rmqctl("--format", "json", "salvage", *arguments, store=root).json
    return found


def zero(root: Path, first: int, last: int) -> int:
    """Zeros the messages first … last; gives their bytes."""
    start, (at, size) = place(root, first)[0], place(root, last)
    overwrite(root, start, bytes(at + size - start))
    return at + size - start


def test_a_sound_store_loses_nothing(store: Path) -> None:
    found = salvaged(store)
    assert {value for name, value in found.items() if name.startswith("lost_")} == {0}
    assert (found["lost"], found["unconsumed"]) == ([], [])


def test_messages_that_queues_name_in_a_gap_are_unreadable(store: Path) -> None:
    size = zero(store, 8, 12)
    found = salvaged(store)
    assert (found["lost_messages"], found["lost_unreadable"], found["lost_units_cut"]) == (5, 5, 5)
    assert found["lost_bytes"] == size
    assert [(row["topic"], row["queue_id"], row["message_count"]) for row in found["lost"]] == [("T", 0, 5)]
    assert found["unconsumed"] == [{"group": "g", "topic": "T", "message_count": 3}]


def test_without_queues_the_missing_queue_offsets_tell(store: Path) -> None:
    zero(store, 8, 12)
    shutil.rmtree(store / "consumequeue")
    found = salvaged(store)
    assert (found["lost_messages"], found["lost_unreadable"], found["lost_units_cut"]) == (5, 5, 0)
    assert found["unconsumed"] == [{"group": "g", "topic": "T", "message_count": 3}]


@pytest.mark.parametrize(("target", "lost"), [("new", 1), ("new.jsonl", 0), (None, 0)])
def test_a_bad_body_is_lost_to_a_target_that_does_not_take_it(
    target: str | None, lost: int, store: Path, tmp_path: Path
) -> None:
    overwrite(store, place(store, 20)[0] + 95, b"\xff")
    found = salvaged(store, *(("--to", tmp_path / target) if target else ()))
    assert (found["lost_messages"], found["lost_damaged"], found["lost_units_cut"]) == (lost, lost, lost)


@pytest.mark.parametrize("with_queues", [True, False])
def test_a_torn_tail_is_lost_as_recover_says(with_queues: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT, queues=1)
    at, size = place(root, COUNT - 1)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    segment = max((root / "commitlog").iterdir(), key=lambda path: int(path.name) * (int(path.name) <= at))
    with segment.open("r+b") as file:
        file.seek(at - int(segment.name) + 60)
        file.write(bytes(size - 60))
    if not with_queues:
        shutil.rmtree(root / "consumequeue")
    said = salvaged(root)
    planned = rmqctl("--format", "json", "recover", "--dry-run", store=root).json
    names = [name for name in planned if name.startswith("lost_") and name != "lost_index_keys"]
    assert {name: said[name] for name in names} == {name: planned[name] for name in names}
    assert said["lost"] == planned["lost"]
    assert said["lost_messages"] == 1


def test_a_consumer_offsets_file_that_is_no_file_keeps_nothing_from_being_saved(store: Path) -> None:
    offsets = store / "config/consumerOffset.json"
    offsets.unlink()
    offsets.mkdir()
    zero(store, 8, 12)
    run = rmqctl("--format", "json", "salvage", store=store)
    assert run.json["lost_messages"] == 5
    assert "nothing is counted as unconsumed" in run.err


def counted(found: dict[str, Any]) -> tuple[Any, ...]:
    """Saved records; the row of each queue with losses, and the messages that groups miss."""
    lost = [
        tuple(row[name] for name in ("topic", "queue_id", "message_count", "damaged_count", "unreadable_count"))
        for row in found["lost"]
    ]
    unconsumed = [(row["group"], row["topic"], row["message_count"]) for row in found["unconsumed"]]
    return found["saved_records"], found["lost_messages"], found["lost_units_cut"], lost, unconsumed


QUEUE_ID_AT, QUEUE_OFFSET_AT = 12, 20


@pytest.mark.turns(3)
@pytest.mark.parametrize("at", [QUEUE_ID_AT + 3, QUEUE_OFFSET_AT + 6, QUEUE_OFFSET_AT + 7])
@pytest.mark.parametrize("is_one_lost_beside", [False, True])
@pytest.mark.parametrize(("target", "is_taken"), [(None, True), ("new.jsonl", True), ("new", False)])
def test_a_record_with_a_damaged_queue_id_or_offset_counts_once(
    target: str | None, is_taken: bool, is_one_lost_beside: bool, at: int, store: Path, tmp_path: Path
) -> None:
    overwrite(store, place(store, 20)[0] + at, b"\x28")
    if is_one_lost_beside:
        zero(store, 19, 19)
    found = salvaged(store, *(("--to", tmp_path / target) if target else ()))
    gap, left_out = int(is_one_lost_beside), int(not is_taken)
    lost = gap + left_out
    rows = [("T", 0, lost, left_out, gap)] if lost else []
    groups = [("g", "T", lost)] if lost else []
    assert counted(found) == (COUNT - lost, lost, lost, rows, groups)
    if target == "new":
        assert (found["left_out_records"], found["placeholder_records"]) == (1, lost)


def three_committed(builder: Builder) -> None:
    """Three transactions: half, commit and op record of each."""
    for number in range(3):
        builder.commit(f"K{number}", builder.half(f"K{number}"))
        builder.end(str(number))


OPS = f"of {OP_TOPIC}"
NOWHERE = "of no known queue, which may be op records"


@pytest.mark.parametrize(
    ("topic", "number", "with_queues", "said", "facts"),
    [
        (OP_TOPIC, 0, True, [f"1 lost message {OPS}"], {"lost_op_records": 1, "possible_op_records": 0}),
        (OP_TOPIC, 0, False, [f"1 lost message {NOWHERE}"], {"lost_op_records": 0, "possible_op_records": 1}),
        (OP_TOPIC, 1, False, [f"1 lost message {OPS}"], {"lost_op_records": 1, "possible_op_records": 0}),
        (OP_TOPIC, 2, False, [f"1 lost message {NOWHERE}"], {"lost_op_records": 0, "possible_op_records": 1}),
        ("Pay", 0, True, [], {}),
    ],
)
def test_a_lost_message_that_is_or_may_be_an_op_record_is_said_with_what_to_do(
    topic: str, number: int, with_queues: bool, said: list[str], facts: dict[str, int], tmp_path: Path
) -> None:
    root = build(tmp_path / "store", three_committed)
    with open_store(root, as_is=True) as opened:
        lost = list(opened.messages(topic, 0))[number]
    overwrite(root, lost.log_offset + 40, bytes(lost.size - 40))
    if not with_queues:
        shutil.rmtree(root / "consumequeue")
    run, found = rmqctl("salvage", store=root), rmqctl("-f", "json", "salvage", store=root).json
    assert {name: count for name, count in found.items() if name.endswith("_op_records")} == facts
    expected = [
        f"warning: {one}: without its op record a half message is checked again, and may be committed a second time; "
        "before a broker starts with the new store, run `transaction show` on it, and `transaction resolve` for each "
        "transaction that is in-doubt or has a warning"
        for one in said
    ]
    assert [line for line in run.err.splitlines() if "half message" in line] == expected


def test_without_half_messages_no_lost_message_is_an_op_record(store: Path) -> None:
    zero(store, COUNT - 1, COUNT - 1)
    shutil.rmtree(store / "consumequeue")
    assert "op record" not in rmqctl("salvage", store=store).err


def lost_runs(tmp_path: Path, sys_flag: int = 0) -> list[SalvagedRun]:
    """Three records of which none is certain, with queue offsets 0, 1 and 2."""
    data = bytearray(b"".join(record(LENGTH * number, number) for number in range(3)))
    data[39::LENGTH] = bytes([sys_flag]) * 3
    source = open_source(write(tmp_path / f"{0:020d}", bytes(data)), Filesystem())
    return [replace(one, grade=Grade.PARTIAL) for one in walk_file(source, 0) if isinstance(one, SalvagedRun)]


def counted_in(run: SalvagedRun, units: list[tuple[int, int, int]]) -> LossReport:
    """What is lost of a run with units of log offset, queue number and queue offset."""
    columns = np.array(units, np.int64).reshape(-1, 3).T
    named = NamedUnits(columns[0], columns[2], columns[0], columns[1], columns[0])

    def units_in(start: int, stop: int) -> tuple[NamedUnits, list[tuple[str, int]]]:
        return named.rows((named.log_offset >= start) & (named.log_offset < stop)), [("T", 0), ("U", 5)]

    named_by = SimpleNamespace(units_in=units_in, light_units_in=lambda start, stop: ())
    losses, evidence = SalvageLosses(frozenset()), cast("Evidence", named_by)
    losses.add(run, evidence)
    return losses.report([], [], LENGTH * 3, evidence, {("T", "g"): {0: 0}, ("U", "g"): {5: 0}})


@pytest.mark.parametrize(
    ("units", "queues", "units_cut"),
    [
        ([], [("T", 0, 3)], 0),
        ([(0, 0, 0), (LENGTH, 0, 1), (LENGTH * 2, 0, 2)], [("T", 0, 3)], 3),
        ([(LENGTH * 2, 1, 8)], [("T", 0, 2), ("U", 5, 1)], 1),
        ([(LENGTH * 2, 1, 8), (LENGTH * 2, 0, 9)], [("T", 0, 2), ("U", 5, 1)], 2),
        ([(LENGTH * 2, 1, 8), (LENGTH * 2, 0, 2)], [("T", 0, 3)], 2),
        ([(LENGTH * 2 + 1, 1, 8)], [("T", 0, 3)], 0),
    ],
)
def test_a_lost_record_is_of_the_queue_that_its_first_unit_names_unless_one_agrees(
    units: list[tuple[int, int, int]], queues: list[tuple[str, int, int]], units_cut: int, tmp_path: Path
) -> None:
    [run] = lost_runs(tmp_path)
    report = counted_in(run, units)
    assert [(row.topic, row.queue_id, row.damaged_count) for row in report.queues] == queues
    assert (report.messages, report.counts().lost_bytes, report.units_cut) == (3, 3 * LENGTH, units_cut)
    assert [(one.topic, one.queue_id, one.messages) for one in report.unconsumed] == queues


@pytest.mark.parametrize(("sys_flag", "seen"), [(0, 3), (8, 3), (4, 0), (12, 0)])
def test_consumers_miss_no_message_of_a_transaction_that_is_open_or_rolled_back(
    sys_flag: int, seen: int, tmp_path: Path
) -> None:
    [run] = lost_runs(tmp_path, sys_flag)
    report = counted_in(run, [])
    assert (report.messages, sum(one.messages for one in report.unconsumed)) == (3, seen)


@pytest.mark.parametrize(("more", "records"), [(-1, 0), (0, 1), (RECORD_MIN_SIZE - 1, 1), (RECORD_MIN_SIZE, 2)])
def test_the_gaps_between_two_records_had_room_for_so_many_of_the_smallest(more: int, records: int) -> None:
    stop = 500 + RECORD_MIN_SIZE - 40 + more
    gaps = [Gap("", 0, start, end, "") for start, end in ((0, 100), (160, 200), (500, stop), (stop + 50, stop + 900))]
    assert _Room(gaps).between(100, stop + 50) == records
    assert _Room([]).between(0, 1000) == 0


NO_UNITS = NamedUnits(*(np.empty(0, np.int64) for _ in NamedUnits._fields))
NO_EVIDENCE = cast(
    "Evidence", SimpleNamespace(units_in=lambda start, stop: (NO_UNITS, []), light_units_in=lambda start, stop: ())
)
GAP = Gap("", 0, 100, 200, "")
MISSING = Missing(b"T", 0, 5, 8, 100, 200)


@pytest.mark.parametrize(
    ("heads", "covered_end", "lost"),
    [
        ([], 300, (1, 100)),
        ([(100, 30)], 300, (1, 30)),
        ([(199, 30)], 300, (1, 30)),
        ([(100, 30), (150, 40)], 300, (2, 70)),
        ([(99, 30)], 300, (1, 100)),
        ([(200, 30)], 300, (1, 100)),
        ([(200, 30)], 201, (1, 100)),
        ([(200, 30)], 200, (2, 130)),
        ([(201, 30)], 200, (2, 130)),
        ([(199, 30)], 199, (1, 30)),
    ],
)
def test_a_gap_without_units_is_its_torn_heads_or_one_message(
    heads: list[tuple[int, int]], covered_end: int, lost: tuple[int, int]
) -> None:
    torn = [TornRecord("", 0, at, size, 0, 0, 0, "") for at, size in heads]
    report = SalvageLosses(frozenset()).report([GAP], torn, covered_end, NO_EVIDENCE, {})
    assert [(row.topic, row.message_count, row.size_bytes) for row in report.queues] == [(UNKNOWN[0], *lost)]


@pytest.mark.parametrize(
    ("after", "before", "is_light", "count"),
    [(0, 100, False, 1), (0, 101, False, 0), (199, 300, False, 0), (200, 300, False, 1), (0, 300, True, 1)],
)
def test_a_gap_in_which_a_queue_lacks_a_message_is_none_of_no_known_queue(
    after: int, before: int, is_light: bool, count: int
) -> None:
    losses = SalvageLosses(frozenset())
    losses._missing = [replace(MISSING, after=after, before=before, is_light=is_light)]
    assert losses.report([GAP], [], 300, NO_EVIDENCE, {}).counts().lost_messages == count


@pytest.mark.parametrize(
    ("room", "named", "doubtful", "lost"),
    [
        (9, [], [], 3),
        (3, [], [], 3),
        (2, [], [], 2),
        (0, [], [], 0),
        (2, [4], [], 2),
        (2, [5], [], 2),
        (1, [5], [], 1),
        (1, [7], [], 2),
        (2, [8], [], 2),
        (9, [5, 6, 7], [], 0),
        (9, [], [(4, 100)], 2),
        (9, [], [(4, 99)], 3),
        (9, [], [(4, 199)], 2),
        (9, [], [(4, 200)], 3),
        (9, [], [(8, 150)], 2),
        (9, [], [(5, 150)], 2),
        (9, [], [(7, 150)], 2),
        (9, [], [(90, 150)] * 3, 0),
        (9, [], [(90, 150)] * 4, 0),
    ],
)
@pytest.mark.parametrize("is_light", [False, True])
def test_missing_queue_offsets_are_lost_as_far_as_gaps_have_room_and_no_record_has_them(
    room: int, named: list[int], doubtful: list[tuple[int, int]], lost: int, is_light: bool
) -> None:
    losses = SalvageLosses(frozenset())
    losses._doubtful = {("T", 0): [np.array(doubtful, np.int64).reshape(-1, 2).T]}
    gaps = cast("_Room", SimpleNamespace(between=lambda start, stop: room if (start, stop) == (100, 200) else 99))
    losses._count_missing(replace(MISSING, is_light=is_light), gaps, {("T", 0): [np.array(named, np.int64)]})
    tallies = (losses._light, losses._tally) if is_light else (losses._tally, losses._light)
    rows = [[(row.topic, row.unreadable_count, row.size_bytes) for row in tally.rows()] for tally in tallies]
    assert rows == [[("T", lost, 0)] if lost else [], []]
    assert tallies[0].has_offsets == (lost > 0)
