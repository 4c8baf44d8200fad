"""The look for missing files in a store that is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.engine.live.self_check import check_self, self_check_task
from store.errors import DamagedFile
from tests.support.stores import SMALL, Clock, text_message
from tests.support.threads import eventually


def test_files_that_follow_one_another_are_no_finding(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as store:
        for number in range(300):
            store.put(text_message(number))
        store.catch_up()
        assert len(store.opened.log.segments.files) > 2
        check_self(store.opened)
        task = self_check_task(store.opened)
        assert (task.first_ms, task.period_ms) == (60_000, 600_000)


@pytest.mark.leaves_damage
def test_a_missing_segment_is_named_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", read_only=False, settings=SMALL, clock=clock, services=[]) as store:
        for number in range(300):
            store.put(text_message(number))
        segments = store.opened.log.segments
        missing = segments.files[1]
        segments.files = [one for one in segments.files if one is not missing]
        with pytest.raises(DamagedFile, match="a file is missing between them"):
            check_self(store.opened)
        clock.now_ms += 60_000
        assert eventually(lambda: any("checking the files" in finding for finding in store.describe_findings()))
