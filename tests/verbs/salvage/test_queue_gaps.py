"""Missing queue offsets, and the gaps of the log that get their placeholders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE
from store.formats.properties import INNER_BASE, INNER_NUM, encode_properties
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.log_writer import NoRoom
from store.verbs.salvage.placeholder import LIGHT_TOPIC, Placeholder, encode_placeholder
from store.verbs.salvage.queue_gaps import (
    NO_QUEUE_OFFSET,
    GapPlan,
    Missing,
    QueueGaps,
    assign_placeholders,
    plan_placeholders,
)
from store.verbs.salvage.sources import open_source
from store.verbs.salvage.walk import walk_file
from tests.verbs.salvage.records import LENGTH, SIZE, record, write


@pytest.mark.parametrize(("missing", "is_found"), [(0, False), (1, True), (2, True), (3, False)])
def test_queue_offsets_are_missing_as_far_as_the_log_between_has_room(
    missing: int, is_found: bool, tmp_path: Path
) -> None:
    # From the second record to the fourth there is room for two of the smallest.
    data = record(0) + record(LENGTH, 1) + record(LENGTH * 3, 2 + missing)
    source = open_source(write(tmp_path / f"{0:020d}", data.ljust(SIZE, b"\0")), Filesystem())
    gaps = QueueGaps()
    runs = [piece for piece in walk_file(source, 0) if isinstance(piece, SalvagedRun)]
    found = [one for run in runs for _, missing in gaps.split(run) for one in missing]
    assert 2 * LENGTH // RECORD_MIN_SIZE == 2
    assert found == ([Missing(b"T", 0, 2, 2 + missing, LENGTH, LENGTH * 3)] if is_found else [])


def runs_of(tmp_path: Path, *parts: tuple[int, list[int]]) -> list[SalvagedRun]:
    """Records at log offsets, by the queue offsets of those that follow each other."""
    found = []
    for start, offsets in parts:
        data = b"".join(record(start + LENGTH * number, offset) for number, offset in enumerate(offsets))
        source = open_source(write(tmp_path / f"{start:020d}", data), Filesystem())
        found += [piece for piece in walk_file(source, start) if isinstance(piece, SalvagedRun)]
    return found


ROOM = len(encode_placeholder(Placeholder(b"T", 0, 2), 0, 0))
BEHIND_TWO = LENGTH * 2


@pytest.mark.parametrize(
    ("room", "missing", "planned"),
    [
        (ROOM - 1, 1, None),
        (ROOM, 1, [2]),
        (ROOM * 2 - 1, 2, None),
        (ROOM * 2, 2, [2, 3]),
        (ROOM * 9, 2, [2, 3]),
        (ROOM * 9, 0, []),
    ],
)
def test_each_missing_queue_offset_gets_a_gap_with_room_or_all_is_refused(
    room: int, missing: int, planned: list[int] | None, tmp_path: Path
) -> None:
    runs = runs_of(tmp_path, (0, [0, 1]), (BEHIND_TWO + room, [2 + missing]))
    if planned is None:
        with pytest.raises(NoRoom, match=f"no room in the log for a placeholder of queue offset {1 + missing}"):
            plan_placeholders(runs, SIZE)
    else:
        found = plan_placeholders(runs, SIZE)
        assert found == ({BEHIND_TWO: [Placeholder(b"T", 0, one) for one in planned]} if planned else {})


def batch(log_offset: int, first: int, count: int) -> bytes:
    """A record of several messages."""
    properties = encode_properties({INNER_BASE: str(first), INNER_NUM: str(count)}) if count else b""
    made = record(log_offset, first, properties=properties)
    return made[:39] + bytes([INNER_BATCH]) + made[40:]


@pytest.mark.parametrize(
    ("simple", "count", "end", "planned"),
    [
        (False, 3, 3, []),
        (False, 3, 4, [Placeholder(b"T", 0, 3)]),
        (False, 3, 40, [Placeholder(b"T", 0, 3, offset_count=37)]),
        (False, 3, 2, []),
        (True, 3, 3, [Placeholder(b"T", 0, 1), Placeholder(b"T", 0, 2)]),
        # In a database, which gave it no INNER_BASE.
        (False, 0, 3, [Placeholder(b"T", 0, 1), Placeholder(b"T", 0, 2)]),
    ],
)
def test_a_record_of_several_messages_takes_an_offset_for_each_and_one_placeholder_takes_those_of_a_gap(
    simple: bool, count: int, end: int, planned: list[Placeholder], tmp_path: Path
) -> None:
    first = batch(0, 0, count)
    start = len(first) + ROOM * 8
    runs = []
    for at, data in (
        (0, first),
        (start, batch(start, end, count) + batch(start + len(first), end + (count or 1), count)),
    ):
        source = open_source(write(tmp_path / f"{at:020d}", data), Filesystem())
        runs += [piece for piece in walk_file(source, at) if isinstance(piece, SalvagedRun)]
    assert plan_placeholders(runs, SIZE, simple=simple) == ({len(first): planned} if planned else {})


@pytest.mark.parametrize(
    ("begins", "first", "missing", "planned"),
    [
        (0, ROOM, 1, {0: [Placeholder(b"T", 0, 0)]}),
        (0, ROOM * 2, 2, {0: [Placeholder(b"T", 0, 0), Placeholder(b"T", 0, 1)]}),
        (0, ROOM * 2, ROOM * 2 // RECORD_MIN_SIZE + 1, {}),
        (0, ROOM - 1, 1, None),
        (0, 0, 1, {}),
        (SIZE, ROOM, 1, {}),
        (SIZE, 0, 1, {}),
    ],
)
def test_first_queue_offsets_are_missing_in_a_log_that_begins_at_0_as_far_as_its_gaps_have_room(
    begins: int, first: int, missing: int, planned: dict[int, list[Placeholder]] | None, tmp_path: Path
) -> None:
    runs = runs_of(tmp_path, (begins + first, [missing, missing + 1]))
    if planned is None:
        with pytest.raises(NoRoom, match="no room in the log for a placeholder of queue offset 0"):
            plan_placeholders(runs, SIZE)
    else:
        assert plan_placeholders(runs, SIZE) == planned


def test_a_record_that_is_not_certain_leaves_its_place_to_the_gap_around_it(tmp_path: Path) -> None:
    second = BEHIND_TWO + ROOM
    other = second + LENGTH
    between = replace(runs_of(tmp_path, (second, [9]))[0], grade=Grade.PARTIAL)
    runs = runs_of(tmp_path, (0, [0, 1]), (other + ROOM, [4, 5]))
    assert plan_placeholders([runs[0], between, runs[1]], SIZE) == {
        BEHIND_TWO: [Placeholder(b"T", 0, 2), Placeholder(b"T", 0, 3)]
    }


def test_pieces_of_a_run_are_in_order_with_what_is_missing_before_the_next(tmp_path: Path) -> None:
    data = b"".join(record(LENGTH * number, offset) for number, offset in enumerate([0, 2, 3, 5, 7]))
    source = open_source(write(tmp_path / f"{0:020d}", data), Filesystem())
    [run] = (piece for piece in walk_file(source, 0) if isinstance(piece, SalvagedRun))
    pieces = [
        (piece.log_offsets.tolist(), [(one.first, one.stop) for one in missing])
        for piece, missing in QueueGaps().split(run)
    ]
    # LENGTH has room for one record of the smallest size.
    assert pieces == [
        ([0], [(1, 2)]),
        ([LENGTH, LENGTH * 2], [(4, 5)]),
        ([LENGTH * 3], [(6, 7)]),
        ([LENGTH * 4], []),
    ]


# A gap before the first run is of expired records, unless the log begins at 0.
@pytest.mark.parametrize(
    ("from_zero", "starts", "lost_bytes"),
    [
        (False, [0], 0),
        (False, [1000], 0),
        (True, [1000], 1000),
        (False, [0, 300], 300 - LENGTH),
        (False, [0, LENGTH], 0),
        (False, [0, 900, 100], 900 - LENGTH),
    ],
)
def test_bytes_between_runs_are_lost(from_zero: bool, starts: list[int], lost_bytes: int, tmp_path: Path) -> None:
    gaps = QueueGaps(from_zero=from_zero)
    for run in runs_of(tmp_path, *((start, [number]) for number, start in enumerate(starts))):
        gaps.meet(run)
    assert gaps._lost_bytes == lost_bytes


@pytest.mark.parametrize(("count", "counts"), [(2, [2, 0]), (1, [1, 1]), (0, [0, 2])])
@pytest.mark.parametrize("is_light", [False, True])
def test_missing_offsets_go_into_the_first_gap_with_room(count: int, counts: list[int], is_light: bool) -> None:
    light = ((b"%LMQ%a", 5),)
    own = Placeholder(LIGHT_TOPIC, 0, NO_QUEUE_OFFSET, light) if is_light else Placeholder(b"%LMQ%a", 0, 5)
    gaps = [GapPlan(0, 0, room=count * len(encode_placeholder(own, 0, 0))), GapPlan(0, 0, room=999)]
    assign_placeholders(Missing(b"%LMQ%a", 0, 5, 7, 0, 0, is_light=is_light), gaps)
    assert [len(gap.placeholders) for gap in gaps] == counts


def test_a_light_queues_offsets_go_to_placeholders_from_the_first_on() -> None:
    gap = GapPlan(0, 0, 999)
    for number in range(3):
        gap.add(Placeholder(b"T", 0, number))
    assign_placeholders(Missing(b"%LMQ%a", 0, 5, 7, 0, 0, is_light=True), [gap])
    assert [one.light for one in gap.placeholders] == [((b"%LMQ%a", 5),), ((b"%LMQ%a", 6),), ()]
