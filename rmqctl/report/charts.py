"""Charts of the report: inline SVG by pygal, in the colours of the page, without a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup, escape

from rmqctl.show import escape_controls

HEIGHT_PER_BAR, LEAST_HEIGHT, CHART_WIDTH = 26, 50, 900
ROOM_FOR_VALUE = 1.12
"""Room past the longest bar for its value, as a factor: values stand past the bars' ends."""
MOST_BARS, MOST_COLUMNS = 20, 120
_SCRIPT = re.compile(r"<script.*?</script>", re.S)
# pygal gives each chart a random id; it is replaced, so that two reports of a store are the same.
_RANDOM_ID = re.compile(r"chart-[0-9a-f-]{36}")
# A browser shows a title as a tooltip. pygal's title of a label is only the label's number in the chart.
_PLACE_TITLE = re.compile(r"(</text>)<title>[^<]*</title>")

Show = Callable[[float], str]


def plain_number(value: float) -> str:
    """Return a whole number with commas."""
    return f"{value:,.0f}"


def bars(values: Sequence[tuple[str, float]], title: str, show: Show = plain_number) -> Markup:
    """Draw horizontal bars, the first one on top; at most MOST_BARS."""
    import pygal

    shown = list(values)[:MOST_BARS]
    chart = pygal.HorizontalBar(
        height=LEAST_HEIGHT + HEIGHT_PER_BAR * len(shown),
        show_legend=False,
        show_x_labels=False,
        print_values=True,
        print_values_position="top",
        range=(0, max(1, ROOM_FOR_VALUE * max((value for _, value in shown), default=0))),
        **_options(show),
    )
    chart.x_labels = [_short(escape_controls(name)) for name, _ in reversed(shown)]
    chart.add(title, [value for _, value in reversed(shown)])
    return _inline(chart, title)


def columns(values: Sequence[tuple[str, float]], title: str) -> Markup:
    """Draw upright columns in the order of time; more than MOST_COLUMNS are summed to fewer."""
    import pygal

    step = -(-len(values) // MOST_COLUMNS) or 1
    joined = [(values[at][0], sum(value for _, value in values[at : at + step])) for at in range(0, len(values), step)]
    every = max(1, len(joined) // 8)
    chart = pygal.Bar(
        height=320,
        show_legend=False,
        x_label_rotation=25,
        show_minor_x_labels=False,
        spacing=10,
        **_options(plain_number),
    )
    chart.x_labels = [name for name, _ in joined]
    chart.x_labels_major = [name for name, _ in joined][::every]
    chart.add(title, [value for _, value in joined])
    return _inline(chart, title)


def _options(show: Show) -> dict[str, Any]:
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
        "width": CHART_WIDTH,
        "disable_xml_declaration": True,
        "explicit_size": False,
        "formatter": show,
        "value_formatter": show,
        "margin": 10,
    }


def _inline(chart: Any, title: str) -> Markup:
    svg = _RANDOM_ID.sub(f"chart-{re.sub('[^a-z]+', '-', title.lower())}", chart.render(is_unicode=True))
    svg = _PLACE_TITLE.sub(r"\1", _SCRIPT.sub("", svg))
    return Markup(svg.replace("<title>Pygal</title>", f"<title>{escape(title)}</title>"))


def _short(name: str, most: int = 36) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
