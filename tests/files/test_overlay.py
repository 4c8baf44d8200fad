"""What an overlay holds of queues and of an index."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from store.files.overlay import OverlayFileQueue
from store.structures.index.index_service import IndexService


def test_staged_and_removed_files_come_in_order() -> None:
    paths = [Path(name) for name in ("c", "a", "b")]
    index: Any = SimpleNamespace(_staged={path: path / "staged" for path in paths}, _removed=paths)
    assert [staged.path for staged in IndexService.staged_files(index)] == sorted(paths)
    assert IndexService.removed_paths(index) == sorted(paths)
    assert [staged.path for staged in OverlayFileQueue.staged_files(index)] == sorted(paths)
    index._staged = {Path("b"): Path("staged")}
    assert OverlayFileQueue.removed_paths(index) == [Path("a"), Path("c")]


def test_a_destroyed_queue_begins_anew_at_0(tmp_path: Path) -> None:
    queue = OverlayFileQueue.__new__(OverlayFileQueue)
    queue.files, queue.flushed_where, queue.committed_where = [], 7, 8
    queue.destroy()
    assert (queue.files, queue.flushed_where, queue.committed_where) == ([], 0, 0)
