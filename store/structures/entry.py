"""Entries of a dump: one for each record, unit, slot or gap of a file, in the order of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import Field
from store.formats.message import StoredMessage
from store.formats.run import Int64Array


@dataclass(slots=True)
class Entry:
    """One entry.

    kind      record, unit, entry, blank, damage …
    number    the number that --from and --to compare: a record's log offset, a unit's queue offset …
    start     its position in the file
    data      its bytes, as far as they are known
    fields    its fields with their positions in `data`
    extra     values that the bytes do not hold, under their names in JSON
    message   the record, decoded
    is_fault  the bytes are damaged or not allowed here
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
        """Return the values of fields by name, bytes as hex, and the extra values."""
        values = {one.name: one.value.hex() if isinstance(one.value, bytes) else one.value for one in self.fields}
        return {**values, **self.extra}


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Entries of one kind without bytes and fields.

    numbers  the numbers that --from and --to compare
    columns  by name in JSON: an array of integers, or one value for all entries
    """

    numbers: Int64Array
    columns: Mapping[str, object]

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: npt.NDArray[np.bool_] | slice) -> EntryBlock:
        """Return a block of these rows."""
        chosen = {name: one[rows] if isinstance(one, np.ndarray) else one for name, one in self.columns.items()}
        return EntryBlock(self.numbers[rows], chosen)


@dataclass(frozen=True, slots=True)
class Asked:
    """The entries that a command requests from a room.

    first        number of the first entry
    topic        and queue_id: one topic or queue; None for all
    wanted       returns whether a record may be wanted, by its bytes; other records are not decoded
    with_fields  entries have fields with their positions
    is_exact     an entry begins, or will begin, at `first` itself
    settings     under RocketMQ's names
    """

    first: int = 0
    topic: str | None = None
    queue_id: int | None = None
    wanted: Callable[[bytes], bool] = lambda raw: True
    with_fields: bool = False
    is_exact: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def queue_files(self, reader: StoreReader, folder: str) -> list[StoredFile]:
        """Return the files of the chosen queues in a folder."""
        queues = [one for one in reader.queues() if self.topic in (None, one[0]) and self.queue_id in (None, one[1])]
        return [file for topic, queue in queues for file in reader.numbered_files(f"{folder}/{topic}/{queue}")]


def files_at(reader: StoreReader, *paths: str) -> list[StoredFile]:
    """Return the existing files among these paths."""
    return [file for path in paths if (file := reader.file_at(path)) is not None]
