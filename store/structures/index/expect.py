"""The expected index entries of a run of records.

They equal the entries that dispatch writes (IndexService.buildIndex, 4.9.8). Rolled-back transactions have none; the
unique key's entry comes before the entries of KEYS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.formats.java import key_hash
from store.formats.properties import TAGS
from store.formats.run import Int64Array, Run
from store.structures.index.keys import CAPACITY, KeyHasher, Keys

_USUAL_KEYS = 4
"""Keys of a usual record, with its unique key."""


class Entries(NamedTuple):
    """Index entries in log order."""

    key_hash: Int64Array
    log_offset: Int64Array
    store_timestamp_ms: Int64Array

    def up_to(self, log_offset: int) -> Entries:
        """Return the entries of the records up to this log offset."""
        count = int(np.searchsorted(self.log_offset, log_offset, "right"))
        return Entries(*(column[:count] for column in self))


def expected_entries(run: Run) -> Entries:
    """Return the index entries of a run's records."""
    # The capacity usually holds all keys, so that nothing is copied.
    pieces = KeyHasher(CAPACITY + _USUAL_KEYS * run.count).keys_of(run)
    found = [keys if keys.is_all_of(run) else keys.copy() for keys in pieces]
    hashes, records = found[0][:2] if len(found) == 1 else _joined(found)
    return Entries(hashes, run.log_offsets[records], run.columns.store_timestamp_ms[records])


def are_of_tags(run: Run, rows: Int64Array, hashes: np.ndarray) -> npt.NDArray[np.bool_]:
    """Mark the hashes that are those of their record's tags.

    5.4 and later add an entry of `topic#T#tags` for a message with TAGS; one index may have records with and without.

    Source: IndexService.buildIndex (5.5.0).
    """
    known: dict[tuple[bytes, str], int] = {}
    found = np.zeros(len(rows), bool)
    for i, row in enumerate(rows.tolist()):
        topic, tags = run.topic(row), run.properties(row).get(TAGS)
        if tags is not None:
            if (topic, tags) not in known:
                known[topic, tags] = key_hash(f"{topic.decode('utf-8', 'replace')}#T#{tags}")
            found[i] = known[topic, tags] == int(hashes[i])
    return found


def _joined(found: list[Keys]) -> tuple[Int64Array, Int64Array]:
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *(keys.hashes for keys in found)]),
        np.concatenate([none, *(keys.records for keys in found)]),
    )
