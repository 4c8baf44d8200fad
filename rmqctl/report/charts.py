"""Charts of the report: inline SVG by pygal, in the colours of the page, without a script.

Each chart is drawn twice, for wide screens and paper and for phones; the page's styles show one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from rmqctl.show import escape_controls

HEIGHT_PER_BAR, LEAST_HEIGHT = 26, 50
MOST_BARS = 20
_SCRIPT = re.compile(r"<script.*?</script>", re.S)
# pygal gives each chart a random id; it is replaced, so that two reports of a store are the same.
_RANDOM_ID = re.compile(r"chart-[0-9a-f-]{36}")
# A browser shows a title as a tooltip. pygal's title of a label is only the label's number in the chart.
_PLACE_TITLE = re.compile(r"(</text>)<title>[^<]*</title>")

Show = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Screen:
    """A kind of screen: its name in the styles, and the room on it.

    width    of the chart, in units of a letter's height of 12
    letters  of a bar's name
    beyond   room for values past the ends of the bars, as a factor of the longest
    columns  upright columns; more are summed
    labels   below the columns
    turn     of these labels, in degrees
    """

    name: str
    width: int
    letters: int
    beyond: float
    columns: int
    labels: int
    turn: int


SCREENS = (Screen("wide", 900, 36, 1.12, 120, 8, 25), Screen("phone", 360, 16, 1.5, 40, 4, 60))


def plain_number(value: float) -> str:
    """Return a whole number with commas."""
    return f"{value:,.0f}"


def bars(values: Sequence[tuple[str, float]], title: str, show: Show = plain_number) -> Markup:
    """Draw horizontal bars, the first one on top; at most MOST_BARS."""
    return Markup("").join(_bars(list(values)[:MOST_BARS], title, show, screen) for screen in SCREENS)


def _bars(shown: Sequence[tuple[str, float]], title: str, show: Show, screen: Screen) -> Markup:
    import pygal

    chart = pygal.HorizontalBar(
        height=LEAST_HEIGHT + HEIGHT_PER_BAR * len(shown),
        show_legend=False,
        show_x_labels=False,
        print_values=True,
        print_values_position="top",
        range=(0, max(1, screen.beyond * max((value for _, value in shown), default=0))),
        **_options(show, screen),
    )
    chart.x_labels = [_short(escape_controls(name), screen.letters) for name, _ in reversed(shown)]
    chart.add(title, [value for _, value in reversed(shown)])
    return _inline(chart, title, screen)


def columns(values: Sequence[tuple[str, float]], title: str) -> Markup:
    """Draw upright columns in the order of time; more than the screen has room for are summed to fewer."""
    return Markup("").join(_columns(values, title, screen) for screen in SCREENS)


def _columns(values: Sequence[tuple[str, float]], title: str, screen: Screen) -> Markup:
    import pygal

    step = -(-len(values) // screen.columns) or 1
    joined = [(values[at][0], sum(value for _, value in values[at : at + step])) for at in range(0, len(values), step)]
    every = max(1, len(joined) // screen.labels)
    chart = pygal.Bar(
        height=320,
        show_legend=False,
        x_label_rotation=screen.turn,
        show_minor_x_labels=False,
        spacing=10,
        **_options(plain_number, screen),
    )
    chart.x_labels = [name for name, _ in joined]
    chart.x_labels_major = [name for name, _ in joined][::every]
    chart.add(title, [value for _, value in joined])
    return _inline(chart, title, screen)


def _options(show: Show, screen: Screen) -> dict[str, Any]:
    from pygal.style import Style

    style = Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--text)",
        foreground_strong="var(--text)",
        foreground_subtle="var(--faint)",
        colors=("var(--bar)",),
        value_colors=("var(--text)",),
        guide_stroke_color="var(--line)",
        major_guide_stroke_color="var(--line)",
        font_family="inherit",
        opacity="1",
        opacity_hover="1",
        label_font_size=12,
        major_label_font_size=12,
        value_font_size=12,
    )
    return {
        "style": style,
        "js": (),
        "width": screen.width,
        "disable_xml_declaration": True,
        "explicit_size": False,
        "formatter": show,
        "value_formatter": show,
        "margin": 10,
    }


def _inline(chart: Any, title: str, screen: Screen) -> Markup:
    name = f"{screen.name}-{re.sub('[^a-z]+', '-', title.lower())}"
    svg = _PLACE_TITLE.sub(r"\1", _SCRIPT.sub("", _RANDOM_ID.sub(name, chart.render(is_unicode=True))))
    svg = svg.replace("<title>Pygal</title>", f"<title>{escape(title)}</title>")
    return Markup(f'<div class="{screen.name}">{svg}</div>')


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
