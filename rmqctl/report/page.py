"""The page: one HTML file with its styles, its script and its charts, without any request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.report.contents import Section, show_cell
from rmqctl.show import escape_controls, words


def make_page(title: str, verdict: str, rank: int, facts: Mapping[str, object], sections: Sequence[Section]) -> str:
    """Return the page's HTML. `rank` colours the verdict: 0 is sound, 1 the worst."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rmqctl", "templates"),
        autoescape=True,
        finalize=_without_controls,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = [(words(name), show_cell(name, value)) for name, value in facts.items()]
    template = environment.get_template("report.html.j2")
    return template.render(title=title, verdict=verdict, rank=rank, facts=shown, sections=sections)


def _without_controls(value: object) -> object:
    """Escape the control characters of a text; charts are marked up already."""
    from markupsafe import Markup

    return escape_controls(value, keep="\n") if isinstance(value, str) and not isinstance(value, Markup) else value
