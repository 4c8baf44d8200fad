"""The store under check: as it is on disk, without a recovery."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.layout import StoreLayout
from store.verbs.check.view import open_as_it_is
from tests.support.stores import SMALL
from tests.verbs.check.stores import records, write


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_crashed_store_is_opened_as_a_closed_one(was_killed: bool, root: Path) -> None:
    """A recovery of the crashed store begins after the damage."""
    damaged = records(root)[150].log_offset
    write(root, damaged + 4, b"\xff")
    if was_killed:
        (root / "abort").touch()
    with open_as_it_is(StoreLayout(root), SMALL) as opened:
        assert opened.log.max_offset == damaged
        assert [(queue.min_offset, queue.max_offset) for queue in opened.queues.of_topic("T")] == [(0, 50)] * 3


def test_queues_that_are_lost_are_shown_from_the_first_record_on(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    with open_as_it_is(StoreLayout(root), SMALL) as opened:
        assert [(queue.min_offset, queue.max_offset) for queue in opened.queues.of_topic("T")] == [(0, 100)] * 3
