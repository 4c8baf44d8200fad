"""Commit-log segments as entries: records, blanks, damage, DLedger headers and the end.

After damage the scan resumes at the next record whose log offset equals its position. The start of a segment with a
lost name follows from its first record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from store.errors import DamagedRecord
from store.files.store_reader import StoredFile, StoreReader
from store.formats.dledger import DLEDGER_HEADER, DLEDGER_NAMES
from store.formats.fields import fields_of
from store.formats.message import (
    BLANK,
    BLANK_NAMES,
    LOG_OFFSET_AT,
    decode_record,
    record_fields,
)
from store.formats.run import Run
from store.formats.segment_head import SEGMENT_HEAD_SIZE, first_record_at, is_entry
from store.layout import parse_segment_name
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.structures.entry import Asked, Entry

SHOWN_DAMAGE_BYTES = 64
EMPTY_SEGMENT = "a segment of 0 bytes; a 4.9 broker does not start with it, a 5.3 one deletes it"


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the segments from that of the first requested entry on."""
    segments = reader.segments(with_empty=True)
    pairs = zip_longest(segments, segments[1:])
    return [one for one, behind in pairs if behind is None or behind.number > asked.first]


def rows(reader: StoreReader, segment: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield the entries of one segment from log offset `asked.first` on."""
    file_start = file_start_of(reader, segment)
    if not segment.size:
        yield Entry("damage", segment.path, file_start, 0, extra={"detail": EMPTY_SEGMENT}, is_fault=True)
        return
    position = min(max(0, asked.first - file_start), segment.size)
    part = LogSlice(
        segment.path, file_start, segment.size, position, segment.size, is_exact=asked.is_exact or not position
    )
    for step in walk_slice(reader, part, ScanRules(check_crc=True), with_bad_bodies=True):
        if isinstance(step, Run):
            yield from _records(reader, segment, file_start, step, asked)
        else:
            yield _gap(reader, segment, file_start, step)


def file_start_of(reader: StoreReader, segment: StoredFile) -> int:
    """Return the log offset of a segment's first byte: by its name, else by its first record, else 0."""
    named = parse_segment_name(segment.path.rpartition("/")[2])
    if named is not None:
        return named
    head = bytes(reader.read(segment.path, 0, SEGMENT_HEAD_SIZE))
    at = first_record_at(head)
    return 0 if at is None else int.from_bytes(head[at:][LOG_OFFSET_AT:][:8], "big", signed=True) - at


def _records(reader: StoreReader, segment: StoredFile, file_start: int, run: Run, asked: Asked) -> Iterator[Entry]:
    positions, sizes = run.columns.position.tolist(), run.columns.size.tolist()
    has_entries = positions[0] >= DLEDGER_HEADER.size and is_entry(
        run.buffer[positions[0] - DLEDGER_HEADER.size : positions[0]], run.start - DLEDGER_HEADER.size
    )
    for position, size in zip(positions, sizes, strict=True):
        raw = bytes(run.buffer[position : position + size])
        if not asked.wanted(raw):
            continue
        place = run.file_start + position
        if has_entries and position >= DLEDGER_HEADER.size:
            yield _header(run, segment, position, file_start)
        try:
            message = decode_record(raw, file=reader.name_of(segment.path), position=place - file_start)
        except DamagedRecord as error:
            yield Entry(
                "damage", segment.path, place, place - file_start, raw, extra={"detail": error.reason}, is_fault=True
            )
            continue
        fields = record_fields(raw) if asked.with_fields else ()
        yield Entry("record", segment.path, place, place - file_start, raw, fields, message=message)


def _header(run: Run, segment: StoredFile, position: int, file_start: int) -> Entry:
    """Return the header of the DLedger entry whose record is at `position`."""
    start = position - DLEDGER_HEADER.size
    head = bytes(run.buffer[start:position])
    place = run.file_start + start
    return Entry(
        "dledger", segment.path, place, place - file_start, head, fields_of(DLEDGER_HEADER, DLEDGER_NAMES, head)
    )


def _gap(reader: StoreReader, segment: StoredFile, file_start: int, step: Blank | End | Damage) -> Entry:
    place = step.file_start + step.position
    start = place - file_start
    if isinstance(step, Blank):
        data = bytes(reader.read(segment.path, start, BLANK.size))
        return Entry("blank", segment.path, place, start, data, fields_of(BLANK, BLANK_NAMES, data))
    if isinstance(step, End):
        return Entry("end", segment.path, place, start, extra={"detail": "nothing was written from here on"})
    if step.unreadable[1]:
        return Entry("damage", segment.path, place, start, extra={"detail": step.describe_reason()}, is_fault=True)
    data = bytes(reader.read(segment.path, start, SHOWN_DAMAGE_BYTES))
    if is_entry(data, place):
        head = data[: DLEDGER_HEADER.size]
        return Entry("dledger", segment.path, place, start, head, fields_of(DLEDGER_HEADER, DLEDGER_NAMES, head))
    return Entry("damage", segment.path, place, start, data, extra={"detail": step.describe_reason()}, is_fault=True)
