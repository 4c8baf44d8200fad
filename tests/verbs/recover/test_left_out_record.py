"""The record that begins where the queues end: a start that dispatches from there on leaves it out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import open_store
from store.verbs.recover.simulate import _has_moved, _left_out
from tests.support.golden import copy_store
from tests.support.stores import make_store, planning

COUNT = 6
SYS_FLAG_AT, PREPARED, COMMITTED, ROLLED_BACK = 36, 4, 8, 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)


@pytest.fixture(scope="module")
def places(whole: Path) -> list[int]:
    """The log offset of each record, and that of the log's end."""
    with open_store(whole) as store:
        found = sorted(one.log_offset for queue_id in range(3) for one in store.messages("T", queue_id))
        return [*found, store.opened.log.max_offset]


# Numbers of records: the queues' end, the one from which a start dispatches, and the log's end.
@pytest.mark.parametrize(
    ("queue_end", "entered_from", "log_end", "has_unit", "left_out"),
    [
        (0, 1, 6, False, 0),
        (2, 3, 6, False, 2),
        (2, 6, 6, False, 2),
        (5, 6, 6, False, 5),
        (2, 2, 6, False, None),
        (3, 2, 6, False, None),
        (2, 3, 6, True, None),
        (6, 6, 6, False, None),
        (2, 3, 2, False, None),
        (2, 3, 3, False, 2),
    ],
)
def test_a_record_at_the_queues_end_is_left_out_where_dispatch_begins_after_it(
    queue_end: int,
    entered_from: int,
    log_end: int,
    has_unit: bool,
    left_out: int | None,
    whole: Path,
    places: list[int],
) -> None:
    found = SimpleNamespace(
        queue_end_before=places[queue_end], entered_from=places[entered_from], log_end=places[log_end],
        has_unit_at_end=has_unit,
    )  # fmt: skip
    with planning(whole) as opened:
        record = _left_out(opened, cast(Any, found))
        found.queue_end_before = -1
        assert _left_out(opened, cast(Any, found)) is None
    assert (record.log_offset if record is not None else None) == (None if left_out is None else places[left_out])


def test_a_record_at_the_queues_end_is_read_from_its_segment_wherever_that_is(tmp_path: Path) -> None:
    with open_store(root := make_store(tmp_path / "store", 300)) as store:
        segments = store.opened.log.segments.files
        places = sorted(one.log_offset for queue_id in range(3) for one in store.messages("T", queue_id))
        end = store.opened.log.max_offset
    assert len(segments) > 2
    chosen = [place for one in segments for place in (one.file_start, next(at for at in places if at > one.file_start))]
    with planning(root) as opened:
        for place in chosen:
            found = SimpleNamespace(queue_end_before=place, entered_from=end, log_end=end, has_unit_at_end=False)
            record = _left_out(opened, cast(Any, found))
            assert (record and record.log_offset) == place


@pytest.mark.parametrize(("flag", "is_queued"), [(0, True), (COMMITTED, True), (PREPARED, False), (ROLLED_BACK, False)])
def test_a_record_that_no_queue_shows_is_not_left_out(
    flag: int, is_queued: bool, whole: Path, places: list[int], tmp_path: Path
) -> None:
    root = copy_store(whole, tmp_path / "store")
    with next((root / "commitlog").iterdir()).open("r+b") as file:
        file.seek(places[2] + SYS_FLAG_AT)
        file.write(flag.to_bytes(4, "big"))
    found = SimpleNamespace(
        queue_end_before=places[2], entered_from=places[3], log_end=places[6], has_unit_at_end=False
    )
    with planning(root) as opened:
        assert (_left_out(opened, cast(Any, found)) is not None) is is_queued


@pytest.mark.parametrize(("unit", "has_moved"), [(None, False), (99, False), (100, False), (101, True)])
def test_a_later_entry_has_the_place_of_a_record_that_was_left_out(unit: int | None, has_moved: bool) -> None:
    queue = SimpleNamespace(unit=lambda offset: SimpleNamespace(log_offset=unit) if unit is not None else None)
    record = cast(Any, SimpleNamespace(topic="T", queue_id=0, queue_offset=3, log_offset=100))
    for found, expected in ((queue, has_moved), (None, False)):
        opened = SimpleNamespace(queues=SimpleNamespace(find=lambda topic, queue_id, found=found: found))
        assert _has_moved(cast(Any, opened), record) is expected
