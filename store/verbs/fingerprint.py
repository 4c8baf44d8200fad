"""fingerprint: SHA-256 digests of a store's segments, queues and index files.

Stale bytes, preallocation and the names of index files do not change a digest.

    segment   its bytes up to its valid end, including a blank's 8 bytes
    queue     its units from the minimum to the maximum queue offset
    index     header, slots and entries of a file, by begin offset
    store     the names, ends and digests of all of these

A segment's valid end is before the first bytes that are no valid record; CRCs are verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.index_page import HEADER_SIZE, decode_header
from store.formats.message import BLANK_SIZE
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Run
from store.structures.commitlog.scan import Blank, Damage, ScanRules
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.structures.consumequeue.unit_array import written_count
from store.verbs.check.parallel import ordered_map

CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Digest:
    """One part of a store.

    kind   segment, queue or index
    name   file_start of a segment, topic/queue id of a queue, begin log offset of an index file
    start  first log offset, queue offset or entry number that the digest covers
    end    the one after the last
    note   the damage that ends a segment before its file's end; or unreadable bytes, which count as zeros
    """

    kind: str
    name: str
    start: int
    end: int
    sha256: str
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


def fingerprint_files(
    reader: StoreReader, on_progress: Callable[[int], None] = lambda done_bytes: None
) -> tuple[list[Digest], str]:
    """Return the digests of all parts, and the one of the store.

    on_progress  called with the bytes of segments that are read, from several threads
    """
    done: dict[int, int] = {}

    def note(segment: StoredFile, done_bytes: int) -> None:
        done[segment.number] = done_bytes
        on_progress(sum(list(done.values())))

    digests = list(ordered_map(lambda one: _segment(reader, one, partial(note, one)), reader.segments()))
    digests += queue_digests(reader)
    digests += sorted(_indexes(reader), key=lambda one: (one.start, one.sha256))
    whole = hashlib.sha256()
    for one in digests:
        whole.update(f"{one.kind} {one.name} {one.start} {one.end} {one.sha256}\n".encode("utf-8", "surrogateescape"))
    return digests, whole.hexdigest()


def queue_digests(reader: StoreReader) -> list[Digest]:
    """Return the digests of the queues that hold a unit, by topic and queue id."""
    return [one for topic, queue_id in reader.queues() if (one := _queue(reader, topic, queue_id)) is not None]


def digest_differences(before: list[Digest], after: list[Digest]) -> list[dict[str, str | int | None]]:
    """Return the parts that only one side has, or whose digests differ."""
    old, new = ({one.key: one for one in side} for side in (before, after))
    rows: list[dict[str, str | int | None]] = []
    for key in sorted(old.keys() | new.keys()):
        mine, other = old.get(key), new.get(key)
        if mine is not None and other is not None and (mine.sha256, mine.end) == (other.sha256, other.end):
            continue
        difference = "missing" if other is None else "added" if mine is None else "differs"
        ends = {"end_before": mine.end if mine else None, "end_after": other.end if other else None}
        rows.append({"kind": key[0], "name": key[1], "difference": difference, **ends})
    return rows


def _segment(reader: StoreReader, segment: StoredFile, on_progress: Callable[[int], None]) -> Digest:
    """Return the digest of a segment; each of the two times that it is read is half of its progress."""
    end, note = segment.number, ""
    whole = LogSlice(segment.path, segment.number, segment.size, 0, segment.size)
    for step in walk_slice(reader, whole, ScanRules(check_crc=True), go_on=False):
        if isinstance(step, Run):
            end = step.end
            on_progress((end - segment.number) // 2)
        else:
            end = step.file_start + step.position + (BLANK_SIZE if isinstance(step, Blank) else 0)
            note = step.describe() if isinstance(step, Damage) else ""
    hasher, length = hashlib.sha256(), end - segment.number
    for at in range(0, length, CHUNK_BYTES):
        hasher.update(reader.read(segment.path, at, min(CHUNK_BYTES, length - at)))
        on_progress((segment.size + at) // 2)
    on_progress(segment.size)
    return Digest("segment", f"{segment.number:020d}", segment.number, end, hasher.hexdigest(), note)


def _queue(reader: StoreReader, topic: str, queue_id: int) -> Digest | None:
    """Return the digest of a queue; None for a queue without a unit."""
    hasher, start, end, notes = hashlib.sha256(), -1, -1, []
    for file in reader.queue_files(topic, queue_id):
        found = reader.salvage_written(file.path, file.size, UNIT_SIZE)
        notes += [f"{file.path}: {found.describe()}"] if found.unreadable else []
        units = units_of(found.buffer)
        written = units[: written_count(units)]
        live = written[int(np.argmin(np.append(is_pre_blank(written), False))) :]
        if len(live):
            start = start if start >= 0 else file.number // UNIT_SIZE + len(written) - len(live)
            end = file.number // UNIT_SIZE + len(written)
            hasher.update(live.tobytes())
        if len(written) < file.size // UNIT_SIZE:
            break
    if end < 0 and not notes:
        return None
    return Digest("queue", f"{topic}/{queue_id}", start, end, hasher.hexdigest(), "; ".join(notes))


def _indexes(reader: StoreReader) -> Iterator[Digest]:
    for file in reader.index_files():
        if file.size < HEADER_SIZE:
            continue
        header = decode_header(reader.salvage(file.path, HEADER_SIZE).buffer)
        hasher, unreadable = hashlib.sha256(), []
        for at in range(0, file.size, CHUNK_BYTES):
            found = reader.map(file.path, at, CHUNK_BYTES).salvage()
            hasher.update(found.buffer)
            unreadable += [f"{at + start} to {at + stop}" for start, stop in found.unreadable]
        note = "can't read bytes " + ", ".join(unreadable) if unreadable else ""
        name, count = str(header.begin_log_offset), header.index_count
        yield Digest("index", name, header.begin_log_offset, count, hasher.hexdigest(), note)
