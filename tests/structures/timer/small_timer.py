"""A sound timer of three messages in two slots, with some values changed, and its findings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from store import Message
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.java import string_hash
from store.formats.message import encode_record
from store.formats.queue_unit import UNIT
from store.formats.timer import TIMER_CHECK
from store.formats.topics import TIMER_TOPIC
from store.layout import StoreLayout
from store.structures.timer.check import _Check
from store.structures.timer.files import SLOT_COUNT, SLOT_DTYPE, UNIT_DTYPE, WHEEL_SIZE, read_timer_files

SECOND = 1406 * SLOT_COUNT
"""The time of slot 0; the wheel is cut to four slots."""
MS = SECOND * 1000
HOUR_MS = 3_600_000
WRITTEN_S = SECOND + 100
WHEEL = [(SECOND, 0, 104, 2, 0), (SECOND + 1, 52, 52, 1, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)]
SLOTS = (0, 1, 0)
PREVIOUS = (-1, -1, 0)
LOG = "timerlog/00000000000000000000"
QUEUE = f"consumequeue/{TIMER_TOPIC}/0/00000000000000000000"
CHECK, METRICS, SEGMENT = "config/timercheck", "config/timermetrics", "commitlog/00000000000000000000"
COUNTS = {"dataVersion": {"counter": 1, "stateVersion": 2, "timestamp": 3}, "timingCount": {}}


def record(row: int, log_offset: int) -> bytes:
    due = {"TIMER_OUT_MS": str(MS + SLOTS[row] * 1000)}
    message = Message.of(TIMER_TOPIC, b"x", properties={"REAL_TOPIC": "T", **due})
    return encode_record(message, topic=TIMER_TOPIC.encode(), sys_flag=0, queue_offset=row, log_offset=log_offset,
                         store_timestamp_ms=1)  # fmt: skip


SIZE = len(record(0, 0))


def found(root: Path, **changed: Any) -> list[str]:
    """The findings with some values changed: slots and units by number and field, values of timercheck by number.

    A row is the kind, the file, the place, the count and the detail.
    """
    write_files(root, **changed)
    timer = read_timer_files(StoreLayout(root), Filesystem(), StoreConfig())
    wheel = np.array(WHEEL, SLOT_DTYPE)
    for number, name, value in changed.get("slots", ()):
        wheel[name][number] = value
    given = replace(timer, wheel=wheel, wheel_size=changed.get("wheel_size", WHEEL_SIZE))
    rows = _Check(StoreReader(str(root)), given, reads_queue=True).run()
    return [f"{one.kind} {one.file.removeprefix(f'{root}/')} {one.offset} {one.count} {one.detail}" for one in rows]


def write_files(root: Path, **changed: Any) -> None:
    units = np.zeros(3, UNIT_DTYPE)
    for row in range(3):
        due_ms = MS + 1000 * SLOTS[row]
        units[row] = (52, PREVIOUS[row], 1, due_ms - 5000, 5000, row * SIZE, SIZE, string_hash("T"), 0)
    for row, name, value in changed.get("units", ()):
        units[name][row] = value
    check = [MS, 156, 3, 3, 0, 0, 0]
    for number, value in changed.get("check", ()):
        check[number] = value
    files = {
        changed.get("log", LOG): (units.tobytes() + changed.get("rest", bytes(52 + 16))),
        QUEUE: b"".join(UNIT.pack(row * SIZE, SIZE, 0) for row in range(3)) + bytes(40),
        CHECK: TIMER_CHECK.pack(*check).ljust(4096, b"\0"),
        METRICS: json.dumps(COUNTS).encode(),
        SEGMENT: b"".join(record(row, row * SIZE) for row in range(3)) + bytes(100),
    }
    files |= changed.get("files", {})
    for name, data in files.items():
        if data is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (WRITTEN_S, WRITTEN_S))
    for name, position, data in changed.get("bytes", ()):
        path = root / name
        path.write_bytes(path.read_bytes()[:position] + data + path.read_bytes()[position + len(data) :])
        os.utime(path, (WRITTEN_S, WRITTEN_S))
