"""Names of a store's files and folders: read back as they are made, and foreign names are none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from store.layout import (
    StoreLayout,
    index_file_name,
    is_address,
    is_bundle,
    is_store_name,
    is_topic_folder_name,
    parse_index_file_name,
    parse_queue_id,
    parse_segment_name,
    parse_whole_number,
    segment_name,
)

ROOT = Path("/s")
MOST_LONG, MOST_INT = (1 << 63) - 1, (1 << 31) - 1


def test_a_segment_has_its_log_offset_in_twenty_digits() -> None:
    assert segment_name(0) == "0" * 20
    assert segment_name(MOST_LONG) == "09223372036854775807"
    assert parse_segment_name("09223372036854775807") == MOST_LONG


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        (str(MOST_LONG), MOST_LONG),
        (str(MOST_LONG + 1), None),
        ("0" * 255, 0),
        ("0" * 256, None),
        ("", None),
        ("-1", None),
        ("²", None),
        ("1a", None),
    ],
)
def test_a_whole_number_has_ascii_digits_and_63_bits(text: str, number: int | None) -> None:
    assert parse_whole_number(text) == number


@pytest.mark.parametrize(
    ("name", "queue_id"),
    [
        ("0", 0),
        (str(MOST_INT), MOST_INT),
        (str(MOST_INT + 1), None),
        (str(-MOST_INT - 1), -MOST_INT - 1),
        (str(-MOST_INT - 2), None),
        ("-", None),
        ("--1", None),
        ("²", None),
        ("x", None),
    ],
)
def test_a_queue_id_has_32_bits(name: str, queue_id: int | None) -> None:
    assert parse_queue_id(name) == queue_id


@pytest.mark.parametrize(
    ("text", "addressed", "bundled"),
    [
        ("s3://bucket/store", True, False),
        ("backup:/b", True, False),
        ("/b/case.tar.zst", True, True),
        ("s3://bucket/case.tar.zst", True, True),
        ("backup:/b/case.tar.zst", True, False),
        ("/data/store", False, False),
        ("/data/backup:", False, False),
        ("/data/case.tar.zst/store", False, False),
    ],
)
def test_an_address_is_a_uri_a_backup_or_a_bundle(text: str, addressed: bool, bundled: bool) -> None:
    assert (is_address(text), is_bundle(text)) == (addressed, bundled)


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("abort", True), ("timerwheel", True), ("timerwheel.0", True), ("timerwheel.17", True), ("timerwheel.", False),
        ("timerwheel.x", False), ("timerlog.7", False), ("7", False), ("other", False),
    ],
)  # fmt: skip
def test_a_change_touches_the_files_of_a_store_and_snapshots_of_the_wheel(name: str, is_ours: bool) -> None:
    assert is_store_name(name) == is_ours


@pytest.mark.parametrize("time_ms", [1_700_000_000_000, 1_700_000_000_007, 1_700_000_000_999, 1_700_000_001_000])
def test_an_index_file_is_named_by_its_local_time(time_ms: int) -> None:
    name = time.strftime("%Y%m%d%H%M%S", time.localtime(time_ms // 1000)) + str(time_ms)[-3:]
    assert index_file_name(time_ms) == name
    assert parse_index_file_name(name) == int(name)


@pytest.mark.parametrize("time_ms", [-(1 << 63), -62_200_000_000_001, -1, (1 << 63) - 1])
def test_an_index_file_of_any_time_has_digits_as_its_name(time_ms: int) -> None:
    year = abs(time.localtime(time_ms // 1000).tm_year) + (time_ms < -62_200_000_000_000)
    name = index_file_name(time_ms)
    assert (name.isdigit(), name[:-13], name[-3:]) == (True, f"{year:04d}", f"{time_ms % 1000:03d}")
    assert parse_index_file_name(name) == int(name)


@pytest.mark.parametrize("name", ["", "2026x", "²"])
def test_a_foreign_name_is_no_index_files(name: str) -> None:
    assert parse_index_file_name(name) is None


@pytest.mark.parametrize(
    ("topic", "can"),
    [
        ("T", True),
        ("...", True),
        ("", False),
        (".", False),
        ("..", False),
        ("a/b", False),
        ("a\0b", False),
        ("x" * 255, True),
        ("x" * 256, False),
        ("ü" * 127, True),
        ("ü" * 128, False),
        ("\ud800", True),
    ],
)
def test_a_topic_names_a_folder_of_at_most_255_bytes(topic: str, can: bool) -> None:
    assert is_topic_folder_name(topic) == can


def test_every_folder_is_below_the_root() -> None:
    layout = StoreLayout(ROOT)
    names = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index", "checkpoint", "abort",
             "lock", "config")  # fmt: skip
    assert [getattr(layout, name) for name in names] == [ROOT / name for name in names]
    assert layout.own == ROOT / ".rmqctl"
    assert layout.consumequeue_rocksdb == ROOT / "consumequeue_rocksdb"
    assert layout.controller_state == ROOT / "epochFileCheckpoint"
    assert (layout.has_plain_log, StoreLayout(ROOT, dledger=ROOT / "dledger-n0").has_plain_log) == (True, False)
    assert layout.queue_folder("T", 3) == ROOT / "consumequeue/T/3"
    assert layout.queue_parents == (ROOT / "consumequeue", ROOT / "batchconsumequeue")
    assert layout.queue_ext_folder("T", 3) == ROOT / "consumequeue_ext/T/3"
    assert (layout.commitlogs, layout.commitlogs_elsewhere) == ((ROOT / "commitlog",), ())


def test_of_several_folders_of_the_log_each_counts_once_and_new_segments_go_to_the_first_ones() -> None:
    a, b, c = Path("/a"), Path("/b"), Path("/c")
    layout = StoreLayout(ROOT, (a, b), (b, c))
    assert layout.commitlog == a
    assert layout.writable_commitlogs == (a, b)
    assert layout.commitlogs == layout.commitlogs_elsewhere == (a, b, c)
