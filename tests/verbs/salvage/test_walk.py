"""The walk that salvages one file: what is taken, in which grade, and what is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import Message
from store.files import readable
from store.files.filesystem import Filesystem
from store.formats.message import BLANK_MAGIC, RECORD_MIN_SIZE, encode_record
from store.verbs.salvage import walk
from store.verbs.salvage.grade import Grade, SalvagedRun, Skipped, TornRecord
from store.verbs.salvage.sources import open_source
from store.verbs.salvage.walk import find_start, walk_file
from tests.verbs.salvage.records import LENGTH, SIZE, log, record, write

START = 2 * SIZE


def pieces(data: bytes, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Walk a file that begins at START: its runs, torn heads and skipped bytes as rows."""
    rows: list[tuple[Any, ...]] = []
    for piece in walk_file(open_source(write(tmp_path / f"{START:020d}", data), Filesystem()), START):
        match piece:
            case SalvagedRun():
                rows.append((piece.grade.name, piece.log_offsets.tolist(), piece.reason))
            case TornRecord():
                rows.append(
                    ("torn", piece.log_offset, piece.size, piece.queue_id, piece.queue_offset, piece.born_timestamp_ms)
                )
            case Skipped():
                rows.append(("skipped", piece.position, piece.stop, piece.log_offset))
            case _:
                rows.append(("blank", piece.position, piece.log_offset, piece.size))
    return rows


def at(*numbers: int) -> list[int]:
    return [START + LENGTH * number for number in numbers]


CERTAIN, PARTIAL = Grade.CERTAIN.name, Grade.PARTIAL.name
WHOLE = log(START, 6)
OTHER_PLACE = "the record names another log offset"


def test_a_sound_file_is_one_run(tmp_path: Path) -> None:
    assert pieces(WHOLE, tmp_path) == [(CERTAIN, at(*range(6)), "")]


