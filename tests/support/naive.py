"""The kernels' twins: the results that each kernel must give, in plain Python with struct, slices and exceptions.

Nothing here is shared with store/kernels, nor with store/formats: a mistake there shows up as a difference. Where a
twin follows the broker, it follows the order of the Java source, not that of the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import crcmod.predefined

_crc = crcmod.predefined.mkCrcFun("crc-32")
FULL, LIMIT, BLANK, END, DAMAGE = range(5)
V1, V2, BLANK_MAGIC = 0xDAA320A7, 0xDAA320AB, 0xCBD43194


def crc32(data: bytes) -> int:
    return int(_crc(data)) & 0x7FFFFFFF


# Records.


@dataclass
class Record:
    """One record's columns in their order, and the bytes that they point to."""

    position: int
    size: int
    body_position: int
    body_size: int
    topic_position: int
    topic_size: int
    properties_position: int
    properties_size: int
    queue_id: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    store_timestamp_ms: int
    body_crc: int
    body: bytes = field(default=b"", compare=False)
    topic: bytes = field(default=b"", compare=False)
    property_text: bytes = field(default=b"", compare=False)

    @property
    def row(self) -> list[int]:
        return list(self.__dict__.values())[:14]

    @property
    def properties(self) -> dict[bytes, bytes]:
        return parse_properties(self.property_text)


class Unusable(Exception):
    """The broker's (false, size)."""

    def __init__(self, size: int = -1) -> None:
        super().__init__(size)
        self.size = size


class Cursor:
    """Java's ByteBuffer: reading past the end raises."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        if self.position + size > len(self.data):
            raise Unusable
        part = self.data[self.position : self.position + size]
        self.position += size
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)


def scan(
    data: bytes, position: int, limit: int, accept_v2: bool, check_crc: bool
) -> tuple[list[Record], int, int, int]:
    """Records, next position, outcome, size."""
    data = data[:limit]
    records: list[Record] = []
    while True:
        if position >= len(data):
            return records, position, LIMIT, 0
        if position + 8 > len(data):
            return records, position, END, 0
        size, magic = struct.unpack_from(">iI", data, position)
        if magic == BLANK_MAGIC:
            return records, position, BLANK, size
        if magic == 0 and size == 0:
            return records, position, END, 0
        if magic not in (V1, V2) and is_dledger_blank(data, position):
            return records, position, BLANK, magic
        position += 48 if is_dledger_entry(data, position, accept_v2) else 0
        try:
            records.append(read_record(data, position, accept_v2, check_crc))
        except Unusable as unusable:
            return records, position, DAMAGE, unusable.size
        position += size


def is_dledger_blank(data: bytes, position: int) -> bool:
    """Return whether DLedger's blank is here: int -1, the bytes left, and zeros."""
    first, size = struct.unpack_from(">ii", data, position)
    return first == -1 and size >= 8 and (len(data) - position < 16 or not any(data[position + 8 : position + 16]))


def is_dledger_entry(data: bytes, position: int, accept_v2: bool) -> bool:
    """Return whether an entry's header of 48 bytes is here, and a record's magic after its size."""
    if len(data) - position < 56:
        return False
    magic, size = struct.unpack_from(">ii", data, position)
    body_size, _, body_magic = struct.unpack_from(">iiI", data, position + 44)
    known = body_magic == V1 or (accept_v2 and body_magic == V2)
    return magic == 1 and size >= 48 + 91 and body_size == size - 48 and known


def read_record(data: bytes, position: int, accept_v2: bool, check_crc: bool) -> Record:
    """Follow CommitLog.checkMessageAndReturnSize line by line, with its size if it does not read the body."""
    cursor = Cursor(data, position)
    size = cursor.number(4)
    magic = cursor.number(4) & 0xFFFFFFFF
    if magic != V1 and not (accept_v2 and magic == V2):
        raise Unusable
    if size < 0 or (accept_v2 and len(data) - position < size):
        raise Unusable
    crc = cursor.number(4)
    queue_id = cursor.number(4)
    cursor.take(4)
    queue_offset = cursor.number(8)
    log_offset = cursor.number(8)
    sys_flag = cursor.number(4)
    cursor.take(8)
    cursor.take(20 if sys_flag & 0x10 else 8)
    store_time = cursor.number(8)
    cursor.take(20 if sys_flag & 0x20 else 8)
    cursor.take(4 + 8)
    body_size = max(0, cursor.number(4))
    body_at, body = cursor.position, cursor.take(body_size)
    topic_size = cursor.number(2 if magic == V2 else 1)
    if topic_size < 0 or topic_size > size:
        raise Unusable
    topic_at, topic = cursor.position, cursor.take(topic_size)
    properties_size = max(0, cursor.number(2))
    if properties_size > size:
        raise Unusable
    properties_at, properties = cursor.position, cursor.take(properties_size)
    if topic == b"SCHEDULE_TOPIC_XXXX" and b"DELAY" in parse_properties(properties):
        parse_int(parse_properties(properties)[b"DELAY"])
    if cursor.position - position != size:
        raise Unusable(size)
    if check_crc and body and crc32(body) != crc:
        raise Unusable
    return Record(
        position,
        size,
        body_at,
        body_size,
        topic_at,
        topic_size,
        properties_at,
        properties_size,
        queue_id,
        queue_offset,
        log_offset,
        sys_flag,
        store_time,
        crc,
        body,
        topic,
        properties,
    )


def parse_properties(text: bytes) -> dict[bytes, bytes]:
    """Follow MessageDecoder.string2messageProperties, on bytes."""
    found = {}
    for part in text.split(b"\x02"):
        name, _, value = part.partition(b"\x01")
        if name and value:
            found[name] = value
    return found


