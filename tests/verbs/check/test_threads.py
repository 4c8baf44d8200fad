"""check in threads: the same findings in the same order, and an end when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions, Progress
from store.verbs.check.parallel import ordered_map
from tests.support.golden import copy_store, golden


@pytest.fixture
def damaged(tmp_path: Path) -> StoreReader:
    """A store with a bad body in each of its segments."""
    root = copy_store(golden("many").store, tmp_path / "store")
    for segment in (root / "commitlog").iterdir():
        with segment.open("r+b") as file:
            file.seek(88)
            file.write(b"\xff\xfe")
    return StoreReader(str(root))


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_findings_do_not_depend_on_the_number_of_threads(damaged: StoreReader, threads: int) -> None:
    alone = list(check_files(damaged, CheckOptions(threads=1)))
    assert len({finding.file for finding in alone}) > 1
    assert list(check_files(damaged, CheckOptions(threads=threads))) == alone


@pytest.mark.parametrize("threads", [1, 3])
def test_when_time_is_up_the_rest_is_named_and_can_be_gone_on_with(damaged: StoreReader, threads: int) -> None:
    progress = Progress()
    list(check_files(damaged, CheckOptions(max_seconds=0, threads=threads), progress))
    assert (progress.stopped_at, progress.bytes_done) == (damaged.segments()[0].number, 0)


def test_results_come_in_order_and_items_are_asked_for_when_a_thread_is_free() -> None:
    asked: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(10):
            asked.append(number)
            yield number

    results = ordered_map(lambda number: number * number, numbers(), threads=2)
    assert [next(results), next(results)] == [0, 1]
    assert len(asked) < 5
    assert list(results) == [number * number for number in range(2, 10)]


def test_what_a_worker_raises_is_raised() -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        list(ordered_map(fail, [3, 4], threads=2))
