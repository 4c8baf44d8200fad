"""Rebuilding queues and index in this process: what the scope names, byte for byte what the store has."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.config import StoreConfig
from store.rebuild.local import rebuild_locally
from store.rebuild.scope import RebuildScope
from tests.support.stores import SMALL, Clock, make_store

CONFIG = StoreConfig().with_settings(SMALL)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", 60)


def files_in(root: Path, *folders: str) -> dict[str, bytes]:
    """Bytes by name of all files below the folders."""
    paths = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("scope", "folders"),
    [
        (RebuildScope(index=False), ["consumequeue"]),
        (RebuildScope(index=False, topic="T"), ["consumequeue"]),
        (RebuildScope(index=False, topic="T", queue_id=1), ["consumequeue/T/1"]),
        (RebuildScope(index=False, queue_id=2), ["consumequeue/T/2"]),
        (RebuildScope(index=False, topic="Other"), []),
        (RebuildScope(queues=False, index=False), []),
    ],
)
def test_the_queues_of_the_scope_are_rebuilt_to_the_same_bytes(
    store: Path, tmp_path: Path, scope: RebuildScope, folders: list[str]
) -> None:
    report = rebuild_locally(str(store), tmp_path, CONFIG, scope, clock=Clock())
    assert files_in(tmp_path, "consumequeue", "index") == files_in(store, *folders)
    assert (report.record_count, report.file_count) == (60, len(files_in(store, *folders)))


def test_the_index_is_rebuilt_to_the_same_bytes_under_names_of_today(store: Path, tmp_path: Path) -> None:
    rebuild_locally(str(store), tmp_path, CONFIG, RebuildScope(queues=False), clock=Clock())
    rebuilt, old = files_in(tmp_path, "index"), files_in(store, "index")
    assert [rebuilt[name] for name in sorted(rebuilt)] == [old[name] for name in sorted(old)]
    assert not (tmp_path / "consumequeue").exists()
