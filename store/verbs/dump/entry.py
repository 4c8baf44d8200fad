"""Entries of a dump: one for each record, unit, slot or gap of a file, in the order of its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import Field
from store.formats.message import StoredMessage
from store.formats.run import Int64Array


@dataclass(slots=True)
class Entry:
    """One entry.

    kind      record, unit, entry, blank, damage …
    number    what --from and --to compare: the log offset of a record, the queue offset of a unit …
    start     where it begins in its file
    data      its bytes, as far as they are known
    fields    with their places in `data`
    extra     values that the bytes do not hold, under their names in JSON
    message   the record, decoded
    is_fault  bytes that are not what they should be
    """

    kind: str
    path: str
    number: int
    start: int
    data: bytes = b""
    fields: Sequence[Field] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    message: StoredMessage | None = None
    is_fault: bool = False

    def values(self) -> dict[str, object]:
        """The fields under their names, bytes as hex, and the extra values."""
        values = {one.name: one.value.hex() if isinstance(one.value, bytes) else one.value for one in self.fields}
        return {**values, **self.extra}


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Entries of one kind without bytes and fields.

    numbers  what --from and --to compare
    columns  under their names in JSON: an array of integers, or the value that all entries share
    """

    numbers: Int64Array
    columns: Mapping[str, object]

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: npt.NDArray[np.bool_] | slice) -> EntryBlock:
        """The entries of these rows."""
        chosen = {name: one[rows] if isinstance(one, np.ndarray) else one for name, one in self.columns.items()}
        return EntryBlock(self.numbers[rows], chosen)


def open_single_file(path: Path) -> tuple[StoreReader, StoredFile]:
    """A reader for one file without a store around it. NotAStore where there is no such file."""
    fs = Filesystem()
    found = fs.look_at(path)
    if found is None or not found.is_file:
        raise NotAStore("no such file" if found is None else "not a file", file=path)
    path = path.absolute()
    reader = StoreReader(str(path.parent), fs)
    return reader, StoredFile(path.name, -1, found.size, found.mtime_ns // 1_000_000)
