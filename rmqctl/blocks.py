"""Blocks: the facts and tables of a result as text cells that fit the terminal.

1. every value becomes a text cell                                                      show.py
2. each column gets its least width, and a share of the remaining room                  layout.py
3. cells are folded to that width at blanks and slashes; numbers and ids are never folded
4. columns without room are left out, the least wanted first, and listed below the table
5. a plan shows its first rows only, so that its verdict stays on the screen

In a pipe or a file no cell is folded, and no column and no row is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rmqctl.layout import MOMENT, Column, fit_columns, fold
from rmqctl.result import Result, Table
from rmqctl.show import TimeForm, are_numbers, cell_limit, show_value, words

_PROMPT = 2
"""Lines of the screen for the command line and the next prompt."""
_MAIN_FACTS_OF_PLANS = (
    "trigger", "log_end", "stopped_by", "message_count", "topic_count", "added_count", "freed_bytes", "lost_intact",
    "change_id",
)  # fmt: skip
_LOSSES = ("lost", "unconsumed")
"""Tables of changes that come before the actions, and keep a row as these do."""
_ZERO_SAYS_NOTHING = (
    "lost_", "damaged_", "unsound_", "wrong_", "fault_", "duplicate_", "skipped_", "gap_", "unreadable_", "unconsumed_",
)  # fmt: skip
"""Prefixes of facts and columns that a terminal shows only if one is not 0."""


class Look(NamedTuple):
    """The look of results for people; no limit if `width` or `height` is None."""

    width: int | None = 80
    color: bool = False
    times: TimeForm = TimeForm.UTC
    height: int | None = None
    note_lines: Callable[[], int] = lambda: 0
    """Returns the number of lines of notes that follow the result; called after the rows are read."""

    def show(self, name: str, value: object) -> str:
        """Return the value named `name` as the text of a cell."""
        return show_value(name, value, self.times, cell_limit(self.width))

    def room(self) -> int | None:
        """Return the lines of the screen for a result, without notes, command line and prompt."""
        return None if self.height is None else self.height - self.note_lines() - _PROMPT


@dataclass(slots=True)
class Block:
    """Facts or a table as text cells; facts have no headings."""

    headers: Sequence[str]
    rows: list[list[str]]
    numeric: list[bool]
    noun: str = ""
    title: str = ""
    dropped: list[str] = field(default_factory=list)
    more: int = 0
    """Number of rows that are not shown."""
    left_out: list[str] = field(default_factory=list)
    """Tables without a shown row, each with its number of rows."""
    columns: Sequence[Column] = ()
    """All rows before they are folded."""
    date: str = ""
    """The date of all times in the table, if they share it and it is left out of them."""

    def notes(self, width: int | None) -> list[str]:
        """Return the notes on left-out rows, columns and dates."""
        more = [f"and {self.more:,} more"] if self.more and not self.title else []
        parts = [*more, *self.left_out]
        notes = [f"{'; '.join(parts)} (--wide)"] if parts else []
        if self.date:
            notes.append(f"times are of {self.date}")
        if self.dropped:
            notes.append(f"not shown: {', '.join(self.dropped)} (--wide)")
        return notes if width is None else [line for note in notes for line in fold(note, width).split("\n")]

    def heading(self) -> str:
        """Return the title, with the rows shown of all where some are left out."""
        shown = f", {len(self.rows):,} of {len(self.rows) + self.more:,} (--wide)" if self.more else ""
        return self.title + shown

    def absence(self) -> str:
        """Return the line of a table without rows."""
        return f"no {self.noun}\n"

    def height(self, width: int | None) -> int:
        """Return the block's number of lines, with the blank one before it."""
        if not self.rows:
            # A table that is left out has its place in the note of another.
            return 0 if self.more else 2
        lines = 1 + bool(self.title) + sum(map(_row_height, self.rows)) + len(self.notes(width))
        return lines + _row_height(self.headers) + 1 if self.headers else lines


def _row_height(cells: Sequence[str]) -> int:
    return max((cell.count("\n") for cell in cells), default=0) + 1


def _fit(block: Block, width: int | None, gap: int) -> None:
    """Fold the block's cells to `width`, and drop the columns without room."""
    if width is None:
        return
    if block.headers:
        _drop_zeros(block)
        _share_date(block)
    headers = block.headers or ["", ""]
    # The names of facts stay whole, as numbers do.
    whole = block.numeric if block.headers else [True, False]
    block.columns = [Column(*parts) for parts in zip(headers, zip(*block.rows, strict=True), whole, strict=True)]
    _fold(block, width, gap)
    if block.headers:
        shown = {name.replace("\n", "") for name in block.headers}
        block.dropped = [name for name in headers if name not in shown]


def _fold(block: Block, width: int, gap: int) -> None:
    """Give the columns their widths, by the rows that the block shows."""
    shown = [Column(one.header, one.cells[: len(block.rows)], one.numeric) for one in block.columns]
    kept = fit_columns(shown, width, gap)
    if block.headers:
        block.headers, block.numeric = [one.header for one in kept], [one.numeric for one in kept]
    block.rows = [list(row) for row in zip(*(column.cells for column in kept), strict=True)]


def _drop_zeros(block: Block) -> None:
    """Leave out the columns that say nothing here: they count losses and damages, and there are none."""
    kept = [
        at
        for at, name in enumerate(block.headers)
        if not name.startswith(_ZERO_SAYS_NOTHING) or any(row[at] not in ("0", "0 B", "-") for row in block.rows)
    ]
    block.headers, block.numeric = [block.headers[at] for at in kept], [block.numeric[at] for at in kept]
    block.rows = [[row[at] for at in kept] for row in block.rows]


