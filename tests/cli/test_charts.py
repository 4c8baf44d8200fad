"""The charts of a report: which values are drawn on each kind of screen, in which order, and under which names."""

from __future__ import annotations

import re

import pytest

from rmqctl.report.charts import MOST_BARS, SCREENS, Screen, _short, bars, columns, plain_number


def drawings(page: object) -> list[str]:
    """The drawing for each kind of screen."""
    parts = re.split(r'<div class="(wide|phone)">', str(page))
    assert parts[1::2] == ["wide", "phone"]
    return parts[2::2]


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_bars_show_their_names_and_values_the_first_on_top() -> None:
    for svg, width in zip(
        drawings(bars([("first", 1234.0), ("se<cond", 5.0)], "Bytes by topic")), (900, 360), strict=True
    ):
        first, second = (re.search(rf'y="([\d.]+)"[^>]*>{name}<', svg) for name in ("first", "se&lt;cond"))
        assert first is not None
        assert second is not None
        assert float(first[1]) < float(second[1])
        assert [text for text in texts(svg) if text in ("1,234", "5")] == ["5", "1,234"]
        assert "<title>Bytes by topic</title>" in svg
        assert "<script" not in svg
        assert f'viewBox="0 0 {width} 102"' in svg


@pytest.mark.parametrize("count", [1, MOST_BARS, MOST_BARS + 1])
def test_no_more_bars_are_drawn_than_fit(count: int) -> None:
    for svg in drawings(bars([(f"name-{number:02d}", 1.0) for number in range(count)], "x")):
        assert sorted(text for text in texts(svg) if text.startswith("name")) == [
            f"name-{number:02d}" for number in range(min(count, MOST_BARS))
        ]


def test_a_chart_of_nothing_is_drawn() -> None:
    assert str(bars([], "x")).count("No data") == str(columns([], "x")).count("No data") == 2


def test_a_chart_of_one_series_has_no_legend() -> None:
    for svg in (*drawings(bars([("a", 1.0)], "Title")), *drawings(columns([("a", 1.0)], "Title"))):
        assert "Title" not in texts(svg)


def sums_of(count: int, most: int) -> list[float]:
    """The sums of so many ones, in as few equal steps as there is room for."""
    step = next(step for step in range(1, count + 1) if (count + step - 1) // step <= most)
    return [float(min(step, count - at)) for at in range(0, count, step)]


@pytest.mark.parametrize("count", [1, 40, 41, 80, 81, 120, 121, 240, 241])
def test_columns_are_summed_to_no_more_than_fit(count: int) -> None:
    page = columns([(f"d{number}", 1.0) for number in range(count)], "x")
    for svg, screen in zip(drawings(page), SCREENS, strict=True):
        values = re.findall(r'<desc class="value">([^<]*)</desc>', svg)
        assert values == [plain_number(value) for value in sums_of(count, screen.columns)]


@pytest.mark.parametrize(
    ("count", "wide", "phone"),
    [(1, 1, 1), (7, 1, 1), (8, 1, 2), (15, 1, 3), (16, 2, 4), (24, 3, 6)],
)
def test_some_of_the_columns_have_their_names(count: int, wide: int, phone: int) -> None:
    page = columns([(f"d{number}", 1.0) for number in range(count)], "x")
    for svg, every in zip(drawings(page), (wide, phone), strict=True):
        named = [f"d{number}" for number in range(0, count, every)]
        assert [text for text in texts(svg) if text.startswith("d")] == named


def test_two_charts_of_the_same_values_are_the_same() -> None:
    page = bars([("a", 1.0)], "One Title")
    assert page == bars([("a", 1.0)], "One Title")
    assert "wide-one-title" in page
    assert "phone-one-title" in page


@pytest.mark.parametrize(
    ("name", "most", "shown"), [("x" * 36, 36, "x" * 36), ("x" * 37, 36, "x" * 35 + "…"), ("", 16, ""), ("ab", 1, "…")]
)
def test_a_long_name_is_cut(name: str, most: int, shown: str) -> None:
    assert _short(name, most) == shown


def test_each_screen_has_its_room() -> None:
    assert (Screen("wide", 900, 36, 1.12, 120, 8, 25), Screen("phone", 360, 16, 1.5, 40, 4, 60)) == SCREENS
    assert MOST_BARS == 20


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1234.4, "1,234"), (1e6, "1,000,000")])
def test_a_value_is_a_whole_number_with_commas(value: float, text: str) -> None:
    assert plain_number(value) == text


def test_bars_are_as_long_as_their_values_and_leave_room_for_the_largest_number() -> None:
    for svg, width in zip(drawings(bars([("least", 10.0), ("most", 1000.0)], "x")), (900, 360), strict=True):
        most, least = (float(one) for one in re.findall(r'<rect x="[^>]* width="([\d.]+)"[^>]*class="rect', svg))
        assert most == pytest.approx(100 * least)
        assert width / 3 < most < width * 0.8
