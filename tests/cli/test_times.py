"""Times as users write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.times import parse_time, show_time

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795230554582", 1795230554582),
        ("0", 0),
        ("253402300799999", 253402300799999),
        ("now", NOW_MS),
        ("-15m", NOW_MS - 15 * 60_000),
        ("-2h", NOW_MS - 2 * 3_600_000),
        ("-3d", NOW_MS - 3 * 86_400_000),
        ("-2w", NOW_MS - 14 * 86_400_000),
        ("+1s", NOW_MS + 1000),
        ("-250ms", NOW_MS - 250),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01.5+01:00", 1500),
    ],
)
def test_a_time_is_epoch_milliseconds_iso_or_relative(text: str, expected: int) -> None:
    assert parse_time(text, NOW_MS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "-15", "15m", "-1y", "2026-13-01", "１２", "1969-12-31T23:59:59Z", "253402300800000",
        "99999999999999999999", "9" * 10_000, f"-{'9' * 10_000}d",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"ISO 8601"):
        parse_time(text, NOW_MS)


@pytest.mark.parametrize(("length", "shown"), [(39, 39), (40, 40), (41, 40)])
@pytest.mark.parametrize(("begins", "says"), [("1969-12-31T23:59:59.", "is out of range"), ("x", "is not a time")])
def test_forty_characters_of_a_refused_time_are_repeated(begins: str, says: str, length: int, shown: int) -> None:
    text = f"{begins.ljust(length - 1, '0')}Z"
    with pytest.raises(ValueError, match=r"^") as error:
        parse_time(text, NOW_MS)
    assert str(error.value).split(" ")[0] == repr(text[:shown])
    assert says in str(error.value)


@pytest.mark.turns(3)
@given(st.integers(1, 253_402_300_799_999))
def test_a_shown_time_can_be_given_back(time_ms: int) -> None:
    assert parse_time(show_time(time_ms), NOW_MS) == time_ms


def test_times_that_are_no_dates_are_still_shown() -> None:
    assert [show_time(one) for one in (-1, 0, 1)] == ["1969-12-31T23:59:59.999Z", "-", "1970-01-01T00:00:00.001Z"]
    assert show_time((1 << 63) - 1) == str((1 << 63) - 1)