@pytest.mark.parametrize("size", [8, RECORD_MIN_SIZE, LENGTH])
def test_bytes_put_in_between_records_are_skipped_and_shift_what_follows(size: int, tmp_path: Path) -> None:
    data = WHOLE[: LENGTH * 2] + b"\xee" * size + WHOLE[LENGTH * 2 : -size]
    assert pieces(data, tmp_path) == [
        (CERTAIN, at(0), ""),
        (PARTIAL, at(1), "bytes were inserted inside or after it"),
        ("skipped", LENGTH * 2, LENGTH * 2 + size, START + LENGTH * 2),
        (CERTAIN, at(2, 3, 4, 5), ""),
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_records_that_were_removed_shift_what_follows(count: int, tmp_path: Path) -> None:
    data = (WHOLE[: LENGTH * 2] + WHOLE[LENGTH * (2 + count) :]).ljust(SIZE, b"\0")
    assert pieces(data, tmp_path) == [(CERTAIN, at(0, 1), ""), (CERTAIN, at(*range(2 + count, 6)), "")]


def test_one_record_that_names_another_place_is_partial_where_it_is(tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    data[LENGTH * 2 + 28 : LENGTH * 2 + 36] = (START + LENGTH * 3).to_bytes(8, "big")
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
    far = 0x8182838485868788 - (1 << 64)
    for at_byte, size in ((12, 4), (20, 8), (40, 8)):
        data[LENGTH * 2 + at_byte : LENGTH * 2 + at_byte + size] = bytes(range(0x81, 0x81 + size))
    assert pieces(bytes(data), tmp_path) == [
        (CERTAIN, at(0, 1), ""),
        ("torn", *at(2), LENGTH, 0x81828384 - (1 << 32), far, far),
        ("skipped", LENGTH * 2, LENGTH * 3, *at(2)),
        (CERTAIN, at(3, 4, 5), ""),
    ]


@pytest.mark.parametrize("size", [-1, 0, LENGTH - 1, LENGTH + 1, -(1 << 31), (1 << 31) - 1])
def test_a_torn_record_keeps_the_size_that_it_claims(size: int, tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    data[LENGTH * 2 : LENGTH * 2 + 4] = size.to_bytes(4, "big", signed=True)
    found = pieces(bytes(data), tmp_path)
    assert [one[2] for one in found if one[0] == "torn"] == [size]


def test_a_magic_is_found_across_the_pieces_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(write(tmp_path / f"{START:020d}", WHOLE), Filesystem())
    for step in (5, LENGTH, LENGTH + 3, 1 << 20):
        monkeypatch.setattr(readable, "_SEARCH_BYTES", step)
        assert [*walk._magic_places(source.window, 0, SIZE)] == [LENGTH * number for number in range(6)]
        assert [*walk._magic_places(source.window, LENGTH, LENGTH * 3)] == [LENGTH, LENGTH * 2]
        assert [*walk._magic_places(source.window, LENGTH + 1, LENGTH * 3 + 1)] == [LENGTH * 2, LENGTH * 3]


def test_damage_at_the_begin_of_a_file_is_skipped(tmp_path: Path) -> None:
    data = bytes(8) + WHOLE[8:]
    assert pieces(data, tmp_path) == [("skipped", 0, LENGTH, START), (CERTAIN, at(*range(1, 6)), "")]


@pytest.mark.parametrize("damaged", [3, 4])
def test_damage_behind_bytes_that_were_put_in_has_its_place_in_the_log(damaged: int, tmp_path: Path) -> None:
    data = bytearray(WHOLE[:LENGTH] + b"\xee" * 100 + WHOLE[LENGTH:-100])
    place = LENGTH * damaged + 100
    data[place : place + 8] = bytes(8)
    assert pieces(bytes(data), tmp_path) == [
        (PARTIAL, at(0), "bytes were inserted inside or after it"),
        ("skipped", LENGTH, LENGTH + 100, *at(1)),
        (CERTAIN, at(*range(1, damaged)), ""),
        ("skipped", place, place + LENGTH, *at(damaged)),
        (CERTAIN, at(*range(damaged + 1, 6)), ""),
    ]


@pytest.mark.parametrize(("more", "grade"), [(0, CERTAIN), (-1, PARTIAL)])
def test_records_are_moved_up_to_the_segments_end(more: int, grade: str, tmp_path: Path) -> None:
    data = (WHOLE[: LENGTH * 2] + WHOLE[LENGTH * 3 : LENGTH * 6]).ljust(LENGTH * 6 + more, b"\0")
    places = at(3, 4, 5) if grade == CERTAIN else at(2, 3, 4)
    reason = "" if grade == CERTAIN else OTHER_PLACE
    assert pieces(data, tmp_path) == [(CERTAIN, at(0, 1), ""), (grade, places, reason)]


def test_copies_of_records_that_were_met_shift_nothing(tmp_path: Path) -> None:
    data = WHOLE[: LENGTH * 4] + WHOLE[LENGTH * 2 : LENGTH * 6]
    rows = pieces(data.ljust(SIZE, b"\0"), tmp_path)
    assert rows == [(CERTAIN, at(0, 1, 2, 3), ""), (PARTIAL, at(4, 5, 6, 7), OTHER_PLACE)]


@pytest.mark.parametrize(("declared", "is_last"), [(-1, False), (0, True), (1, False), (-100, True)])
def test_a_blank_ends_a_file_that_reaches_its_end_or_its_segments(declared: int, is_last: bool, tmp_path: Path) -> None:
    end, size = LENGTH * 3, SIZE - LENGTH * 3 + declared
    blank = size.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=BLANK_MAGIC < 0)
    data = (WHOLE[:LENGTH] + b"\xee" * 100 + WHOLE[LENGTH:end] + blank).ljust(SIZE, b"\0")
    last = pieces(data, tmp_path)[-1]
    assert last == ("blank", end + 100, START + end, size) if is_last else last[0] == "skipped"


OTHER = 4 * SIZE


def records_of(*starts: int) -> bytes:
    """Records one after another, of files with these starts."""
    return b"".join(record(start + LENGTH * number) for number, start in enumerate(starts)).ljust(SIZE, b"\0")


@pytest.mark.parametrize(
    ("name", "data", "start"),
    [
        (f"{START:020d}", records_of(START, START), START),
        (f"{OTHER:020d}", records_of(START, START), START),
        ("loose", records_of(START), START),
        ("loose", records_of(0), 0),
        (f"{OTHER:020d}", records_of(0), 0),
        (f"{OTHER:020d}", records_of(START, OTHER, START), OTHER),
        (f"{SIZE:020d}", records_of(OTHER, START, START), START),
        (f"{SIZE:020d}", records_of(START, START, OTHER), START),
        (f"{OTHER:020d}", records_of(START + 4096), START + 4096),
        (f"{OTHER:020d}", records_of(START + 4095), OTHER),
        (f"{OTHER:020d}", records_of(-4096), OTHER),
        (f"{OTHER:020d}", bytes(SIZE), OTHER),
        ("loose", bytes(SIZE), -1),
        ("loose", records_of(START + 1), -1),
    ],
)
def test_a_file_begins_where_most_of_its_records_say_unless_one_agrees_with_its_name(
    name: str, data: bytes, start: int, tmp_path: Path
) -> None:
    assert find_start(open_source(write(tmp_path / name, data), Filesystem())) == start


@pytest.mark.parametrize(("most", "start"), [(1, OTHER), (2, OTHER), (3, START)])
def test_the_first_records_tell_the_start(
    most: int, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_SAMPLE_RECORDS", most)
    data = records_of(OTHER, START, START, START)
    assert find_start(open_source(write(tmp_path / "loose", data), Filesystem())) == start


def with_properties(*ends: int) -> bytes:
    """Records of 232 bytes, 100 of them properties, from which so many bytes before each end were removed."""
    data = b""
    for number, removed in enumerate(ends):
        made = encode_record(
            Message("T", b"body" * 10, 0, b"p" * 100), topic=b"T", sys_flag=0, queue_offset=number,
            log_offset=START + 232 * number, store_timestamp_ms=1,
        )  # fmt: skip
        data += made[: 232 - removed]
    return data.ljust(SIZE, b"\0")


@pytest.mark.parametrize(
    ("removed", "kinds"),
    [
        ((0, 0, 0, 0), "cccc"),
        ((0, 1, 0, 0), "cpcc"),
        ((0, 20, 0, 0), "cpcc"),
        ((0, 100, 0, 0), "cpcc"),
        ((20, 0, 0, 0), "pccc"),
        ((0, 0, 20, 0), "ccpc"),
        ((20, 30, 0, 0), "ppcc"),
        ((20, 0, 30, 0), "pcpc"),
        ((0, 0, 0, 20), "cccc"),
    ],
)
def test_a_record_that_lost_bytes_after_its_body_is_partial_and_the_next_one_has_its_place(
    removed: tuple[int, ...], kinds: str, tmp_path: Path
) -> None:
    rows = pieces(with_properties(*removed), tmp_path)
    found = [(grade, place, reason) for grade, places, reason in rows for place in places]
    inside = "the next record begins inside of it"
    assert found == [
        (PARTIAL, START + 232 * number, inside) if kind == "p" else (CERTAIN, START + 232 * number, "")
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(("removed", "stop"), [(101, 363), (140, 324)])
def test_a_record_that_lost_bytes_of_its_body_is_torn_up_to_the_next(removed: int, stop: int, tmp_path: Path) -> None:
    assert pieces(with_properties(0, removed, 0), tmp_path) == [
        (CERTAIN, [START], ""),
        ("torn", START + 232, 232, 0, 1, 1),
        ("skipped", 232, stop, START + 232),
        (CERTAIN, [START + 464], ""),
    ]
