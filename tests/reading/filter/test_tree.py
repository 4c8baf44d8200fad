"""What each rule of a filter gives for true, false and null, and the sentence for an expression without meaning."""

from __future__ import annotations

import pytest

from store.reading.filter.java_values import Long, Value
from store.reading.filter.tree import Builder, Meaningless, Node, as_boolean

BUILDER = Builder()
TRUE, FALSE, NULL, NAME = BUILDER.true(), BUILDER.false(), BUILDER.null(), BUILDER.named("a")
VALUES = {"T": TRUE, "F": FALSE, "N": NULL}


def shown(node: Node) -> str:
    return {True: "T", False: "F", None: "N"}[node.evaluate({})]  # type: ignore[index]


def evaluated(node: Node, **properties: str) -> Value:
    return node.evaluate(properties)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("both", "TFN FFF NFN"), ("either", "TTT TFN TNN")],
)
def test_logic_gives_true_false_or_null(rule: str, expected: str) -> None:
    make, values = getattr(BUILDER, rule), VALUES.values()
    rows = ["".join(shown(make(left, right)) for right in values) for left in values]
    assert " ".join(rows) == expected


def test_not_keeps_null() -> None:
    assert "".join(shown(BUILDER.negation(each)) for each in VALUES.values()) == "FTN"


def test_equality_with_nothing_is_null_on_the_left_and_false_on_the_right() -> None:
    five, other = BUILDER.whole("5"), BUILDER.named("b")
    found = [evaluated(BUILDER.equal(left, right)) for left, right in [(NAME, other), (NAME, five), (five, NAME)]]
    assert found == [True, None, False]
    assert [evaluated(BUILDER.equal(NAME, five), a=text) for text in ("5", "6")] == [True, False]
    assert [evaluated(BUILDER.not_equal(NAME, five), a=text) for text in ("5", "6")] == [False, True]
    assert evaluated(BUILDER.not_equal(NAME, five)) is None


@pytest.mark.parametrize(
    ("rule", "below", "same", "above"),
    [
        ("greater", False, False, True),
        ("greater_equal", False, True, True),
        ("less", True, False, False),
        ("less_equal", True, True, False),
    ],
)
def test_an_order_holds_below_at_or_above_and_is_null_without_a_side(
    rule: str, below: bool, same: bool, above: bool
) -> None:
    node, turned = (
        getattr(BUILDER, rule)(*sides) for sides in ((NAME, BUILDER.whole("5")), (BUILDER.whole("5"), NAME))
    )
    assert [evaluated(node, a=text) for text in ("4", "5", "6")] == [below, same, above]
    assert [evaluated(node), evaluated(turned)] == [None, None]


def test_two_texts_are_ordered_as_doubles() -> None:
    node = BUILDER.less(NAME, BUILDER.named("b"))
    assert [evaluated(node, a="9", b="10"), evaluated(node, a="10", b="9")] == [True, False]


def test_between_takes_its_ends_and_not_between_what_is_outside_them() -> None:
    low, high = BUILDER.whole("1"), BUILDER.whole("3")
    texts = ("0", "1", "2", "3", "4")
    assert [evaluated(BUILDER.between(NAME, low, high), a=text) for text in texts] == [False, True, True, True, False]
    assert [evaluated(BUILDER.not_between(NAME, low, high), a=text) for text in texts] == [True, *[False] * 3, True]
    assert evaluated(BUILDER.between(NAME, low, low), a="1") is True


def test_a_place_in_a_list_is_null_without_a_value() -> None:
    tokens = ("'x'", "'it''s'")
    assert [evaluated(BUILDER.is_in(NAME, *tokens), a=text) for text in ("x", "it's", "y")] == [True, True, False]
    assert [evaluated(BUILDER.is_not_in(NAME, *tokens), a=text) for text in ("x", "y")] == [False, True]
    assert [evaluated(rule(NAME, *tokens)) for rule in (BUILDER.is_in, BUILDER.is_not_in)] == [None, None]


@pytest.mark.parametrize(("rule", "expected"), [("contains", "TTTF"), ("starts_with", "TTFF"), ("ends_with", "TFTF")])
def test_a_part_of_a_text_is_looked_for_at_its_place(rule: str, expected: str) -> None:
    texts = ("ab", "abc", "cab", "x")
    given, turned = getattr(BUILDER, rule)(NAME, "'ab'"), getattr(BUILDER, f"not_{rule}")(NAME, "'ab'")
    assert [evaluated(given, a=text) for text in texts] == [each == "T" for each in expected]
    assert [evaluated(turned, a=text) for text in texts] == [each == "F" for each in expected]
    empty = getattr(BUILDER, rule)(NAME, "''"), getattr(BUILDER, f"not_{rule}")(NAME, "''")
    assert [evaluated(given), evaluated(turned), *(evaluated(each, a="x") for each in empty)] == [False] * 4


