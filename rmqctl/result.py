"""Result: the value that a command returns, for people and for programs. `rmqctl.output` prints it.

    facts    single values, by their names in JSON
    tables   lists of rows; the first is the command's main list, and the one in CSV and JSON lines

The end of a name is its unit, and the form in which people see it: `..._ms` is a time, `..._bytes` a number of bytes.
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
    """Rows as columns, for programs: each an array of integers, or a value that all rows share."""

    count: int
    columns: Mapping[str, Any]


@dataclass(slots=True)
class Table:
    """A list of rows.

    name     its key in JSON
    rows     read once, so that a command may yield them
    columns  the columns for people; a function if they are known after the rows; None for the first row's keys
    blocks   the rows for programs, if a command has them as columns, or as lines of JSON
    is_detail  left out on a terminal without --wide
    names    every name in rows for programs, if not all rows have the same names
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

    Facts, exit code and verdict may be functions: they are called after the rows are read. The verdict is one line for
    people, printed first; the facts have the same for programs.
    """

    command: str
    facts: Facts | Callable[[], Facts] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    exit_code: int | Callable[[], int] = 0
    verdict: str | Callable[[], str] = ""
    is_summary: bool = False
    """Whether CSV and JSON lines hold one row with everything instead of the rows of the first table."""
    is_plan: bool = False
    """Whether people see tables before facts, a terminal only the first rows, and counts of losses only above 0."""
    labels: Sequence[str] = ()
    """The columns of the first table that become labels of metrics; without any its rows become no metrics."""
    main_facts: Sequence[str] = ()
    """The facts that a terminal shows; empty for all."""

    @property
    def schema(self) -> str:
        return f"rmqctl.{self.command.replace(' ', '-')}/{SCHEMA_VERSION}"

    def read_facts(self) -> Facts:
        return self.facts() if callable(self.facts) else self.facts

    def read_verdict(self) -> str:
        return self.verdict() if callable(self.verdict) else self.verdict

    def final_exit_code(self) -> int:
        return self.exit_code() if callable(self.exit_code) else self.exit_code
