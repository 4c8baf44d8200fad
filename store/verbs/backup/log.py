"""The log of a store for a backup: its end, and the bytes of its segments.

The log ends after the last whole record, in the newest segment that has one. Damage and zeros before it do not end the
log: a backup keeps all bytes that can be saved. A record that is being written is left out. Broker and backup do not
wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from store.broker_line import BrokerLine
from store.errors import StoreError
from store.files.store_reader import StoredFile, StoreReader
from store.formats.run import Run
from store.formats.zstd_frames import FRAME_BYTES
from store.structures.commitlog.scan import Blank, Damage, ScanRules
from store.structures.commitlog.slices import walk_slice, whole_segment


@dataclass(slots=True)
class FoundEnd:
    """The end of the log, the store time of its last record, and damage before it in its segment."""

    log_end: int = 0
    last_store_timestamp_ms: int = 0
    damage: str = ""


def find_log_end(reader: StoreReader, line: BrokerLine, since: int = 0) -> FoundEnd:
    """Find the present end of the log.

    since  the start or end of a record, at which the search begins; the result is 0 if no record follows
    """
    for segment in reversed(reader.segments()):
        try:
            end = _end_in(reader, segment, line, since)
        except StoreError:
            # A broker's recovery deletes the segment that was made ahead.
            if reader.exists(segment.path):
                raise
            continue
        if end.log_end:
            return end
    return FoundEnd()


def _end_in(reader: StoreReader, segment: StoredFile, line: BrokerLine, since: int) -> FoundEnd:
    rules = ScanRules(check_crc=True, accept_v2=line.accepts_v2, by_place=True, cuts_torn=True)
    end, damage = FoundEnd(), ""
    unread = whole_segment(segment)._replace(start=min(max(0, since - segment.number), segment.size))
    for step in walk_slice(reader, unread, rules, past_zeros=True):
        if isinstance(step, Run):
            last_ms = int(step.columns.store_timestamp_ms[-1])
            end = FoundEnd(step.end, last_ms, damage)
        elif isinstance(step, Blank) and end.log_end:
            end.log_end = segment.number + segment.size
        elif isinstance(step, Damage):
            damage = damage or step.describe()
    return end


def segment_bytes(
    reader: StoreReader, segment: StoredFile, part: range, unreadable: list[str], on_progress: Callable[[int], None]
) -> Iterator[memoryview]:
    """Yield the bytes of a part of a segment; unreadable pages are zeros, and are noted."""
    for at in part[::FRAME_BYTES]:
        found = reader.map(segment.path, at, min(FRAME_BYTES, part.stop - at)).salvage()
        if found.unreadable:
            unreadable.append(f"{segment.path}: {found.describe()}; the backup has zeros there")
        on_progress(len(found.buffer))
        yield found.buffer
