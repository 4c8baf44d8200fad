"""Many messages at once, as columns: the arguments and the result of `MessageStore.put_many`.

    MessageColumns.of(messages)        from Message objects
    MessageColumns.from_arrow(batch)   from an Arrow record batch with the columns named below

        topic                string, or a dictionary of strings
        body                 binary or string, or a type that Arrow casts: views, fixed-size binary, a dictionary
        queue_id, flag, sys_flag, reconsume_times     integers, 0 where absent
        prepared_transaction_offset                   integers, 0 where absent
        born_timestamp_ms    integers; the time of this call where absent
        properties           binary: the stored property string, empty where absent

The messages of one call share a born host and a store host, unless `hosts` gives each message its pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from store import kernels
from store.errors import BadRequest, WrongKind
from store.formats.given import check_messages, check_sequence
from store.formats.host import LOCALHOST, Host
from store.formats.message import Message
from store.formats.properties import WAIT_MARK, says_no_wait
from store.formats.run import Int64Array
from store.kernels.native import clock_ms
from store.structures.commitlog.arrow_columns import bytes_of, numbers_of, topics_of
from store.structures.commitlog.put_result import PutResult, PutStatus

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER_COLUMNS = (
    "queue_id",
    "flag",
    "sys_flag",
    "born_timestamp_ms",
    "reconsume_times",
    "prepared_transaction_offset",
)
_KINDS = {"topic": str, "body": bytes, "properties": bytes}
_PIECE_SIZE = 128 * 1024
_MAX_QUEUE_PLACES = 1 << 16


@dataclass(slots=True)
class MessageColumns:
    """n messages as columns.

    `*_ends` are int64[n + 1], as Arrow's offsets; `topic_of` is the index of each message's topic.

    hosts, hosts_of  if hosts differ: the pairs of born host and store host, and the index of each message's pair
    """

    topics: list[str]
    topic_of: Int64Array
    bodies: Any
    body_ends: Int64Array
    properties: Any
    property_ends: Int64Array
    numbers: dict[str, Int64Array]
    born_host: Host = LOCALHOST
    store_host: Host = LOCALHOST
    hosts: list[tuple[Host, Host]] = field(default_factory=list)
    hosts_of: Int64Array | None = None

    def __len__(self) -> int:
        return len(self.topic_of)

    def host_pairs(self) -> tuple[list[tuple[Host, Host]], Int64Array]:
        """Return the pairs of born host and store host, and the index of each message's pair."""
        if self.hosts_of is None:
            return [(self.born_host, self.store_host)], np.zeros(len(self), np.int64)
        return self.hosts, self.hosts_of

    def find_in_properties(self, text: bytes) -> bool:
        """Return whether any message's properties hold `text`.

        Uncompiled kernels copy the bytes that they search, so the search takes pieces.
        """
        start, stop = int(self.property_ends[0]), int(self.property_ends[-1])
        return any(
            kernels.find_text(self.properties, text, at, min(at + _PIECE_SIZE + len(text) - 1, stop)) >= 0
            for at in range(start, stop, _PIECE_SIZE)
        )

    def waits_for_flush(self) -> npt.NDArray[np.bool_]:
        """Mark the messages that wait for the disk: all without the property WAIT=false."""
        waits = np.ones(len(self), np.bool_)
        if self.find_in_properties(WAIT_MARK):
            for row in range(len(self)):
                waits[row] = not says_no_wait(self._properties_of(row))
        return waits

    def number_queues(self) -> tuple[Int64Array, Int64Array]:
        """Return the distinct queues, and the index of each message's queue among them.

        A queue is (topic index << 32) + queue id.
        """
        queue_ids = self.numbers["queue_id"]
        width = int(queue_ids.max()) + 1 if len(queue_ids) else 1
        if queue_ids.min(initial=0) < 0 or width * len(self.topics) > _MAX_QUEUE_PLACES:
            keys, numbers = np.unique(self.topic_of << 32 | queue_ids, return_inverse=True)
            return keys, numbers
        # A table of all possible queues is small enough here: sorting would cost more than encoding.
        places = self.topic_of * width + queue_ids
        occurs = np.zeros(width * len(self.topics), bool)
        occurs[places] = True
        found = np.flatnonzero(occurs)
        return found // width << 32 | found % width, (np.cumsum(occurs) - 1)[places]

    @classmethod
    def of(cls, messages: Sequence[Message] | MessageColumns) -> MessageColumns:
        """Make columns of messages; columns stay as they are.

        BadRequest for messages with different hosts, and where check_message raises it.
        """
        if isinstance(messages, MessageColumns):
            return messages
        check_sequence("messages", messages)
        if set(map(type, messages)) - {Message}:
            check_messages(messages)
        first = messages[0] if messages else Message("")
        given = {name: [getattr(one, name) for one in messages] for name in NUMBER_COLUMNS}
        given |= {name: [getattr(one, name) for one in messages] for name in _KINDS}
        if None in given["born_timestamp_ms"]:
            now_ms = clock_ms()
            given["born_timestamp_ms"] = [now_ms if ms is None else ms for ms in given["born_timestamp_ms"]]
        if any(set(map(type, values)) - {_KINDS.get(name, int)} for name, values in given.items()):
            check_messages(messages)
        if any((one.born_host, one.store_host) != (first.born_host, first.store_host) for one in messages):
            raise BadRequest("the messages of one bulk put must have the same hosts")
        topics = list(dict.fromkeys(given["topic"]))
        places = {topic: place for place, topic in enumerate(topics)}
        bodies, body_ends = _joined(given["body"])
        properties, property_ends = _joined(given["properties"])
        try:
            numbers = {name: np.array(given[name], np.int64) for name in NUMBER_COLUMNS}
        except OverflowError:
            check_messages(messages)
            raise
        return cls(
            topics,
            np.array([places[topic] for topic in given["topic"]], np.int64),
            bodies,
            body_ends,
            properties,
            property_ends,
            numbers,
            first.born_host,
            first.store_host,
        )

    @classmethod
    def from_arrow(
        cls, batch: pa.RecordBatch, *, born_host: Host = LOCALHOST, store_host: Host = LOCALHOST
    ) -> MessageColumns:
        """Make messages of a pyarrow.RecordBatch.

        BadRequest when `topic` or `body` is missing or has a null, or when a column's type can't be cast.
        """
        if not hasattr(batch, "schema"):
            raise WrongKind(f"batch is not a RecordBatch, but {type(batch).__name__}")
        names, count, absent = set(batch.schema.names), batch.num_rows, {"born_timestamp_ms": clock_ms()}
        if not {"topic", "body"} <= names:
            raise BadRequest("a record batch of messages needs the columns topic and body")
        topics, topic_of = topics_of(batch, "topic")
        bodies, body_ends = bytes_of(batch, "body", may_be_null=False)
        properties, property_ends = memoryview(b""), np.zeros(count + 1, np.int64)
        if "properties" in names:
            properties, property_ends = bytes_of(batch, "properties", may_be_null=True)
        return cls(
            topics,
            topic_of,
            bodies,
            body_ends,
            properties,
            property_ends,
            {
                name: numbers_of(batch, name) if name in names else np.full(count, absent.get(name, 0), np.int64)
                for name in NUMBER_COLUMNS
            },
            born_host,
            store_host,
        )

    def message(self, row: int) -> Message:
        """Return one row as a Message."""
        pairs, pair_of = self.host_pairs()
        born_host, store_host = pairs[int(pair_of[row])]
        numbers = {name: int(column[row]) for name, column in self.numbers.items()}
        return Message(
            self.topics[int(self.topic_of[row])],
            bytes(self.bodies[int(self.body_ends[row]) : int(self.body_ends[row + 1])]),
            properties=self._properties_of(row),
            born_host=born_host,
            store_host=store_host,
            **numbers,
        )

    def _properties_of(self, row: int) -> bytes:
        return bytes(self.properties[int(self.property_ends[row]) : int(self.property_ends[row + 1])])


