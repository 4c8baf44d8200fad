"""Read timerwheel, timerlog and timercheck as arrays.

    timerwheel          slots of 32 bytes   time/precision | first position | last position | num | magic
    timerwheel.<n>      a snapshot of it (timerWheelSnapshotFlush of 5.5) with all units before timerlog position n
    timerlog/<n>        units of 52 bytes   size | previous position | magic | write time | delay | log offset | ...
                        a full file ends with a blank of 16 bytes
    config/timercheck   read time | flushed position | queue offset | master's queue offset | version | time | counter

A slot is a linked list of units: its last position is that of its newest unit, and each unit has the position of the
previous one. A unit's write time plus its delay is the time of its slot. A slot is never cleared; slots before the read
time have fired.

Source: TimerWheel, TimerLog, Slot, TimerCheckpoint (5.3.3, snapshots: 5.5.0).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.numbered import numbered_files
from store.layout import StoreLayout, parse_segment_name

SLOT_DTYPE = np.dtype([("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("num", ">i4"), ("magic", ">i4")])
UNIT_DTYPE = np.dtype(
    [
        ("size", ">i4"),
        ("previous", ">i8"),
        ("magic", ">i4"),
        ("write_time_ms", ">i8"),
        ("delay_ms", ">i4"),
        ("log_offset", ">i8"),
        ("record_size", ">i4"),
        ("topic_hash", ">i4"),
        ("reserved", ">i8"),
    ]
)
SLOT_SIZE, UNIT_SIZE = 32, 52
assert (SLOT_DTYPE.itemsize, UNIT_DTYPE.itemsize) == (SLOT_SIZE, UNIT_SIZE)
SLOT_COUNT = 7 * 86_400 * 2
WHEEL_SIZE = SLOT_COUNT * SLOT_SIZE
BLANK_SIZE = 16
METRICS = "config/timermetrics"
WHEEL = "timerwheel"
MAX_MAGIC = 15
ROLL, DELETE = 2, 4
NO_POSITION = -1
_CHECK = struct.Struct(">qqqqqqq")
CHECK_SIZE, CHECK_USED = 4096, _CHECK.size
# Units per read: most of a file may be unused.
_READ_AT_ONCE = 1 << 16
# A slot's time field is milliseconds divided by the precision, so its size shows the precision.
_PRECISIONS_MS = (1000, 100, 10, 1)
_MOST_SECONDS = 10_000_000_000
_SHOWN_BYTES = 1 << 16

Slots = npt.NDArray[np.void]
Units = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """The progress of the timer service: the fields of config/timercheck."""

    read_time_ms: int = 0
    flushed_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_timestamp_ms: int = 0
    version_counter: int = 0


@dataclass(frozen=True)
class TimerFiles:
    """The content of the timer's files; None for a missing file.

    units      of all timerlog files, in the order of `positions`
    positions  the timerlog position of each unit
    """

    wheel: Slots | None
    checkpoint: TimerCheckpoint | None
    units: Units
    positions: npt.NDArray[np.int64]
    log_files: dict[Path, int] = field(default_factory=dict)
    """Length of each timerlog file."""
    wheel_size: int = 0
    wheel_name: str = WHEEL
    """Name of the wheel's file: the wheel itself or a snapshot."""
    known_precision_ms: int = 1000
    """Milliseconds per slot by the settings."""

    @property
    def is_used(self) -> bool:
        """Whether the timer service ever ran here."""
        return self.wheel is not None or self.checkpoint is not None or bool(self.log_files)

    @property
    def read_time_ms(self) -> int:
        """The time of the next slot to fire; 0 without timercheck."""
        return self.checkpoint.read_time_ms if self.checkpoint is not None else 0

    @cached_property
    def used_slots(self) -> npt.NDArray[np.int64]:
        """Numbers of the slots that were ever used."""
        return np.flatnonzero(self.wheel["time"]) if self.wheel is not None else np.empty(0, np.int64)

    @cached_property
    def precision_ms(self) -> int:
        """Milliseconds per slot: as known, or derived from times in the wheel that are too large for that."""
        newest = int(self.wheel["time"].max(initial=0)) if self.wheel is not None else 0
        return _precision_of(newest, self.known_precision_ms)

    @cached_property
    def slot_times_ms(self) -> npt.NDArray[np.int64]:
        """The time of each unit's slot."""
        return np.asarray(self.units["write_time_ms"].astype(np.int64) + self.units["delay_ms"])

    def start_faults(self) -> Iterator[tuple[str, str]]:
        """Yield name and fault of each file with a wrong length; no broker starts with such a file."""
        if self.wheel_size not in (0, WHEEL_SIZE):
            yield self.wheel_name, f"{self.wheel_size} bytes instead of {WHEEL_SIZE}"
        sizes = sorted(self.log_files.values())
        for path, size in self.log_files.items():
            if size != sizes[len(sizes) // 2]:
                yield f"timerlog/{path.name}", f"{size} bytes instead of {sizes[len(sizes) // 2]}"

    def lost_parts(self, queue_end: int) -> Iterator[tuple[str, str]]:
        """Yield a code for each lost part, and the consequence of a start without it.

        queue_end  the next queue offset of the timer queue
        """
        if self.wheel is None and len(self.units):
            count = len(self.units)
            yield "timer-wheel-lost", f"timerwheel is missing: most of {count} entries in the timer log are unreachable"
        if self.read_time_ms <= 0 and (queue_end or len(self.units)):
            text = "is missing or too short" if self.checkpoint is None else "has no read time"
            again = f"; all {queue_end} messages of the timer queue are processed again" if queue_end else ""
            detail = f"config/timercheck {text}: what was due in the last 7 days is delivered again{again}"
            yield "timer-check-lost", detail
        if not self.log_files and len(self.live_slots):
            yield "timer-log-lost", f"timerlog is missing: the messages of {len(self.live_slots)} slots are lost"

    @cached_property
    def live_slots(self) -> npt.NDArray[np.int64]:
        """Numbers of the slots that have not fired."""
        if self.wheel is None:
            return np.empty(0, np.int64)
        times = self.wheel["time"][self.used_slots].astype("i8") * self.precision_ms
        return np.asarray(self.used_slots[times >= self.read_time_ms])

    @cached_property
    def by_slot(self) -> npt.NDArray[np.int64]:
        """Rows of all units, sorted by slot time and then by position."""
        return np.lexsort((self.positions, self.slot_times_ms))

    @cached_property
    def before(self) -> npt.NDArray[np.int64]:
        """For each unit the position of the previous unit in its slot; NO_POSITION for the first."""
        times, before = self.slot_times_ms[self.by_slot], np.full(len(self.positions), NO_POSITION, np.int64)
        follows = np.flatnonzero(times[1:] == times[:-1]) + 1
        before[self.by_slot[follows]] = self.positions[self.by_slot[follows - 1]]
        return before

    def are_whole(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mark the slots that lead from last to first through all their units, with the right count."""
        if self.wheel is None or not len(self.positions):
            return np.zeros(len(slots), np.bool_)
        times = self.slot_times_ms[self.by_slot]
        wanted = self.wheel["time"][slots].astype("i8") * self.precision_ms
        start, stop = np.searchsorted(times, wanted), np.searchsorted(times, wanted, side="right")
        units, positions = self.units[self.by_slot], self.positions[self.by_slot]
        wrong = units["previous"] != self.before[self.by_slot]
        signs = np.where(units["magic"] & DELETE, -1, 1)
        wrong_before, count_before = (np.concatenate([[0], np.cumsum(one)]) for one in (wrong, signs))
        first, last = positions[np.minimum(start, len(positions) - 1)], positions[stop - 1]
        return np.asarray(
            (start < stop)
            & (first == self.wheel["first"][slots])
            & (last == self.wheel["last"][slots])
            & (wrong_before[stop] == wrong_before[start])
            & (count_before[stop] - count_before[start] == self.wheel["num"][slots])
        )

    def row_at(self, position: int) -> int | None:
        """Return the row of the unit at a timerlog position, None without one."""
        row = int(np.searchsorted(self.positions, position))
        return row if row < len(self.positions) and self.positions[row] == position else None

    def chain(self, slot: int) -> list[int]:
        """Return the rows of a slot's units, newest first; the list ends before a unit of another slot."""
        assert self.wheel is not None
        time_ms, position = int(self.wheel["time"][slot]) * self.precision_ms, int(self.wheel["last"][slot])
        rows: list[int] = []
        while position != NO_POSITION and (row := self.row_at(position)) is not None:
            if int(self.slot_times_ms[row]) != time_ms:
                break
            rows.append(row)
            previous = int(self.units["previous"][row])
            if previous >= position:
                break
            position = previous
        return rows


NO_FILES = TimerFiles(None, None, np.empty(0, UNIT_DTYPE), np.empty(0, np.int64))
"""The value for a store without timer files."""


def read_timer_files(layout: StoreLayout, fs: Filesystem, config: StoreConfig) -> TimerFiles:
    """Read wheel, log and timercheck; StoreIOError if one can't be read.

    Without the setting timerWheelSnapshotFlush, the wheel or the snapshot with the higher last position is read.
    """
    check_path = layout.config / "timercheck"
    wheel_name, wheel_size, wheel = _read_wheel(layout, fs, config.timer_wheel_snapshot_flush)
    data = fs.read_file(check_path) if fs.exists(check_path) else b""
    checkpoint = TimerCheckpoint(*_CHECK.unpack_from(data)) if len(data) >= _CHECK.size else None
    sizes: dict[Path, int] = {}
    pieces, places = [np.empty(0, UNIT_DTYPE)], [np.empty(0, np.int64)]
    for entry in sorted(fs.list_folder(layout.root / "timerlog"), key=lambda entry: entry.path.name):
        start = parse_segment_name(entry.path.name)
        if entry.is_folder or start is None:
            continue
        sizes[entry.path] = entry.size
        units = _units_of_file(fs, entry.path)
        pieces.append(units)
        places.append(start + np.arange(len(units), dtype=np.int64) * UNIT_SIZE)
    found = TimerFiles(wheel, checkpoint, np.concatenate(pieces), np.concatenate(places), sizes, wheel_size, wheel_name)
    return replace(found, known_precision_ms=config.timer_precision_ms)


def shown_precision_ms(layout: StoreLayout, fs: Filesystem) -> int | None:
    """Return the milliseconds per slot that wheel or log shows by its first entries; None without any."""
    for name in (WHEEL, *snapshots_of(layout, fs)):
        times = _first_times(layout.root / name, fs)
        if len(times):
            return _precision_of(int(np.median(times)))
    for path in numbered_files(layout.root / "timerlog", fs):
        units = _units_in(fs.read(fs.open_read(path.path), 0, _SHOWN_BYTES))
        times = units["write_time_ms"].astype(np.int64) + units["delay_ms"]
        if len(times):
            return next(one for one in _PRECISIONS_MS if not (times % one).any())
    return None


def _precision_of(time: int, *known_ms: int) -> int:
    """Return the milliseconds per slot that make a slot's time one before the year 2287."""
    return next((one for one in (*known_ms, *_PRECISIONS_MS) if time < _MOST_SECONDS * 1000 // one), 1)


def _first_times(wheel: Path, fs: Filesystem) -> npt.NDArray[np.int64]:
    """Return the times of the first used slots of a wheel, from one piece of its bytes."""
    for start, stop in fs.written_ranges(wheel, 0) if fs.exists(wheel) else ():
        for at in range(start - start % SLOT_SIZE, stop, _SHOWN_BYTES):
            data = fs.read(fs.open_read(wheel), at, min(_SHOWN_BYTES, stop - at))
            slots = np.frombuffer(data, SLOT_DTYPE, len(data) // SLOT_SIZE)
            times = slots["time"][slots["time"] > 0]
            if len(times):
                return np.asarray(times, np.int64)
    return np.empty(0, np.int64)


def snapshots_of(layout: StoreLayout, fs: Filesystem) -> list[str]:
    """Return the names of the wheel's snapshots, the newest last."""
    prefix = f"{WHEEL}."
    numbers = (
        parse_segment_name(name.removeprefix(prefix)) for name in fs.list_names(layout.root) if name.startswith(prefix)
    )
    return [f"{prefix}{number}" for number in sorted(number for number in numbers if number is not None)]


def _read_wheel(layout: StoreLayout, fs: Filesystem, with_snapshots: bool | None) -> tuple[str, int, Slots | None]:
    """Return name, length and slots of the wheel that a start reads."""
    snapshots = snapshots_of(layout, fs)[-1:] if with_snapshots is not False else []
    names = snapshots if with_snapshots and snapshots else [WHEEL, *snapshots]
    found = [(name, *_read_slots(layout.root / name, fs)) for name in names]
    return max(found, key=lambda wheel: int(wheel[2]["last"].max(initial=0)) if wheel[2] is not None else -1)


def _read_slots(path: Path, fs: Filesystem) -> tuple[int, Slots | None]:
    size = fs.stat(path).st_size if fs.exists(path) else 0
    return size, _sparse(path, fs, size)[: size // SLOT_SIZE * SLOT_SIZE].view(SLOT_DTYPE) if size else None


def _sparse(path: Path, fs: Filesystem, size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of a file; its holes, nearly all of a wheel, are not read."""
    found, descriptor = np.zeros(size, np.uint8), fs.open_read(path)
    for start, stop in fs.written_ranges(path, 0):
        data = fs.read(descriptor, start, min(stop, size) - start)
        found[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return found


def _units_of_file(fs: Filesystem, path: Path) -> Units:
    """Return the units of a file before the first invalid one, as a broker's start reads them."""
    descriptor = fs.open_read(path)
    rest, found = max(0, fs.size_of(descriptor) - BLANK_SIZE) // UNIT_SIZE, [np.empty(0, UNIT_DTYPE)]
    position = 0
    while rest > 0:
        data = fs.read(descriptor, position, min(rest, _READ_AT_ONCE) * UNIT_SIZE)
        found.append(_units_in(data))
        if len(found[-1]) < min(rest, _READ_AT_ONCE):
            break
        position, rest = position + len(data), rest - len(found[-1])
    return np.concatenate(found)


def _units_in(data: bytes | memoryview) -> Units:
    """Return the units before the first invalid one."""
    units = np.frombuffer(data, UNIT_DTYPE, len(data) // UNIT_SIZE)
    wrong = np.flatnonzero((units["size"] != UNIT_SIZE) | (units["magic"] < 0) | (units["magic"] > MAX_MAGIC))
    return units[: int(wrong[0])] if len(wrong) else units


def metrics_fault(data: bytes) -> str:
    """Return why config/timermetrics is invalid; empty if it is valid."""
    try:
        document = json.loads(data.decode())
        version, counts = document["dataVersion"], document["timingCount"]
        numbers = [version[name] for name in ("counter", "stateVersion", "timestamp")]
        numbers += [row[name] for row in counts.values() for name in ("count", "timeStamp")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "no table of counts"
    return "" if all(type(number) is int for number in numbers) else "a count or time is no number"
