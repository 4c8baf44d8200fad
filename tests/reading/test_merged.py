"""The status of several queues that are read as one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.reading.merged import MergedMessages
from store.structures.get_result import GetStatus


@pytest.mark.parametrize(
    ("count", "first", "status"),
    [
        (1, GetStatus.OFFSET_TOO_SMALL, GetStatus.FOUND),
        (0, GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE),
        (0, GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_TOO_SMALL),
    ],
)
def test_without_a_message_the_status_is_that_of_the_first_queue(
    count: int, first: GetStatus, status: GetStatus
) -> None:
    readers = [cast(Any, SimpleNamespace(status=one)) for one in (first, GetStatus.OFFSET_OVERFLOW_BADLY)]
    merged = MergedMessages(readers)
    merged.found_count = count
    assert merged.status is status


@pytest.mark.parametrize(("most", "readers", "each"), [(1 << 12, 2, 1 << 11), (64, 2, 32), (63, 2, 32), (66, 2, 33)])
def test_each_reader_keeps_its_share_of_runs_but_a_call_of_messages(most: int, readers: int, each: int) -> None:
    asked: list[int] = []

    def runs(count: int) -> Any:
        asked.append(count)
        return iter(())

    given = [cast(Any, SimpleNamespace(runs=runs)) for _ in range(readers)]
    assert list(MergedMessages(given).runs(most)) == []
    assert asked == [each] * readers


def test_messages_without_their_crc_are_counted_as_they_are_shown() -> None:
    reader = [SimpleNamespace(store_timestamp_ms=1, log_offset=at, is_crc_right=at != 1) for at in range(3)]
    merged = MergedMessages([cast(Any, reader)])
    counts = [(merged.found_count, merged.unsound_count)]
    counts += [(merged.found_count, merged.unsound_count) for _ in merged]
    assert counts == [(0, 0), (1, 0), (2, 1), (3, 1)]
