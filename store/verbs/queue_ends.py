"""Every consume queue's extent, read from its files without opening the store.

    first unit   in the first file: the first unit that is written and no pre-blank
    next unit    in the last file with a unit: the one after its last written unit

Only the files at both ends of a queue are read, of an idle queue one page. For queues of another type (5.x), or in a
database, their rooms return both ends. Raises StoreError for an unreadable database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store.broker_line import LINE_4_9, BrokerLine
from store.errors import StoreError
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import is_of_record, units_of
from store.formats.queue_unit import UNIT_SIZE, decode_ext_address, is_ext_address
from store.structures.consumequeue.resting import ends_of_page
from store.structures.registry import Names, rooms_with


class QueueEnd(NamedTuple):
    """One queue's extent.

    newest     log offset of the newest unit's record, -1 without one
    end        log offset after that record
    fault      why the files could not be read; empty if they were
    extension  the newest unit's address in the extension files, -1 without one
    starts     positions in the queue at which its files begin
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    newest: int
    end: int
    fault: str = ""
    extension: int = -1
    starts: tuple[int, ...] = ()


def queue_ends(reader: StoreReader, min_log_offset: int = 0, line: BrokerLine = LINE_4_9) -> Iterator[QueueEnd]:
    """Yield every queue's extent as a broker of the line has it.

    Units before `min_log_offset` count as expired.
    """
    rooms = rooms_with(Names.of_files(reader, reads=False), "queues", "extents")
    elsewhere = [QueueEnd(*one) for room in rooms for one in room.extents(reader, min_log_offset, line)]
    yield from elsewhere
    known = {(one.topic, one.queue_id) for one in elsewhere}
    for topic, queue_id in reader.queues():
        if (topic, queue_id) in known:
            # Queue files of an earlier time, or only their folders.
            continue
        page = reader.resting_page(topic, queue_id)
        resting = ends_of_page(page) if page is not None else None
        if resting is not None:
            first, (newest, size) = resting.first_from(min_log_offset, line), resting.last_unit()
            yield QueueEnd(topic, queue_id, first, resting.unit_count, newest, newest + size, starts=(0,))
            continue
        files = reader.queue_files(topic, queue_id)
        starts = tuple(file.number for file in files)
        try:
            end = _end_of(reader, topic, queue_id, files, min_log_offset)
            is_expired = line.begins_at_end(end.newest, min_log_offset)
            yield end._replace(starts=starts, min_offset=end.max_offset if is_expired else end.min_offset)
        except StoreError as error:
            yield _end_of_nothing(topic, queue_id, str(error))._replace(starts=starts)


def _end_of_nothing(topic: str, queue_id: int, fault: str = "", start: int = 0) -> QueueEnd:
    """Return the extent of a queue without a unit, or one that can't be read."""
    return QueueEnd(topic, queue_id, start, start, -1, -1, fault)


def _end_of(
    reader: StoreReader, topic: str, queue_id: int, files: Sequence[StoredFile], min_log_offset: int
) -> QueueEnd:
    for file in reversed(files):
        units, written = _units(reader, file)
        if len(written):
            last = units[written[-1]]
            first = _first_kept(file, units, written, min_log_offset) if file is files[0] else None
            if first is None:
                first = _first_offset(reader, files, min_log_offset)
            next_offset = file.number // UNIT_SIZE + int(written[-1]) + 1
            newest, code = int(last["log_offset"]), int(last["tags_code"])
            extension = decode_ext_address(code) if is_ext_address(code) else -1
            end = newest + int(last["size"])
            return QueueEnd(topic, queue_id, min(first, next_offset), next_offset, newest, end, extension=extension)
    return _end_of_nothing(topic, queue_id, start=files[0].number // UNIT_SIZE if files else 0)


def _first_offset(reader: StoreReader, files: Sequence[StoredFile], min_log_offset: int) -> int:
    for file in files:
        first = _first_kept(file, *_units(reader, file), min_log_offset)
        if first is not None:
            return first
    return 0


def _first_kept(file: StoredFile, units: np.ndarray, written: np.ndarray, min_log_offset: int) -> int | None:
    """Return the queue offset of a file's first unit that is not expired, None without one."""
    kept = written[units["log_offset"][written] >= min_log_offset]
    return file.number // UNIT_SIZE + int(kept[0]) if len(kept) else None


def _units(reader: StoreReader, file: StoredFile) -> tuple[np.ndarray, np.ndarray]:
    """Return a file's units, and the numbers of those that are written and no pre-blank."""
    units = units_of(reader.read_written(file.path, file.size))
    return units, np.flatnonzero(is_of_record(units))
