"""Compares the records that a store serves after a power cut with those that were put.

A record that nobody was promised may be gone or whole. A torn one is cut: by the CRC of its body, or because its
properties end in zeros. What remains is a sector that was torn within: no CRC covers head and properties, so a record
whose body and end are whole is taken, as a broker takes it; then check may name what it says wrongly, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from store.formats.message import MAGIC_AT, StoredMessage, decode_record
from store.formats.segment_head import RECORD_MAGICS
from store.structures.findings import (
    BAD_SELF_OFFSET,
    INDEX_HEADER,
    INDEX_TIME,
    MISSING_RECORD,
    QUEUE_DUPLICATE,
    QUEUE_GAP,
    QUEUE_LEAP,
    QUEUE_SHIFT,
    TIME_BACKWARDS,
    Finding,
)

OF_THE_HEAD = {BAD_SELF_OFFSET, TIME_BACKWARDS}
OF_THE_QUEUE = {MISSING_RECORD, QUEUE_DUPLICATE, QUEUE_GAP, QUEUE_LEAP, QUEUE_SHIFT}
OF_THE_TIMES = {INDEX_HEADER, INDEX_TIME}


class TornRecord(NamedTuple):
    """A record that nobody was promised, as it was put and as it is served."""

    put: StoredMessage
    served: StoredMessage


def records_of(root: Path) -> dict[int, bytes]:
    """The records of a log by log offset: of each segment those from its beginning to the first that is none."""
    found = {}
    for path in sorted((root / "commitlog").glob("*[0-9]")):
        data, at = path.read_bytes(), 0
        while _number(data, at + MAGIC_AT) in RECORD_MAGICS:
            size = _number(data, at)
            found[int(path.name) + at] = data[at : at + size]
            at += size
    return found


def torn_records(root: Path, written: Mapping[int, bytes], promised: Collection[bytes]) -> dict[int, TornRecord]:
    """The served records that differ from the written ones, by log offset; AssertionError where that may not be."""
    found, served = {}, records_of(root)
    for log_offset, raw in served.items():
        assert log_offset in written, f"the record at {log_offset} was never put"
        if raw != written[log_offset]:
            torn = found[log_offset] = TornRecord(decode_record(written[log_offset]), decode_record(raw))
            assert torn.put.body not in promised, f"the promised record at {log_offset} is torn"
            assert torn.put.body == torn.served.body, f"the body of the record at {log_offset} is torn"
            is_last = log_offset + len(raw) not in served
            assert not is_last or raw[-1], f"the properties of the last record, at {log_offset}, are torn"
    return found


def unexplained(findings: Iterable[Finding], torn: Mapping[int, TornRecord]) -> list[Finding]:
    """The findings that are about something else than these torn records."""
    queues = {(one.topic, one.queue_id) for record in torn.values() for one in record}
    return [
        finding
        for finding in findings
        if not (finding.kind in OF_THE_HEAD and finding.offset in torn)
        and not (finding.kind in OF_THE_QUEUE and (finding.topic, finding.queue_id) in queues)
        and not (finding.kind in OF_THE_TIMES and torn)
    ]


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")
