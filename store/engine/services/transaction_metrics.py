"""TransactionMetrics: counts of open halves by real topic, in config/transactionMetrics (5.x).

    a half is put                             +1
    committed, rolled back, given up          -1

The counts are never computed again from the log: a killed broker loses the changes of up to
transactionMetricFlushInterval. The file is JSON on one line.

Source: TransactionMetrics, TransactionMetricsFlushService, SendMessageProcessor, EndTransactionProcessor (5.3.3).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from store.formats.properties import java_map_order
from store.opened.opened_store import OpenedStore
from store.structures.tables.config_file import read_config_file, write_config_file
from store.structures.tables.data_version import DataVersion, parse_data_version
from store.structures.tables.fastjson import Json, members

FILE_NAME = "transactionMetrics"
MAP_CAPACITY = 2048
"""Buckets of the broker's map: new ConcurrentHashMap(1024)."""


class TransactionMetrics:
    """The counts of `opened`, read from its file; `clock` returns milliseconds."""

    def __init__(self, opened: OpenedStore, clock: Callable[[], int]) -> None:
        self._opened, self._clock = opened, clock
        self._lock = threading.Lock()
        self._is_changed = False
        document = read_config_file(opened.layout.config, FILE_NAME, opened.fs).document
        self._version = parse_data_version(document.get("dataVersion")) or DataVersion(timestamp_ms=clock())
        self._counts: dict[str, tuple[int, int]] = {}
        """Topic → count and time of its last change."""
        for topic, entry in members(document.get("transactionCount")).items():
            count, time_ms = (members(entry).get(name) for name in ("count", "timeStamp"))
            if isinstance(count, int) and isinstance(time_ms, int):
                self._counts[topic] = int(count), int(time_ms)

    def add(self, topic: str, count: int) -> None:
        """Count halves of a real topic (addAndGet)."""
        now_ms = self._clock()
        with self._lock:
            before, _ = self._counts.get(topic, (0, 0))
            self._counts[topic] = before + count, now_ms
            self._version.move(now_ms)
            self._is_changed = True

    def persist(self) -> None:
        """Write the file if a count changed."""
        with self._lock:
            if not self._is_changed:
                return
            self._is_changed = False
            data = self._encode()
        try:
            write_config_file(self._opened.layout.config, FILE_NAME, data, self._opened.fs)
        except BaseException:
            self._is_changed = True
            raise

    def _encode(self) -> bytes:
        counts: dict[str, Json] = {}
        for topic in java_map_order(self._counts, MAP_CAPACITY):
            count, time_ms = self._counts[topic]
            entry: dict[str, Json] = {"count": count, "timeStamp": time_ms}
            counts[topic] = entry
        document = {"dataVersion": self._version.to_json(), "transactionCount": counts}
        return json.dumps(document, separators=(",", ":")).encode()