def parse_int(text: bytes) -> int:
    """Follow Integer.parseInt, for ASCII text."""
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    if not digits or any(byte not in b"0123456789" for byte in digits):
        raise Unusable
    value = int(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise Unusable
    return value


def find_record_start(data: bytes, position: int, limit: int, file_start: int, accept_v2: bool) -> int:
    for at in range(position, limit):
        try:
            record = read_record(data[:limit], at, accept_v2, False)
        except Unusable:
            continue
        if record.log_offset == file_start + at:
            return at
    return -1


# Queue units.


def tags_code(record: Record, delay_levels_ms: list[int]) -> int:
    properties = record.properties
    if record.topic == b"SCHEDULE_TOPIC_XXXX" and b"DELAY" in properties:
        level = min(parse_int(properties[b"DELAY"]), len(delay_levels_ms))
        if level > 0:
            return record.store_timestamp_ms + delay_levels_ms[level - 1]
    return signed(java_hash(java_text(properties[b"TAGS"]))) if b"TAGS" in properties else 0


def queue_files(records: list[Record], delay_levels_ms: list[int]) -> dict[tuple[bytes, int], bytes]:
    """Return the units of every queue, one after another, in the log's order."""
    queues: dict[tuple[bytes, int], bytes] = {}
    for record in records:
        if record.sys_flag & 0xC in (0, 8):
            unit = struct.pack(">qiq", record.log_offset, record.size, tags_code(record, delay_levels_ms))
            queue = record.topic, record.queue_id
            queues[queue] = queues.get(queue, b"") + unit
    return queues


# Hashes and the index.


def java_text(data: bytes) -> str:
    """Follow new String(data, UTF_8): Python's "replace", but one U+FFFD for an encoded surrogate or its beginning."""
    text, at = "", 0
    while at < len(data):
        for size in (1, 2, 3, 4):
            part = data[at : at + size]
            try:
                text += part.decode("utf-8", "surrogatepass")
                break
            except UnicodeDecodeError:
                continue
        else:
            part = part[: longest_prefix(data[at : at + 4])]
            text += "\ufffd"
        at += len(part)
    return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)


def longest_prefix(data: bytes) -> int:
    """Return the number of bytes that begin a sequence (also one of a surrogate), at least 1."""
    for size in range(min(3, len(data)), 1, -1):
        # Some continuation makes a whole character of a good beginning.
        tails = [bytes(tail) for tail in ([0x80], [0x80, 0x80], [0x80] * 3, [0xBF], [0xBF, 0xBF])]
        for tail in tails:
            try:
                if len((data[:size] + tail).decode("utf-8", "surrogatepass")) == 1:
                    return size
            except UnicodeDecodeError:
                continue
    return 1


def java_hash(text: str) -> int:
    """Return String.hashCode as 0 … 2^32 - 1."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % (1 << 32)
    return value


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def key_hash(topic: bytes, key: str) -> int:
    value = abs(signed(java_hash(java_text(topic) + "#" + key)))
    return 0 if value == 1 << 31 else value


def keys_of(record: Record) -> Iterator[str]:
    properties = record.properties
    if b"UNIQ_KEY" in properties:
        yield java_text(properties[b"UNIQ_KEY"])
    yield from (key for key in java_text(properties.get(b"KEYS", b"")).split(" ") if key)


def key_entries(records: list[Record]) -> list[tuple[int, int]]:
    """Return (hash, record number) of every indexed key."""
    return [
        (key_hash(record.topic, key), number)
        for number, record in enumerate(records)
        if record.sys_flag & 0xC != 0xC
        for key in keys_of(record)
    ]


class Index:
    """Follow IndexFile.putKey, on a bytearray."""

    def __init__(self, slot_count: int, capacity: int) -> None:
        self.slot_count, self.capacity = slot_count, capacity
        self.data = bytearray(40 + 4 * slot_count + 20 * capacity)
        self.begin_time = self.end_time = self.begin_offset = self.end_offset = self.used_slots = 0
        self.count = 1

    @property
    def is_full(self) -> bool:
        return self.count >= self.capacity

    def put(self, key_hash: int, log_offset: int, store_time_ms: int) -> None:
        slot_at = 40 + 4 * (key_hash % self.slot_count)
        (previous,) = struct.unpack_from(">i", self.data, slot_at)
        if previous <= 0 or previous > self.count:
            previous = 0
            self.used_slots += 1
        seconds = int((store_time_ms - self.begin_time) / 1000) if self.begin_time > 0 else 0
        seconds = min(max(seconds, 0), (1 << 31) - 1)
        entry_at = 40 + 4 * self.slot_count + 20 * self.count
        struct.pack_into(">iqii", self.data, entry_at, key_hash, log_offset, seconds, previous)
        struct.pack_into(">i", self.data, slot_at, self.count)
        if self.count == 1:
            self.begin_offset, self.begin_time = log_offset, store_time_ms
        self.count += 1
        self.end_offset, self.end_time = log_offset, store_time_ms
        header = self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.used_slots, self.count
        struct.pack_into(">qqqqii", self.data, 0, *header)


def index_files(records: list[Record], slot_count: int, capacity: int) -> list[bytes]:
    """Return every index file of the records, the last one perhaps filled in part."""
    files = [Index(slot_count, capacity)]
    for value, number in key_entries(records):
        record = records[number]
        if record.log_offset < files[-1].end_offset:
            continue
        if files[-1].is_full:
            last = files[-1]
            files.append(Index(slot_count, capacity))
            files[-1].begin_time = files[-1].end_time = last.end_time
            files[-1].begin_offset = files[-1].end_offset = last.end_offset
        files[-1].put(value, record.log_offset, record.store_timestamp_ms)
    return [bytes(file.data) for file in files]
