"""The timer's files as entries: used slots of the wheel, units of the log, the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.errors import DamagedFile
from store.files.store_reader import StoredFile, StoreReader
from store.formats.fields import fields_of
from store.formats.timer import (
    TIMER_BLANK,
    TIMER_BLANK_MAGIC,
    TIMER_CHECK,
    TIMER_CHECK_NAMES,
    TIMER_MAGIC_MOST,
    TIMER_UNIT,
    TIMER_UNIT_NAMES,
    WHEEL_SIZE,
    WHEEL_SLOT,
    WHEEL_SLOT_NAMES,
)
from store.layout import parse_segment_name
from store.structures.entry import Asked, Entry, files_at


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the existing files of wheel, checkpoint and log."""
    return [*files_at(reader, "timerwheel", "config/timercheck"), *reader.numbered_files("timerlog")]


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Return the entries of a file, as wheel, checkpoint or log by its name or its length."""
    name = file.path.rpartition("/")[2]
    if name.startswith("timercheck"):
        return _check(reader, file)
    if name.startswith("timerwheel") or file.size == WHEEL_SIZE:
        return _wheel(reader, file)
    return _log(reader, file)


def _check(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    data = bytes(reader.read(file.path, 0, TIMER_CHECK.size)).ljust(TIMER_CHECK.size, b"\0")
    yield Entry("check", file.path, 0, 0, data, fields_of(TIMER_CHECK, TIMER_CHECK_NAMES, data))


def _wheel(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    if file.size != WHEEL_SIZE:
        reason = f"a wheel has {WHEEL_SIZE} bytes, this one {file.size}; no broker starts with it"
        raise DamagedFile(reason, file=reader.name_of(file.path))
    data = reader.read(file.path)
    used = np.frombuffer(data, np.uint64).reshape(-1, WHEEL_SLOT.size // 8).any(axis=1)
    for number in np.flatnonzero(used).tolist():
        at = number * WHEEL_SLOT.size
        piece = bytes(data[at : at + WHEEL_SLOT.size])
        yield Entry("slot", file.path, number, at, piece, fields_of(WHEEL_SLOT, WHEEL_SLOT_NAMES, piece))


def _log(reader: StoreReader, file: StoredFile) -> Iterator[Entry]:
    start = parse_segment_name(file.path.rpartition("/")[2]) or 0
    data = bytes(reader.read_written(file.path, file.size))
    for at in range(0, len(data), TIMER_UNIT.size):
        piece = data[at : at + TIMER_UNIT.size]
        if len(piece) >= TIMER_BLANK.size and TIMER_BLANK.unpack_from(piece)[2] == TIMER_BLANK_MAGIC:
            yield Entry("blank", file.path, start + at, at, piece[: TIMER_BLANK.size])
            return
        if len(piece) < TIMER_UNIT.size or not any(piece):
            return
        fields = fields_of(TIMER_UNIT, TIMER_UNIT_NAMES, piece)
        if fields[0].value != TIMER_UNIT.size or not 0 <= fields[2].value <= TIMER_MAGIC_MOST:
            extra = {"detail": "no entry of a timer log"}
            yield Entry("damage", file.path, start + at, at, piece, extra=extra, is_fault=True)
            return
        extra = {"deliver_timestamp_ms": fields[3].value + fields[4].value}
        yield Entry("unit", file.path, start + at, at, piece, fields, extra)
