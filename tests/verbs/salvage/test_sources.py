"""Which files are salvaged, where each begins in the log, and where its last byte is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import Message
from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.formats.message import RECORD_MIN_SIZE, encode_record
from store.verbs.salvage import walk
from store.verbs.salvage.grade import Grade, SalvagedRun, Skipped, TornRecord
from store.verbs.salvage.queue_gaps import Missing, QueueGaps
from store.verbs.salvage.sources import config_of, find_sources, is_store_root, open_source
from store.verbs.salvage.walk import find_start, walk_file
from tests.support.stores import SMALL, make_store

SIZE = 16384


def record(log_offset: int, queue_offset: int = 0, body: bytes = b"body" * 10) -> bytes:
    return encode_record(
        Message("T", body), topic=b"T", sys_flag=0, queue_offset=queue_offset, log_offset=log_offset,
        store_timestamp_ms=1_700_000_000_000,
    )  # fmt: skip


LENGTH = len(record(0))


def log(start: int, count: int, size: int = SIZE) -> bytes:
    """Give a segment of so many records, each of LENGTH bytes."""
    return b"".join(record(start + LENGTH * number, number) for number in range(count)).ljust(size, b"\0")


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def sources(path: Path, logs: list[Path] | None = None) -> list[tuple[str, int, int]]:
    """Name each source with its log offset and its limit."""
    return [(source.name, start, source.limit) for source, start in find_sources(path, Filesystem(), logs or [])]


def test_the_segments_of_a_store_are_in_log_order_and_as_large_as_the_largest(tmp_path: Path) -> None:
    for name, data in ((f"{SIZE:020d}", log(SIZE, 3, 8192)), (f"{0:020d}", log(0, 3)), ("empty", b"")):
        write(tmp_path / "commitlog" / name, data)
    write(tmp_path / "other", log(4096, 1))
    expected = [(f"{0:020d}", 0, SIZE), (f"{SIZE:020d}", SIZE, 2 * SIZE)]
    assert sources(tmp_path) == sources(tmp_path / "commitlog") == expected
    assert sources(tmp_path / "commitlog" / f"{SIZE:020d}") == [(f"{SIZE:020d}", SIZE, SIZE + 8192)]
    (tmp_path / "without").mkdir()
    assert sources(tmp_path / "without", [tmp_path / "commitlog"]) == expected


@pytest.mark.parametrize(
    ("name", "data", "start"),
    [
        ("lost", log(8192, 2), 8192),
        ("lost", log(8192 + 1, 2), None),
        ("lost", bytes(100), None),
        (f"{0:020d}", log(8192, 1), 8192),
        (f"{8192:020d}", bytes(100), 8192),
        (f"{0:020d}", log(0, 2, LENGTH * 2) + log(4096, 3, LENGTH * 3)[LENGTH * 2 :], 0),
        ("lost", log(0, 2, LENGTH * 2) + log(4096, 5, LENGTH * 5)[LENGTH * 2 :], 4096),
    ],
)
def test_a_file_begins_where_most_of_its_records_say_or_else_its_name(
    name: str, data: bytes, start: int | None, tmp_path: Path
) -> None:
    write(tmp_path / name, data)
    assert [one[1] for one in sources(tmp_path)] == ([] if start is None else [start])
    assert find_start(open_source(tmp_path / name, Filesystem())) == (-1 if start is None else start)


@pytest.mark.parametrize(
    ("data", "stop"),
    [(b"", 0), (bytes(9), 0), (b"\1", 1), (b"\1" + bytes(99), 1), (bytes(99) + b"\1", 100), (bytes(98) + b"\1\0", 99)],
)
@pytest.mark.parametrize("chunk", [1, 7, 99, 100, 1 << 20])
def test_a_file_ends_behind_its_last_byte_that_is_not_zero(
    chunk: int, data: bytes, stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.verbs.salvage.sources._CHUNK_BYTES", chunk)
    assert open_source(write(tmp_path / "one", data), Filesystem()).stop == stop


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path, logs in ((tmp_path / "none", []), (tmp_path, [tmp_path / "none"])):
        with pytest.raises(NotAStore, match="no such file or folder"):
            find_sources(path, Filesystem(), logs)


def test_loose_files_are_segments_as_large_as_the_largest_and_a_store_says_itself(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    fs = Filesystem()
    assert [is_store_root(path, fs) for path in (root, root / "commitlog", tmp_path)] == [True, False, False]
    assert config_of(root, {}, fs).mapped_file_size_commit_log == SMALL["mappedFileSizeCommitLog"]
    write(tmp_path / "loose/a", bytes(10))
    write(tmp_path / "loose/b", bytes(4096))
    assert config_of(tmp_path / "loose", {}, fs).mapped_file_size_commit_log == 4096
    assert config_of(tmp_path / "loose", {"mappedFileSizeCommitLog": "77"}, fs).mapped_file_size_commit_log == 77
    (tmp_path / "no files").mkdir()
    assert config_of(tmp_path / "no files", {}, fs).mapped_file_size_commit_log == 1 << 30


def pieces(data: bytes, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Walk a file that begins at 0: its runs, torn heads and skipped bytes as rows."""
    rows: list[tuple[Any, ...]] = []
    for piece in walk_file(open_source(write(tmp_path / f"{0:020d}", data), Filesystem()), 0):
        match piece:
            case SalvagedRun():
                rows.append((piece.grade.name, piece.log_offsets.tolist(), piece.reason))
            case TornRecord():
                rows.append(("torn", piece.log_offset, piece.size, piece.queue_id, piece.queue_offset))
            case Skipped():
                rows.append(("skipped", piece.position, piece.stop, piece.log_offset))
            case _:
                rows.append(("blank", piece.position, piece.log_offset, piece.size))
    return rows


