"""The number of hash slots and entries of an index file: from settings, or from the file's contents.

The size allows many pairs (size = 40 + 4 x slots + 20 x entries). Adjacent pairs differ by 5 slots, the bytes of one
entry. So under a wrong pair every entry has another number. The contents decide:

    1. newest   the newest entry's number is in the slot of its hash, and its log offset is the header's last
    2. first    entry 1 has the header's first log offset
    3. sample   of up to 64 entries at least nine in ten are reachable: slot >= number > previous
    4. rest     the header's count of used slots; zeros after the newest entry, and as entry 0, which is never used

Steps 1 and 2 score all pairs at once, steps 3 and 4 the best of them. A damaged entry or header field costs points but
does not hide the right pair. If no pair is better than all others, the file does not determine it.

Source: IndexFile.putKey (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.readable import UNREADABLE_PAGE, require_written_readable
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, decode_header, index_file_size
from store.formats.sets import distinct

WORDS_PER_ENTRY = ENTRY_SIZE // SLOT_SIZE
FULL_SCORE = 3
_SAMPLED_ENTRIES = 64
_PROBED_ENTRIES = 5
_BEST_PAIRS = 64
_PAIRS_AT_ONCE = 1 << 20
_WORDS_BEHIND = 1 << 18


class Geometry(NamedTuple):
    """Hash slots and entries of one index file."""

    slot_count: int
    entry_count: int

    @property
    def file_size(self) -> int:
        return index_file_size(*self)


DEFAULT_GEOMETRY = Geometry(5_000_000, 20_000_000)


def infer_geometry(path: Path, fs: Filesystem) -> Geometry | None:
    """Infer the geometry of the file at `path`; None if it is empty, no index or has unreadable pages.

    StoreIOError if the file can't be read for another reason: a guessed geometry would misplace new keys.
    """
    size = fs.stat(path).st_size
    if not size:
        return None
    if size == DEFAULT_GEOMETRY.file_size and _has_default_geometry(path, fs):
        return DEFAULT_GEOMETRY
    buffer = fs.map(fs.open_read(path), size, writable=False)
    try:
        require_written_readable(fs, path, buffer)
    except StoreIOError as error:
        if error.code != UNREADABLE_PAGE:
            raise
        return None
    return geometry_of(buffer)


def _has_default_geometry(path: Path, fs: Filesystem) -> bool:
    """Return whether steps 1 and 2 fully agree with the default geometry; needs a few small reads only."""
    try:
        return _agrees_with_default(path, fs)
    except StoreIOError:
        return False


def _agrees_with_default(path: Path, fs: Filesystem) -> bool:
    file, slots = fs.open_read(path), DEFAULT_GEOMETRY.slot_count

    def words(position: int, count: int) -> list[int]:
        found: list[int] = np.frombuffer(fs.read(file, position, SLOT_SIZE * count), ">i4").tolist()
        return found

    def entry(number: int) -> tuple[int, int]:
        key_hash, high, low, *_ = words(HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number, WORDS_PER_ENTRY)
        return key_hash, high << 32 | (low & 0xFFFFFFFF)

    header = decode_header(fs.read(file, 0, HEADER_SIZE))
    newest = header.index_count - 1
    if not 1 <= newest < DEFAULT_GEOMETRY.entry_count:
        return False
    key_hash, log_offset = entry(newest)
    is_newest = key_hash > 0 and words(HEADER_SIZE + SLOT_SIZE * (key_hash % slots), 1) == [newest]
    return is_newest and log_offset == header.end_log_offset and entry(1)[1] == header.begin_log_offset


def geometry_of(buffer: bytes | memoryview, known: Geometry | None = None) -> Geometry | None:
    """Return the geometry of a file's bytes; None if they do not determine it.

    known  a likely geometry, from settings or another file; used for a file of its size without a better one
    """
    if len(buffer) < HEADER_SIZE:
        return None
    contents = _Contents(memoryview(buffer))
    known = known if known is not None and known.file_size == contents.size else None
    if contents.newest < 1:
        return known
    for likely in (known, DEFAULT_GEOMETRY):
        if likely is not None and likely.file_size == contents.size and contents.agrees_with(likely):
            return likely
    return contents.best() or known


def given_geometry(settings: Mapping[str, object], size: int) -> Geometry | None:
    """Return the geometry of a file of `size` bytes by maxHashSlotNum and maxIndexNum.

    One of the settings is enough: the other follows from the size. None if they do not result in that size.
    """
    slots, entries = settings.get("maxHashSlotNum"), settings.get("maxIndexNum")
    if slots is None and entries is None:
        return None
    if slots is None:
        slots = (size - HEADER_SIZE - ENTRY_SIZE * int(str(entries))) // SLOT_SIZE
    if entries is None:
        entries = (size - HEADER_SIZE - SLOT_SIZE * int(str(slots))) // ENTRY_SIZE
    geometry = Geometry(int(str(slots)), int(str(entries)))
    return geometry if min(geometry) > 0 and geometry.file_size == size else None


def geometry_of_size(size: int) -> Geometry:
    """Return a geometry for a file of this size, with about four entries a slot as by default.

    Used if the old files do not determine theirs: new files get the same size.
    """
    words = (size - HEADER_SIZE) // SLOT_SIZE
    slot_count = max(1, words // (1 + 4 * WORDS_PER_ENTRY))
    slot_count += (words - slot_count) % WORDS_PER_ENTRY
    return Geometry(slot_count, (words - slot_count) // WORDS_PER_ENTRY)


class _Contents:
    """A file's bytes after the header as big-endian words: slots, then entries of five words."""

    def __init__(self, buffer: memoryview) -> None:
        self.size = len(buffer)
        self.header = decode_header(buffer)
        self.newest = self.header.index_count - 1
        self.words = np.frombuffer(buffer, ">i4", (self.size - HEADER_SIZE) // SLOT_SIZE, HEADER_SIZE)

    def agrees_with(self, geometry: Geometry) -> bool:
        """Return whether steps 1 and 2 fully agree, or step 3 does."""
        if self.newest >= geometry.entry_count:
            return False
        slots = np.array([geometry.slot_count])
        return self._points(slots).item() == FULL_SCORE or self._share_reachable(geometry.slot_count) >= 0.9

    def best(self) -> Geometry | None:
        """Return the pair with the most points; None for a tie, or if too few entries are reachable."""
        scores: dict[int, tuple[float, ...]] = {}
        for slots in self._likely():
            share = self._share_reachable(slots)
            if share >= 0.9:
                points = self._points(np.array([slots])).item() + self._points_of_rest(slots)
                scores[slots] = (points, share)
        if not scores:
            return None
        best = max(scores.values())
        winners = [slots for slots, score in scores.items() if score == best]
        if len(winners) != 1:
            return None
        return Geometry(winners[0], (len(self.words) - winners[0]) // WORDS_PER_ENTRY)

    def _likely(self) -> list[int]:
        """Return the slot counts with the most points of steps 1 and 2, and of step 3 for a few entries."""
        found: list[tuple[int, int]] = []
        for slots in self._candidates():
            probed = [self._reachable(slots, number) for number in _some_entries(self.newest, _PROBED_ENTRIES)]
            points = self._points(slots) + np.sum(probed, axis=0)
            top = np.argsort(-points, kind="stable")[:_BEST_PAIRS]
            found += [(-int(points[i]), int(slots[i])) for i in top if points[i]]
        return [slots for _, slots in sorted(found)[:_BEST_PAIRS]]

    def _candidates(self) -> Iterator[np.ndarray]:
        """Yield all slot counts that the size allows, for files with room for the newest entry."""
        first = len(self.words) % WORDS_PER_ENTRY or WORDS_PER_ENTRY
        last = len(self.words) - WORDS_PER_ENTRY * (self.newest + 1)
        step = _PAIRS_AT_ONCE * WORDS_PER_ENTRY
        for start in range(first, last + 1, step):
            yield np.arange(start, min(start + step, last + 1), WORDS_PER_ENTRY, dtype=np.int64)

    def _points(self, slots: np.ndarray) -> np.ndarray:
        """Count for each slot count the points of steps 1 and 2: the newest entry's slot, two log offsets."""
        ends = self._log_offsets(slots + WORDS_PER_ENTRY * self.newest) == self.header.end_log_offset
        begins = self._log_offsets(slots + WORDS_PER_ENTRY) == self.header.begin_log_offset
        return np.asarray(np.sum([self._is_in_slot(slots), ends, begins], axis=0))

    def _is_in_slot(self, slots: np.ndarray) -> np.ndarray:
        """Return whether the newest entry's slot has its number. Zeros are rarely an entry."""
        hashes = self.words[slots + WORDS_PER_ENTRY * self.newest]
        return np.asarray((hashes > 0) & (self.words[hashes % slots] == self.newest))

    def _reachable(self, slots: np.ndarray | int, number: np.ndarray | int) -> np.ndarray:
        """Return whether step 3 holds for an entry under each slot count, or for entries under one."""
        at = slots + WORDS_PER_ENTRY * number
        hashes, previous = self.words[at], self.words[at + 4]
        heads = self.words[hashes % slots]
        return np.asarray((hashes >= 0) & (heads >= number) & (previous < number))

    def _log_offsets(self, entries: np.ndarray) -> np.ndarray:
        high, low = self.words[entries + 1].astype(np.int64), self.words[entries + 2].astype(np.int64)
        return np.asarray(high << 32 | (low & 0xFFFFFFFF))

    def _share_reachable(self, slots: int) -> float:
        """Return the share of sampled entries that satisfy step 3."""
        return float(np.mean(self._reachable(slots, _some_entries(self.newest, _SAMPLED_ENTRIES))))

    def _points_of_rest(self, slots: int) -> int:
        """Count the points of step 4."""
        behind = slots + WORDS_PER_ENTRY * (self.newest + 1)
        is_used = np.count_nonzero(self.words[:slots]) == self.header.hash_slot_count
        is_empty_behind = not self.words[behind : behind + _WORDS_BEHIND].any()
        is_empty_at_0 = not self.words[slots : slots + WORDS_PER_ENTRY].any()
        return int(is_used) + int(is_empty_behind) + int(is_empty_at_0)


@lru_cache(maxsize=16)
def _some_entries(newest: int, count: int) -> np.ndarray:
    """Return the numbers of `count` entries, from the first to the newest."""
    return distinct(np.linspace(1, newest, count).astype(np.int64))
