"""Bounds of the log's look-ups: where a record begins, its store time, and what a checkpoint of 5.5 covers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.formats.message import RECORD_MIN_SIZE
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.start import _trust_rule
from tests.support.stores import make_store


def test_each_byte_of_a_record_but_its_first_is_inside_of_it(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "store", 3, queues=1)) as store:
        starts, end = [one.log_offset for one in store.messages("T", 0)], store.max_log_offset
        ends = [*starts[1:], end]
        found = [[store.opened.log.start_around(at) for at in (start, start + 1, stop - 1)]
                 for start, stop in zip(starts, ends, strict=True)]  # fmt: skip
        assert found == [[None, start, start] for start in starts]
        assert store.opened.log.start_around(end) is None


@pytest.mark.parametrize(("size", "time_ms"), [(None, -1), (RECORD_MIN_SIZE - 1, -1), (RECORD_MIN_SIZE, 7)])
def test_what_is_shorter_than_a_record_has_no_store_time(size: int | None, time_ms: int) -> None:
    record = memoryview(bytes(56) + (7).to_bytes(8, "big") + bytes(RECORD_MIN_SIZE - 64))
    log: Any = SimpleNamespace(read=lambda log_offset, most: None if size is None else record[:size])
    assert CommitLog.store_timestamp(log, 0, 200) == time_ms


@pytest.mark.parametrize("uses_index", [False, True])
@pytest.mark.parametrize("is_safe", [False, True])
@pytest.mark.parametrize(
    ("logics_offset", "log_offset", "time_ms", "matches"),
    [(50, 50, 999, (1, 1)), (50, 51, 0, (0, 0)), (0, 999, 20, (1, 1)), (0, 0, 21, (0, 1)), (0, 0, 30, (0, 1)),
     (0, 0, 31, (0, 0))],
)  # fmt: skip
def test_a_checkpoint_of_5_5_covers_by_offset_else_by_the_older_time(
    logics_offset: int, log_offset: int, time_ms: int, matches: tuple[int, int], uses_index: bool, is_safe: bool
) -> None:
    """`matches` with the index's time, which is the older one, and without."""
    opened: Any = SimpleNamespace(
        checkpoint=SimpleNamespace(logics_log_offset=logics_offset, logics_ms=30, index_ms=20),
        config=SimpleNamespace(message_index_enable=uses_index, message_index_safe=is_safe),
    )
    rule = _trust_rule(opened)
    assert rule.matches(log_offset, time_ms) == matches[not (uses_index and is_safe)]
    assert rule.reason.endswith(f"({logics_offset or (20 if uses_index and is_safe else 30)})")
