"""A call of each kind to a served store."""

from __future__ import annotations

from typing import Any

ROW = ["T", 0, 1, 0, 0, 0, 5, "127.0.0.1:1", "127.0.0.1:1", 0, 0]
GET = {"call": "get", "topic": "T", "queue_id": 0, "offset": 0, "max_count": 1}
QUERY = {"call": "query", "topic": "T", "key": "k", "max_count": 1, "begin_ms": 0, "end_ms": 9, "verify": True}
CALLS: list[dict[str, Any]] = [
    GET, QUERY,
    {"call": "put", "messages": [ROW]},
    {"call": "put", "messages": [ROW], "is_replayed": True, "as_stored": True, "store_timestamp_ms": 1},
    {"call": "prepare", "messages": [ROW], "producer_group": "G"},
    {"call": "commit", "half_log_offset": 0, "producer_group": "G"},
    {"call": "rollback", "half_log_offset": 0, "producer_group": "G"},
    {"call": "register", "group": "G", "topic": "T", "expression": "a > 5", "client_version": 1},
    {"call": "unregister", "group": "G"},
    {"call": "wait", "topic": "T", "queue_id": 0, "offset": 0, "timeout_ms": 0, "filter": {"tags": "a"}},
    {"call": "lookup", "log_offset": 0},
    {"call": "queues", "topic": "T"},
    {"call": "offsets", "topic": "T", "queue_id": 0},
    {"call": "offset_by_time", "topic": "T", "queue_id": 0, "time_ms": 0},
    {"call": "stats", "ring": "minute"},
]  # fmt: skip