def test_null_is_known_by_is_null() -> None:
    found = [
        evaluated(rule(NAME), **given) for rule in (BUILDER.is_null, BUILDER.is_not_null) for given in ({}, {"a": ""})
    ]
    assert found == [True, False, False, True]


def test_a_property_as_a_truth_is_false_or_null() -> None:
    node = as_boolean(NAME)
    assert [evaluated(node), evaluated(node, a="true"), node.is_boolean, node.text] == [None, False, True, "a"]
    assert as_boolean(TRUE) is TRUE


@pytest.mark.parametrize(
    ("token", "value", "kind"),
    [
        ("0", 0, int),
        ("2147483647", (1 << 31) - 1, int),
        ("2147483648", 1 << 31, Long),
        ("5L", 5, int),
        ("9223372036854775807l", (1 << 63) - 1, Long),
        ("0000000000000000000000007", 7, int),
    ],
)
def test_a_whole_number_is_an_integer_up_to_31_bits_and_a_long_above(token: str, value: int, kind: type) -> None:
    node = BUILDER.whole(token)
    assert [node.value, type(node.value), node.text, node.is_constant, node.is_boolean] == [
        value,
        kind,
        token,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BUILDER.whole("9223372036854775808"), "9223372036854775808 does not fit in 64 bits"),
        (lambda: BUILDER.whole("1" * 40), f"{'1' * 40} does not fit in 64 bits"),
        (lambda: BUILDER.whole("1" * 41), f"{'1' * 40}… does not fit in 64 bits"),
        (lambda: BUILDER.fraction("1e999"), "1e999 is too large"),
        (lambda: as_boolean(BUILDER.text("'x'")), "'x' is neither true nor false"),
        (lambda: as_boolean(BUILDER.negate(NAME)), "-a is neither true nor false"),
        (lambda: BUILDER.equal(NAME, NULL), "NULL cannot be compared (use IS NULL)"),
        (lambda: BUILDER.equal(NULL, NAME), "NULL cannot be compared (use IS NULL)"),
        (lambda: BUILDER.equal(TRUE, BUILDER.whole("5")), "TRUE cannot be compared with 5"),
        (
            lambda: BUILDER.less(NAME, TRUE),
            "TRUE cannot be compared by <, <=, >, >= or BETWEEN",
        ),
        (
            lambda: BUILDER.less(BUILDER.text("'x'"), NAME),
            "'x' cannot be compared by <, <=, >, >= or BETWEEN",
        ),
        (
            lambda: BUILDER.greater(BUILDER.is_null(NAME), NAME),
            "a IS NULL cannot be compared by <, <=, >, >= or BETWEEN",
        ),
        (
            lambda: BUILDER.between(NAME, BUILDER.whole("3"), BUILDER.whole("2")),
            "BETWEEN 3 AND 2 is empty: the first must not be the larger one",
        ),
        (lambda: BUILDER.is_in(TRUE, "'x'"), "IN needs a property on its left, not TRUE"),
    ],
)  # fmt: skip
def test_an_expression_without_meaning_is_refused_by_a_sentence(make, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Meaningless) as caught:
        make()
    assert str(caught.value) == sentence


def test_what_the_broker_takes_is_taken() -> None:
    five = BUILDER.whole("5")
    assert [evaluated(BUILDER.equal(*sides)) for sides in ((TRUE, FALSE), (five, five))] == [False, True]
    assert evaluated(BUILDER.equal(NAME, TRUE), a="true") is True
    assert evaluated(BUILDER.less(BUILDER.negate(NAME), five), a="9") is None
    assert evaluated(BUILDER.less(BUILDER.negate(five), five)) is True


def test_the_texts_of_nodes_are_the_expressions() -> None:
    five = BUILDER.whole("5")
    nodes = [
        BUILDER.both(NAME, TRUE),
        BUILDER.either(FALSE, NULL),
        BUILDER.negation(NAME),
        BUILDER.not_equal(NAME, five),
        BUILDER.is_not_null(NAME),
        BUILDER.less(NAME, five),
        BUILDER.is_in(NAME, "'x'"),
        BUILDER.is_not_in(NAME, "'x'"),
        BUILDER.contains(NAME, "'x'"),
    ]
    shown = ["a AND TRUE", "FALSE OR NULL", "NOT a", "a <> 5", "a IS NOT NULL"]
    assert [node.text for node in nodes] == [*shown, "a against 5", "a IN (…)", "a NOT IN (…)", "a with 'x'"]
    assert all(node.is_boolean and not node.is_property and not node.is_constant for node in nodes)
