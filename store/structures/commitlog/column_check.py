"""Checks that columns of messages are consistent, as the kernel that encodes them checks no bounds.

The checks run once per put_many, before anything is written:

    every column      one-dimensional int64, one value per message, the ends one more
    body_ends, property_ends    the first at least 0, never falling, the last within the data
    topic_of          the index of a topic
    queue_id, flag …  fit 32 bits; a negative queue id is refused as in a single put
    hosts_of          the index of a pair of hosts
    topics, hosts     the rules of check_message

BadRequest names the column and, if one row is at fault, the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from store.errors import BadRequest
from store.formats.given import check_host, check_kind, check_text
from store.formats.run import Int64Array
from store.structures.commitlog.bulk import NUMBER_COLUMNS, MessageColumns

_INT_COLUMNS = {"queue_id", "flag", "sys_flag", "reconsume_times"}
"""Columns of 64-bit numbers whose fields have 32 bits."""


def check_columns(messages: MessageColumns) -> None:
    """Raise BadRequest unless the columns are consistent."""
    check_kind("messages", messages, MessageColumns)
    count = len(messages)
    check_shape("topic_of", messages.topic_of, count)
    _check_ends("body_ends", messages.body_ends, "bodies", messages.bodies, count)
    _check_ends("property_ends", messages.property_ends, "properties", messages.properties, count)
    unknown = messages.numbers.keys() - set(NUMBER_COLUMNS)
    if unknown or "queue_id" not in messages.numbers:
        raise BadRequest(f"no such column: {min(unknown)}" if unknown else "the column queue_id is missing")
    for name, numbers in messages.numbers.items():
        check_shape(name, numbers, count)
    if not count:
        return
    for topic in messages.topics:
        check_text("topic", topic)
    pairs, pair_of = messages.host_pairs()
    for born_host, store_host in pairs:
        check_host("born_host", born_host)
        check_host("store_host", store_host)
    _check_places("topic_of", messages.topic_of, "topics", len(messages.topics))
    check_shape("hosts_of", pair_of, count)
    _check_places("hosts_of", pair_of, "pairs of hosts", len(pairs))
    for name in _INT_COLUMNS & messages.numbers.keys():
        numbers = messages.numbers[name]
        is_beyond = numbers != numbers.astype(np.int32)
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            raise _bad_row(name, row, f"{int(numbers[row])} does not fit in 32 bits")


def _check_places(name: str, places: Int64Array, what: str, count: int) -> None:
    # Read as unsigned, negative numbers are the largest.
    if int(places.view(np.uint64).max()) >= count:
        row = int(np.argmax((places < 0) | (places >= count)))
        raise _bad_row(name, row, f"there are {count} {what}, so no {int(places[row])}")


def check_shape(name: str, column: Int64Array, count: int) -> None:
    """Raise BadRequest unless the column is an int64 array of `count` values."""
    if not isinstance(column, np.ndarray) or column.dtype != np.int64 or column.ndim != 1:
        raise BadRequest(f"the column {name} must be a one-dimensional int64 array")
    if len(column) != count:
        raise BadRequest(f"the column {name} has {len(column)} values, {count} are needed")


def _check_ends(name: str, ends: Int64Array, data_name: str, data: Any, count: int) -> None:
    check_shape(name, ends, count + 1)
    if not ends.flags.c_contiguous:
        raise BadRequest(f"the column {name} must be contiguous")
    try:
        size = memoryview(data).nbytes
    except TypeError as error:
        raise BadRequest(f"the column {data_name} must be bytes, not {type(data).__name__}") from error
    if ends[0] < 0:
        raise _bad_row(name, 0, f"it begins at {int(ends[0])}")
    falls = ends[1:] < ends[:-1]
    if falls.any():
        row = int(np.argmax(falls))
        raise _bad_row(name, row, f"it ends at {int(ends[row + 1])}, before it begins at {int(ends[row])}")
    if ends[-1] > size:
        row = max(0, int(np.argmax(ends > size)) - 1)
        raise _bad_row(name, row, f"it ends at {int(ends[row + 1 if count else 0])}, {data_name} has {size} bytes")


def _bad_row(column: str, row: int, fault: str) -> BadRequest:
    return BadRequest(f"the column {column} is wrong in row {row}: {fault}")
