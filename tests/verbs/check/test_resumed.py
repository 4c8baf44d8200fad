"""check in several runs, one going on where the one before stopped; and a check of a part only."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from store.errors import BadRequest
from store.files.store_reader import StoreReader
from store.formats.message import BORN_HOST_AT
from store.structures.findings import CHECKPOINT_AHEAD, MISSING_RECORD, STALE_TAIL, TIME_BACKWARDS, Finding
from store.verbs.check import check as module
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions, Progress
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of
from tests.support.times import set_time


@pytest.fixture
def store(tmp_path: Path) -> StoreReader:
    return StoreReader(str(copy_store(golden("many").store, tmp_path / "store")))


def overwrite(files: StoreReader, path: str, at: int, data: bytes) -> None:
    with (Path(files.address) / path).open("r+b") as file:
        file.seek(at)
        file.write(data)


def in_runs_of(files: StoreReader, count: int, monkeypatch: pytest.MonkeyPatch) -> set[Finding]:
    """The findings of as many runs as it takes, each stopped after `count` segments by a clock that counts."""
    found: set[Finding] = set()
    from_offset: int | None = 0
    while from_offset is not None:
        set_time(monkeypatch, module, monotonic=itertools.count().__next__)
        progress = Progress()
        options = CheckOptions(max_seconds=count + 1, from_offset=from_offset, threads=1)
        found.update(check_files(files, options, progress))
        from_offset = progress.stopped_at
    return found


def time_set_back(files: StoreReader) -> str:
    overwrite(files, files.segments()[4].path, BORN_HOST_AT + 8, (1_600_000_000_000).to_bytes(8, "big"))
    return TIME_BACKWARDS


def records_lost(files: StoreReader) -> str:
    (Path(files.address) / files.segments()[3].path).unlink()
    return MISSING_RECORD


def log_cut(files: StoreReader) -> str:
    """The blank that ends a segment is zeroed: the log ends there, and the rest lies behind its end."""
    path = files.segments()[3].path
    data = (Path(files.address) / path).read_bytes()
    blank = data.rindex((0xCBD43194).to_bytes(4, "big")) - 4
    overwrite(files, path, blank, bytes(8))
    return STALE_TAIL


def checkpoint_too_far(files: StoreReader) -> str:
    overwrite(files, "checkpoint", 0, (1 << 50).to_bytes(8, "big") * 2)
    return CHECKPOINT_AHEAD


def checkpoint_too_far_and_empty_files(files: StoreReader) -> str:
    for _ in range(2):
        last = files.segments()[-1]
        (Path(files.address) / "commitlog" / f"{last.number + last.size:020d}").write_bytes(bytes(last.size))
    return checkpoint_too_far(files)


def nothing(_: StoreReader) -> str:
    return ""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_segment_is_begun_before_the_deadline_alone(
    count: int, store: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_time(monkeypatch, module, monotonic=itertools.count().__next__)
    progress, told = Progress(), list[tuple[int, int]]()
    options = CheckOptions(max_seconds=count + 1, threads=1)
    list(check_files(store, options, progress, lambda one: told.append((one.bytes_done, one.bytes_in_all))))
    segments = store.segments()
    size, in_all = segments[0].size, sum(one.size for one in segments)
    assert progress.stopped_at == segments[count].number
    assert list(dict.fromkeys(told)) == [(number * size, in_all) for number in range(count + 1)]


DAMAGES = (time_set_back, records_lost, log_cut, checkpoint_too_far, checkpoint_too_far_and_empty_files, nothing)


@pytest.mark.parametrize(("damage", "count"), one_of(7, DAMAGES, [1, 2, 5]))
def test_a_check_in_several_runs_finds_what_one_run_finds(
    store: StoreReader, damage: object, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = damage(store)  # type: ignore[operator]
    alone = list(check_files(store))
    assert {finding.kind for finding in alone} >= ({kind} if kind else set())
    assert in_runs_of(store, count, monkeypatch) == set(alone)


@pytest.mark.turns(2)
@pytest.mark.parametrize("percent", range(0, 100, 7))
def test_a_sample_of_a_healthy_store_has_no_findings(store: StoreReader, percent: int) -> None:
    assert list(check_files(store, CheckOptions(sample_percent=percent))) == []


def test_a_run_that_goes_on_repeats_nothing_of_the_segment_before(store: StoreReader) -> None:
    before, following = store.segments()[3:5]
    overwrite(store, before.path, 88, b"\xff\xfe")
    assert Counter(f.file for f in check_files(store)) == {store.name_of(before.path): 1}
    assert list(check_files(store, CheckOptions(from_offset=following.number))) == []


def test_an_offset_behind_the_last_segment_is_refused(store: StoreReader) -> None:
    last = store.segments()[-1]
    end = last.number + last.size
    assert list(check_files(store, CheckOptions(from_offset=end - 1))) == []
    with pytest.raises(BadRequest, match=f"the last segment ends at {end}"):
        list(check_files(store, CheckOptions(from_offset=end)))
