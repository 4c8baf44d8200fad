"""The one renderer: a Result as a Rich table, plain text, Markdown, CSV, JSON or JSON lines.

People see moments as ISO 8601, bytes with a unit and text without control characters (a message body must not be able
to drive the terminal). Programs get the numbers and texts themselves.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TextIO

from rmqctl.result import Facts, Result, Row, Table
from rmqctl.times import show_time

CELL_LIMIT = 200
"""Characters of one cell that people see; programs get all of it."""


class Format(StrEnum):
    """Values of --format."""

    AUTO = "auto"
    TABLE = "table"
    PLAIN = "plain"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"

    @property
    def is_for_programs(self) -> bool:
        return self in (Format.CSV, Format.JSON, Format.JSONL)


def render(result: Result, form: Format, stream: TextIO, *, width: int = 80, color: bool = False) -> None:
    """Prints `result` in `form` (not AUTO) to `stream`."""
    if form is Format.TABLE:
        _render_rich(result, stream, width, color)
        return
    printers: dict[Format, Callable[[Result, TextIO], None]] = {
        Format.PLAIN: _render_plain,
        Format.MARKDOWN: _render_markdown,
        Format.CSV: _render_csv,
        Format.JSON: _render_json,
        Format.JSONL: _render_jsonl,
    }
    printers[form](result, stream)


# For programs.


def _render_json(result: Result, stream: TextIO) -> None:
    """One document; rows are written as they come. Facts stand first where they are known before the rows."""
    stream.write(f'{{\n  "schema": {json.dumps(result.schema)}')
    if not callable(result.facts):
        _write_facts(result.facts, stream)
    for table in result.tables:
        stream.write(f",\n  {json.dumps(table.name)}: [")
        for number, row in enumerate(table.rows):
            stream.write(f"{',' if number else ''}\n    {to_json(row)}")
        stream.write("\n  ]" if table.rows else "]")
    if callable(result.facts):
        _write_facts(result.read_facts(), stream)
    stream.write("\n}\n")


def _write_facts(facts: Facts, stream: TextIO) -> None:
    for name, value in facts.items():
        stream.write(f",\n  {json.dumps(name)}: {to_json(value)}")


def _render_jsonl(result: Result, stream: TextIO) -> None:
    rows: Iterable[Row] = result.tables[0].rows if result.tables else [result.read_facts()]
    for row in rows:
        stream.write(to_json(row) + "\n")
        stream.flush()


def _render_csv(result: Result, stream: TextIO) -> None:
    rows = iter(result.tables[0].rows if result.tables else [result.read_facts()])
    first = next(rows, None)
    names = list(first) if first is not None else list(result.tables[0].columns or ())
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in itertools.chain([first] if first is not None else [], rows):
        writer.writerow([_csv_cell(row.get(name)) for name in names])


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return to_json(value) if isinstance(value, (list, tuple, Mapping)) else value


def to_json(value: Any) -> str:
    """Compact JSON on one line; text stays readable."""
    return json.dumps(value, ensure_ascii=False, default=str, separators=(", ", ": "))


# For people.


def _render_plain(result: Result, stream: TextIO) -> None:
    _render_tabulate(result, stream, "simple", lambda name: f"{name}:")


def _render_markdown(result: Result, stream: TextIO) -> None:
    _render_tabulate(result, stream, "pipe", lambda name: f"**{name}**\n")


def _render_tabulate(result: Result, stream: TextIO, style: str, heading: Callable[[str], str]) -> None:
    from tabulate import tabulate

    for block in _blocks(result):
        stream.write(block.lead)
        if block.title:
            stream.write(heading(block.title) + "\n")
        if not block.rows:
            stream.write(f"no {block.noun}\n")
            continue
        cells = [[_pipe_safe(cell) if style == "pipe" else cell for cell in row] for row in block.rows]
        align = ["right" if number else "left" for number in block.numeric]
        # Facts have no headings; Markdown knows no table without them.
        headers = block.headers or (["", ""] if style == "pipe" else ())
        shape = style if headers else "plain"
        stream.write(tabulate(cells, headers, shape, disable_numparse=True, colalign=align).rstrip() + "\n")


def _pipe_safe(cell: str) -> str:
    return cell.replace("|", "\\|")


def _render_rich(result: Result, stream: TextIO, width: int, color: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream, force_terminal=color, no_color=not color, highlight=False)
    for block in _blocks(result):
        stream.write(block.lead)
        if block.headers and not block.rows:
            console.print(Text(f"no {block.noun}"))
            continue
        _narrow(block, width)
        table = RichTable(
            title=Text(block.title) if block.title else None,
            title_justify="left",
            box=box.SIMPLE_HEAD if block.headers else None,
            show_header=bool(block.headers),
            pad_edge=False,
        )
        least = _least_widths(block)
        for header, number, whole, fewest in zip(
            block.headers or ["", ""], block.numeric, _kept_whole(block), least, strict=True
        ):
            align: Literal["left", "right"] = "right" if number else "left"
            table.add_column(header, justify=align, no_wrap=whole, overflow="fold", min_width=fewest)
        for row in block.rows:
            table.add_row(*(Text(cell, style=_style_of(cell)) for cell in row))
        # What is cut short is wrong: rather is the table wider than the terminal.
        console.width = max(width, _table_width(least))
        console.print(table)


def _narrow(block: _Block, width: int) -> None:
    """For a narrow terminal: a long path goes on two lines, and a moment too where the columns need the room."""
    headers = block.headers or ["", ""]
    block.rows = [
        ["/\n".join(cell.rsplit("/", 1)) if _is_long_path(header, cell, width) else cell for header, cell in pairs]
        for pairs in (zip(headers, row, strict=True) for row in block.rows)
    ]
    if _table_width(_least_widths(block)) > width:
        block.rows = [[_MOMENT.sub("\\1\n\\2", cell) for cell in row] for row in block.rows]


def _is_long_path(header: str, cell: str, width: int) -> bool:
    return header == "file" and len(cell) > width // 3


def _kept_whole(block: _Block) -> list[bool]:
    """Which columns are not wrapped: numbers, and names one may want to copy, if they leave room for the rest."""
    return [
        number or (header in _NAMES and longest <= _LONGEST_WHOLE_NAME)
        for header, number, longest in zip(block.headers or ["", ""], block.numeric, _longest_lines(block), strict=True)
    ]


def _least_widths(block: _Block) -> list[int]:
    """Characters that each column needs at least."""
    return [
        max(len(header), longest) if whole else min(longest, _LEAST_WIDTHS.get(header, 8))
        for header, whole, longest in zip(
            block.headers or ["", ""], _kept_whole(block), _longest_lines(block), strict=True
        )
    ]


def _table_width(columns: Sequence[int]) -> int:
    """Characters of a whole line: blanks around each column, and one between two."""
    return sum(columns) + 3 * len(columns)


def _longest_lines(block: _Block) -> list[int]:
    """Characters of each column's longest line, not counting its heading."""
    columns = list(zip(*block.rows, strict=True)) or [()] * len(block.numeric)
    return [max((len(line) for cell in cells for line in cell.split("\n")), default=0) for cells in columns]


