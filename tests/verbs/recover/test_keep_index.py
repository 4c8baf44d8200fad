"""The keys that a recovery after a crash leaves in the index, with and without keep_index."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.opened.checkpoint import StoreCheckpoint
from store.structures.findings import MISSING_INDEX_ENTRY
from store.verbs.check.check import check_files
from tests.support.stores import SMALL, make_store, recover

COUNT = 120


@pytest.mark.parametrize("keep_index", [True, False])
def test_keep_index_alone_keeps_the_keys_before_the_starting_segment(tmp_path: Path, keep_index: bool) -> None:
    root = make_store(tmp_path / "store", COUNT)
    page = StoreCheckpoint.load(root / "checkpoint", Filesystem())
    page.index_ms = 0
    page.flush()
    (root / "abort").touch()
    change, _ = recover(root, settings=SMALL, keep_index=keep_index)
    start = change.report.start_segment
    assert start > 0
    missing = [finding.offset for finding in check_files(StoreReader(str(root))) if finding.kind == MISSING_INDEX_ENTRY]
    assert bool(missing) == (not keep_index)
    assert all(offset < start for offset in missing)
