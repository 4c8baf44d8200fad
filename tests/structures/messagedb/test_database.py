"""Whether a message database may hold an entry: by the names and lengths of its files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import FOLDER, may_hold_entries


@pytest.mark.parametrize(
    ("files", "may_hold"),
    [
        ({}, False),
        ({"000001.log": 0}, False),
        ({"000001.log": 1}, True),
        ({"000001.sst": 0}, True),
        ({"MANIFEST-000001": 9, "CURRENT": 16, "LOG": 5, "000001.log": 0}, False),
        ({"MANIFEST-000001": 9, "000001.log": 0, "000002.log": 1}, True),
    ],
)
def test_a_database_may_hold_entries_with_a_table_or_a_log_of_writes(
    files: dict[str, int], may_hold: bool, tmp_path: Path
) -> None:
    layout, fs = StoreLayout(tmp_path), Filesystem()
    assert not may_hold_entries(layout, fs)
    (tmp_path / FOLDER).mkdir()
    for name, size in files.items():
        (tmp_path / FOLDER / name).write_bytes(bytes(size))
    assert may_hold_entries(layout, fs) is may_hold
