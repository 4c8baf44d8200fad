"""UnitRun: consecutive units of one queue of a RocksDB as arrays.

Keys are sorted, so the keys of one queue are consecutive and have one length. Their joined bytes are read as an array,
without an object per entry. Entries with another length are malformed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.formats.run import Int64Array
from store.structures.queuedb.keys import VALUE_DTYPE, decode_unit_key

_PIECE = 512
"""So few objects start no garbage collection: 3.5 M units/s, against 2.3 M in pieces of 8192."""
_NUMBER_SIZE = 8
_LAST_NUMBER = b"\xff" * _NUMBER_SIZE
"""The greatest number in key order."""

Pair = tuple[bytes, bytes]


class UnitRun(NamedTuple):
    """Units of one queue. `values` are of VALUE_DTYPE."""

    topic: str
    queue_id: int
    queue_offsets: Int64Array
    values: npt.NDArray[np.void]


class MalformedEntry(NamedTuple):
    """A key or a value that is not that of a unit."""

    key: bytes
    value: bytes


def runs_of(pairs: Iterable[Pair]) -> Iterator[UnitRun | MalformedEntry]:
    """Group sorted keys and values into runs."""
    rest = iter(pairs)
    while piece := list(islice(rest, _PIECE)):
        keys = [key for key, _ in piece]
        start = 0
        while start < len(keys):
            # Between this key and the greatest with its prefix are only keys of this queue.
            stop = bisect_right(keys, keys[start][:-_NUMBER_SIZE] + _LAST_NUMBER, start + 1)
            yield from _of_one_prefix(piece[start:stop])
            start = stop


def _of_one_prefix(pairs: list[Pair]) -> Iterator[UnitRun | MalformedEntry]:
    keys, values = zip(*pairs, strict=True)
    name, size = decode_unit_key(keys[0]), len(keys[0])
    if name is None or {*map(len, keys)} != {size} or {*map(len, values)} != {VALUE_DTYPE.itemsize}:
        if len(pairs) == 1:
            yield MalformedEntry(*pairs[0])
        else:
            for pair in pairs:
                yield from _of_one_prefix([pair])
        return
    layout = np.dtype([("prefix", f"V{size - _NUMBER_SIZE}"), ("queue_offset", ">i8")])
    offsets = np.frombuffer(b"".join(keys), layout)["queue_offset"].astype(np.int64)
    yield UnitRun(name.topic, name.queue_id, offsets, np.frombuffer(b"".join(values), VALUE_DTYPE))