@dataclass(slots=True)
class PutManyResult:
    """Offsets, sizes and times of n messages in their order; offsets are -1 for a refused message.

    refused   by row: the result of `put` for that message
    status    of all others: PUT_OK or FLUSH_DISK_TIMEOUT
    """

    log_offsets: Int64Array
    queue_offsets: Int64Array
    sizes: Int64Array
    store_timestamps_ms: Int64Array
    refused: dict[int, PutResult]
    status: PutStatus = PutStatus.PUT_OK

    @classmethod
    def empty(cls, count: int) -> PutManyResult:
        """Return the result before any message is stored."""
        nowhere, zeros = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        return cls(nowhere, nowhere.copy(), zeros, zeros.copy(), {})

    @classmethod
    def of(cls, answers: Sequence[PutResult]) -> PutManyResult:
        """Combine the results of messages that were put one by one."""
        result = cls.empty(len(answers))
        for row, one in enumerate(answers):
            result.log_offsets[row], result.queue_offsets[row] = one.log_offset, one.queue_offset
            result.sizes[row], result.store_timestamps_ms[row] = one.size, one.store_timestamp_ms
            if not one.is_ok:
                result.refused[row] = one
        return result

    @classmethod
    def all_refused(cls, count: int, refusal: PutResult) -> PutManyResult:
        """Return a result that refuses every message for one reason."""
        result = cls.empty(count)
        result.refused = dict.fromkeys(range(count), refusal)
        return result

    def status_of(self, row: int) -> PutStatus:
        """Return the status of one message."""
        return self.refused[row].status if row in self.refused else self.status


def _joined(parts: list[bytes]) -> tuple[memoryview, Int64Array]:
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return memoryview(b"".join(parts)), ends
