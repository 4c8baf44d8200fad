"""The values of the broker's Java, compared, negated and converted as it does."""

from __future__ import annotations

import math

import pytest

from store.reading.filter.java_values import CannotCompare, Long, Value, compare, java_double, negated

INT, LONG = 1 << 31, 1 << 63


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (5, 5, 0),
        (4, 5, -1),
        (5, 4, 1),
        (Long(5), 5, 0),
        (5, 5.5, -1),
        (5.5, 5, 1),
        (5.0, 5, 0),
        ("a", "a", 0),
        ("a", "b", -1),
        ("b", "a", 1),
        ("5", 5, 0),
        ("4", 5, -1),
        (5, "4", 1),
        ("+5", 5, 0),
        ("2.5", 2.5, 0),
        (2.5, "2.25", 1),
        (str(INT - 1), 0, 1),
        (str(-INT), 0, -1),
        (str(INT), Long(0), 1),
        (str(LONG - 1), Long(0), 1),
        (str(-LONG), Long(0), -1),
        ("5".zfill(100), 5, 0),
    ],
)
def test_numbers_and_texts_are_compared_as_the_other_side_is(left: Value, right: Value, expected: int) -> None:
    assert compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (True, True, 0),
        (True, False, 1),
        (False, True, -1),
        ("TRUE", True, 0),
        ("true", False, 1),
        ("yes", True, -1),
        ("yes", False, 0),
        (True, 5, -1),
        (5, True, -1),
        (True, None, -1),
    ],
)
def test_booleans_are_compared_with_words_on_their_left_and_with_nothing_else(
    left: Value, right: Value, expected: int
) -> None:
    assert compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (math.nan, math.nan, 0),
        (math.nan, math.inf, 1),
        (math.inf, math.nan, -1),
        (-0.0, 0.0, -1),
        (0.0, -0.0, 1),
        (0.0, 0.0, 0),
        (-0.0, -0.0, 0),
        (1.5, 1.5, 0),
        (-1.5, 1.5, -1),
        (0.0, math.nan, -1),
    ],
)
def test_doubles_have_the_order_of_java(left: float, right: float, expected: int) -> None:
    assert compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (str(INT), 0),
        (str(-INT - 1), 0),
        (0, str(INT)),
        (str(LONG), Long(0)),
        (str(-LONG - 1), Long(0)),
        ("5".zfill(101), 5),
        ("5.0", 5),
        ("", 5),
        ("many", 2.5),
        (True, "true"),
        (5, "x"),
    ],
)
def test_a_text_that_is_no_value_of_the_other_kind_cannot_be_compared(left: Value, right: Value) -> None:
    with pytest.raises(CannotCompare):
        compare(left, right)


@pytest.mark.parametrize(
    ("value", "expected"), [(5, -5), (-5, 5), (2.5, -2.5), (None, None), ("5", None), (True, None)]
)
def test_numbers_alone_are_negated(value: Value, expected: Value) -> None:
    assert negated(value) == expected


def test_the_negative_of_a_long_is_a_long() -> None:
    assert [type(negated(Long(5))), type(negated(5))] == [Long, int]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", 2),
        ("2.", 2),
        (".5", 0.5),
        ("25e-1", 2.5),
        ("25E1", 250),
        ("-Infinity", -math.inf),
        (" 1d\n", 1),
        ("1F", 1),
    ],
)
def test_a_double_is_read_as_java_reads_it(text: str, expected: float) -> None:
    assert java_double(text) == expected


@pytest.mark.parametrize("text", ["", ".", "inf", "nan", "1e", "0x1p3", "1_0", "1dd", "+-1"])
def test_a_text_that_java_reads_as_no_double_cannot_be_compared(text: str) -> None:
    with pytest.raises(CannotCompare):
        java_double(text)
