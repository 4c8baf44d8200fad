"""Where an index lacks keys: the stretches of log between its files, and how far the search has come."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.formats.run import Stretch
from store.verbs.recover.lost_index import _gaps, build_lost_index, find_lost_index
from tests.support.stores import SMALL, make_store, planning


def index_file(begin: int, end: int, count: int = 5, *, lacks_newest: bool = False) -> Any:
    header = SimpleNamespace(begin_log_offset=begin, end_log_offset=end, index_count=count)
    return SimpleNamespace(header=header, lacks_newest=lacks_newest)


@pytest.mark.parametrize(
    ("files", "to_stop", "gaps"),
    [
        ([], True, []),
        ([index_file(100, 900)], False, [(100, 100)]),
        ([index_file(100, 900)], True, [(100, 100), (901, 1000)]),
        ([index_file(300, 500), index_file(600, 700)], False, [(100, 300), (501, 600)]),
        ([index_file(300, 500), index_file(600, 700)], True, [(100, 300), (501, 600), (701, 1000)]),
        ([index_file(300, 500, count=2)], False, [(100, 300)]),
        ([index_file(300, 500, count=1)], False, []),
        ([index_file(300, 500, count=1)], True, [(100, 1000)]),
        ([index_file(300, 800), index_file(400, 500)], True, [(100, 300), (801, 400), (801, 1000)]),
        ([index_file(1200, 1300)], False, [(100, 1000)]),
    ],
)
def test_the_gaps_of_an_index_are_between_its_files(
    files: list[Any], to_stop: bool, gaps: list[tuple[int, int]]
) -> None:
    assert [*_gaps(files, Stretch(100, 1000), to_stop)] == gaps


@pytest.mark.parametrize(
    ("start", "removed", "enabled", "found"),
    [
        (99, [], True, "a part of an index file"),
        (100, [], True, ""),
        (101, [], True, ""),
        (99, ["20260101000000000"], True, ""),
        (99, [], False, ""),
    ],
)
def test_an_index_is_judged_where_it_is_on_and_the_log_has_records(
    start: int, removed: list[str], enabled: bool, found: str
) -> None:
    opened: Any = SimpleNamespace(
        index=SimpleNamespace(files=[index_file(0, 50, lacks_newest=True)], removed_paths=lambda: removed),
        log=SimpleNamespace(start=start),
        config=SimpleNamespace(writes_index_files=enabled),
    )
    assert find_lost_index(opened, 100) == found


def test_the_progress_of_search_and_build_is_from_the_logs_begin(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 250)
    (root / "commitlog" / f"{0:020d}").unlink()
    shutil.rmtree(root / "index")
    begin = SMALL["mappedFileSizeCommitLog"]
    with planning(root, settings=SMALL) as opened:
        stop = opened.log.segments.files[-1].file_start + 1000
        told: list[tuple[int, int]] = []
        lost = find_lost_index(opened, stop)
        assert lost == "the index"
        [sentence] = build_lost_index(opened, stop, lost, lambda *done: told.append(done))
        assert told == sorted(told)
        assert (told[0][0] < begin, {size for _, size in told}) == (True, {stop - begin})
        assert 0 <= told[-1][0] - (stop - begin) < 200
        keys = sum(file.header.index_count - 1 for file in opened.index.files)
        assert sentence == f"the index was lost: {keys} keys are built from the log"
        assert build_lost_index(opened, stop, "") == []
