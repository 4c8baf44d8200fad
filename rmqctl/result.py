"""The value that a command returns, the same for people and for programs. `rmqctl.output` prints it.

    facts    single values, under the names they have in JSON
    tables   lists of equal rows; the first one is the command's main list, which CSV and JSON lines hold

A name says its unit, and with it how people see it: `..._ms` is a moment, `..._bytes` an amount of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Facts = Mapping[str, Any]

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows as columns, for programs: an array of integers, or the value that all rows share."""

    count: int
    columns: Mapping[str, Any]


@dataclass(slots=True)
class Table:
    """A list of rows.

    name     its key in JSON
    rows     read once, so that a command may yield them as it goes
    columns  what people see, perhaps known only after the rows were read; None for every key of the first row
    blocks   the rows for programs, where a command has them as columns, or as lines of JSON
    is_detail  left out on a terminal without --wide
    names    every name that a row for programs may have, where some rows lack some
    """

    name: str
    rows: Iterable[Row]
    columns: Sequence[str] | Callable[[], Sequence[str]] | None = None
    blocks: Iterable[Row | RowBlock | str] | None = None
    is_detail: bool = False
    names: Sequence[str] = ()

    def read_columns(self) -> Sequence[str]:
        return self.columns() if callable(self.columns) else self.columns or ()

    def read_blocks(self) -> Iterable[Row | RowBlock | str]:
        return self.blocks if self.blocks is not None else self.rows


@dataclass(slots=True)
class Result:
    """The result of a command.

    Facts, exit code and verdict may be functions, asked after the rows were read.

    The verdict is one line for people, printed first; programs see what it says in the facts.
    """

    command: str
    facts: Facts | Callable[[], Facts] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    exit_code: int | Callable[[], int] = 0
    verdict: str | Callable[[], str] = ""
    is_summary: bool = False
    """Whether CSV and JSON lines hold one row with everything, and not the rows of the first table."""
    is_plan: bool = False
    """Whether people see the tables first, on a terminal the first rows, and no losses that are none."""
    labels: Sequence[str] = ()
    """The columns that name a row of the first table as a metric; its rows are none where it is empty."""
    main_facts: Sequence[str] = ()
    """The facts that a terminal shows; all where it is empty."""

    @property
    def schema(self) -> str:
        return f"rmqctl.{self.command.replace(' ', '-')}/{SCHEMA_VERSION}"

    def read_facts(self) -> Facts:
        return self.facts() if callable(self.facts) else self.facts

    def read_verdict(self) -> str:
        return self.verdict() if callable(self.verdict) else self.verdict

    def final_exit_code(self) -> int:
        return self.exit_code() if callable(self.exit_code) else self.exit_code