_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\dT)(\d\d:\d\d:\d\d\.\d{3}Z)$")
_LEAST_WIDTHS = {"file": 21, "topic": 16}
"""So that a segment's name is never torn, and a topic can be told."""
_NAMES = ("id", "msg id")
_LONGEST_WHOLE_NAME = 32


def _style_of(cell: str) -> str:
    return _STYLES.get(cell, "")


_STYLES = {
    "FOUND": "green",
    "PUT_OK": "green",
    "ok": "green",
    "keep": "green",
    "remove": "red",
    "cut": "red",
    "delete": "red",
    "write": "yellow",
    "patch": "yellow",
}


class _Block:
    """Facts or a table as text cells."""

    def __init__(
        self,
        headers: Sequence[str],
        rows: list[list[str]],
        numeric: list[bool],
        *,
        noun: str = "",
        title: str = "",
        lead: str = "",
    ) -> None:
        self.headers, self.rows, self.numeric = headers, rows, numeric
        self.noun, self.title, self.lead = noun, title, lead


def _blocks(result: Result) -> Iterator[_Block]:
    """Facts first, then each table; a title only where there is more than one table."""
    tables = [_table_block(table, len(result.tables) > 1) for table in result.tables]
    facts = {name: value for name, value in result.read_facts().items() if value is not None}
    blocks = []
    if facts:
        rows = [[_words(name), show_value(name, value)] for name, value in facts.items()]
        blocks.append(_Block([], rows, [False, False]))
    blocks += tables
    for number, block in enumerate(blocks):
        block.lead = "\n" if number else ""
        yield block


def _table_block(table: Table, with_title: bool) -> _Block:
    rows = list(table.rows)
    columns = list(table.columns or (rows[0].keys() if rows else ()))
    noun = _words(table.name)
    numeric = [any(_is_number(row.get(column)) for row in rows) for column in columns]
    cells = [[show_value(column, row.get(column)) for column in columns] for row in rows]
    return _Block([_words(c) for c in columns], cells, numeric, noun=noun, title=noun if with_title else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(name: str) -> str:
    """A JSON name as people read it: the unit is in the value, not in the heading."""
    for unit in ("_ms", "_bytes", "_bytes_per_s", "_percent"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def show_value(name: str, value: Any) -> str:
    """One value as people see it; the name's last word decides how."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value):
        if name.endswith("_ms"):
            return show_time(int(value))
        if name.endswith("bytes_per_s"):
            return f"{show_bytes(value)}/s"
        if name.endswith("bytes"):
            return show_bytes(value)
        if name.endswith("_percent"):
            return f"{value:.2f} %"
        return str(value) if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, Mapping):
        return printable(", ".join(f"{key} {show_value(key, item)}" for key, item in value.items())) or "-"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(show_value("", item) for item in value)) or "-"
    return printable(str(value))


def show_bytes(size: float) -> str:
    """Bytes with a binary unit; the exact number up to 9,999."""
    if abs(size) < 10_000:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if abs(size) < 1000 or unit == "TiB":
            break
    return f"{size:.1f} {unit}"


def printable(text: str) -> str:
    """`text` on one line, with control characters escaped, cut to what people will read."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: CELL_LIMIT + 1])
    return shown if len(text) <= CELL_LIMIT else shown[: CELL_LIMIT - 1] + "…"
