"""Sound stores of 5.x structures, made for a run: what check has to compare with the commit log.

Every store has its records in one log segment, and the structure beside it in the form that a broker writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.derived import UNIT_DTYPE as QUEUE_UNIT_DTYPE
from store.formats.dledger import DLEDGER_HEADER
from store.formats.java import string_hash
from store.formats.message import Message, encode_record
from store.formats.run import Run
from store.formats.timer import TIMER_CHECK
from store.formats.topics import TIMER_TOPIC
from store.layout import segment_name
from store.structures.commitlog.scan import scan_segment
from store.structures.compaction.files import expected_units
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.dledger.files import INDEX_DTYPE, headers_of
from store.structures.timer.files import CHECK_SIZE, SLOT_COUNT, SLOT_DTYPE, UNIT_DTYPE

BODY, FIRST_MS, PRECISION_MS = "x" * 1024, 1_700_000_000_000, 1000
"""Body of every message, the first store time, and the milliseconds of a slot of the wheel."""
TIMER_FILE_SIZE = 104_857_600
DLEDGER_INDEX_SIZE = 5 * 1024 * 1024 * 32


def make_batch_store(root: Path, size: int) -> int:
    """A topic with a batch queue, a message a record; gives the number of units."""
    units = _units_of(_write_log(root, size, (_plain(number) for number in count()), b"BatchT"))
    _write_topics(root, {"BatchT": {"queue.type": "BatchCQ"}})
    _write(root / "batchconsumequeue/BatchT/0" / segment_name(0), units.tobytes())
    return len(units)


def make_compacted_store(root: Path, size: int) -> int:
    """A compacted topic, nothing of which was replaced yet; gives the number of units."""
    units = _units_of(_write_log(root, size, (_plain(number) for number in count()), b"CompT"))
    _write_topics(root, {"CompT": {"cleanup.policy": "COMPACTION"}})
    _write(root / "consumequeue/CompT/0" / segment_name(0), _plain_units(units))
    log = (root / "commitlog" / segment_name(0)).read_bytes()
    _write(root / "compaction/compactionLog/CompT/0" / segment_name(0), log)
    room = bytes(46 * 1024)
    _write(root / "compaction/compactionCq/CompT/0" / segment_name(0), units.tobytes() + room)
    positions = {"empty": False, "queueOffsetMap": {"CompT_0": -1}}
    _write(root / "compaction/position-checkpoint", json.dumps(positions).encode())
    return len(units)


def make_timer_store(root: Path, size: int) -> int:
    """Messages that all wait, four in a slot; gives their number."""
    units = _units_of(_write_log(root, size, (_timed(number) for number in count()), TIMER_TOPIC.encode()))
    _write(root / "consumequeue" / TIMER_TOPIC / "0" / segment_name(0), _plain_units(units))
    numbers, log = np.arange(len(units)), np.zeros(len(units), UNIT_DTYPE)
    log["size"], log["magic"], log["record_size"], log["log_offset"] = 52, 1, units["size"], units["log_offset"]
    log["previous"] = np.where(numbers % 4 == 0, -1, (numbers - 1) * 52)
    log["write_time_ms"], log["topic_hash"] = FIRST_MS, string_hash("TimerT")
    log["delay_ms"] = _slot_ms(numbers) - FIRST_MS
    wheel, times = np.zeros(SLOT_COUNT, SLOT_DTYPE), _slot_ms(numbers[::4]) // PRECISION_MS
    wheel["time"][times % SLOT_COUNT] = times
    wheel["first"][times % SLOT_COUNT] = numbers[::4] * 52
    wheel["last"][times % SLOT_COUNT] = np.minimum(numbers[::4] + 3, len(units) - 1) * 52
    wheel["num"][times % SLOT_COUNT] = np.minimum(len(units) - numbers[::4], 4)
    _write(root / "timerwheel", wheel.tobytes())
    _write(root / "timerlog" / segment_name(0), log.tobytes().ljust(TIMER_FILE_SIZE, b"\0"))
    checkpoint = TIMER_CHECK.pack(FIRST_MS, len(units) * 52, len(units), len(units), 0, 0, 0)
    _write(root / "config/timercheck", checkpoint.ljust(CHECK_SIZE, b"\0"))
    version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
    _write(root / "config/timermetrics", json.dumps({"dataVersion": version, "timingCount": {}}).encode())
    return len(units)


def make_dledger_store(root: Path, size: int) -> int:
    """The entries of one member with their index; gives their number."""
    file, at, member = bytearray(size), 0, root / "dledger-n0"
    for number in count():
        record = encode_record(
            _plain(number), topic=b"T", sys_flag=0, queue_offset=number, log_offset=at + 48, store_timestamp_ms=FIRST_MS
        )
        entry = DLEDGER_HEADER.pack(1, 48 + len(record), number, 1, at, 0, 0, 0, len(record)) + record
        if at + len(entry) + 8 > size:
            break
        file[at : at + len(entry)] = entry
        at += len(entry)
    _write(member / "data" / segment_name(0), file)
    headers = np.concatenate([headers_of(run) for run in _runs_of(root)])
    index = np.zeros(len(headers), INDEX_DTYPE)
    for field in INDEX_DTYPE.names or ():
        index[field] = headers[field]
    _write(member / "index" / segment_name(0), index.tobytes().ljust(DLEDGER_INDEX_SIZE, b"\0"))
    _write(member / "checkpoint", f"committedIndex={number - 1}\nendIndex={number - 1}\n".encode())
    _write(member / "currterm", b"currTerm=1\nvoteLeader=n0\n")
    return len(headers)


def _plain(number: int) -> Message:
    return Message.of("T", BODY, tags="a", keys=[f"order-{number}"])


def _timed(number: int) -> Message:
    properties = {"TIMER_OUT_MS": str(int(_slot_ms(number))), "REAL_TOPIC": "TimerT", "REAL_QID": "0"}
    return Message.of("T", BODY, properties=properties)


def _slot_ms(number: Any) -> Any:
    """The time of the slot of a message, or of an array of them."""
    return FIRST_MS + (number // 4 + 10) * PRECISION_MS


def _write_log(root: Path, size: int, messages: Iterator[Message], topic: bytes) -> list[Run]:
    file, at = bytearray(size), 0
    for number, message in enumerate(messages):
        record = encode_record(
            message, topic=topic, sys_flag=0, queue_offset=number, log_offset=at, store_timestamp_ms=FIRST_MS
        )
        if at + len(record) + 8 > size:
            break
        file[at : at + len(record)] = record
        at += len(record)
    _write(root / "commitlog" / segment_name(0), file)
    return _runs_of(root)


def _runs_of(root: Path) -> list[Run]:
    files = StoreReader(str(root))
    (segment,) = files.segments()
    return [step for step in scan_segment(StoredSegment(files, segment)) if isinstance(step, Run)]


def _units_of(runs: list[Run]) -> BatchUnitArray:
    return np.concatenate([expected_units(run) for run in runs]).astype(BATCH_UNIT_DTYPE)


def _plain_units(units: BatchUnitArray) -> bytes:
    plain = np.zeros(len(units), QUEUE_UNIT_DTYPE)
    for field in QUEUE_UNIT_DTYPE.names or ():
        plain[field] = units[field]
    return plain.tobytes()


def _write_topics(root: Path, attributes: dict[str, dict[str, str]]) -> None:
    table = {topic: {"topicName": topic, "attributes": given} for topic, given in attributes.items()}
    _write(root / "config/topics.json", json.dumps({"topicConfigTable": table}).encode())


def _write(path: Path, data: bytes | bytearray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
