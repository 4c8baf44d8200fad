"""Fits a table to the terminal: the width of each column, and cells folded to it.

Widths are columns of a terminal, not characters: a Chinese character or an emoji takes two (wcwidth).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WHOLE_NAMES = {"backup_id", "change_id", "msg_id", "uniq_key", "state", "status", "severity"}
"""Columns that are never folded: ids that are copied from the screen, and words that are read at a glance."""
_LEAST_WANTED = (
    "properties", "property_bytes", "property_size", "prepared_transaction_offset", "body_crc", "body_size",
    "tags_code", "flag", "sys_flag", "reconsume_times", "compression", "body_state", "crc_ok", "born_host",
    "store_host", "born_timestamp_ms", "position", "file", "bytes", "size", "log_offset", "keys", "tags", "body",
)  # fmt: skip
"""Columns that are dropped first if a line has no room for all; then columns from the right."""
_LEAST_WIDTHS = {"file": 30, "topic": 19, "group": 30, "name": 30}
"""Least widths that keep segment names, and most names of settings and groups, whole."""
_HALF_OF_THE_LINE = ("topic", "group")
"""Columns whose names stay whole up to half of the line, even if other columns are dropped."""
_LEAST_WIDTH = 8
_MOST_LINES = {"body": 3, "properties": 3}
"""Limits of lines in one cell; the last line is then an ellipsis."""
_WHOLE = re.compile(r"[0-9A-F]{32,},?|\d{4}-\d\d-\d\d(?:T\d\d)?")
"""Ids and dates inside of other text; they are never split."""
MOMENT = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d\.\d{3}\S*)")
# A piece of text that stays on one line: a moment's date, or characters up to a blank, a slash or a comma.
_PIECES = re.compile(r"\d{4}-\d\d-\d\dT(?=\d\d:)|[^\s/,]+[/,]?|[/,]|\s+")
# The first word with its prefix, a command up to a parenthesis or the end, or a word; each with its blanks.
_SENTENCE = re.compile(r"^(?:rmqctl|warning|note): \S+\s*|`[^`]*`\S*\s*|\brmqctl --store [^(`]+|\S+\s*")
_WORDS_OF_A_NAME = re.compile(r"[^_]*_|[^_]+")


@dataclass(slots=True)
class Column:
    """A column as texts; a `numeric` one is never folded."""

    header: str
    cells: Sequence[str]
    numeric: bool

    def least_width(self, *, whole_moments: bool, line: int = 0) -> int:
        """Return the least width in terminal columns, on a line of `line` columns.

        whole_moments  keep date and time of a moment on one line
        """
        longest = _widest(self.cells)
        header = _widest(_WORDS_OF_A_NAME.findall(self.header))
        if any(map(MOMENT.fullmatch, self.cells)):
            if whole_moments:
                return max(header, longest)
            return max(header, _widest(piece for cell in self.cells for piece in _PIECES.findall(cell)))
        if self.numeric or self.header in _WHOLE_NAMES:
            return max(header, longest)
        whole = _widest(piece for cell in self.cells for piece in _WHOLE.findall(cell))
        least = _LEAST_WIDTHS.get(self.header, _LEAST_WIDTH)
        if self.header in _HALF_OF_THE_LINE:
            least = max(least, line // 2)
        return max(header, whole, min(longest, least))

    def natural_width(self) -> int:
        return _widest([self.header, *self.cells])

    def folded(self, width: int) -> Column:
        cells = [fold(cell, width) for cell in self.cells]
        most = _MOST_LINES.get(self.header)
        if most is not None:
            cells = [_first_lines(cell, most) for cell in cells]
        return Column(fold(self.header, width, _WORDS_OF_A_NAME), cells, self.numeric)


def _widest(texts: Iterable[str]) -> int:
    return max(map(text_width, ["", *texts]))


def _first_lines(cell: str, most: int) -> str:
    lines = cell.split("\n")
    return cell if len(lines) <= most else "\n".join([*lines[: most - 1], "…"])


def fit_columns(columns: Sequence[Column], width: int, gap: int) -> list[Column]:
    """Return the columns folded so that their line, `gap` blanks between two, has at most `width`.

    Columns without room are dropped, the least wanted first. The first column always stays; those of facts, which have
    no headings, both stay.
    """
    kept = list(columns)
    least = [column.least_width(whole_moments=True, line=width) for column in kept]
    if sum(least) + gap * (len(kept) - 1) > width:
        least = [column.least_width(whole_moments=False, line=width) for column in kept]
    while len(kept) > 1 and all(column.header for column in kept) and sum(least) + gap * (len(kept) - 1) > width:
        at = _least_wanted(kept)
        del kept[at], least[at]
    room = width - gap * (len(kept) - 1)
    widths = _share(least, [column.natural_width() for column in kept], room)
    return [column.folded(one) for column, one in zip(kept, widths, strict=True)]


def _least_wanted(columns: Sequence[Column]) -> int:
    """Return the index of the column to drop next; never that of the first."""
    names = [column.header for column in columns[1:]]
    named = (names.index(name) + 1 for name in _LEAST_WANTED if name in names)
    return next(named, len(columns) - 1)


def _share(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Return each column's width: its natural one, capped if the room is too small, at least its least."""
    cap = max(natural)
    widths = list(natural)
    while sum(widths) > room and widths != list(least):
        cap -= 1
        widths = [max(low, min(high, cap)) for low, high in zip(least, natural, strict=True)]
    return widths


def fold(text: str, width: int, pieces: re.Pattern[str] = _PIECES) -> str:
    """Fold `text` to lines of at most `width`.

    Lines end at blanks, and after slashes and commas; only `pieces` longer than a line are split.
    """
    if text_width(text) <= width:
        return text
    lines = [""]
    for piece in pieces.findall(text):
        if text_width(lines[-1] + piece.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        piece = piece.lstrip() if not lines[-1] else piece
        *whole, rest = _torn(piece, width)
        lines[-1:] = [lines[-1] + whole[0], *whole[1:], rest] if whole else [lines[-1] + rest]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def fold_words(text: str, width: int) -> str:
    """Fold a sentence to lines of `width`; commands of rmqctl stay on one line, to be copied."""
    lines = [""]
    for piece in _SENTENCE.findall(text):
        is_short = text_width(piece.rstrip()) <= width
        if lines[-1] and is_short and text_width(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _torn(piece: str, width: int) -> list[str]:
    """Return a piece split into parts of at most `width`."""
    parts = [""]
    for letter in piece:
        if parts[-1] and text_width(parts[-1] + letter) > width:
            parts.append("")
        parts[-1] += letter
    return parts


def text_width(text: str) -> int:
    """Return the width of one line of text in terminal columns."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width: int = wcswidth(text)
    return width if width >= 0 else len(text)
