"""usage: the bytes of the commit log by topic, queue, tag or day, as a query for both engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from store.errors import BadRequest
from store.query.tables.json_values import Row

GROUPS = {
    "topic": "topic",
    "queue": "queue_id",
    "tag": "tags",
    "day": "cast(cast(store_timestamp as date) as string)",
}
_NAMES = {"queue": "queue_id"}


def usage_query(by: Sequence[str], *, by_store: bool = False, where: str | None = None) -> str:
    """Return the query of messages, bytes, first and last time of each group, the largest first."""
    unknown = [name for name in by if name not in GROUPS]
    if unknown or not by:
        raise BadRequest(f"cannot group by {', '.join(unknown) or 'nothing'}", hint=f"use some of {', '.join(GROUPS)}")
    groups = {"store": "store"} if by_store else {}
    groups |= {_NAMES.get(name, name): GROUPS[name] for name in by}
    columns = ", ".join(f"{expression} as {name}" for name, expression in groups.items())
    numbers = ", ".join(str(place + 1) for place in range(len(groups)))
    return f"""
        select {columns}, count(*) as message_count, sum(size) as size_bytes,
            min(store_timestamp) as first_time, max(store_timestamp) as last_time
        from messages{f" where {where}" if where else ""}
        group by {numbers}
        order by size_bytes desc, {numbers}
    """


def usage_rows(answer: Sequence[Row]) -> list[Row]:
    """Return the answer with each group's share of all bytes, and times in milliseconds."""
    total = sum(row["size_bytes"] for row in answer)
    return [
        {
            **{name: value for name, value in row.items() if not name.endswith("_time")},
            "share_percent": round(100 * row["size_bytes"] / total, 2),
            "first_ms": _milliseconds(row["first_time"]),
            "last_ms": _milliseconds(row["last_time"]),
        }
        for row in answer
    ]


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
