"""Replace the bodies in a file of records, and keep the fields that a check reads.

    | head | body | topic | properties |      a record: 16 digits of the body's digest, repeated, in its body's place
    | head | … |                              damage: the fields that show its fault, and ? for other bytes

A right body CRC becomes the CRC of the digits; a wrong one stays wrong. The CRC of the whole record is computed again
(store.formats.property_crc). Zero bytes stay zeros in damage and in bodies with a wrong CRC: they show the bytes that
a device lost. Bytes past the log's end are treated like the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.disguise import hide_values
from store.formats.inner_batch import inner_parts
from store.formats.java import crc32
from store.formats.message import (
    BLANK_SIZE,
    BORN_HOST_AT,
    BORN_HOST_IPV6,
    COMPRESSED,
    HEADER_V4,
    INNER_BATCH,
    LOG_OFFSET_AT,
    MAGIC_AT,
    MESSAGE_MAGIC_V2,
    STORE_HOST_IPV6,
    SYS_FLAG_AT,
)
from store.formats.property_crc import BLOCK_SIZE, has_own_crc, with_crc
from store.formats.run import Run
from store.formats.segment_head import ENTRY_HEADER, RECORD_MAGICS, SEGMENT_HEAD_SIZE, first_record_at, is_entry
from store.structures.commitlog.resync import LARGEST_RECORD_BYTES, readable_behind
from store.structures.commitlog.scan import Blank
from store.verbs.bundle.names import NameMask

CRC_AT = 8
CHUNK_BYTES = 4 << 20
_FILLER = ord("?")
_PORT_AND_TIME = 12
_HOSTS_END = BORN_HOST_AT + 16 + _PORT_AND_TIME + 16
_ZEROS = memoryview(bytes(CHUNK_BYTES))


@dataclass(slots=True)
class BodyMask:
    """The replacement of bodies by digits of their digests.

    salt        key of the digests: without it, a guessed body could be confirmed by its digest
    hides       whether values of properties are disguised too (store.formats.disguise)
    names       disguises topics, groups and hosts, if given
    unreadable  unreadable ranges of bytes, by file; they are zeros in the bundle
    """

    salt: bytes
    hides: bool = False
    names: NameMask | None = None
    unreadable: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def file(self, files: StoreReader, file: StoredFile) -> Iterator[memoryview]:
        """Yield the bytes of a file of records, with the same length and with replaced bodies."""
        segment, at = StoredSegment(files, file), 0
        for step in readable_behind([segment], file.number):
            start = step.start - file.number if isinstance(step, Run) else step.position
            yield from self._gap(segment, at, start)
            at = max(at, start)
            if isinstance(step, Run):
                yield memoryview(self._run(step))
                at = step.end - file.number
            elif isinstance(step, Blank):
                yield segment.buffer[at : at + BLANK_SIZE]
                at += BLANK_SIZE
        yield from self._gap(segment, at, file.size)

    def body(self, body: bytes, *, is_inner_batch: bool, keeps_zeros: bool) -> bytes:
        """Return the replacement of a body, or of each body inside of it."""
        masked = bytearray(body)
        for start, stop, *properties in inner_parts(body) if is_inner_batch else ((0, len(body), 0, 0),):
            masked[start:stop] = self._digits(body[start:stop], keeps_zeros=keeps_zeros)
            masked[slice(*properties)] = self._properties(body[slice(*properties)])
        return bytes(masked)

    def _properties(self, properties: bytes) -> bytes:
        own = self.names.properties if self.names is not None else None
        return hide_values(properties, self.salt, own) if self.hides and properties else properties

    def _topic(self, topic: bytes) -> bytes:
        return self.names.topic(topic) if self.names is not None else topic

    def _head(self, head: bytes) -> bytes:
        """Disguise the hosts in a head with its sys flag."""
        if self.names is None:
            return head
        masked, sys_flag, at = bytearray(head), int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big"), BORN_HOST_AT
        for is_ipv6 in (sys_flag & BORN_HOST_IPV6, sys_flag & STORE_HOST_IPV6):
            size = 16 if is_ipv6 else 4
            masked[at : at + size] = self.names.host(head[at : at + size])
            at += size + _PORT_AND_TIME
        return bytes(masked)

    def _digits(self, body: bytes, *, keeps_zeros: bool) -> bytes:
        digits = hashlib.blake2b(body, key=self.salt, digest_size=8).hexdigest().encode()
        filler = (digits * (len(body) // len(digits) + 1))[: len(body)]
        return _with_zeros_of(body, np.frombuffer(filler, np.uint8)) if keeps_zeros else filler

    def _run(self, run: Run) -> bytearray:
        columns, first = run.columns, run.start - run.file_start
        out = bytearray(run.buffer[first : run.end - run.file_start])
        for position, size, body_at, body_size, crc, sys_flag, topic_at, topic_size, texts_at, texts_size in zip(
            columns.position.tolist(),
            columns.size.tolist(),
            columns.body_position.tolist(),
            columns.body_size.tolist(),
            columns.body_crc.tolist(),
            columns.sys_flag.tolist(),
            columns.topic_position.tolist(),
            columns.topic_size.tolist(),
            columns.properties_position.tolist(),
            columns.properties_size.tolist(),
            strict=True,
        ):
            at, stop = position - first, position - first + size
            has_crc = has_own_crc(bytes(out[at:stop]))
            if body_size:
                body = bytes(run.buffer[body_at : body_at + body_size])
                is_right = crc32(body) == crc
                is_inner_batch = bool(sys_flag & INNER_BATCH) and not sys_flag & COMPRESSED
                masked = self.body(body, is_inner_batch=is_inner_batch, keeps_zeros=not is_right)
                out[body_at - first : body_at - first + body_size] = masked
                out[at + CRC_AT : at + CRC_AT + 4] = (crc32(masked) ^ (not is_right)).to_bytes(4, "big")
            texts = slice(texts_at - first, texts_at - first + texts_size)
            out[texts] = self._properties(bytes(out[texts]))
            if self.names is not None:
                topic = slice(topic_at - first, topic_at - first + topic_size)
                out[topic] = self.names.topic(bytes(out[topic]))
                out[at : at + _HOSTS_END] = self._head(bytes(out[at : at + _HOSTS_END]))
            if has_crc:
                out[stop - BLOCK_SIZE : stop] = with_crc(bytes(out[at:stop]))[-BLOCK_SIZE:]
        return out

    def _gap(self, segment: StoredSegment, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes between records: holes, damage, and the rest after a blank."""
        kept = [(start + at, piece) for at, piece in self._kept(segment, start, stop)]
        while start < stop:
            written = min(max(segment.next_written(start), start), stop)
            while start < written:
                yield _ZEROS[: min(CHUNK_BYTES, written - start)]
                start += min(CHUNK_BYTES, written - start)
            # A page that is read counts as written: pieces end with a page.
            end = segment.readable_end(start, min(start - start % CHUNK_BYTES + CHUNK_BYTES, stop))
            if start < end:
                data = bytearray(_with_zeros_of(segment.buffer[start:end], _FILLER))
                for at, piece in kept:
                    part = piece[max(start - at, 0) : max(end - at, 0)]
                    data[max(at, start) - start : max(at, start) - start + len(part)] = part
                yield memoryview(data)
            elif start < stop:
                end = max(segment.behind_unreadable(start, min(start + CHUNK_BYTES, stop)), start + 1)
                self.unreadable.setdefault(segment.name, []).append((start, end))
                yield memoryview(bytes(end - start))
            start = end

    def _kept(self, segment: StoredSegment, start: int, stop: int) -> list[tuple[int, bytes]]:
        """Return the pieces of damage at `start` that show its fault, with positions relative to `start`."""
        end = segment.readable_end(start, min(start + SEGMENT_HEAD_SIZE, segment.size))
        head, behind = bytes(segment.buffer[start:end]), ENTRY_HEADER.size
        if is_entry(head, segment.file_start + start) or first_record_at(head) == behind:
            inner = self._fields(segment, start + behind, stop) if start + behind < stop else []
            return [(0, head[:behind]), *((behind + at, piece) for at, piece in inner)]
        return self._fields(segment, start, stop)

    def _fields(self, segment: StoredSegment, start: int, stop: int) -> list[tuple[int, bytes]]:
        end = segment.readable_end(start, min(start + HEADER_V4.size, stop))
        head = bytes(segment.buffer[start:end])
        magic = int.from_bytes(head[MAGIC_AT : MAGIC_AT + 4], "big")
        place = head[LOG_OFFSET_AT : LOG_OFFSET_AT + 8]
        names_itself = place == (segment.file_start + start).to_bytes(8, "big")
        if len(head) < HEADER_V4.size or not (magic in RECORD_MAGICS or names_itself):
            return []
        record = segment.buffer[start : segment.readable_end(start, min(start + LARGEST_RECORD_BYTES, stop))]
        *fields, last = [(at, bytes(record[at:behind])) for at, behind in _fields_of(record)]
        at, piece = last
        fields = [(at, self._head(piece)) if not at else (at, piece) for at, piece in fields]
        return [*fields, (at, self._whole_end(piece, is_v2=magic == MESSAGE_MAGIC_V2) if at else self._head(piece))]

    def _whole_end(self, data: bytes, *, is_v2: bool) -> bytes:
        """Disguise the properties in the last piece of a record, from its topic to its end."""
        width = 2 if is_v2 else 1
        end = width + int.from_bytes(data[:width], "big")
        return data[:width] + self._topic(data[width:end]) + data[end : end + 2] + self._properties(data[end + 2 :])


