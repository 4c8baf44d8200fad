"""Copy messages into a queue's compaction log, as the dispatch of a broker does.

    record   as in the commit log, except that its log offset is its position in this log
    full     the record and a blank do not fit, or the file of units has room for one unit only: the log file gets a
             blank, the file of units its end mark, and a pair of files with the next name follows

Source: CompactionLog.CompactionAppendMsgCallback, TopicPartitionLog.roll, SparseConsumeQueue (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from store.formats.message import BLANK_SIZE, LOG_OFFSET_AT, encode_blank
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Run
from store.structures.commitlog.scan import Blank, End, Outcome, scan_segment
from store.structures.compaction.files import SegmentInMemory, units_of_log


class Pair(NamedTuple):
    """The bytes of a log file and of its file of units."""

    name: int
    log: bytes
    units: bytes


@dataclass(slots=True)
class LastPair:
    """The records of a queue's last log file, their end and their number."""

    name: int
    log: bytes
    end: int
    count: int


def feed(last: LastPair, records: Iterable[bytes], log_size: int, unit_size: int) -> Iterator[Pair]:
    """Yield the pairs of files with the records after those of the last pair; none without records.

    Ends at a record that is too large for a file.
    """
    name, count, at = last.name, last.count, last.end
    data = bytearray(last.log[:at].ljust(log_size, b"\0"))
    is_changed = False
    for record in records:
        if len(record) + BLANK_SIZE > log_size or unit_size < 2 * BATCH_UNIT_SIZE:
            break
        if at + len(record) + BLANK_SIZE > log_size or (count + 1) * BATCH_UNIT_SIZE >= unit_size:
            data[at : at + BLANK_SIZE] = encode_blank(log_size - at)
            yield _pair(name, data, unit_size)
            name, count, at, data = name + log_size, 0, 0, bytearray(log_size)
        data[at : at + len(record)] = record
        data[at + LOG_OFFSET_AT : at + LOG_OFFSET_AT + 8] = (name + at).to_bytes(8, "big")
        at, count, is_changed = at + len(record), count + 1, True
    if is_changed:
        yield _pair(name, data, unit_size)


def _pair(name: int, data: bytearray, unit_size: int) -> Pair:
    runs: list[Run] = []
    outcome: Outcome | None = None
    for step in scan_segment(SegmentInMemory(name, memoryview(data))):
        if isinstance(step, Run):
            runs.append(step)
        else:
            outcome = step
    assert isinstance(outcome, Blank | End)
    return Pair(name, bytes(data), units_of_log(runs, outcome, unit_size))
