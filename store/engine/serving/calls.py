"""The calls of the control socket: a request with name and arguments, an answer frame.

    hello          root, process, settings of interest
    put            messages → a result each
    get, wait      one broker call; wait for a message first
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
from functools import partial
from inspect import signature
from typing import Any

from store.engine.services.served_store import DEFAULT_GROUP, ServedState, ServedStore
from store.engine.serving.filters import read_filter
from store.engine.serving.frames import Frame, Head, unpack_messages
from store.engine.serving.remote import put_row
from store.engine.stats.broker_stats import RINGS
from store.errors import BadRequest, DamagedRecord
from store.formats.given import check_flag, check_number, check_text
from store.formats.message import Message

LONGEST_HOLD_MS = 60_000


class Calls:
    """Answers the calls on `store`; `on_stop` is called by stop."""

    def __init__(self, store: ServedStore, on_stop: Callable[[], None]) -> None:
        self._store = store
        self._on_stop = on_stop

    def answer(self, request: Frame) -> Frame:
        """Return the answer to one request; BadRequest for an unknown call or for wrong arguments."""
        arguments = {**request.head}
        name = arguments.pop("call", None)
        call = getattr(self, f"_call_{name}", None) if isinstance(name, str) else None
        if call is None:
            raise BadRequest(f"the control socket has no call {str(name)[:40]!r}")
        try:
            # It names a wrong argument without the name of the method, as the call itself does not.
            signature(call).bind(request.attachment, **arguments)
            answer: Frame = call(request.attachment, **arguments)
        except (TypeError, ValueError) as error:
            raise BadRequest(f"the call {name} has wrong arguments: {error}") from None
        return answer

    def _call_hello(self, attachment: bytes, /) -> Frame:
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

    def _call_put(
        self, attachment: bytes, /, messages: Any, is_replayed: bool = False, as_stored: bool = True,
        store_timestamp_ms: int | None = None,
    ) -> Frame:  # fmt: skip
        read = unpack_messages(messages, attachment)
        if check_flag("is_replayed", is_replayed):
            replay = partial(self._store.put_replayed, as_stored=as_stored, store_timestamp_ms=store_timestamp_ms)
            results = [replay(message) for message in read]
        elif len(read) > 1 and _have_same_hosts(read):
            return Frame({"results": self._put_columns(read)})
        else:
            results = [self._store.put(message) for message in read]
        return Frame({"results": [put_row(result) for result in results]})

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

    def _call_prepare(self, attachment: bytes, /, messages: Any, producer_group: str) -> Frame:
        (message,) = unpack_messages(messages, attachment)
        return Frame({"result": put_row(self._store.transactions.prepare(message, producer_group))})

    def _call_commit(
        self, attachment: bytes, /, half_log_offset: int, producer_group: str, is_answer: bool = False
    ) -> Frame:
        result = self._store.transactions.commit(half_log_offset, producer_group, is_answer=is_answer)
        return Frame({"result": put_row(result)})

    def _call_rollback(
        self, attachment: bytes, /, half_log_offset: int, producer_group: str, is_answer: bool = False
    ) -> Frame:
        self._store.transactions.rollback(half_log_offset, producer_group, is_answer=is_answer)
        return Frame({})

    def _call_register(
        self, attachment: bytes, /, group: str, topic: str, expression: str, client_version: int | None = None
    ) -> Frame:
        filters = self._store.filters
        is_taken = filters.register(group, topic, expression, client_version)
        # A broker writes the file within ten seconds; here the caller may read it at once.
        filters.persist()
        return Frame({"is_taken": is_taken})

    def _call_unregister(self, attachment: bytes, /, group: str) -> Frame:
        self._store.filters.unregister(group)
        self._store.filters.persist()
        return Frame({})

    # Getting.

    def _call_get(
        self, attachment: bytes, /, topic: str, queue_id: int, offset: int, max_count: int,
        filter: Head | None = None, group: str = DEFAULT_GROUP,
    ) -> Frame:  # fmt: skip
        result = self._store.get(topic, queue_id, offset, max_count, read_filter(filter), group=group)
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

    def _call_wait(
        self, attachment: bytes, /, topic: str, queue_id: int, offset: int, timeout_ms: int, filter: Head | None = None
    ) -> Frame:
        most_ms = min(check_number("timeout_ms", timeout_ms, 64), LONGEST_HOLD_MS)
        return Frame({"has_come": self._store.wait_for_message(topic, queue_id, offset, most_ms, read_filter(filter))})

    def _call_lookup(self, attachment: bytes, /, log_offset: int) -> Frame:
        found = self._store.lookup(log_offset)
        return Frame({"is_found": found is not None}, found.raw if found is not None else b"")

    def _call_query(self, attachment: bytes, /, topic: str, key: str, **options: Any) -> Frame:
        result = self._store.query(topic, key, **options)
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

    def _call_topics(self, attachment: bytes, /) -> Frame:
        return Frame({"topics": self._store.topics()})

    def _call_queues(self, attachment: bytes, /, topic: str) -> Frame:
        return Frame({"queue_ids": self._store.queue_ids(topic)})

    def _call_offsets(self, attachment: bytes, /, topic: str, queue_id: int) -> Frame:
        store = self._store
        return Frame({"min_offset": store.min_offset(topic, queue_id), "max_offset": store.max_offset(topic, queue_id)})

    def _call_offset_by_time(self, attachment: bytes, /, topic: str, queue_id: int, time_ms: int) -> Frame:
        return Frame({"offset": self._store.offset_by_time(topic, queue_id, time_ms)})

    # Keeping.

    def _call_stats(self, attachment: bytes, /, ring: str = "minute") -> Frame:
        if check_text("ring", ring) not in RINGS:
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

    def _call_flush(self, attachment: bytes, /) -> Frame:
        return Frame({"log_offset": self._store.flush()})

    def _call_stop(self, attachment: bytes, /) -> Frame:
        self._on_stop()
        return Frame({"log_offset": self._store.max_log_offset})


def _state_head(state: ServedState) -> Head:
    return state._asdict() | {
        "slaves": [one._asdict() for one in state.slaves],
        "delay_levels": [one._asdict() for one in state.delay_levels],
        "listeners": [one._asdict() for one in state.listeners],
    }


def _have_same_hosts(messages: list[Message]) -> bool:
    return len({(message.born_host, message.store_host) for message in messages}) == 1


def _damage_rows(damaged: list[DamagedRecord]) -> list[list[object]]:
    return [[str(one.file or ""), one.offset, one.reason, one.code, one.record_count] for one in damaged]