def _fields_of(record: memoryview) -> list[tuple[int, int]]:
    """Return the ranges of a damaged record that a scan reads: head, sizes, and topic if they fit."""
    sys_flag = int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    head_size = HEADER_V4.size + 12 * (bool(sys_flag & BORN_HOST_IPV6) + bool(sys_flag & STORE_HOST_IPV6))
    size, magic, body_size = (
        int.from_bytes(record[at : at + 4], "big", signed=at != MAGIC_AT) for at in (0, MAGIC_AT, head_size - 4)
    )
    # A truncation zeroes a record's size and magic.
    size = size or len(record)
    topic_at, width = head_size + body_size, 2 if magic == MESSAGE_MAGIC_V2 else 1
    if body_size < 0 or topic_at + width > min(size, len(record)):
        return [(0, head_size)]
    properties_at = topic_at + width + int.from_bytes(record[topic_at : topic_at + width], "big", signed=True)
    if properties_at < topic_at + width or properties_at + 2 > min(size, len(record)):
        return [(0, head_size), (topic_at, topic_at + width)]
    end = properties_at + 2 + int.from_bytes(record[properties_at : properties_at + 2], "big", signed=True)
    if end in (size, len(record)) and end <= len(record):
        return [(0, head_size), (topic_at, end)]
    return [(0, head_size), (topic_at, topic_at + width), (properties_at, properties_at + 2)]


def _with_zeros_of(data: bytes | memoryview, other: int | np.ndarray) -> bytes:
    """Return `other`, with zeros where `data` has zeros."""
    return np.where(np.frombuffer(data, np.uint8) == 0, np.uint8(0), np.asarray(other, np.uint8)).tobytes()
