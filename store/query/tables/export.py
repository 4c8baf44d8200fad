"""Describes an export, and refuses a faulty one before anything is read.

An export is written to a folder beside its target, and renamed when it is complete.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from store.errors import BadRequest
from store.files.filesystem import os_errors
from store.formats.run import Int64Array
from store.query.tables.query_text import require_shallow
from store.query.tables.schema import MESSAGES

FORMATS = ("parquet", "jsonl", "csv")
DAY = "day"
ToLine = Callable[[bytes, int | None], str]
PROBLEM = "body_problem"
TIMES = ("born_timestamp", "store_timestamp")
"""Columns of messages that are null for a time beyond those of a table."""
STDOUT = "-"
"""The target that is no folder but a stream of lines."""


@dataclass(frozen=True, slots=True)
class Export:
    """Selection and form of the messages to write.

    kind          one of FORMATS
    where         a condition in SQL over the columns of `messages`, `store` and `day`; None for all
    limit         the most messages; the first of the log, on Spark of its parts
    partition_by  columns that make folders, as topic=T/day=2026-11-21
    to_line       for jsonl: the line of a stored record; of an inner message with its outer queue offset
    on_inner      called in this process with numbers of messages that lay inside records of several
    on_null_times called with numbers of rows without a time, by columns of TIMES; not for jsonl
    on_problems   called with numbers of bodies that cannot be decompressed; for jsonl only on Spark, as to_line meets
                  them in this process
    to_lines      the lines of many, with their ends: of their bytes, and the place and size of each
    """

    kind: str
    where: str | None = None
    partition_by: Sequence[str] = ()
    with_body: bool = True
    to_line: ToLine | None = None
    to_lines: Callable[[memoryview, Int64Array, Int64Array], Iterator[str]] | None = None
    limit: int | None = None
    on_inner: Callable[[int], None] = lambda _: None
    on_null_times: Callable[[Mapping[str, int]], None] = lambda _: None
    on_problems: Callable[[int], None] = lambda _: None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are written."""
        return {name: kind for name, kind in MESSAGES.items() if self.with_body or name not in ("body", PROBLEM)}


def check_export(target: Path, export: Export, store_count: int = 1) -> None:
    """Raise BadRequest for an export that is certain to fail, before an engine starts."""
    if export.kind not in FORMATS:
        raise BadRequest(f"no export is called {export.kind!r}", hint=", ".join(FORMATS))
    if re.match(r"[A-Za-z][\w+.-]*:/", str(target)):  # a Path has s3:/ for s3://
        raise BadRequest(f"an export goes to a folder of this machine, not to {target}", hint="name a local folder")
    require_shallow(export.where or "")
    if str(target) == STDOUT:
        if export.kind != "jsonl" or export.partition_by:
            raise BadRequest("only JSON lines go to stdout, undivided", code="lines-to-stdout")
        return
    if target.exists():
        raise BadRequest("the target already exists", file=target, hint="name a folder that does not exist")
    known = [name for name, kind in export.columns.items() if kind.isidentifier() and kind != "binary"]
    known += [DAY, "store"] if store_count > 1 else [DAY]
    unknown = sorted(set(export.partition_by) - set(known))
    if unknown:
        raise BadRequest(f"cannot partition by {', '.join(unknown)}", hint=f"what can be: {', '.join(known)}")
    if len(set(export.partition_by)) < len(export.partition_by):
        raise BadRequest("a column to partition by is named twice")


def require_to_line(export: Export) -> ToLine:
    """Return the function that makes a line of a record.

    BadRequest where an export as JSON lines has none.
    """
    if export.to_line is None:
        raise BadRequest("an export as jsonl needs to_line")
    return export.to_line


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """Make the folder to write into; it becomes `target` on leaving, or is removed on failure."""
    with os_errors(target.parent, "create the folder"):
        target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.part")
    shutil.rmtree(staged, ignore_errors=True)  # of an export that was killed
    try:
        yield staged
        staged.rename(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
