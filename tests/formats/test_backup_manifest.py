"""The manifest of a backup, read back and refused."""

from __future__ import annotations

import hashlib
import json
import re

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
from store.formats.java import INT_MAX

FILES = (
    BackedFile("commitlog/00000000000000000020", 10, "s3", "log/c", 10),
    BackedFile("commitlog/00000000000000000000", 4, "s1", "log/a", 4, 99, True),
    BackedFile("config/topics.json", 7, "s4", "tables/t", 5),
    BackedFile("commitlog/00000000000000000000", 6, "s2", "log/b", 6, position=4),
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
    assert digest == "84a10b8239df70d3af2450c0ab357566691d10623d1c6c373b5da846df4ecf20"


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


def changed(field: str, value: object) -> bytes:
    """MANIFEST with another value, and the digest of the changed document; a field of a file is named files.0.NAME."""
    document = json.loads(encode_manifest(MANIFEST).decode("utf-8", "surrogateescape"))
    del document["sha256"]
    *parents, name = field.split(".")
    part = document["files"][int(parents[1])] if parents else document
    part[name] = value
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return json.dumps({**document, "sha256": digest}).encode()


LEAST, LARGEST = -(1 << 63), (1 << 63) - 1
MOST_MTIME = LARGEST // 1_000_000


@pytest.mark.parametrize(("field", "value", "fault"), [
    ("id", [], "its id is of a wrong kind: []"),
    ("id", "../x", "its id is '../x', and one looks like 20260115T083000.000"),
    ("line", None, "its line is of a wrong kind: None"),
    ("log_start", "x", "its log_start is of a wrong kind: 'x'"),
    ("log_start", -1, f"its log_start is not in 0..{LARGEST}: -1"),
    ("log_end", True, "its log_end is of a wrong kind: True"),
    ("log_end", LARGEST, None),
    ("log_end", LARGEST + 1, f"its log_end is not in 0..{LARGEST}: {LARGEST + 1}"),
    ("segment_size", 0, f"its segment_size is not in 1..{INT_MAX}: 0"),
    ("segment_size", INT_MAX, None),
    ("segment_size", INT_MAX + 1, f"its segment_size is not in 1..{INT_MAX}: {INT_MAX + 1}"),
    ("last_store_timestamp_ms", 1.5, "its last_store_timestamp_ms is of a wrong kind: 1.5"),
    ("last_store_timestamp_ms", LEAST, None),
    ("last_store_timestamp_ms", LEAST - 1, f"its last_store_timestamp_ms is not in {LEAST}..{LARGEST}: {LEAST - 1}"),
    ("settings", [], "its settings is of a wrong kind: []"),
    ("notes", None, "its notes is of a wrong kind: None"),
    ("notes", ["a", 5], "one of its notes is not text"),
    ("files", {}, "its files is of a wrong kind: {}"),
    ("files", [7], "it has 7 in place of an object"),
    ("files", [{}], "a field is missing: path"),
    ("files.0.path", 5, "its path is of a wrong kind: 5"),
    ("files.0.path", "commitlog/abc", "a file of its log has no name of a segment: 'commitlog/abc'"),
    ("files.0.stored", "../x", "a path in it leads elsewhere: '../x'"),
    ("files.0.size", 1 << 40, None),
    ("files.0.size", (1 << 40) + 1, f"its size is not in 0..{1 << 40}: {(1 << 40) + 1}"),
    ("files.0.position", 1, "a piece of 'commitlog/00000000000000000020' is at 1 instead of 0"),
    ("files.3.position", 5, "a piece of 'commitlog/00000000000000000000' is at 5 instead of 4"),
    ("files.0.mtime_ms", MOST_MTIME, None),
    ("files.0.mtime_ms", 10**30, f"its mtime_ms is not in {-MOST_MTIME - 1}..{MOST_MTIME}: {10**30}"),
    ("files.0.is_sealed", 1, "its is_sealed is of a wrong kind: 1"),
])  # fmt: skip
def test_a_field_of_a_wrong_kind_or_size_is_named(field: str, value: object, fault: str | None) -> None:
    if fault is None:
        assert decode_manifest(changed(field, value)).id == MANIFEST.id
    else:
        with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
            decode_manifest(changed(field, value))


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"format": ' + b"[" * 100_000])
def test_deep_json_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it is no whole JSON: "):
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