def _share_date(block: Block) -> None:
    """Move the date out of a table's times if all have the same."""
    moments = [match for row in block.rows for cell in row if (match := MOMENT.fullmatch(cell))]
    dates = {match["date"] for match in moments}
    if len(dates) == 1:
        block.date = dates.pop()
        block.rows = [[MOMENT.sub(r"\g<time>", cell) for cell in row] for row in block.rows]


def fitted_blocks(result: Result, look: Look) -> list[Block]:
    """Return the fitted facts, then the tables; for a plan the tables first.

    All rows are read here. Tables have titles if there are several.
    """
    shown = [table for table in result.tables if look.width is None or not table.is_detail]
    tables = [_table_block(table, look, len(shown) > 1) for table in shown]
    # Report emptiness for the main list only, and not after a verdict that says the same.
    verdict = result.read_verdict()
    tables = [one for number, one in enumerate(tables) if one.rows or not (number or one.absence() == f"{verdict}\n")]
    if tables and tables[0].title == "actions":
        # People see first what a change loses.
        tables.sort(key=lambda block: block.title not in _LOSSES)
    height = look.height if look.width is not None and result.is_plan else None
    for block in tables:
        if height is not None:
            _shorten(block, len(block.rows) - height)
        if block.rows:
            _fit(block, look.width, 2)
    if tables and len(shown) < len(result.tables):
        tables[-1].dropped += [table.name for table in result.tables if table.is_detail]
    facts = _facts_block(result, look, result.main_facts)
    blocks = [*tables, *facts] if result.is_plan else [*facts, *tables]
    room = None if height is None else look.room()
    if room is None or look.width is None:
        return blocks
    room -= fold(verdict, look.width).count("\n") + 1
    if tables and sum(block.height(look.width) for block in blocks) > room:
        facts = _facts_block(result, look, result.main_facts or _MAIN_FACTS_OF_PLANS)
        _fit_screen(tables, facts, room, look.width)
    return [*(block for block in tables if block.rows or not block.more), *facts]


def _shorten(block: Block, rows: int) -> None:
    """Leave out the last `rows` rows."""
    if rows > 0:
        del block.rows[-rows:]
        block.more += rows


def _fit_screen(tables: Sequence[Block], facts: list[Block], room: int, width: int | None) -> None:
    """Leave out rows until tables and facts take `room` lines.

    First, three rows of the first table and two of each other stay. Then a single fact is left out, then the less
    wanted tables, then all rows but one of each, those of the first table last. Remaining room is filled with rows
    again, from the first table on. Tables without a row are named below.
    """
    first, *others = tables
    unwanted = [block for block in others if block.title not in (*_LOSSES, "actions")]
    whole = [list(block.rows) for block in tables]

    def height() -> int:
        return sum(block.height(width) for block in (*tables, *facts))

    def tallest(blocks: Iterable[Block]) -> Block | None:
        return max(blocks, key=lambda block: block.height(width), default=None)

    while height() > room:
        if block := tallest(one for one in tables if len(one.rows) > (3 if one is first else 2)):
            _shorten(block, 1)
        elif others and [len(block.rows) for block in facts] == [1]:
            tables[-1].left_out.append(f"facts: {1 + facts.pop().more}")
        elif block := tallest(one for one in unwanted if one.rows):
            _shorten(block, len(block.rows))
            (*facts, first)[0].left_out += [f"{block.noun}: {block.more:,}", *block.left_out]
        elif block := tallest(one for one in others if len(one.rows) > 1):
            _shorten(block, 1)
        elif len(first.rows) > 1:
            _shorten(first, 1)
        else:
            return
    for block, rows in zip(tables, whole, strict=True):
        while block.rows and len(block.rows) < len(rows) and height() + _row_height(rows[len(block.rows)]) <= room:
            block.rows.append(rows[len(block.rows)])
            block.more -= 1
        # Without its wide rows a block may need less; with another column it might need more lines.
        if block.more and width is not None and len(block.headers) == len(block.columns):
            _fold(block, width, 2)


def _facts_block(result: Result, look: Look, main: Sequence[str]) -> list[Block]:
    """Return a block of the facts that are not None; empty without any.

    A terminal shows the main facts only, and counts of losses and damage only above 0.
    """
    facts = {name: value for name, value in result.read_facts().items() if value is not None}
    if result.is_plan or look.width is not None:
        facts = {name: value for name, value in facts.items() if value or not name.startswith(_ZERO_SAYS_NOTHING)}
    kept = [name for name in facts if look.width is None or not main or name in main]
    if not kept:
        return []
    rows = [[name, look.show(name, facts[name])] for name in kept]
    block = Block([], rows, [False, False], more=len(facts) - len(kept))
    _fit(block, look.width, 2)
    return [block]


def _table_block(table: Table, look: Look, with_title: bool) -> Block:
    rows = list(table.rows)
    columns = list(table.read_columns() or (rows[0].keys() if rows else ()))
    numeric = [are_numbers([row.get(column) for row in rows]) for column in columns]
    cells = [[look.show(column, row.get(column)) for column in columns] for row in rows]
    return Block(columns, cells, numeric, words(table.name), table.name if with_title else "")
