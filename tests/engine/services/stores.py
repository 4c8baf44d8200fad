"""Stores with delayed and transactional messages: those that real brokers wrote, and ones built record by record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store import Message, MessageStore, open_store
from store.formats.message import TRANSACTION_COMMIT
from store.formats.properties import encode_properties
from store.formats.topics import HALF_TOPIC, SCHEDULE_TOPIC
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, unpacked
from tests.support.stores import SMALL, Clock

ARCHIVES = Path(__file__).parents[3] / "fixtures" / "services"
NAMES = ("services", "services-aborted", "services5", "services5-aborted")
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARD_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
NOW_MS = Clock().now_ms


def unpack(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store of an archive, and what its writer expects of it."""
    original = unpacked(ARCHIVES / f"{name}.tar.xz") / name
    expected = json.loads((original / "expected.json").read_text(encoding="utf-8"))
    return copy_store(original / "store", folder / name / "store"), expected


class Builder:
    """Puts into an open store what a broker's services would have put, at the clock's time."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    def put(self, topic: str, properties: dict[str, str], body: bytes = b"x", **more: Any) -> int:
        message = Message(topic, body, properties=encode_properties(properties), born_timestamp_ms=NOW_MS, **more)
        result = self.store.put(message)
        assert result.is_ok, result
        return result.log_offset

    def delay(self, key: str, level: int = 1, **properties: str) -> int:
        return self.put("T", {"UNIQ_KEY": key, "DELAY": str(level), **properties})

    def schedule(self, level: int, properties: dict[str, str]) -> int:
        """A record in the schedule topic with just these properties, which no broker would write."""
        rules = self.store.opened.log.rules
        rewrite, rules.delayed = rules.delayed, lambda message: message
        try:
            return self.put(SCHEDULE_TOPIC, properties, queue_id=level - 1)
        finally:
            rules.delayed = rewrite

    def deliver(self, key: str, level: int = 1, topic: str = "T") -> int:
        # PREPARED keeps the put from delaying the copy again; the sys flag says nothing of a copy.
        properties = {"UNIQ_KEY": key, "DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": "0"}
        return self.put(topic, properties, sys_flag=0x4)

    def half(self, key: str, **properties: str) -> int:
        base = {"UNIQ_KEY": key, "REAL_TOPIC": "Pay", "REAL_QID": "1", "PGROUP": "PG"}
        return self.put(HALF_TOPIC, {**base, **properties})

    def commit(self, key: str, half: int, topic: str = "Pay") -> int:
        properties = {"UNIQ_KEY": key, "REAL_TOPIC": "Pay", "REAL_QID": "1", "PGROUP": "PG"}
        return self.put(topic, properties, sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=half)

    def end(self, body: str, tag: str = "d") -> int:
        return self.put(OP_TOPIC, {"TAGS": tag}, body.encode())

    def discard(self, key: str) -> int:
        return self.put(DISCARD_TOPIC, {"UNIQ_KEY": key, "REAL_TOPIC": "Pay", "REAL_QID": "1"})


def build(root: Path, steps: Callable[[Builder], None], config: dict[str, Any] | None = None, **settings: Any) -> Path:
    """A store that `steps` filled, closed, with files under config/."""
    clock = Clock()
    with open_store(root, settings={**SMALL, **settings}, read_only=False, clock=clock) as store:
        steps(Builder(store, clock))
    for name, document in (config or {}).items():
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / name).write_text(json.dumps(document))
    return root


def show(root: Path, *words: object, code: int = 0) -> Any:
    run = rmqctl("--format", "json", *words, store=root)
    assert run.code == code, run.err
    return run.json
