"""Index entries against the keys of the records that they point to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from store.check.findings import INDEX_ENTRY_NOWHERE, MISSING_INDEX_ENTRY, Finding
from store.check.places import rows_between, split_by_start
from store.check.survey import IndexFile
from store.disk.store_reader import StoreReader
from store.dispatch.expected import Entries, Ints
from store.formats.derived import entries_of

NO_KEY = "whose record has no such key"


class EntryFile:
    """An index file whose entries are asked for by where they point."""

    def __init__(self, files: StoreReader, file: IndexFile) -> None:
        self.file = file
        self.name = files.name_of(file.path)
        self.entries = entries_of(files.read(file.path), file.slot_count, file.count)[1:]

    def between(self, low: int, high: int) -> tuple[Ints, np.ndarray]:
        """Numbers and entries with low <= log offset < high."""
        rows = rows_between(self.entries["log_offset"], low, high, self.file.rises)
        return rows + 1, self.entries[rows]


def index_differences(
    segment: str, indexes: Sequence[EntryFile], low: int, high: int, expected: Entries | None, starts: Ints
) -> Iterator[Finding]:
    """What differs between the entries that point into the log from `low` to `high` and those its records should have.

    starts  where the records there begin
    """
    hashes = np.empty(0, np.int64) if expected is None else expected.key_hash
    offsets = np.empty(0, np.int64) if expected is None else expected.log_offset
    ordered_map = _codes(offsets, hashes, low)
    found = [(file, *file.between(low, high)) for file in indexes]
    seen = [np.empty(0, np.int64)]
    seen += [_codes(there["log_offset"].astype(np.int64), there["key_hash"], low) for _, _, there in found]
    if np.array_equal(np.concatenate(seen), ordered_map):
        return
    wanted = np.unique(ordered_map)
    for (file, numbers, there), codes in zip(found, seen[1:], strict=True):
        bad = np.flatnonzero(~np.isin(codes, wanted))
        for rows, why in split_by_start(there["log_offset"].astype(np.int64), bad, starts, NO_KEY):
            detail = f"points to {int(there['log_offset'][rows[0]])}, {why}"
            number = int(numbers[rows[0]])
            yield Finding(INDEX_ENTRY_NOWHERE, file.name, number, count=len(rows), detail=detail)
    missing = np.setdiff1d(wanted, np.concatenate(seen))
    if len(missing):
        where = int(missing[0] >> 32) + low
        detail = "keys of this record are in no index file"
        yield Finding(MISSING_INDEX_ENTRY, segment, where, count=len(missing), detail=detail)


def _codes(log_offsets: Ints, hashes: np.ndarray, low: int) -> Ints:
    """Log offset, counted from `low`, and hash of each entry as one number."""
    return np.asarray(((log_offsets - low) << 32) | (hashes.astype(np.int64) & 0xFFFFFFFF))
