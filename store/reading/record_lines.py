"""Stored records as lines of JSON, many at a time.

    lines = RecordLines(message_line)
    for text in lines.texts(records, places, sizes): stdout.write(text)

The kernel writes most lines; `to_line` writes the lines that the kernel leaves out, and could write all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from store import kernels
from store.files import lost_pages
from store.formats.message import StoredMessage
from store.formats.run import Int64Array, Run
from store.kernels.line_members import MOST_PARTS, NAME_FROM, NAME_TO, NAMES, VALUE_FROM, VALUE_TO, WORDS
from store.kernels.line_writer import PIECES

_TARGET_SIZE = 4 << 20
PARTS_OF_PROPERTY = NAME_FROM, NAME_TO, VALUE_FROM, VALUE_TO
"""The rows of an array for the properties of a record or line."""


class RecordLines:
    """Writes lines of records.

    to_line    the line of one record, without an end
    with_body  whether lines have the body
    """

    def __init__(self, to_line: Callable[[bytes], str], *, with_body: bool = True) -> None:
        self._to_line, self._with_body = to_line, with_body
        self._pieces, self._piece_ends = _joined(PIECES)
        self._words, self._word_ends = _joined((*NAMES, *WORDS))
        self._parts = np.zeros((len(PARTS_OF_PROPERTY), MOST_PARTS), np.int64)
        self._target = bytearray(_TARGET_SIZE)

    def of_runs(self, pieces: Iterable[Run | StoredMessage], to_line: Callable[[StoredMessage], str]) -> Iterator[str]:
        """Yield the lines of runs of records, and of messages in between by `to_line`."""
        for piece in pieces:
            if isinstance(piece, Run):
                yield from self.texts(piece.buffer, piece.columns.position, piece.columns.size)
            else:
                yield to_line(piece) + "\n"

    def texts(self, records: memoryview, places: Int64Array, sizes: Int64Array) -> Iterator[str]:
        """Yield the lines of the records at these places of a buffer, many per text."""
        line_ends, is_left = np.zeros((2, len(places)), np.int64)
        start = 0
        while start < len(places):
            seen = lost_pages.count()
            count = kernels.write_lines(
                records, places, sizes, start, self._with_body, self._pieces, self._piece_ends, self._words,
                self._word_ends, self._parts, self._target, line_ends, is_left,
            )  # fmt: skip
            if not count:
                # The record is so large that its line may not fit the target.
                is_left[start] = count = 1
            target, written = memoryview(self._target), 0
            texts = []
            for row in (np.flatnonzero(is_left[start : start + count]) + start).tolist():
                end, at = int(line_ends[row]), int(places[row])
                texts += [str(target[written:end], "ascii"), self._to_line(bytes(records[at : at + sizes[row]])), "\n"]
                written = end
            texts.append(str(target[written : int(line_ends[start + count - 1])], "ascii"))
            lost_pages.require_none_since(seen)
            yield "".join(texts)
            start += count


def _joined(texts: tuple[str, ...]) -> tuple[bytes, Int64Array]:
    parts = [text.encode() for text in texts]
    return b"".join(parts), np.cumsum([0, *map(len, parts)], dtype=np.int64)
