"""Results for people: a verdict, facts and tables, as characters or by Rich.

A result longer than the screen ends with its verdict once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TextIO

from rmqctl.blocks import Look, fitted_blocks
from rmqctl.colours import style_of, tone
from rmqctl.layout import fold
from rmqctl.result import Result
from rmqctl.show import escape_controls, show_sentence


def render_plain(result: Result, stream: TextIO, look: Look) -> None:
    """Draw tables of characters, for pipes and files."""
    _render_tabulate(result, stream, look, "simple", lambda name: f"{name}:")


def render_markdown(result: Result, stream: TextIO, look: Look) -> None:
    """Draw tables for Markdown documents, without folded cells."""
    _render_tabulate(result, stream, Look(None, False, look.times), "pipe", lambda name: f"**{name}**\n")


def _render_tabulate(result: Result, stream: TextIO, look: Look, style: str, heading: Callable[[str], str]) -> None:
    import tabulate

    # tabulate would make a column two blanks wider than its heading.
    tabulate.MIN_PADDING = 0
    blocks = fitted_blocks(result, look)
    lead = _write_verdict(result, stream, look, str)
    for block in blocks:
        stream.write(lead)
        lead = "\n"
        if block.title:
            stream.write(heading(block.heading()) + "\n")
        if block.noun and not block.rows:
            stream.write(block.absence())
            continue
        cells = [[cell.replace("|", "\\|") if style == "pipe" else cell for cell in row] for row in block.rows]
        align = ["right" if number else "left" for number in block.numeric]
        # Without letters of two columns it measures a cell much faster.
        tabulate.WIDE_CHARS_MODE = not all(cell.isascii() for row in [block.headers, *cells] for cell in row)
        # Facts have no headings, but a table in Markdown needs some.
        headers = block.headers or (["", ""] if style == "pipe" else ())
        shape = style if headers else "plain"
        text = tabulate.tabulate(cells, headers, shape, disable_numparse=True, colalign=align)
        stream.writelines(line.rstrip() + "\n" for line in text.rstrip().split("\n"))
        stream.writelines(line + "\n" for line in block.notes(look.width))


def render_rich(result: Result, stream: TextIO, look: Look) -> None:
    """Draw tables for a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    blocks = fitted_blocks(result, look)
    # Rich does not decide by the terminal: --color always is for pipes too.
    colors: Literal["standard"] | None = "standard" if look.color else None
    console = Console(file=stream, force_terminal=look.color, color_system=colors, highlight=False, width=10_000)
    start = f"\x1b[1;{tone(result)}m" if look.color else ""

    def paint(text: str) -> str:
        return f"{start}{text}\x1b[0m" if start else text

    lead = _write_verdict(result, stream, look, paint)
    for block in blocks:
        stream.write(lead)
        lead = "\n"
        if block.noun and not block.rows:
            stream.write(block.absence())
            continue
        table = RichTable(
            title=Text(block.heading(), style="italic") if block.title else None,
            title_justify="left",
            box=box.SIMPLE_HEAD if block.headers else None,
            show_header=bool(block.headers),
            pad_edge=False,
            show_edge=False,
            padding=(0, 1, 0, 0),
        )
        for header, number in zip(block.headers or ["", ""], block.numeric, strict=True):
            justify: Literal["left", "right"] = "right" if number else "left"
            table.add_column(Text(header), justify=justify)
        for row in block.rows:
            names = [name.replace("\n", "") for name in block.headers] or ["", row[0]]
            table.add_row(*(Text(cell, style=style_of(name, cell)) for name, cell in zip(names, row, strict=True)))
        console.print(table)
        stream.writelines(line + "\n" for line in block.notes(look.width))
    room = look.room()
    if room is not None and sum(block.height(look.width) for block in blocks) > room:
        _write_verdict(result, stream, look, lambda text: f"\n{paint(text)}")


def _write_verdict(result: Result, stream: TextIO, look: Look, style: Callable[[str], str]) -> str:
    """Write the verdict as first line; return the separator after it."""
    verdict = escape_controls(show_sentence(result.read_verdict(), look.times))
    if not verdict:
        return ""
    stream.write(style(verdict if look.width is None else fold(verdict, look.width)) + "\n")
    return "\n"
