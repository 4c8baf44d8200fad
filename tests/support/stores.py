"""Stores made on the spot, and the few things tests do to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from store import Message, MessageStore, open_store
from store.change.change import Change
from store.opened.staged import staged_store
from store.verbs.recover.plan import plan_recovery
from store.verbs.recover.truncate import plan_truncation

PATIENT = {"osPageCacheBusyTimeOutMills": 600_000, "syncFlushTimeout": 120_000}
"""Settings with which a machine under load refuses no put."""

FOR_PROCESSES = {**PATIENT, "diskSpaceWarningLevelRatio": 100}
"""Settings for a store in another process, which measures the machine's disk: that may be full."""

SMALL = {
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 50,
    "maxIndexNum": 100,
    **PATIENT,
}
"""Files so small that a hundred messages fill several of each kind."""


# Behind the store times of all archives.
LATER_MS = 4_000_000_000_000


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def text_message(number: int, topic: str = "T", queue_id: int = 0, body_size: int = 60) -> Message:
    """Return a message with its number in body, key and tag."""
    body = f"message {number} ".encode().ljust(body_size, b".")
    properties = f"KEYS\x01k{number} all\x02UNIQ_KEY\x01U{number}\x02TAGS\x01tag{number % 3}".encode()
    return Message(topic, body, queue_id, properties, born_timestamp_ms=1_700_000_000_000 + number)


def make_store(root: Path, count: int = 100, *, queues: int = 3, **settings: Any) -> Path:
    """Make a store with `count` messages in topic T, one second apart, closed cleanly; return its folder."""
    clock = Clock()
    with open_store(root, settings={**SMALL, **settings}, read_only=False, clock=clock) as store:
        for number in range(count):
            clock.now_ms += 1000
            assert store.put(text_message(number, queue_id=number % queues)).is_ok
    return root


planning = staged_store
"""The store opened as a changing command opens it."""


def recover(
    root: Path, *, mode: str = "auto", keep_index: bool = False, as_broker: bool = False, **options: Any
) -> tuple[Change, str | None]:
    """Recover in place; return the plan and the id for undo."""
    with planning(root, **options) as opened:
        change = plan_recovery(opened, mode=mode, keep_index=keep_index, as_broker=as_broker)
        return change, change.apply()


def truncate(root: Path, log_offset: int | None = None, **options: Any) -> tuple[Change, str | None]:
    """Truncate in place; return the plan and the id for undo."""
    with planning(root, **options) as opened:
        change = plan_truncation(opened, log_offset)
        return change, change.apply()


def stored_messages(store: MessageStore) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    """Return queue offset and body of every message that the queues reach, by topic and queue id."""
    found: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for queue in store.queues():
        messages = found.setdefault((queue.topic, queue.queue_id), [])
        offset = queue.min_offset
        while offset < queue.max_offset:
            result = store.get(queue.topic, queue.queue_id, offset)
            messages += [(message.queue_offset, message.body) for message in result.messages]
            assert result.next_offset > offset, f"no progress at {offset}: {result.status}"
            offset = result.next_offset
    return found


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
