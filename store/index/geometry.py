"""Finds how many slots and entries an index file has, from its contents.

The size alone does not tell (4 x slots + 20 x entries = size - 40), but the contents do: the newest entry's number
stands in the slot that its hash falls into, and so does every entry's that nothing was chained in front of.

    geometry_of       of a sound file: header, entries and chains agree
    geometry_to_read  of any file: where nothing agrees fully, what nine of ten sampled entries agree with
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.disk.filesystem import Filesystem
from store.errors import StoreIOError
from store.formats.derived import entries_of
from store.formats.index_page import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    decode_entry,
    decode_header,
    decode_slot,
    entry_position,
    index_file_size,
)

_ENTRIES_TO_CHECK = 64
_BYTES_TO_CHECK = 1 << 20
_MAX_CANDIDATES = 2_000_000
_AGREEING_SHARE = 0.9
"""A few damaged entries must not make the whole file unreadable."""


class Geometry(NamedTuple):
    slot_count: int
    entry_count: int


DEFAULT_GEOMETRY = Geometry(5_000_000, 20_000_000)


def infer_geometry(path: Path, fs: Filesystem) -> Geometry | None:
    """Finds the geometry of the file at `path`, None where its contents do not tell (it is empty, or no index)."""
    size = fs.stat(path).st_size
    if size < index_file_size(1, 2):
        return None
    try:
        buffer = memoryview(fs.map(fs.open_read(path), size, writable=False))
    except StoreIOError:
        return None
    return geometry_of(buffer)


def geometry_of_size(size: int) -> Geometry:
    """A geometry that makes a file of this size, with about four entries a slot as the broker's defaults have it.

    For files that do not tell theirs: new ones will at least be as large as the old.
    """
    words = (size - HEADER_SIZE) // SLOT_SIZE
    per_entry = ENTRY_SIZE // SLOT_SIZE
    slot_count = max(1, words // (1 + 4 * per_entry))
    slot_count += (words - slot_count) % per_entry
    return Geometry(slot_count, (words - slot_count) // per_entry)


def geometry_of(buffer: memoryview) -> Geometry | None:
    """Finds the geometry of a file's bytes, None where they do not tell. The broker's defaults are tried first."""
    size = len(buffer)
    if size == index_file_size(*DEFAULT_GEOMETRY):
        return DEFAULT_GEOMETRY
    if size < index_file_size(1, 2):
        return None
    header = decode_header(buffer)
    newest = header.index_count - 1
    if newest < 1:
        return None
    for slot_count in _slot_counts_by_newest(buffer, newest):
        found = _with_slots(size, slot_count)
        if newest < found.entry_count and _agrees(buffer, slot_count, header):
            return found
    return None


def geometry_to_read(buffer: memoryview) -> Geometry | None:
    """Finds the geometry by which a possibly damaged file is read, None where no geometry fits its content."""
    found = geometry_of(buffer)
    if found is not None or len(buffer) < index_file_size(1, 2):
        return found
    count = decode_header(buffer).index_count
    if count <= 1:
        # Without entries every geometry of that size reads alike.
        return geometry_of_size(len(buffer))
    return _by_votes(buffer, count)


def _with_slots(size: int, slot_count: int) -> Geometry:
    return Geometry(slot_count, (size - HEADER_SIZE - SLOT_SIZE * slot_count) // ENTRY_SIZE)


def _by_votes(buffer: memoryview, count: int) -> Geometry | None:
    """The first slot count that most of a few entries vote for, and that nine of ten sampled entries agree with."""
    newest = count - 1
    candidates = _candidates(len(buffer), newest)
    votes = np.zeros(len(candidates), np.int8)
    voters = sorted({newest, max(1, newest - 1), max(1, newest - 2), max(1, newest // 2), 1})
    for number in voters:
        votes += _is_on_chain(buffer, candidates, number, newest)
    enough = candidates[votes >= max(1, len(voters) - 2)]
    sample = np.unique(np.linspace(1, newest, _ENTRIES_TO_CHECK).astype(np.int64))
    for slot_count in map(int, enough):
        entries = entries_of(buffer, slot_count, count)
        if len(entries) == count and _agreeing_share(buffer, slot_count, entries, sample) >= _AGREEING_SHARE:
            return _with_slots(len(buffer), slot_count)
    return None


def _agreeing_share(buffer: memoryview, slot_count: int, entries: np.ndarray, sample: np.ndarray) -> float:
    hashes = entries["key_hash"][sample].astype(np.int64)
    heads = np.frombuffer(buffer, ">i4", slot_count, HEADER_SIZE)[np.maximum(hashes, 0) % slot_count]
    good = (hashes >= 0) & (heads >= sample) & (entries["previous"][sample] < sample)
    return float(np.count_nonzero(good)) / len(sample)


def _candidates(size: int, newest: int) -> np.ndarray:
    """Slot counts for which the sizes add up and the newest entry is in the file."""
    rest = (size - HEADER_SIZE) // SLOT_SIZE
    per_entry = ENTRY_SIZE // SLOT_SIZE
    last = rest - per_entry * (newest + 1)
    return np.arange(rest % per_entry or per_entry, last + 1, per_entry, dtype=np.int64)[:_MAX_CANDIDATES]


def _is_on_chain(buffer: memoryview, candidates: np.ndarray, number: int, newest: int) -> np.ndarray:
    """For each slot count: whether the slot of entry `number` holds that entry or a newer one."""
    words = np.frombuffer(buffer, ">i4", (len(buffer) - HEADER_SIZE) // SLOT_SIZE, HEADER_SIZE)
    hashes = words[candidates + ENTRY_SIZE // SLOT_SIZE * number].astype(np.int64)
    heads = words[np.maximum(hashes, 0) % candidates]
    return np.asarray((hashes >= 0) & (heads >= number) & (heads <= newest))


def _slot_counts_by_newest(buffer: memoryview, newest: int) -> list[int]:
    """Slot counts for which the sizes add up and the newest entry's number is in the slot of its hash."""
    candidates = _candidates(len(buffer), newest)
    return [int(count) for count in candidates[_is_on_chain(buffer, candidates, newest, newest)]]


def _agrees(buffer: memoryview, slot_count: int, header: IndexHeader) -> bool:
    """Whether the entries are the header's, nothing stands behind them, and the newest ones hang in their chains."""
    newest = header.index_count - 1
    if decode_entry(buffer, slot_count, newest).log_offset != header.end_log_offset:
        return False
    if decode_entry(buffer, slot_count, 1).log_offset != header.begin_log_offset:
        return False
    behind = entry_position(slot_count, newest + 1)
    if np.frombuffer(buffer[behind : behind + _BYTES_TO_CHECK], np.uint8).any():
        return False
    for number in range(newest, max(0, newest - _ENTRIES_TO_CHECK), -1):
        entry = decode_entry(buffer, slot_count, number)
        if entry.key_hash < 0 or not 0 <= entry.previous < number:
            return False
        if not _hangs_in_chain(buffer, slot_count, entry.key_hash % slot_count, number):
            return False
    return True


def _hangs_in_chain(buffer: memoryview, slot_count: int, slot: int, number: int) -> bool:
    at = decode_slot(buffer, slot)
    for _ in range(_ENTRIES_TO_CHECK):
        if at == number:
            return True
        if not number < at < (len(buffer) - HEADER_SIZE) // ENTRY_SIZE:
            return False
        at = decode_entry(buffer, slot_count, at).previous
    return True
