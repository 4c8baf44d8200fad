"""One message of a producer, from its fields to the segment and the result, in one compiled call.

    log      PutParts: the parts of the log that a put needs; tuples, as reading an attribute takes 12 ns
    message  a Message; field_of reads a field by its slot in 2 ns

Only usual messages are put here. For others the result is None, and no record is written. These are a queue's first
message, a delayed one, and one with another host than the last message's or a field of another type. The result is None
too for a size beyond a limit, no room, a closed gate, a clock that went back, or a lost page.

The append holds the GIL from its first read to its last write, as append_message does.
"""

from __future__ import annotations

from store.kernels.cython import Long, Object, with_objects
from store.kernels.encode import BLANK_SIZE, append_record, is_int, refuses
from store.kernels.native import (
    address_of,
    as_long,
    as_tuple,
    clock_ms,
    field_of,
    find_bytes,
    read_long,
    set_number,
    tuple_of,
)
from store.kernels.scan import BORN_HOST_V6, STORE_HOST_V6

MAX_PROPERTIES = 32_767
QUEUE_OFFSET_AT = 20

MESSAGE_FIELDS = (
    "topic",
    "queue_id",
    "body",
    "properties",
    "flag",
    "sys_flag",
    "born_timestamp_ms",
    "born_host",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
)
(
    TOPIC,
    QUEUE_ID,
    BODY,
    PROPERTIES,
    FLAG,
    SYS_FLAG,
    BORN_TIME,
    BORN_HOST,
    STORE_HOST,
    RECONSUMED,
    PREPARED_OFFSET,
) = range(len(MESSAGE_FIELDS))
FILE_FIELDS = ("store_timestamp_ms",)
NEWEST_TIME = 0


@with_objects
def put_message(log: Object, message: Object, result_type: Object, status: Object, delay_mark: Object) -> Object:
    """Append a usual message; return a `result_type` with `status`, or None for another message."""
    queues, hosts, tail, gate, clock, max_body, max_record, fields, file_fields = as_tuple(log)
    queue_id = field_of(message, fields, QUEUE_ID)
    queue = queues.get((field_of(message, fields, TOPIC), queue_id))
    born, stored, host_bytes, host_bits, hosts_size = as_tuple(hosts)
    born_host, store_host = field_of(message, fields, BORN_HOST), field_of(message, fields, STORE_HOST)
    if queue is None or born_host is not born or store_host is not stored:
        return None
    body, properties = field_of(message, fields, BODY), field_of(message, fields, PROPERTIES)
    flag, bits = field_of(message, fields, FLAG), field_of(message, fields, SYS_FLAG)
    times, offset = field_of(message, fields, RECONSUMED), field_of(message, fields, PREPARED_OFFSET)
    born_ms = field_of(message, fields, BORN_TIME)
    if not (type(body) is type(properties) is bytes and type(flag) is type(bits) is type(times) is type(offset) is int):
        return None
    if type(queue_id) is not int or not (born_ms is None or type(born_ms) is int):
        return None
    topic, base_size, queue_end = as_tuple(queue)
    body_size: Long = len(body)
    properties_size: Long = len(properties)
    size: Long = base_size + hosts_size + body_size + properties_size
    if size > max_record or body_size > max_body or properties_size > MAX_PROPERTIES:
        return None
    if find_bytes(address_of(properties), address_of(delay_mark), len(delay_mark), 0, properties_size) >= 0:
        return None
    file, buffer, file_start, wrote, limit = as_tuple(tail)
    sys_flag: Long = bits
    sys_flag = sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | host_bits
    if not (is_int(queue_id) and is_int(flag) and is_int(sys_flag) and is_int(times)):
        return None
    # A Python function as clock takes 85 ns a call.
    now_ms: Long = clock_ms()
    if clock is not None:
        now_ms = clock()
    born_timestamp_ms: Long = now_ms
    if born_ms is not None:
        born_timestamp_ms = as_long(born_ms)
    end: Long = min(read_long(address_of(limit), 0), len(buffer))
    at: Long = read_long(address_of(wrote), 0)
    if at < 0 or refuses(address_of(gate), now_ms) != 0 or size + BLANK_SIZE > end - at:
        return None
    if not append_record(
        address_of(gate), address_of(wrote), address_of(buffer), file_start, address_of(queue_end), now_ms, size,
        address_of(topic), len(topic), address_of(body), body_size, address_of(properties), properties_size,
        address_of(host_bytes), queue_id, flag, sys_flag, born_timestamp_ms, times, as_long(offset),
    ):  # fmt: skip
        return None
    newest_ms = set_number(file, file_fields, NEWEST_TIME, now_ms)
    queue_offset: Long = read_long(address_of(buffer), at + QUEUE_OFFSET_AT)
    return tuple_of(result_type, (status, file_start + at, size, queue_offset, newest_ms, 1, "", message, ()))
