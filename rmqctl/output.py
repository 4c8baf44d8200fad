"""The renderer of a Result in each form of --format."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rmqctl.blocks import Look
    from rmqctl.result import Result


class Format(StrEnum):
    """Values of --format."""

    AUTO = "auto"
    TABLE = "table"
    PLAIN = "plain"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PROMETHEUS = "prometheus"

    @property
    def is_for_programs(self) -> bool:
        return self in (Format.CSV, Format.JSON, Format.JSONL, Format.PROMETHEUS)


def render(result: Result, form: Format, stream: TextIO, look: Look | None = None) -> None:
    """Print `result` in `form` (not AUTO) to `stream`; `look` is for the forms for people."""
    if form.is_for_programs:
        from rmqctl import programs

        writers = {
            Format.JSON: programs.render_json,
            Format.JSONL: programs.render_jsonl,
            Format.CSV: programs.render_csv,
            Format.PROMETHEUS: programs.render_prometheus,
        }
        writers[form](result, stream)
        return
    from rmqctl import tables
    from rmqctl.blocks import Look

    painters = {
        Format.TABLE: tables.render_rich,
        Format.PLAIN: tables.render_plain,
        Format.MARKDOWN: tables.render_markdown,
    }
    painters[form](result, stream, look or Look())
