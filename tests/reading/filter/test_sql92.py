"""The SQL92 filter: the broker's grammar, its conversions and its three-valued logic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRequest
from store.reading.filter import compile_sql


def matches(text: str, **properties: str) -> bool:
    return compile_sql(text).matches_properties(properties)


@pytest.mark.parametrize("text", ["a = 5", "a <> 4", "a > 4", "a >= 5", "a < 6", "a <= 5", "5 = a", "4 < a", "a = 5.0"])
def test_a_property_is_compared_as_a_number_with_a_number(text: str) -> None:
    assert matches(text, a="5")


@pytest.mark.parametrize("text", ["a = 4", "a <> 5", "a > 5", "a >= 6", "a < 5", "a <= 4", "a = '05'"])
def test_a_comparison_that_does_not_hold_does_not_match(text: str) -> None:
    assert not matches(text, a="5")


def test_strings_are_equal_by_their_text_and_quotes_are_doubled() -> None:
    assert matches("a = 'it''s'", a="it's")
    assert matches("a <> 'x'", a="y")
    assert not matches("a = 'x'", a="X")


def test_two_properties_are_ordered_as_doubles() -> None:
    assert matches("a < b", a="9", b="10.5")
    assert not matches("a < b", a="nine", b="10")


def test_keywords_ignore_case_and_names_do_not() -> None:
    assert matches("a Between 1 aNd 3 oR b iS nUlL", a="2", b="x")
    assert not matches("A = 1", a="1")
    assert matches("android = 1 AND orbit = 2", android="1", orbit="2")


@pytest.mark.parametrize(("value", "expected"), [("0", False), ("1", True), ("2.5", False), ("3", True), ("4", False)])
def test_between_includes_both_ends_and_follows_integer_conversion(value: str, expected: bool) -> None:
    assert matches("a BETWEEN 1 AND 3", a=value) is expected


def test_not_between_is_outside() -> None:
    assert matches("a NOT BETWEEN 1 AND 3", a="4")
    assert not matches("a NOT BETWEEN 1 AND 3", a="2")


def test_between_takes_negative_and_fractional_ends() -> None:
    assert matches("a BETWEEN -1.5 AND 2.5", a="-1.25")


def test_in_takes_strings() -> None:
    assert matches("TAGS IN ('A', 'B')", TAGS="B")
    assert not matches("TAGS NOT IN ('A', 'B')", TAGS="B")
    assert matches("TAGS NOT IN ('A')", TAGS="B")


def test_an_absent_property_is_null_and_null_is_not_true() -> None:
    for text in (
        "a = 1",
        "a <> 1",
        "a > 1",
        "a IN ('x')",
        "a NOT IN ('x')",
        "NOT (a = 1)",
        "a BETWEEN 1 AND 2",
    ):
        assert not matches(text)


def test_null_is_known_by_is_null_alone() -> None:
    assert matches("a IS NULL AND b IS NOT NULL", b="")
    assert not matches("a IS NOT NULL")


def test_logic_has_three_values() -> None:
    assert matches("a = 1 OR b = 2", b="2")
    assert not matches("a = 1 AND b = 2", b="2")
    assert not matches("NOT (a = 1 OR b = 3)", b="2")
    assert matches("NOT (a = 1 AND b = 3)", b="2")


def test_and_binds_closer_than_or() -> None:
    assert matches("a = 1 OR a = 2 AND b = 9", a="1", b="0")
    assert not matches("(a = 1 OR a = 2) AND b = 9", a="1", b="0")


def test_not_binds_closer_than_equal_as_in_the_broker() -> None:
    assert not matches("NOT a = 1", a="2")
    assert matches("NOT (a = 1)", a="2")


def test_booleans_compare_with_the_words_true_and_false() -> None:
    assert matches("a = TRUE", a="True")
    assert matches("a = FALSE", a="anything else")
    assert not matches("TRUE = a", a="true")
    assert matches("TRUE")
    assert not matches("FALSE")


def test_a_bare_property_is_never_true() -> None:
    assert not matches("a", a="true")
    assert matches("NOT a", a="true")


def test_what_cannot_be_converted_fails_the_whole_filter_unless_already_decided() -> None:
    assert not matches("a > 5 OR b = 'x'", a="many", b="x")
    assert matches("b = 'x' OR a > 5", a="many", b="x")
    assert not matches("NOT (a > 5)", a="many")


def test_integers_of_32_bits_and_longs_convert_as_java_does() -> None:
    assert not matches("a > 5", a="3000000000")
    assert matches("a > 2147483648", a="3000000000")
    assert matches("a = 2147483648", a="+2147483648")
    assert matches("a = -2147483648L", a="-2147483648")
    assert not matches("a = 5", a="5.0")
    assert not matches("a = 5", a=" 5")


@pytest.mark.parametrize("value", ["2.50", "2.5d", " 2.5 ", "25e-1", "+2.5f"])
def test_doubles_convert_as_java_does(value: str) -> None:
    assert matches("a = 2.5", a=value)


def test_parts_of_text_can_be_asked_for() -> None:
    assert matches("a CONTAINS 'ell' AND a STARTSWITH 'he' AND a ENDSWITH 'lo'", a="hello")
    assert matches("a NOT CONTAINS 'x' AND a NOT STARTSWITH 'x' AND a NOT ENDSWITH 'x'", a="hello")
    assert not matches("a NOT CONTAINS 'x'")


def test_comments_are_ignored() -> None:
    assert matches("a = 1 /* one */ -- and only one", a="1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a >", "ends too early"),
        ("", "ends too early"),
        ("(a = 1", "ends too early"),
        ("a = 1 b", "column 7: unexpected 'b'"),
        ('a = "x"', "single quotes"),
        ("a = 'x", "column 5: unexpected"),
        ("a == 1", "column 4"),
        ("a.b = 1", "column 2"),
        ("a IN (1, 2)", "column 7: unexpected '1'"),
        ("a > 'x'", "cannot be compared"),
        ("a > TRUE", "cannot be compared"),
        ("a = NULL", "use IS NULL"),
        ("5", "neither true nor false"),
        ("'x' AND a = 1", "neither true nor false"),
        ("a BETWEEN 3 AND 1", "is empty"),
        ("a BETWEEN 'a' AND 'b'", "cannot be compared"),
        ("1 IN ('1')", "IN needs a property"),
        ("a = 9223372036854775808", "64 bits"),
        ("a > 1e999", "too large"),
        ("TRUE = 5", "cannot be compared"),
    ],
)
def test_a_wrong_expression_says_where_and_why(text: str, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        compile_sql(text)
    assert reason in str(caught.value)


def test_an_expression_nested_too_deeply_is_refused() -> None:
    with pytest.raises(BadRequest, match="too deeply"):
        compile_sql("(" * 5 + " OR ".join(["a = 1"] * 3000) + ")" * 5)


@pytest.mark.turns(3)
def test_five_hundred_alternatives_are_not_too_many() -> None:
    assert matches(" OR ".join(f"a = {n}" for n in range(500)), a="499")


@given(st.text(alphabet="ab15.'()=<>- \tANDORNTIULS", max_size=40), st.text(max_size=5))
def test_any_text_either_compiles_or_is_a_bad_request(text: str, value: str) -> None:
    try:
        compiled = compile_sql(text)
    except BadRequest:
        return
    assert compiled.matches_properties({"a": value}) in (True, False)


@given(st.integers(), st.integers(1 - (1 << 31), (1 << 31) - 1))
def test_whole_numbers_compare_as_integers_within_their_range(value: int, limit: int) -> None:
    expected = -(1 << 31) <= value < 1 << 31 and value > limit
    assert matches(f"a > {limit}", a=str(value)) is expected
