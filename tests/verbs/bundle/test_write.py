"""The bytes of each file of a bundle, by what the plan says of its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.formats.bundle import ABSENT, EMPTIED, RENAMED, WHOLE, BundledFile
from store.verbs.bundle.bodies import BodyMask
from store.verbs.bundle.names import NameMask
from store.verbs.bundle.write import _parts_of

TEXT = b'{"topicConfigTable":{"OrdersOfEurope":{}}}'


@pytest.mark.parametrize("names", [None, NameMask(b"salt")])
@pytest.mark.parametrize(
    ("content", "with_names", "with_mask"),
    [(WHOLE, TEXT, TEXT), (EMPTIED, b"", b""), (ABSENT, b"", b""), (RENAMED, b"", NameMask(b"salt").text(TEXT))],
)
def test_a_file_is_whole_renamed_or_empty(
    content: str, with_names: bytes, with_mask: bytes, names: NameMask | None, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    parts = _parts_of(
        StoreReader(str(tmp_path)), BundledFile("file", len(TEXT), 1, content), BodyMask(b"", names=names)
    )
    assert b"".join(parts) == (with_names if names is None else with_mask)