def at(*numbers: int) -> list[int]:
    return [LENGTH * number for number in numbers]


CERTAIN, PARTIAL = Grade.CERTAIN.name, Grade.PARTIAL.name
WHOLE = log(0, 6)
OTHER_PLACE = "the record names another log offset"


def test_a_sound_file_is_one_run(tmp_path: Path) -> None:
    assert pieces(WHOLE, tmp_path) == [(CERTAIN, at(*range(6)), "")]


@pytest.mark.parametrize("size", [8, RECORD_MIN_SIZE, LENGTH])
def test_bytes_put_in_between_records_are_skipped_and_shift_what_follows(size: int, tmp_path: Path) -> None:
    data = WHOLE[: LENGTH * 2] + b"\xee" * size + WHOLE[LENGTH * 2 : -size]
    assert pieces(data, tmp_path) == [
        (CERTAIN, at(0), ""),
        (PARTIAL, at(1), "bytes were inserted inside of it or behind it"),
        ("skipped", LENGTH * 2, LENGTH * 2 + size, LENGTH * 2),
        (CERTAIN, at(2, 3, 4, 5), ""),
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_records_that_were_removed_shift_what_follows(count: int, tmp_path: Path) -> None:
    data = (WHOLE[: LENGTH * 2] + WHOLE[LENGTH * (2 + count) :]).ljust(SIZE, b"\0")
    assert pieces(data, tmp_path) == [(CERTAIN, at(0, 1), ""), (CERTAIN, at(*range(2 + count, 6)), "")]


def test_one_record_that_names_another_place_is_partial_where_it_is(tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    data[LENGTH * 2 + 28 : LENGTH * 2 + 36] = (LENGTH * 3).to_bytes(8, "big")
    assert pieces(bytes(data), tmp_path) == [
        (CERTAIN, at(0, 1), ""), (PARTIAL, at(2), OTHER_PLACE), (CERTAIN, at(3, 4, 5), ""),
    ]  # fmt: skip


def test_a_bad_body_is_taken_with_its_grade(tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    data[LENGTH * 2 + 90] ^= 1
    rows = pieces(bytes(data), tmp_path)
    assert [row[:2] for row in rows] == [
        (CERTAIN, at(0, 1)), (Grade.BODY_CRC.name, at(2)), (CERTAIN, at(3, 4, 5)),
    ]  # fmt: skip


def test_a_torn_record_keeps_what_its_head_says(tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    data[LENGTH * 2 + 84 : LENGTH * 2 + 88] = (9999).to_bytes(4, "big")
    assert pieces(bytes(data), tmp_path) == [
        (CERTAIN, at(0, 1), ""),
        ("torn", LENGTH * 2, LENGTH, 0, 2),
        ("skipped", LENGTH * 2, LENGTH * 3, LENGTH * 2),
        (CERTAIN, at(3, 4, 5), ""),
    ]


def test_a_magic_is_found_across_the_pieces_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(write(tmp_path / f"{0:020d}", WHOLE), Filesystem())
    for step in (5, LENGTH, LENGTH + 3, 1 << 20):
        monkeypatch.setattr(walk, "_SEARCH_BYTES", step)
        assert [*walk._magic_places(source.window, 0, SIZE)] == at(*range(6))
        assert [*walk._magic_places(source.window, LENGTH, LENGTH * 3)] == at(1, 2)
        assert [*walk._magic_places(source.window, LENGTH + 1, LENGTH * 3 + 1)] == at(2, 3)


@pytest.mark.parametrize(("missing", "is_found"), [(0, False), (1, True), (2, True), (3, False)])
def test_queue_offsets_are_missing_as_far_as_the_log_between_has_room(
    missing: int, is_found: bool, tmp_path: Path
) -> None:
    # From the second record to the fourth there is room for two of the smallest.
    data = record(0) + record(LENGTH, 1) + record(LENGTH * 3, 2 + missing)
    source = open_source(write(tmp_path / f"{0:020d}", data.ljust(SIZE, b"\0")), Filesystem())
    gaps = QueueGaps()
    runs = [piece for piece in walk_file(source, 0) if isinstance(piece, SalvagedRun)]
    found = [one for run in runs for _, one in gaps.split(run) if one is not None]
    assert 2 * LENGTH // RECORD_MIN_SIZE == 2
    assert found == ([Missing(b"T", 0, 2, 2 + missing, LENGTH, LENGTH * 3)] if is_found else [])
