"""Results for programs: JSON, JSON lines, CSV, metrics.

Values are written unchanged, and rows of JSON lines and CSV as soon as a command yields them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TextIO

from rmqctl.result import Facts, Result, Row, RowBlock
from rmqctl.show import escape_controls, escape_in_json, is_number

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
MOST_IN_MEMORY = 32 << 20
"""Characters of an unfinished JSON document in memory; a larger one waits in a temporary file."""


def render_json(result: Result, stream: TextIO) -> None:
    """Write one whole document, or none if a row cannot be read.

    Facts come first, unless they are known only after the rows. A large document waits in a temporary file.
    """
    # Imported here: other forms use this module too, and need no temporary file.
    import tempfile

    with tempfile.SpooledTemporaryFile(MOST_IN_MEMORY, "w+", encoding="utf-8", newline="") as document:
        for part in _document(result, lambda value: json_for(stream, value)):
            document.write(part)
        document.seek(0)
        shutil.copyfileobj(document, stream)


def _document(result: Result, to_text: Callable[[object], str]) -> Iterator[str]:
    yield f'{{\n  "schema": {json.dumps(result.schema)}'
    if not callable(result.facts):
        yield from _facts(result.facts, to_text)
    for table in result.tables:
        yield f",\n  {json.dumps(table.name)}: ["
        number = -1
        for number, row in enumerate(table.read_blocks()):
            text = _json_lines(row, to_text, before=",\n    ")
            yield text if number else text.removeprefix(",")
        yield "\n  ]" if number >= 0 else "]"
    if callable(result.facts):
        yield from _facts(result.read_facts(), to_text)
    yield "\n}\n"


def _facts(facts: Facts, to_text: Callable[[object], str]) -> Iterator[str]:
    for name, value in facts.items():
        yield f",\n  {json.dumps(name)}: {to_text(value)}"


def render_jsonl(result: Result, stream: TextIO) -> None:
    """Write the rows of the main list, one a line, each as soon as it is read."""
    for row in _main_rows(result):
        stream.write(_json_lines(row, lambda value: json_for(stream, value), behind="\n"))
        stream.flush()


def _main_rows(result: Result) -> Iterable[Row | RowBlock | str]:
    """Return the first table's rows; for a summary one row of everything."""
    if result.tables and not result.is_summary:
        return result.tables[0].read_blocks()
    return [{**result.read_facts(), **{table.name: list(table.rows) for table in result.tables}}]


def render_csv(result: Result, stream: TextIO) -> None:
    """Write the main list by RFC 4180 with a heading; no cell can drive a spreadsheet or a terminal."""
    rows = (row for rows in _main_rows(result) for row in (_parsed(rows) if isinstance(rows, str) else [rows]))
    first = next(rows, None)
    head = first.columns if isinstance(first, RowBlock) else first
    names = [] if result.is_summary or not result.tables else list(result.tables[0].names)
    names = names or list(head if head is not None else result.tables[0].read_columns())
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow([_safe_cell(name) for name in names])
    for row in itertools.chain([first] if first is not None else [], rows):
        if isinstance(row, RowBlock):
            stream.write(_csv_lines(row, names))
        else:
            writer.writerow([_csv_cell(row.get(name)) for name in names])


def render_prometheus(result: Result, stream: TextIO) -> None:
    """Write numbers as gauges in the text format of Prometheus.

    Facts have no labels. Rows of the first table have the result's labels, and are left out without any. The node
    exporter reads the text from a file (textfile collector).
    """
    # Facts may be known only after the rows.
    tables = [list(table.rows) for table in result.tables]
    rows = tables[0] if tables and result.labels else []
    prefix = "rmqctl_" + re.sub(r"\W", "_", result.command)
    for name, value in result.read_facts().items():
        _write_gauges(stream, f"{prefix}_{name}", [("", value)])
    for name in dict.fromkeys(name for row in rows for name in row if name not in result.labels):
        _write_gauges(stream, f"{prefix}_{name}", [(_labels(row, result.labels), row.get(name)) for row in rows])


