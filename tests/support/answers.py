"""A store's answers in the words of the golden requests, so that a whole answer is compared at once.

answer(store, {"op": "get", "topic": "TopicA", "queue": 0, "offset": 0, "max": 32})
== {"status": "FOUND", "nextBeginOffset": 20, …, "messages": […]}
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from store import MessageStore
from store.errors import BadRequest
from store.formats.host import Host
from store.formats.message import StoredMessage

Request = dict[str, Any]
Answer = dict[str, Any]


def answer(store: MessageStore, request: Request) -> Answer:
    """Return the store's answer to one request."""
    return _ANSWERS[request["op"]](store, request)


def mismatches(store: MessageStore, pairs: Iterable[tuple[Request, Answer]]) -> list[str]:
    """Return a line for each request with another answer than the broker's; empty if all agree."""
    found = []
    for request, expected in pairs:
        given = answer(store, request)
        expected = comparable(expected)
        if given != expected:
            keys = [key for key in expected.keys() | given.keys() if expected.get(key) != given.get(key)]
            found.append(
                f"{request}: " + "; ".join(f"{k}: {given.get(k)!r:.300} is not {expected.get(k)!r:.300}" for k in keys)
            )
    return found


def comparable(expected: Answer) -> Answer:
    """Return a golden answer without details of Java: the spelling of hosts, the checkpoint's times."""
    plain = dict(expected)
    plain.pop("checkpoint", None)
    plain.pop("indexIndexLastUpdateTimestamp", None)
    plain.pop("indexIndexLastUpdatePhyoffset", None)
    if "messages" in plain:
        plain["messages"] = [_plain_hosts(message) for message in plain["messages"]]
    if plain.get("message"):
        plain["message"] = _plain_hosts(plain["message"])
    return plain


def set_queue_mtimes(root: Path, mtimes_ms: dict[str, int]) -> None:
    """Set the queue files' times to those of the recorded searches by time."""
    for name, time_ms in mtimes_ms.items():
        os.utime(root / name, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def _minmax(store: MessageStore, request: Request) -> Answer:
    place = request["topic"], request["queue"]
    return {
        "min": store.min_offset(*place),
        "max": store.max_offset(*place),
        "earliestTime": store.earliest_time(*place),
    }


def _get(store: MessageStore, request: Request) -> Answer:
    result = store.get(request["topic"], request["queue"], request["offset"], request["max"])
    return {
        "status": result.status.value,
        "nextBeginOffset": result.next_offset,
        "minOffset": result.min_offset,
        "maxOffset": result.max_offset,
        "count": result.message_count or len(result.messages),
        "bufferTotalSize": result.size,
        "messages": [_message(message) | {"raw": _base64(message.raw)} for message in result.messages],
    }


def _time(store: MessageStore, request: Request) -> Answer:
    return {"offset": store.offset_by_time(request["topic"], request["queue"], request["timestamp"])}


def _query(store: MessageStore, request: Request) -> Answer:
    bounds = (request["begin"], request["end"]) if "begin" in request else ()
    result = store.query(request["topic"], request["key"], request["max"], *bounds, verify=False)
    found = store.opened.index.query(request["topic"], request["key"], request["max"], *(bounds or (0, (1 << 63) - 1)))
    return {
        "indexPhyOffsets": found.log_offsets,
        "indexLastUpdateTimestamp": result.last_update_timestamp_ms,
        "indexLastUpdatePhyoffset": result.last_update_log_offset,
        "phyOffsets": [message.log_offset for message in result.messages],
        "msgIds": [message.msg_id for message in result.messages],
    }


def _lookup(store: MessageStore, request: Request) -> Answer:
    try:
        message = store.lookup(request["offset"])
    except BadRequest:  # An offset inside of a record, for which a broker has no message.
        message = None
    return {"message": _message(message) if message is not None else None}


def _queues(store: MessageStore, request: Request) -> Answer:
    return {
        "queues": queue_rows(store),
        "minPhyOffset": store.min_log_offset,
        "maxPhyOffset": store.max_log_offset,
    }


def queue_rows(store: MessageStore) -> list[dict[str, Any]]:
    """Return every queue in the form of load.json."""
    return [
        {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "min": queue.min_offset,
            "max": queue.max_offset,
            "maxPhysicOffset": queue.max_physic_offset,
        }
        for queue in store.queues()
    ]


def _message(message: StoredMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.log_offset,
        "storeSize": message.size,
        "bodyCRC": message.body_crc,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp_ms,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "msgId": message.msg_id,
        "properties": message.properties,
        "body": _base64(message.body),
    }


def _plain_hosts(message: dict[str, Any]) -> dict[str, Any]:
    return message | {name: Host.parse(message[name]) for name in ("bornHost", "storeHost")}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_ANSWERS = {
    "minmax": _minmax,
    "get": _get,
    "time": _time,
    "query": _query,
    "lookup": _lookup,
    "queues": _queues,
}
