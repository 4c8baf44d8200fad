"""Reads the files of `put --input` as blocks of lines of JSON.

A file has JSON lines, or is a Parquet or CSV file of `export`, by its suffix. The files of a folder are read in the
order of their names. Folders named COLUMN=VALUE, such as topic=T, give their files a column.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import fcntl
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BufferedIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote

import typer

if TYPE_CHECKING:
    from rmqctl.context import Session

KINDS = (".parquet", ".csv", ".jsonl")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BLOCK_SIZE = 1 << 22
_PIPE_SIZE = 1 << 20
"""The most that Linux gives a pipe of a user without privileges."""
NEWLINE = b"\n"
_PARQUET_ROWS = 64
"""Rows that are read at a time, as each may have a body of 4 MiB."""
_WHOLE = re.compile("-?[0-9]{1,20}")
_FAR_YEAR = re.compile("(0000|[+-][0-9]{1,6}|[0-9]{5,6})(-[0-9]{2}-.*)")
_MS_OF_400_YEARS = 146_097 * 86_400_000
_NOTHING = "__HIVE_DEFAULT_PARTITION__"

Cells = Mapping[str, Any]


@dataclass
class Source:
    """A file whose lines or rows are counted as they are taken.

    file   prefix of its places if it is in a folder, else empty
    kind   line or row
    taken  lines of earlier blocks
    """

    file: str = ""
    kind: str = "line"
    taken: int = 0

    def place(self, row: int) -> str:
        """Return the place of line `row` (from 0) of the current block in words."""
        return f"{self.file}{self.kind} {self.taken + row + 1}"


class Block(NamedTuple):
    """Messages as whole lines of JSON, and their source."""

    text: bytes
    source: Source


def files_of(name: str) -> list[Path]:
    """Return the files of --input.

    Raise a usage error for a folder without any, an OSError for a missing file.
    """
    given = Path(name)
    if not given.is_dir():
        given.open("rb").close()
        return [given]
    found = sorted(path for path in given.rglob("*") if path.suffix in KINDS and not path.name.startswith((".", "_")))
    if not found:
        raise typer.BadParameter(f"no file in {name} ends with {', '.join(KINDS)}", param_hint="--input")
    return found


def read_blocks(session: Session, name: str) -> Iterator[Block]:
    """Yield the messages of a file, a folder, or stdin for `-`; from a pipe as they arrive.

    Raise ValueError if a file's content does not fit its suffix.
    """
    if name == "-":
        stdin = session.environment.stdin
        with contextlib.suppress(OSError, ValueError, AttributeError):
            fcntl.fcntl(stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        yield from _blocks(stdin, Source())
        return
    for path in files_of(name):
        place = "" if path == Path(name) else f"{path.relative_to(name)}, "
        if path.suffix in _TABLES:
            yield from _row_blocks(path, place)
            continue
        with path.open("rb") as stream:
            yield from _blocks(stream, Source(place))


def _blocks(stream: IO[bytes], source: Source) -> Iterator[Block]:
    """Yield whole lines as soon as some are there, without waiting for a full block."""
    read, begun = cast(BufferedIOBase, stream).read1, [b""]
    while part := read(BLOCK_SIZE):
        end = part.rfind(NEWLINE) + 1
        if end:
            yield Block(b"".join((*begun, memoryview(part)[:end])), source)
            begun = []
        begun.append(part[end:])
    if rest := b"".join(begun):
        yield Block(rest, source)


def _row_blocks(path: Path, place: str) -> Iterator[Block]:
    """Yield the rows of a table as lines, up to a faulty row; then raise ValueError."""
    lines: list[bytes] = []
    source = Source(place, "row")
    try:
        for number, row in enumerate(_TABLES[path.suffix](path), 1):
            lines.append(_line(number, _folder_columns(path) | row) + NEWLINE)
            if len(lines) == _PARQUET_ROWS:
                yield Block(b"".join(lines), source)
                lines = []
    except (ValueError, csv.Error, OSError) as error:  # Arrow raises OSError for a damaged page.
        if lines:
            yield Block(b"".join(lines), source)
        raise ValueError(f"{place or f'{path.name}, '}{str(error).splitlines()[0]}") from error
    if lines:
        yield Block(b"".join(lines), source)


def bytes_of(name: str) -> int | None:
    """Return the bytes of a file or folder of JSON lines; 0 for stdin, None for Parquet and CSV."""
    files = files_of(name) if name != "-" else []
    return sum(path.stat().st_size for path in files) if not any(path.suffix in _TABLES for path in files) else None


def _folder_columns(path: Path) -> dict[str, Any]:
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    return {name: None if value == _NOTHING else unquote(value) for name, value in pairs}


def _line(number: int, row: Cells) -> bytes:
    try:
        return json.dumps(_message(row)).encode()
    except KeyError as error:
        problem = f"no column {error.args[0]}, which export writes without --no-body"
        raise ValueError(f"row {number}: {problem}") from None
    except ValueError as error:
        raise ValueError(f"row {number}: {error}") from None


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_PARQUET_ROWS):
            for index, field in enumerate(batch.schema):
                if pa.types.is_timestamp(field.type):
                    times = batch.column(index).cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
                    batch = batch.set_column(index, field.name, times)
            yield from batch.to_pylist()


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream, strict=True):
            if None in row or None in row.values():
                raise ValueError("not as many cells as the heading has")
            yield row


_TABLES: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {".parquet": _parquet_rows, ".csv": _csv_rows}


def _message(row: Cells) -> dict[str, object]:
    """Return the message object of a row of the table `messages`, with Arrow's values or CSV's texts."""
    found: dict[str, Any] = {
        name: _text(row[name], name) for name in ("topic", "born_host", "store_host", "body_state")
    }
    for name in ("queue_id", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset"):
        found[name] = _whole(row[name], name)
    for name in ("born_timestamp", "store_timestamp"):
        found[f"{name}_ms"] = _milliseconds(row[name], name)
    found["crc_ok"] = row["crc_ok"] in (True, "true")
    found["body"] = _base64(row["body"], "body")
    if row.get("outer_queue_offset") not in (None, ""):
        found["outer_queue_offset"] = _whole(row["outer_queue_offset"], "outer_queue_offset")
    found["properties"] = _properties(row["properties"])
    if row["property_bytes"]:
        found["property_bytes"] = _base64(row["property_bytes"], "property_bytes")
    # The parser compares them with the properties.
    found |= {name: _text(row[name], name) for name in ("tags", "uniq_key", "compression") if row.get(name)}
    if row.get("keys"):
        found["keys"] = _keys(row["keys"])
    if row.get("delay_level") not in (None, ""):
        found["delay_level"] = _whole(row["delay_level"], "delay_level")
    return found


def _text(value: object, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name} is not text")


def _whole(value: object, name: str) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{name} is not a whole number: {value!r}")


def _properties(value: object) -> object:
    if value is None or isinstance(value, dict):
        return value or {}
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    if not isinstance(value, str):
        raise ValueError("properties is not a map of texts")
    try:
        return json.loads(value or "{}")
    except RecursionError:
        raise ValueError("properties has brackets inside brackets without end") from None


def _keys(value: object) -> object:
    """Return keys as a list or a producer's text; CSV has a list as JSON."""
    if not isinstance(value, str) or not value.startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("keys is not a list of texts") from None


def _base64(value: object, name: str) -> str:
    """Return bytes in base64; a text is in base64 already."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise ValueError(f"{name} is not bytes")


def _milliseconds(value: object, name: str) -> int:
    if value is None or value == "":
        raise ValueError(f"no {name}: it is beyond the times of a table; JSON lines hold every time")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a time: {value!r}")
    past_ms = 0
    if far := _FAR_YEAR.fullmatch(value):
        # The calendar repeats after 400 years. A datetime has the years 1 to 9999.
        cycles = (int(far[1]) - 2000) // 400
        value, past_ms = f"{int(far[1]) - cycles * 400}{far[2]}", cycles * _MS_OF_400_YEARS
    moment = datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1) + past_ms
