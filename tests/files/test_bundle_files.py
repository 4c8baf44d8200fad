"""Addresses of bundles that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import NotAStore, StoreError
from store.files.bundle_files import Archive


def test_a_bundle_is_a_file(tmp_path: Path) -> None:
    for name in ("", "folder", "missing"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(NotAStore, match="there is no such file") as refused:
            Archive(f"file://{tmp_path}/{name}" if name else str(tmp_path))
        assert str(refused.value.file) == str(tmp_path / name)
    (tmp_path / "file").write_bytes(b"no frames")
    with pytest.raises(StoreError) as damaged:
        Archive(str(tmp_path / "file"))
    assert "there is no such file" not in str(damaged.value)
