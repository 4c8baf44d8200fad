"""The charts of a report: which values are drawn, in which order, and under which names."""

from __future__ import annotations

import re

import pytest

from rmqctl.report.charts import MOST_BARS, MOST_COLUMNS, _short, bars, columns, plain_number


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_bars_show_their_names_and_values_the_first_on_top() -> None:
    svg = str(bars([("first", 1234.0), ("se<cond", 5.0)], "Bytes by topic"))
    heights = {name: float(re.search(rf'y="([\d.]+)"[^>]*>{name}<', svg)[1]) for name in ("first", "se&lt;cond")}  # type: ignore[index]
    assert heights["first"] < heights["se&lt;cond"]
    assert [text for text in texts(svg) if text in ("1,234", "5")] == ["5", "1,234"]
    assert "<title>Bytes by topic</title>" in svg
    assert "<script" not in svg
    assert 'viewBox="0 0 900 102"' in svg


@pytest.mark.parametrize("count", [1, MOST_BARS, MOST_BARS + 1])
def test_no_more_bars_are_drawn_than_fit(count: int) -> None:
    svg = str(bars([(f"name-{number:02d}", 1.0) for number in range(count)], "x"))
    assert sorted(text for text in texts(svg) if text.startswith("name")) == [
        f"name-{number:02d}" for number in range(min(count, MOST_BARS))
    ]


def test_a_chart_of_nothing_is_drawn() -> None:
    assert "No data" in str(bars([], "x"))
    assert "No data" in str(columns([], "x"))


@pytest.mark.parametrize(
    ("count", "sums"),
    [
        (1, [1.0]),
        (MOST_COLUMNS, [1.0] * MOST_COLUMNS),
        (MOST_COLUMNS + 1, [2.0] * (MOST_COLUMNS // 2) + [1.0]),
        (2 * MOST_COLUMNS, [2.0] * MOST_COLUMNS),
        (2 * MOST_COLUMNS + 1, [3.0] * (2 * MOST_COLUMNS // 3) + [1.0]),
    ],
)
def test_columns_are_summed_to_no_more_than_fit(count: int, sums: list[float]) -> None:
    svg = str(columns([(f"d{number}", 1.0) for number in range(count)], "x"))
    values = re.findall(r'<desc class="value">([^<]*)</desc>', svg)
    assert values == [plain_number(value) for value in sums]


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, [0]), (8, list(range(8))), (15, list(range(15))), (16, list(range(0, 16, 2))), (24, list(range(0, 24, 3)))],
)
def test_every_eighth_of_the_columns_has_its_name(count: int, named: list[int]) -> None:
    svg = str(columns([(f"d{number}", 1.0) for number in range(count)], "x"))
    assert [text for text in texts(svg) if text.startswith("d")] == [f"d{number}" for number in named]


def test_two_charts_of_the_same_values_are_the_same() -> None:
    assert bars([("a", 1.0)], "One Title") == bars([("a", 1.0)], "One Title")
    assert "chart-one-title" in bars([("a", 1.0)], "One Title")


@pytest.mark.parametrize(("name", "shown"), [("x" * 36, "x" * 36), ("x" * 37, "x" * 35 + "…"), ("", "")])
def test_a_long_name_is_cut(name: str, shown: str) -> None:
    assert _short(name) == shown


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1234.4, "1,234"), (1e6, "1,000,000")])
def test_a_value_is_a_whole_number_with_commas(value: float, text: str) -> None:
    assert plain_number(value) == text
