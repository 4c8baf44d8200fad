"""Single values as people see them: what decides is the last word of the JSON name."""

from __future__ import annotations

import pytest

from rmqctl.blocks import _row_height
from rmqctl.show import (
    CELL_LIMIT,
    TimeForm,
    did_you_mean,
    escape_in_json,
    is_number,
    list_some,
    printable,
    show_bytes,
    show_value,
    words,
)

KIB, MIB, GIB, TIB = 1024, 1 << 20, 1 << 30, 1 << 40


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("x", None, "-"),
        ("x", True, "yes"),
        ("x_ms", False, "no"),
        ("x", 0, "0"),
        ("x", 12345, "12345"),
        ("x", 12345.678, "1.235e+04"),
        ("x", 0.5, "0.5"),
        ("x_ms", 1_700_000_000_001, "2023-11-14T22:13:20.001Z"),
        ("delay_ms", 1000, "1000 ms"),
        ("overdue_ms", 1_700_000_000_001, "1700000000001 ms"),
        ("x_bytes", 9999, "9999 B"),
        ("x_bytes_per_s", 10_240, "10.0 KiB/s"),
        ("x_percent", 12.345, "12.35 %"),
        ("x_percent", 7, "7.00 %"),
        ("x", {}, "-"),
        ("x", {"a": 1, "b_bytes": 10_240, "c": None}, "a 1, b_bytes 10.0 KiB, c -"),
        ("x", [], "-"),
        ("x", (), "-"),
        ("x_bytes", [10_240, True, "y"], "10240, yes, y"),
        ("x", "", ""),
        ("x", "a\nb\x1b[1m", "a\\nb\\x1b[1m"),
    ],
)
def test_a_value_is_shown_by_its_kind_and_the_last_word_of_its_name(name: str, value: object, shown: str) -> None:
    assert show_value(name, value) == shown


def test_a_moment_is_a_number_of_milliseconds_where_that_is_asked_for() -> None:
    assert show_value("x_ms", 1_700_000_000_001.0, TimeForm.MS) == "1700000000001"
    assert show_value("x", {"y_ms": 5}, TimeForm.MS) == "y_ms 5"


SENTENCE = "the first (1700000000001 ms) the checkpoint covers (0 ms), 99999999999 ms late"


@pytest.mark.parametrize("name", ["body", "keys", "tags", ""])
def test_a_text_of_the_store_is_shown_as_it_is(name: str) -> None:
    assert show_value(name, SENTENCE) == SENTENCE
    assert show_value(name, [SENTENCE]) == SENTENCE


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        (TimeForm.UTC, "the first (2023-11-14T22:13:20.001Z) the checkpoint covers (0 ms), 99999999999 ms late"),
        (TimeForm.MS, "the first (1700000000001 ms) the checkpoint covers (0 ms), 99999999999 ms late"),
    ],
)
def test_a_moment_in_a_sentence_is_shown_as_others_are_and_a_duration_stays(times: TimeForm, shown: str) -> None:
    for name in ("start_reason", "detail"):
        assert show_value(name, SENTENCE, times) == shown
    assert show_value("warnings", [SENTENCE, SENTENCE], times) == f"{shown}, {shown}"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (9_999, "9999 B"),
        (-9_999, "-9999 B"),
        (10_000, "9.8 KiB"),
        (-10_000, "-9.8 KiB"),
        (1000 * KIB - 1, "1000.0 KiB"),
        (1000 * KIB, "1.0 MiB"),
        (-1000 * KIB, "-1.0 MiB"),
        (1000 * MIB, "1.0 GiB"),
        (1000 * GIB - 1, "1000.0 GiB"),
        (1000 * GIB, "1.0 TiB"),
        (5000 * TIB, "5000.0 TiB"),
    ],
)
def test_bytes_have_the_largest_unit_that_leaves_less_than_1000(size: int, shown: str) -> None:
    assert show_bytes(size) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("message_count", "messages"),
        ("entry_count", "entries"),
        ("flush_count", "flushes"),
        ("half_count", "halves"),
        ("damaged_count", "damaged"),
        ("set_aside_count", "set aside"),
        ("log_end_bytes", "log end"),
        ("store_timestamp_ms", "store timestamp"),
        ("write_bytes_per_s", "write"),
        ("used_percent", "used"),
        ("topic", "topic"),
    ],
)
def test_a_name_is_in_words_without_its_unit(name: str, shown: str) -> None:
    assert words(name) == shown


@pytest.mark.parametrize(("value", "given"), [(1, True), (0.5, True), (True, False), ("1", False), (None, False)])
def test_true_and_text_are_no_numbers(value: object, given: bool) -> None:
    assert is_number(value) is given


@pytest.mark.parametrize(("count", "shown"), [(0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2, …"), (9, "0, 1, 2, …")])
def test_the_first_few_of_many_are_listed(count: int, shown: str) -> None:
    assert list_some(range(count), most=3) == shown
    assert list_some(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7, …"
    assert list_some(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"


def test_the_nearest_name_is_asked_for_in_its_own_letters() -> None:
    assert did_you_mean("TOPICa", ["Other", "TopicA"]) == "; did you mean 'TopicA'?"
    assert did_you_mean("zzz", ["Other", "TopicA"]) == ""


@pytest.mark.parametrize(
    ("length", "shown"), [(CELL_LIMIT - 1, "x" * 199), (CELL_LIMIT, "x" * 200), (CELL_LIMIT + 1, "x" * 199 + "…")]
)
def test_a_cell_of_a_terminal_has_200_characters_at_most(length: int, shown: str) -> None:
    assert printable("x" * length) == shown


def test_a_cut_cell_is_as_long_as_one_that_fits_however_its_characters_are_escaped() -> None:
    assert [printable("\n" * length, 4) for length in (1, 2, 4, 5)] == ["\\n", "\\n\\n", "\\n" * 4, "\\n\\…"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x7f", "a\\u007f"),
        ("a\x80\x9f\xa0", "a\\u0080\\u009f\xa0"),
        ("é\u200e\u2028\u202e\u2066\u2069", "é\\u200e\\u2028\\u202e\\u2066\\u2069"),
        ("\ud800\udfff\ue000", "\\ud800\\udfff\ue000"),
    ],
)
def test_json_escapes_what_a_terminal_may_obey(text: str, shown: str) -> None:
    assert escape_in_json(text) == shown


@pytest.mark.parametrize(
    ("cells", "height"), [((), 1), (("",), 1), (("a", "b"), 1), (("a\nb", "c"), 2), (("a", "b\nc\nd"), 3)]
)
def test_a_row_is_as_high_as_its_highest_cell(cells: tuple[str, ...], height: int) -> None:
    assert _row_height(cells) == height