def _write_gauges(stream: TextIO, name: str, values: Iterable[tuple[str, object]]) -> None:
    numbers = [(labels, value) for labels, value in values if is_number(value) or isinstance(value, bool)]
    if numbers:
        stream.write(f"# TYPE {name} gauge\n")
        stream.writelines(
            f"{name}{labels} {value:d}\n" if isinstance(value, int) else f"{name}{labels} {value}\n"
            for labels, value in numbers
        )


def _labels(row: Row, names: Sequence[str]) -> str:
    parts = (f'{name}="{_label(row[name])}"' for name in names if row.get(name) is not None)
    return "{" + ",".join(parts) + "}"


def _label(value: object) -> str:
    return escape_controls(str(value).replace("\\", "\\\\")).replace('"', '\\"')


def _json_lines(row: Row | RowBlock | str, to_text: Callable[[object], str], before: str = "", behind: str = "") -> str:
    """Return the JSON of a row, or of each row of a block, each between the texts `before` and `behind`."""
    if isinstance(row, str):
        return before + row[:-1].replace("\n", behind + before) + behind
    if not isinstance(row, RowBlock):
        return f"{before}{to_text(row)}{behind}"
    members = (f"{_literal(json.dumps(name))}: {_place(one, to_text)}" for name, one in row.columns.items())
    return _filled(f"{before}{{{', '.join(members)}}}{behind}", row)


def _parsed(lines: str) -> Iterator[Row]:
    import orjson

    return map(orjson.loads, lines[:-1].split("\n"))


def _csv_lines(block: RowBlock, names: Sequence[str]) -> str:
    def to_text(value: object) -> str:
        cell = io.StringIO()
        # A second cell, because a line of one empty cell is quoted.
        csv.writer(cell, lineterminator="").writerow([_csv_cell(value), ""])
        return cell.getvalue().removesuffix(",")

    cells = (_place(block.columns.get(name), to_text) for name in names)
    return _filled(",".join(cells) + "\r\n", block, names)


def _place(value: Any, to_text: Callable[[object], str]) -> str:
    """Return the part of a row's template for a column: %d for numbers, else the shared value."""
    return "%d" if hasattr(value, "dtype") else _literal(to_text(value))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _filled(template: str, block: RowBlock, names: Sequence[str] = ()) -> str:
    """Return the template filled for all rows at once: faster than row by row."""
    columns: Iterator[Any] = (block.columns.get(name) for name in (names or block.columns))
    numbers = [one.tolist() for one in columns if hasattr(one, "dtype")]
    return template * block.count % tuple(itertools.chain.from_iterable(zip(*numbers, strict=True)))


def _safe_cell(cell: Any) -> Any:
    """Return a text with escaped controls, and an apostrophe if a spreadsheet would take it as a formula."""
    if not isinstance(cell, str):
        return cell
    text = escape_controls(cell, "\n")
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and _NUMBER.fullmatch(text) is None else text


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _safe_cell(to_json(value) if isinstance(value, (list, tuple, Mapping)) else value)


def json_for(stream: TextIO, value: object, *, indent: int | None = None) -> str:
    """Return JSON that `stream` can encode: escaped unless the stream is UTF-8."""
    return to_json(value, ascii_only=not is_utf8(getattr(stream, "encoding", None) or "utf-8"), indent=indent)


def is_utf8(encoding: str) -> bool:
    """Return whether the encoding is UTF-8."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def to_json(value: object, *, ascii_only: bool = False, indent: int | None = None) -> str:
    """Return JSON, compact on one line unless `indent`ed."""
    return escape_in_json(_encoder(ascii_only, indent).encode(value))


@cache
def _encoder(ascii_only: bool, indent: int | None) -> json.JSONEncoder:
    # json.dumps would create an encoder for each row.
    return json.JSONEncoder(ensure_ascii=ascii_only, indent=indent, default=str)
