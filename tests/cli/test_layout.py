"""The width of each column and the folds of each cell, to the column of the terminal."""

from __future__ import annotations

import pytest

from rmqctl.layout import Column, fit_columns, fold, text_width

DAY, TIME = "2026-11-25", "04:05:06.789Z"
ID = "7F0000010012345600000000ABCD0000"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 1, [""]),
        ("four", 4, ["four"]),
        ("four", 3, ["fou", "r"]),
        ("four", 2, ["fo", "ur"]),
        ("four", 1, ["f", "o", "u", "r"]),
        ("two words", 9, ["two words"]),
        ("two words", 8, ["two", "words"]),
        ("two words", 5, ["two", "words"]),
        ("two words", 4, ["two", "word", "s"]),
        ("a b c d", 3, ["a b", "c d"]),
        ("a  b", 3, ["a", "b"]),
        ("a/b/c", 4, ["a/b/", "c"]),
        ("a/b/c", 3, ["a/", "b/c"]),
        ("a,b,c", 2, ["a,", "b,", "c"]),
        ("x abcdefg", 4, ["x", "abcd", "efg"]),
        ("abcdefg x", 4, ["abcd", "efg", "x"]),
        ("abcdefg x", 5, ["abcde", "fg x"]),
        ("水水水", 6, ["水水水"]),
        ("水水水", 5, ["水水", "水"]),
        ("水水水", 3, ["水", "水", "水"]),
        (f"{DAY}T{TIME}", 24, [f"{DAY}T{TIME}"]),
        (f"{DAY}T{TIME}", 23, [f"{DAY}T", TIME]),
        (f"{DAY}T{TIME}", 13, [f"{DAY}T", TIME]),
    ],
)
def test_text_is_cut_at_blanks_slashes_and_commas_and_torn_only_where_it_must(
    text: str, width: int, lines: list[str]
) -> None:
    assert fold(text, width).split("\n") == lines


@pytest.mark.parametrize(
    ("header", "cell", "numeric", "whole", "torn"),
    [
        ("n", "1234567890123", True, 13, 13),
        ("n", "1", True, 1, 1),
        ("a_longer_name", "1", True, 7, 7),
        ("a_longer_name", "x" * 6, False, 7, 7),
        ("x", "x" * 7, False, 7, 7),
        ("", "", False, 0, 0),
        ("x", "x" * 8, False, 8, 8),
        ("x", "x" * 9, False, 8, 8),
        ("file", "x" * 31, False, 30, 30),
        ("topic", "x" * 30, False, 19, 19),
        ("group", "x" * 40, False, 30, 30),
        ("name", "x" * 40, False, 30, 30),
        ("topic", "x" * 18, False, 18, 18),
        ("uniq_key", "k" * 40, False, 40, 40),
        ("backup_id", "2" * 20, False, 20, 20),
        ("change_id", "2" * 20, False, 20, 20),
        ("body", "k" * 40, False, 8, 8),
        ("body", f"{'k' * 40} {ID}", False, 32, 32),
        ("body", f"{'k' * 40} {ID},", False, 33, 33),
        ("body", f"{'k' * 40} {ID[1:]}", False, 8, 8),
        ("body", f"{'k' * 40} {DAY} {ID}", False, 32, 32),
        ("day", f"x {DAY} x", False, 10, 10),
        ("day", f"x {DAY}T04 x", False, 13, 13),
        ("last_ms", f"{DAY}T{TIME}", False, 24, 13),
        ("a_header_of_one_long_word_xxxxxxxxxxxxxxx", f"{DAY}T{TIME}", False, 24, 15),
        ("a_header_of_xxxxxxxxxxxxxxxxxxxxxxxxx", f"{DAY}T{TIME}", False, 25, 25),
    ],
)
def test_a_column_has_a_least_width(header: str, cell: str, numeric: bool, whole: int, torn: int) -> None:
    column = Column(header, [cell, ""], numeric)
    assert (column.least_width(whole_moments=True), column.least_width(whole_moments=False)) == (whole, torn)
    assert column.natural_width() == max(len(header), len(cell))


