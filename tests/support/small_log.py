"""A commit log of a few records in memory, and what is built from it, for tests of queues and index.

    log = SmallLog()
    log.put("T", keys="k1 k2")            appends a record, with the next offset of its queue unless one is given
    log.dispatch_to(handler)              walks it; a second call begins where the first one ended

Records are walked a few at a time, so that every test crosses the seams between runs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.message import Message, encode_record
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.commitlog.scan import ScanRules, scan_segment
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.index.index_service import IndexService

RECORDS_PER_RUN = 5
START_MS = 1_700_000_000_000
UNITS_PER_FILE = 10
SMALL_CONFIG = StoreConfig(
    mapped_file_size_consume_queue=UNITS_PER_FILE * UNIT_SIZE, max_hash_slot_num=7, max_index_num=12
)


@dataclass
class SmallSegment:
    """The log's bytes so far, as the walk wants a segment."""

    buffer: memoryview
    path: Path = Path("00000000000000000000")
    file_start: int = 0

    @property
    def size(self) -> int:
        return len(self.buffer)

    @property
    def readable_position(self) -> int:
        return len(self.buffer)

    def readable_end(self, _start: int, stop: int) -> int:
        return stop

    def behind_unreadable(self, _start: int, stop: int) -> int:
        return stop

    def next_written(self, position: int) -> int:
        return position

    def written_end(self) -> int:
        return len(self.buffer)


class SmallLog:
    """Records one second apart, from START_MS on."""

    def __init__(self) -> None:
        self.data = b""
        self.units: list[QueueUnit] = []
        self._next: Counter[tuple[str, int]] = Counter()
        self._dispatched = 0

    @property
    def end(self) -> int:
        return len(self.data)

    def put(
        self,
        topic: str = "T",
        queue_id: int = 0,
        *,
        queue_offset: int | None = None,
        tags: str = "",
        keys: str = "",
        uniq_key: str = "",
        sys_flag: int = 0,
        log_offset: int | None = None,
        **properties: str,
    ) -> int:
        """Append a record and return its log offset; `log_offset` is the one in the record's field."""
        named = {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": uniq_key, **properties}
        text = "\x02".join(f"{name}\x01{value}" for name, value in named.items() if value)
        if queue_offset is None:
            queue_offset = self._next[topic, queue_id]
            self._next[topic, queue_id] += 1
        place = self.end
        record = encode_record(
            Message(topic, b"body", queue_id, text.encode()),
            topic=topic.encode(),
            sys_flag=sys_flag,
            queue_offset=queue_offset,
            log_offset=place if log_offset is None else log_offset,
            store_timestamp_ms=START_MS + 1000 * len(self.units),
        )
        self.units.append(QueueUnit(place, len(record), 0))
        self.data += record
        return place

    def put_many(self, count: int, topic: str = "T", queue_id: int = 0, **more: Any) -> list[int]:
        return [self.put(topic, queue_id, **more) for _ in range(count)]

    def dispatch_to(self, *handlers: Any, start: int | None = None) -> None:
        """Dispatch the records from `start` on (default: the end of the last call)."""
        segment = SmallSegment(memoryview(self.data))
        position = self._dispatched if start is None else start
        walk = scan_segment(segment, position, rules=ScanRules(), capacity=RECORDS_PER_RUN)
        for step in walk:
            if isinstance(step, Run):
                for handler in handlers:
                    handler.dispatch(step)
        self._dispatched = self.end

    def store_time(self, log_offset: int, size: int) -> int:
        """Return the store time of a record for a search by time; -1 without a record."""
        times = {unit.log_offset: START_MS + 1000 * number for number, unit in enumerate(self.units)}
        return times.get(log_offset, -1)


def open_queues(
    root: Path,
    config: StoreConfig = SMALL_CONFIG,
    *,
    overlay: Overlay | None = None,
    writable: bool = True,
    line: BrokerLine = LINE_4_9,
) -> ConsumeQueueStore:
    queues = ConsumeQueueStore(StoreLayout(root), config, Filesystem(), writable=writable, overlay=overlay)
    queues.load(line)
    return queues


def reopened_queues(root: Path, config: StoreConfig = SMALL_CONFIG, **more: Any) -> ConsumeQueueStore:
    """Return the queues as a new process loads them."""
    queues = open_queues(root, config, **more)
    queues.recover()
    return queues


def open_index(
    root: Path,
    config: StoreConfig = SMALL_CONFIG,
    *,
    overlay: Overlay | None = None,
    writable: bool = True,
    full: list[int] | None = None,
) -> IndexService:
    index = IndexService(
        StoreLayout(root),
        config,
        Filesystem(),
        writable=writable,
        clock=lambda: START_MS,
        overlay=overlay,
        on_full=full.append if full is not None else lambda end_timestamp_ms: None,
    )
    index.load()
    return index


def units_of(queues: ConsumeQueueStore, topic: str = "T", queue_id: int = 0) -> list[QueueUnit]:
    """Return all units in a queue's files, also those before its minimum."""
    queue = queues.find(topic, queue_id)
    if queue is None:
        return []
    data = b"".join(bytes(file.buffer[: file.readable_position]) for file in queue.files.files)
    return [decode_unit(data, at) for at in range(0, len(data), UNIT_SIZE)]


def log_offsets_of(queues: ConsumeQueueStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    return [unit.log_offset for unit in units_of(queues, topic, queue_id)]


def tree(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder, by path."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
