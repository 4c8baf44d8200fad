"""The places of one record: segment, queue unit, index entries; and the groups' offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from store.errors import StoreError
from store.files.store_reader import StoreReader
from store.formats.message import StoredMessage, is_indexed, is_queued
from store.formats.queue_unit import UNIT_SIZE, decode_unit
from store.structures.registry import Names, rooms_with
from store.structures.tables.consumer_offsets import ConsumerOffsets
from store.verbs.find.coverage import IndexCoverage


@dataclass(frozen=True, slots=True)
class Place:
    """One place. `state` is ok or the fault; `file` is empty if no file has the record there."""

    log_offset: int
    place: str
    file: str
    position: int
    state: str


@dataclass(frozen=True, slots=True)
class Consumption:
    """One consumer group of the record's topic, and whether its offset is past the record."""

    log_offset: int
    group: str
    consumed_offset: int
    is_consumed: bool


def places_of(reader: StoreReader, index: IndexCoverage, message: StoredMessage) -> Iterator[Place]:
    """Yield the record itself, its unit, and an entry for each of its keys; for a log alone, the record.

    An index database has no entries for a record without a unique key.
    """
    log_offset = message.log_offset
    for segment in reader.segments():
        if segment.number <= log_offset < segment.number + segment.size:
            state = "ok" if message.is_crc_right else "the body does not have the record's CRC"
            yield Place(log_offset, "record", segment.path, log_offset - segment.number, state)
    if reader.holds_log_alone:
        return
    if is_queued(message.sys_flag):
        yield _unit_of(reader, message)
    for key in dict.fromkeys(filter(None, (message.uniq_key, *message.keys))):
        entries = list(index.entries_of(message.topic, key, log_offset))
        for file, number in entries:
            yield Place(log_offset, f"index entry {number} of {key}", file, _entry_position(index, file, number), "ok")
        if entries or not is_indexed(message.sys_flag):
            continue
        if index.database is not None and log_offset in index.database.places([message.topic], key):
            yield Place(log_offset, f"index entry of {key}", index.database.path.name, -1, "ok")
        elif index.files or index.database is None or message.uniq_key:
            yield Place(log_offset, f"index entry of {key}", "", -1, "no file has it")


def _entry_position(index: IndexCoverage, file: str, number: int) -> int:
    return next(one.file.position_of(number) for one in index.files if one.path == file)


def _unit_of_other(reader: StoreReader, room: ModuleType, message: StoredMessage) -> Place:
    """Return the unit of a record in a queue of another type (5.x)."""
    place = f"queue entry of {message.topic}/{message.queue_id}"
    found = room.find_unit(reader, (message.topic, message.queue_id), message.log_offset)
    if found is None:
        return Place(message.log_offset, place, "", -1, "no queue file holds it")
    file, position, size = found
    state = "ok" if size == message.size else f"its size is {size}"
    return Place(message.log_offset, place, file, position, state)


def _unit_of(reader: StoreReader, message: StoredMessage) -> Place:
    for room in rooms_with(Names.of_files(reader, reads=False), "queues", "find_unit"):
        if room.holds(reader, (message.topic, message.queue_id)):
            return _unit_of_other(reader, room, message)
    place = f"queue entry {message.queue_offset} of {message.topic}/{message.queue_id}"
    at = message.queue_offset * UNIT_SIZE
    for file in reader.queue_files(message.topic, message.queue_id):
        if file.number <= at < file.number + file.size:
            position = at - file.number
            try:
                data = bytes(reader.read(file.path, position, UNIT_SIZE))
            except StoreError as error:
                return Place(message.log_offset, place, file.path, position, str(error))
            unit = decode_unit(data.ljust(UNIT_SIZE, b"\0"))
            is_right = (unit.log_offset, unit.size) == (message.log_offset, message.size)
            state = "ok" if is_right else f"it points to {unit.log_offset}" if unit.is_written else "it was not written"
            return Place(message.log_offset, place, file.path, position, state)
    return Place(message.log_offset, place, "", -1, "no queue file holds it")


def consumers_of(offsets: ConsumerOffsets, message: StoredMessage) -> Iterator[Consumption]:
    """Yield every group with an offset in the record's queue."""
    for (topic, group), queues in sorted(offsets.items()):
        if topic == message.topic and message.queue_id in queues:
            offset = queues[message.queue_id]
            yield Consumption(message.log_offset, group, offset, offset > message.queue_offset)
