"""The manifest of a backup, read back and refused."""

from __future__ import annotations

import hashlib
import json

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


def test_the_digest_is_that_of_the_document_with_sorted_keys_and_no_blanks() -> None:
    document = json.loads(encode_manifest(MANIFEST).decode("utf-8", "surrogateescape"))
    digest = document.pop("sha256")
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    assert digest == "d2948c9429ad6b55208b85211b3b10bd5349248c83d150f82d995c2eef315e73"


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
