"""A watcher of files: the folders that it looks at, and how long it waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmqctl import watching
from rmqctl.watching import FileWatcher
from store.layout import StoreLayout
from tests.support.sessions import said, session


@pytest.mark.parametrize(
    ("changes", "slept"), [(None, [0.5, 0.5]), (iter([]), [0.5, 0.5]), (iter([{"a"}]), [0.5]), (iter([{"a"}] * 2), [])]
)
def test_it_waits_for_a_change_or_half_a_second(
    changes: Iterator[object] | None, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=pauses.append))
    watcher = object.__new__(FileWatcher)
    watcher.__dict__["_changes"] = changes
    for _ in range(2):
        watcher.wait()
    assert pauses == slept


@pytest.mark.parametrize("is_installed", [False, True])
@pytest.mark.parametrize(
    ("made", "watched"),
    [
        ([], ["."]),
        (["commitlog"], ["commitlog", "."]),
        (["commitlog", "consumequeue/T"], ["commitlog", "consumequeue/T"]),
        (["commitlog", "consumequeue/T/3"], ["commitlog", "consumequeue/T/3"]),
    ],
)
def test_it_looks_at_the_log_and_the_queue_or_the_folder_that_will_have_it(
    made: list[str], watched: list[str], is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in made:
        (tmp_path / name).mkdir(parents=True)
    asked: list[Path] = []

    def watch(folders: list[Path]) -> Iterator[object] | None:
        asked.extend(folders)
        return iter(()) if is_installed else None

    monkeypatch.setattr(watching, "_watch", watch)
    one = session()
    FileWatcher(one, StoreLayout(tmp_path), "T", 3)
    assert asked == [tmp_path / name for name in watched]
    note = "note: the package watchfiles is not installed (rmqctl[follow]); looking every 0.5 s\n"
    assert said(one) == ("" if is_installed else note)


def test_the_package_looks_at_these_folders_alone_and_ends_each_wait_after_half_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[tuple[object, ...], dict[str, object]]]()
    package = SimpleNamespace(watch=lambda *folders, **options: asked.append((folders, options)))
    monkeypatch.setitem(sys.modules, "watchfiles", package)
    watching._watch([tmp_path, tmp_path / "a"])
    options = {
        "recursive": False, "watch_filter": None, "rust_timeout": 500, "yield_on_timeout": True, "debounce": 50,
    }  # fmt: skip
    assert asked == [((tmp_path, tmp_path / "a"), options)]
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert watching._watch([tmp_path]) is None
