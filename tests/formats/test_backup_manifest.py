"""The manifest of a backup and the documents of a bundle, read back and refused."""

from __future__ import annotations

import json
import tarfile

import pytest

from store.formats.backup_manifest import (
    BackedFile,
    Manifest,
    backup_id,
    decode_file,
    decode_manifest,
    encode_manifest,
    is_backup_id,
    stored_name,
    time_of_id,
)
from store.formats.bundle import decode_document, decode_unreadable, encode_head, encode_unreadable, padding

FILES = (
    BackedFile("commitlog/00000000000000000020", 10, "s3", "log/c", 10),
    BackedFile("commitlog/00000000000000000000", 6, "s2", "log/b", 6, position=4),
    BackedFile("config/topics.json", 7, "s4", "tables/t", 5),
    BackedFile("commitlog/00000000000000000000", 4, "s1", "log/a", 4, 99, True),
)
MANIFEST = Manifest("20261124T021500.123", "/s", "1", "4.9", 1, 2, 3, 4, 5, 6, {"é": "\udcff"}, FILES, ("note",))


def test_a_manifest_is_read_back_with_its_segments_in_log_order() -> None:
    data = encode_manifest(MANIFEST)
    assert decode_manifest(data) == MANIFEST
    assert "é" in data.decode("utf-8", "surrogateescape")
    assert data.splitlines()[1].startswith(b' "')
    assert list(json.loads(data.decode("utf-8", "surrogateescape"))) == sorted(
        json.loads(data.decode("utf-8", "surrogateescape"))
    )
    assert MANIFEST.size == 27
    assert [(one.file_start, one.position, one.end) for one in MANIFEST.segments] == [
        (0, 0, 4),
        (0, 4, 10),
        (20, 0, 10),
    ]


def test_a_file_without_further_fields_is_at_the_start_of_one_that_is_still_written() -> None:
    file = BackedFile("a", 1, "s", "b", 1)
    assert (file.mtime_ms, file.is_sealed, file.position) == (0, False, 0)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"[]", "its format is None"),
        (b"7", "its format is None"),
        (b"{}", "its format is None"),
        (b'{"format": "other"}', "its format is 'other', and 'rmqctl.backup/1' is known"),
        (b'{"format": "rmqctl.backup/1"}', "its digest is wrong"),
        (encode_manifest(MANIFEST).replace(b'"note"', b'"n0te"'), "its digest is wrong"),
    ],
)
def test_another_document_is_no_manifest(data: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        decode_manifest(data)


@pytest.mark.parametrize("path", ["/a", "a//b", "./a", "a/..", "", "a\0b"])
@pytest.mark.parametrize("name", ["path", "stored"])
def test_a_path_out_of_the_folder_is_refused(name: str, path: str) -> None:
    row = {"path": "a", "size": 1, "sha256": "s", "stored": "b", "stored_size": 1}
    assert decode_file(row) == BackedFile("a", 1, "s", "b", 1)
    with pytest.raises(ValueError, match="leads elsewhere"):
        decode_file({**row, name: path})


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(0, "19700101T000000.000"), (999, "19700101T000000.999"), (1000, "19700101T000001.000"),
     (1_764_123_456_789, "20251126T021736.789")],
)  # fmt: skip
def test_an_id_is_its_time(time_ms: int, text: str) -> None:
    assert (backup_id(time_ms), time_of_id(text)) == (text, time_ms)
    assert is_backup_id(text)
    assert not any(is_backup_id(other) for other in ("", text + "0", text[:-1], text.replace("T", " ")))


def test_a_stored_name_has_16_digits_of_the_digest() -> None:
    names = [stored_name("log", "x", "0123456789abcdef0123", is_compressed=flag) for flag in (False, True)]
    assert names == ["log/x.0123456789abcdef", "log/x.0123456789abcdef.zst"]


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
