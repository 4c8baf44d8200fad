"""Results for programs: JSON, JSON lines, CSV.

Numbers and texts are given as they are, rows as they come.
"""

from __future__ import annotations

import csv
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

from rmqctl.result import Facts, Result, Row
from rmqctl.show import escape_controls, escape_in_json

MOST_IN_MEMORY = 32 << 20
"""Characters of a JSON document that is not written yet."""


def render_json(result: Result, stream: TextIO) -> None:
    """One whole document, or none where a row cannot be read. Facts known before the rows stand first.

    A large document waits in a temporary file until it is whole.
    """
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
        for number, row in enumerate(table.rows):
            yield f"{',' if number else ''}\n    {to_text(row)}"
        yield "\n  ]" if number >= 0 else "]"
    if callable(result.facts):
        yield from _facts(result.read_facts(), to_text)
    yield "\n}\n"


def _facts(facts: Facts, to_text: Callable[[object], str]) -> Iterator[str]:
    for name, value in facts.items():
        yield f",\n  {json.dumps(name)}: {to_text(value)}"


def render_jsonl(result: Result, stream: TextIO) -> None:
    """One row of the main list a line, each as soon as it is there."""
    for row in _main_rows(result):
        stream.write(json_for(stream, row) + "\n")
        stream.flush()


def _main_rows(result: Result) -> Iterable[Row]:
    """The first table's rows; one row of everything where the result is a summary."""
    if result.tables and not result.is_summary:
        return result.tables[0].rows
    return [{**result.read_facts(), **{table.name: list(table.rows) for table in result.tables}}]


def render_csv(result: Result, stream: TextIO) -> None:
    """The main list by RFC 4180, with a heading; on a terminal control characters are escaped."""
    rows = iter(_main_rows(result))
    first = next(rows, None)
    names = list(first) if first is not None else list(result.tables[0].read_columns())
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(names)
    is_terminal = stream.isatty()
    for row in itertools.chain([first] if first is not None else [], rows):
        cells = [_csv_cell(row.get(name)) for name in names]
        writer.writerow([_safe_cell(cell) for cell in cells] if is_terminal else cells)


def _safe_cell(cell: Any) -> Any:
    return escape_controls(cell, "\n") if isinstance(cell, str) else cell


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return to_json(value) if isinstance(value, (list, tuple, Mapping)) else value


def json_for(stream: TextIO, value: object, *, indent: int | None = None) -> str:
    """Writes compact JSON that `stream` can hold: readable where the stream is UTF-8, else escaped."""
    return to_json(value, ascii_only=not is_utf8(getattr(stream, "encoding", None) or "utf-8"), indent=indent)


def is_utf8(encoding: str) -> bool:
    """Whether this is a name of UTF-8."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def to_json(value: object, *, ascii_only: bool = False, indent: int | None = None) -> str:
    """JSON, compact on one line unless `indent`ed."""
    return escape_in_json(json.dumps(value, ensure_ascii=ascii_only, default=str, indent=indent, separators=None))
