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
