"""The documents of a bundle and the heads of its files, read back and refused."""

from __future__ import annotations

import tarfile

import pytest

from store.formats.bundle import (
    BundledFile,
    BundleDocument,
    decode_document,
    decode_unreadable,
    encode_document,
    encode_head,
    encode_unreadable,
    padding,
)

DOCUMENT = BundleDocument(
    "1", "4.9", 5, {"é": "\udcff"}, True, ({"a": 1},), ({"b": 2},), (BundledFile("p", 1, 2, "c"),), ("note",)
)


def test_a_document_has_its_fields_in_order_as_readable_utf_8() -> None:
    data = encode_document(DOCUMENT)
    assert data.decode("utf-8", "surrogateescape") == (
        '{\n "format": "rmqctl.bundle/1",\n "version": "1",\n "line": "4.9",\n "made_ms": 5,\n'
        ' "settings": {\n  "é": "\udcff"\n },\n'
        ' "holds_log_alone": true,\n "findings": [\n  {\n   "a": 1\n  }\n ],\n "digests": [\n  {\n   "b": 2\n  }\n ],\n'
        ' "files": [\n  {\n   "path": "p",\n   "size": 1,\n   "mtime_ms": 2,\n   "content": "c"\n  }\n ],\n'
        ' "notes": [\n  "note"\n ]\n}\n'
    )
    assert decode_document(data) == ({"é": "\udcff"}, True)


def test_a_document_without_further_fields_has_no_settings_findings_and_files() -> None:
    assert BundleDocument("1", "4.9", 5) == BundleDocument("1", "4.9", 5, {}, False, (), (), (), ())
    assert encode_unreadable({"é": [(0, 1)]}) == b'{\n "\\u00e9": [\n  [\n   0,\n   1\n  ]\n ]\n}\n'


@pytest.mark.parametrize("ranges", [[(0, 0)], [(0, 5), (5, 9)], [(3, 4)]])
def test_unreadable_ranges_are_read_back(ranges: list[tuple[int, int]]) -> None:
    assert decode_unreadable(encode_unreadable({"a": ranges})) == {"a": ranges}


@pytest.mark.parametrize("ranges", [[], [(-1, 5)], [(5, 4)], [(5, 9), (8, 12)], [(9, 12), (1, 2)]])
def test_unreadable_ranges_that_do_not_ascend_are_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="has no ascending ranges of a"):
        decode_unreadable(encode_unreadable({"a": ranges}))


@pytest.mark.parametrize(
    ("is_folder", "mode", "kind"), [(False, 0o644, tarfile.REGTYPE), (True, 0o755, tarfile.DIRTYPE)]
)
def test_the_head_of_a_file_has_its_mode_and_time(is_folder: bool, mode: int, kind: bytes) -> None:
    head = encode_head("a/b", 7, 1_500_250, is_folder=is_folder)
    found = tarfile.TarInfo.frombuf(head[-512:], "utf-8", "strict")
    assert (found.mode, found.type, found.size, found.mtime) == (mode, kind, 7, 1500)
    assert b"mtime=1500.25\n" in head


@pytest.mark.parametrize(("size", "count"), [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)])
def test_a_file_is_padded_to_blocks_of_512_bytes(size: int, count: int) -> None:
    assert padding(size) == bytes(count)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"format": "rmqctl.bundle/1"}', ({}, False)),
        ('{"format": "rmqctl.bundle/1", "settings": null, "holds_log_alone": false}', ({}, False)),
        ('{"format": "rmqctl.bundle/1", "settings": {"a": 1}, "holds_log_alone": true}', ({"a": "1"}, True)),
    ],
)
def test_a_bundles_settings_are_texts(text: str, found: tuple[dict[str, str], bool]) -> None:
    assert decode_document(text.encode()) == found


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"format": "other"}'])
def test_another_document_is_no_bundle(text: str) -> None:
    with pytest.raises(ValueError, match="its format is"):
        decode_document(text.encode())
