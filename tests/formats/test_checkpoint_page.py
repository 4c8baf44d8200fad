"""Which pages a broker may have written, and up to which time files are trusted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from store.formats.checkpoint_page import CHECKPOINT_SIZE, YEAR_10000_MS, CheckpointPage, decode_checkpoint


def test_the_last_time_is_that_of_the_year_9999() -> None:
    assert (int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) + 1) * 1000 == YEAR_10000_MS


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize(
    ("value", "is_time_possible", "is_offset_possible"),
    [(0, True, True), (-1, False, False), (YEAR_10000_MS - 1, True, True), (YEAR_10000_MS, False, True)],
)
def test_times_and_offsets_have_their_ranges(
    place: int, value: int, is_time_possible: bool, is_offset_possible: bool
) -> None:
    values = [5] * 6
    values[place] = value
    assert CheckpointPage(*values).is_possible is (is_time_possible if place < 3 else is_offset_possible)
    mended = decode_checkpoint(CheckpointPage(*values).encode_mended())
    assert mended == CheckpointPage(*(max(0, one) for one in values))


@pytest.mark.parametrize(
    ("physic_ms", "logics_ms", "index_ms", "least", "least_of_index"),
    [
        (10_000, 20_000, 30_000, 7000, 7000), (20_000, 10_000, 5000, 7000, 5000), (3000, 3000, 9, 0, 0),
        (3001, 9999, 0, 1, 0), (0, 0, 0, 0, 0), (10_000, 10_000, 7001, 7000, 7000),
    ],
)  # fmt: skip
def test_files_are_trusted_up_to_three_seconds_before_the_older_time(
    physic_ms: int, logics_ms: int, index_ms: int, least: int, least_of_index: int
) -> None:
    page = CheckpointPage(physic_ms, logics_ms, index_ms)
    assert (page.min_timestamp_ms, page.min_timestamp_index_ms) == (least, least_of_index)


def test_a_page_has_its_fields_the_bytes_after_them_and_zeros() -> None:
    page = CheckpointPage(1, 2, 3, 4, 5, 6, b"\0\7")
    data = page.encode()
    assert data == b"".join(number.to_bytes(8, "big") for number in range(1, 7)) + b"\0\7" + bytes(CHECKPOINT_SIZE - 50)
    assert decode_checkpoint(data) == page
    assert decode_checkpoint(data[:20]) == CheckpointPage(1, 2)
    assert decode_checkpoint(b"") == CheckpointPage(0, 0, 0, 0, 0, 0, b"")
