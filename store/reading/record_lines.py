"""Stored records as lines of JSON, many at a time.

    lines = RecordLines(message_line)
    for text in lines.texts(records, ends): stdout.write(text)

The kernel writes most lines; `to_line` writes the lines that the kernel leaves out, and could write all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from store import kernels
from store.formats.run import Int64Array
from store.kernels.line_members import MOST_PARTS, NAMES, WORDS
from store.kernels.line_writer import PIECES

_TARGET_SIZE = 4 << 20


class RecordLines:
    """Writes lines of records.

    to_line    the line of one record, without an end
    with_body  whether lines have the body
    """

    def __init__(self, to_line: Callable[[bytes], str], *, with_body: bool = True) -> None:
        self._to_line, self._with_body = to_line, with_body
        self._pieces, self._piece_ends = _joined(PIECES)
        self._words, self._word_ends = _joined((*NAMES, *WORDS))
        self._parts = np.zeros((4, MOST_PARTS), np.int64)
        self._target = bytearray(_TARGET_SIZE)

    def texts(self, records: memoryview, ends: Int64Array) -> Iterator[str]:
        """Yield the lines of records, many per text.

        ends  int64 [records + 1], as Arrow's offsets
        """
        line_ends, is_left = np.zeros((2, len(ends) - 1), np.int64)
        start = 0
        while start < len(ends) - 1:
            count = kernels.write_lines(
                records, ends, start, self._with_body, self._pieces, self._piece_ends, self._words, self._word_ends,
                self._parts, self._target, line_ends, is_left,
            )  # fmt: skip
            if count:
                yield self._text(records, ends, start, start + count, line_ends, is_left)
            else:
                # The record is so large that its line may not fit the target.
                yield self._line(records, ends, start)
            start += max(count, 1)

    def _text(
        self,
        records: memoryview,
        ends: Int64Array,
        start: int,
        stop: int,
        line_ends: Int64Array,
        is_left: Int64Array,
    ) -> str:
        """Return the lines of some records in order: from the target, and from `to_line` where left out."""
        target, written = memoryview(self._target), 0
        texts = []
        for row in (np.flatnonzero(is_left[start:stop]) + start).tolist():
            end = int(line_ends[row])
            texts += [str(target[written:end], "ascii"), self._line(records, ends, row)]
            written = end
        texts.append(str(target[written : int(line_ends[stop - 1])], "ascii"))
        return "".join(texts)

    def _line(self, records: memoryview, ends: Int64Array, row: int) -> str:
        return self._to_line(bytes(records[int(ends[row]) : int(ends[row + 1])])) + "\n"


def _joined(texts: tuple[str, ...]) -> tuple[bytes, Int64Array]:
    parts = [text.encode() for text in texts]
    return b"".join(parts), np.cumsum([0, *map(len, parts)], dtype=np.int64)
