"""The calls of the control socket: a request with name and arguments, an answer frame.

    hello          root, process, settings of interest
    put            messages → a result each
    get            one broker call; hold_ms waits for a message first
    lookup, query  by log offset, by key
    prepare, commit, rollback       the half of a producer group; ended by its log offset
    register, unregister            the SQL subscription of a consumer group
    topics, queues, offsets, offset_by_time
    stats          the runtime report, counters by topic and group
    flush          everything put so far is durable
    stop           the owner closes the store

Records are sent as they are stored, so that both sides decode them with the same code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from store.engine.services.served_store import DEFAULT_GROUP, ServedState, ServedStore
from store.engine.serving.filters import read_filter
from store.engine.serving.frames import Frame, Head, unpack_messages
from store.engine.serving.remote import put_row
from store.engine.stats.broker_stats import RINGS
from store.errors import BadRequest, DamagedRecord
from store.formats.given import check_flag, check_number, check_text
from store.formats.message import Message
from store.structures.commitlog.put_result import PutResult

LONGEST_HOLD_MS = 60_000


class Calls:
    """Answers the calls on `store`; `on_stop` is called by stop."""

    def __init__(self, store: ServedStore, on_stop: Callable[[], None]) -> None:
        self._store = store
        self._on_stop = on_stop

    def answer(self, request: Frame) -> Frame:
        """Return the answer to one request; BadRequest for an unknown call or for wrong arguments."""
        name = request.head.get("call")
        call = getattr(self, f"_call_{name}", None) if isinstance(name, str) else None
        if call is None:
            raise BadRequest(f"the control socket has no call {str(name)[:40]!r}")
        try:
            answer: Frame = call(request.head, request.attachment)
        except KeyError as error:
            raise BadRequest(f"the call {name} has wrong arguments: {error.args[0]} is missing") from None
        except (TypeError, ValueError) as error:
            raise BadRequest(f"the call {name} has wrong arguments: {error}") from None
        return answer

    def _call_hello(self, head: Head, attachment: bytes) -> Frame:
        store = self._store
        return Frame(
            {
                "root": str(store.layout.root),
                "process_id": os.getpid(),
                "line": str(store.opened.line),
                "services": sorted(store.services),
                "delay_level_count": len(store.config.delay_levels_ms),
                "segment_size_bytes": store.config.mapped_file_size_commit_log,
            }
        )

    # Putting.

    def _call_put(self, head: Head, attachment: bytes) -> Frame:
        messages = unpack_messages(head["messages"], attachment)
        if _flag(head, "is_replayed", False):
            results = [self._put_replayed(message, head) for message in messages]
        elif len(messages) > 1 and _have_same_hosts(messages):
            return Frame({"results": self._put_columns(messages)})
        else:
            results = [self._store.put(message) for message in messages]
        return Frame({"results": [put_row(result) for result in results]})

    def _put_replayed(self, message: Message, head: Head) -> PutResult:
        return self._store.put_replayed(
            message, as_stored=_flag(head, "as_stored"), store_timestamp_ms=head.get("store_timestamp_ms")
        )

    def _put_columns(self, messages: list[Message]) -> list[list[Any]]:
        answer = self._store.put_many(messages)
        return [
            [
                answer.status_of(row).value, int(answer.log_offsets[row]), int(answer.sizes[row]),
                int(answer.queue_offsets[row]), int(answer.store_timestamps_ms[row]),
                answer.refused[row].reason if row in answer.refused else "",
            ]
            for row in range(len(messages))
        ]  # fmt: skip

    # Transactions and filters.

    def _call_prepare(self, head: Head, attachment: bytes) -> Frame:
        (message,) = unpack_messages(head["messages"], attachment)
        return Frame({"result": put_row(self._store.transactions.prepare(message, _text(head, "producer_group")))})

    def _call_commit(self, head: Head, attachment: bytes) -> Frame:
        half, group = _number(head, "half_log_offset"), _text(head, "producer_group")
        result = self._store.transactions.commit(half, group, is_answer=_flag(head, "is_answer", False))
        return Frame({"result": put_row(result)})

    def _call_rollback(self, head: Head, attachment: bytes) -> Frame:
        half, group = _number(head, "half_log_offset"), _text(head, "producer_group")
        self._store.transactions.rollback(half, group, is_answer=_flag(head, "is_answer", False))
        return Frame({})

    def _call_register(self, head: Head, attachment: bytes) -> Frame:
        group, topic, expression = _text(head, "group"), _text(head, "topic"), _text(head, "expression")
        version = None if head.get("client_version") is None else _number(head, "client_version")
        filters = self._store.filters
        is_taken = filters.register(group, topic, expression, version)
        # A broker writes the file within ten seconds; here the caller may read it at once.
        filters.persist()
        return Frame({"is_taken": is_taken})

    def _call_unregister(self, head: Head, attachment: bytes) -> Frame:
        self._store.filters.unregister(_text(head, "group"))
        self._store.filters.persist()
        return Frame({})

    # Getting.

    def _call_get(self, head: Head, attachment: bytes) -> Frame:
        store = self._store
        topic, queue_id, offset = _text(head, "topic"), _number(head, "queue_id"), _number(head, "offset")
        wanted = read_filter(head.get("filter"))
        result = store.get(
            topic, queue_id, offset, _number(head, "max_count"), wanted, group=_text(head, "group", DEFAULT_GROUP)
        )
        return Frame(
            {
                "status": result.status.value,
                "next_offset": result.next_offset,
                "min_offset": result.min_offset,
                "max_offset": result.max_offset,
                "message_count": result.message_count,
                "size": result.size,
                "damaged": _damage_rows(result.damaged),
                "sizes": [len(message.raw) for message in result.messages],
            },
            b"".join(message.raw for message in result.messages),
        )

    def _call_wait(self, head: Head, attachment: bytes) -> Frame:
        has_come = self._store.wait_for_message(
            _text(head, "topic"),
            _number(head, "queue_id"),
            _number(head, "offset"),
            min(_number(head, "timeout_ms"), LONGEST_HOLD_MS),
            read_filter(head.get("filter")),
        )
        return Frame({"has_come": has_come})

    def _call_lookup(self, head: Head, attachment: bytes) -> Frame:
        found = self._store.lookup(_number(head, "log_offset"))
        return Frame({"is_found": found is not None}, found.raw if found is not None else b"")

    def _call_query(self, head: Head, attachment: bytes) -> Frame:
        result = self._store.query(
            _text(head, "topic"),
            _text(head, "key"),
            _number(head, "max_count"),
            _number(head, "begin_ms"),
            _number(head, "end_ms"),
            verify=_flag(head, "verify"),
            by_tags=_flag(head, "by_tags", False),
            in_database=_flag(head, "in_database", False),
        )
        return Frame(
            {
                "index_files": result.index_files,
                "last_update_timestamp_ms": result.last_update_timestamp_ms,
                "last_update_log_offset": result.last_update_log_offset,
                "is_limited": result.is_limited,
                "damaged": _damage_rows(result.damaged),
                "sizes": [len(message.raw) for message in result.messages],
            },
            b"".join(message.raw for message in result.messages),
        )

    def _call_topics(self, head: Head, attachment: bytes) -> Frame:
        return Frame({"topics": self._store.topics()})

    def _call_queues(self, head: Head, attachment: bytes) -> Frame:
        return Frame({"queue_ids": self._store.queue_ids(_text(head, "topic"))})

    def _call_offsets(self, head: Head, attachment: bytes) -> Frame:
        key = _text(head, "topic"), _number(head, "queue_id")
        return Frame({"min_offset": self._store.min_offset(*key), "max_offset": self._store.max_offset(*key)})

    def _call_offset_by_time(self, head: Head, attachment: bytes) -> Frame:
        found = self._store.offset_by_time(_text(head, "topic"), _number(head, "queue_id"), _number(head, "time_ms"))
        return Frame({"offset": found})

    # Keeping.

    def _call_stats(self, head: Head, attachment: bytes) -> Frame:
        ring = _text(head, "ring", "minute")
        if ring not in RINGS:
            raise ValueError(f"the ring is one of {', '.join(RINGS)}")
        store = self._store
        rows = [[name, key, item.value, *item.report(ring)] for name, key, item in store.broker_statistics.items()]
        return Frame(
            {
                "runtime": store.runtime_info(),
                "items": rows,
                "moments": store.broker_statistics.moments(),
                "flags": [flag.name for flag in store.flags.bits],
                "findings": store.describe_findings(),
                **_state_head(store.state()),
            }
        )

    def _call_flush(self, head: Head, attachment: bytes) -> Frame:
        return Frame({"log_offset": self._store.flush()})

    def _call_stop(self, head: Head, attachment: bytes) -> Frame:
        self._on_stop()
        return Frame({"log_offset": self._store.max_log_offset})


def _state_head(state: ServedState) -> Head:
    return state._asdict() | {
        "slaves": [one._asdict() for one in state.slaves],
        "delay_levels": [one._asdict() for one in state.delay_levels],
        "listeners": [one._asdict() for one in state.listeners],
    }


def _text(head: Head, name: str, absent: str | None = None) -> str:
    return check_text(name, head[name] if absent is None else head.get(name, absent))


def _number(head: Head, name: str) -> int:
    return check_number(name, head[name], 32 if name == "queue_id" else 64)


def _flag(head: Head, name: str, absent: bool | None = None) -> bool:
    return check_flag(name, head[name] if absent is None else head.get(name, absent))


def _have_same_hosts(messages: list[Message]) -> bool:
    return len({(message.born_host, message.store_host) for message in messages}) == 1


def _damage_rows(damaged: list[DamagedRecord]) -> list[list[object]]:
    return [[str(one.file or ""), one.offset, one.reason, one.code, one.record_count] for one in damaged]