@pytest.mark.parametrize(
    ("header", "line", "least"),
    [("topic", 38, 19), ("topic", 39, 19), ("topic", 40, 20), ("topic", 80, 35), ("group", 80, 35), ("x", 80, 8)],
)
def test_a_name_is_whole_up_to_half_of_the_line(header: str, line: int, least: int) -> None:
    column = Column(header, ["x" * 35], numeric=False)
    assert column.least_width(whole_moments=True, line=line) == least


def fitted(width: int, *columns: tuple[str, str]) -> list[tuple[str, str]]:
    found = fit_columns([Column(header, [cell], cell.isdigit()) for header, cell in columns], width, 2)
    return [(column.header, column.cells[0]) for column in found]


WORDS = ("topic", "aaaa bbbb cccc dddd")
TWO = (WORDS, ("y", "eeee ffff gggg"))


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (35, list(TWO)),
        (34, [WORDS, ("y", "eeee ffff\ngggg")]),
        (30, [WORDS, ("y", "eeee ffff\ngggg")]),
        (29, [WORDS, ("y", "eeee\nffff\ngggg")]),
        (28, [WORDS]),
        (18, [WORDS]),
    ],
)
def test_the_widest_column_gives_way_first_and_none_below_its_least(width: int, rows: list[tuple[str, str]]) -> None:
    assert fitted(width, *TWO) == rows


@pytest.mark.parametrize(("width", "first"), [(33, 19), (32, 18), (31, 17), (30, 16), (22, 8)])
def test_the_widest_column_gives_way_by_single_letters(width: int, first: int) -> None:
    torn = "\n".join(("x" * 20)[at : at + first] for at in range(0, 20, first))
    number = ("b", "123456789012")
    assert fitted(width, ("a", "x" * 20), number) == [("a", torn), number]


FOUR = (("topic", "1" * 10), ("body", "2" * 10), ("tags", "3" * 10), ("other", "4" * 10))


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (46, ["topic", "body", "tags", "other"]),
        (45, ["topic", "body", "other"]),
        (34, ["topic", "body", "other"]),
        (33, ["topic", "other"]),
        (22, ["topic", "other"]),
        (21, ["topic"]),
        (1, ["topic"]),
    ],
)
def test_a_line_without_room_leaves_out_the_least_wanted_and_never_the_first(width: int, kept: list[str]) -> None:
    assert [header for header, _ in fitted(width, *FOUR)] == kept


@pytest.mark.parametrize(("width", "cell"), [(24, f"{DAY}T{TIME}"), (23, f"{DAY}T\n{TIME}"), (14, f"{DAY}T\n{TIME}")])
def test_a_moment_goes_on_two_lines_where_it_must(width: int, cell: str) -> None:
    assert fitted(width, ("ms", f"{DAY}T{TIME}")) == [("ms", cell)]


@pytest.mark.parametrize(("width", "moment"), [(34, f"{DAY}T{TIME}"), (33, f"{DAY}T\n{TIME}"), (23, f"{DAY}T\n{TIME}")])
def test_a_moment_stays_on_a_line_while_a_text_beside_it_has_room_to_fold(width: int, moment: str) -> None:
    found = fitted(width, ("ms", f"{DAY}T{TIME}"), ("x", "y" * 40))
    assert ([name for name, _ in found], found[0][1]) == (["ms", "x"], moment)


@pytest.mark.parametrize(
    ("header", "lines", "shown"),
    [("body", 3, "a\nb\nc"), ("body", 4, "a\nb\n…"), ("properties", 9, "a\nb\n…"), ("keys", 4, "a\nb\nc\nd")],
)
def test_a_body_has_three_lines(header: str, lines: int, shown: str) -> None:
    cell = "\n".join("abcdefghi"[:lines])
    assert Column(header, [cell], False).folded(40).cells == [shown]


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("水a", 3), ("é", 1), ("e\u0301", 1)])
def test_a_letter_takes_its_columns_of_the_terminal(text: str, width: int) -> None:
    assert text_width(text) == width
