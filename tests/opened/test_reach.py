"""The folder of a store at a path or a URI: its own, a mirror's, or an unpacked bundle's."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import BadRequest
from store.files import bundle_files, mirror
from store.files.filesystem import Filesystem
from store.opened.reach import reach_store

OWN, MADE, SCRATCH = Filesystem(), Filesystem(), Path("/scratch")


# The folder, and by whom it is made; None where a store that is to be changed is refused.
@pytest.mark.parametrize(
    ("root", "folder", "maker"),
    [
        ("a/b", "a/b", ""),
        (Path("a/b"), "a/b", ""),
        ("file:///a/b%20c", "/a/b c", ""),
        ("file:///a/b.tar.zst", "/made", "bundle"),
        ("s3://bucket/b.tar.zst", "/made", "bundle"),
        ("s3://bucket/b", "/made", "mirror"),
        ("a/b.tar.zst", "/made", "bundle"),
        ("backup:/b", "/made", "mirror"),
    ],
)
def test_a_store_is_reached_by_its_path_or_address(
    root: str | Path, folder: str, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[object, ...]] = []

    def make(by: str, address: str, scratch: Path | None) -> tuple[Path, Filesystem]:
        made.append((by, address, scratch))
        return Path("/made"), MADE

    monkeypatch.setattr(bundle_files, "unpack_bundle", lambda *given: make("bundle", *given))
    monkeypatch.setattr(mirror, "mirror_of", lambda *given: make("mirror", *given))
    assert reach_store(root, OWN, SCRATCH) == (Path(folder), MADE if maker else OWN)
    assert made == ([(maker, root, SCRATCH)] if maker else [])
    if maker:
        with pytest.raises(BadRequest, match="this needs a store in a folder of this machine"):
            reach_store(root, OWN, to_change=True)
    else:
        assert reach_store(root, to_change=True)[0] == Path(folder)
