"""The columns of every table of a store, and their meaning.

messages: one row per record of the commit log, in log order inside a partition
    topic                        as stored; a delayed message's is SCHEDULE_TOPIC_XXXX until it is due
    queue_id                     number of the queue in the topic
    queue_offset                 number of the message in its queue, from 0; half and rolled-back messages have no entry
    log_offset                   start of the record in the commit log, in bytes
    size                         of the whole record, in bytes
    msg_id                       hex of the store host and the log offset, as brokers name messages
    uniq_key                     property UNIQ_KEY, the id that the client gave; null without it
    keys                         property KEYS, cut at blanks; an empty list without it
    tags                         property TAGS; null without it
    flag                         number set by the producer; the broker does not use it
    sys_flag                     bits: 1 compressed, 2 more than one tag, 4 and 8 kind in a transaction (0 none, 4 half,
                                 8 commit, 12 rollback), 16 born host is IPv6, 32 store host is IPv6
    born_timestamp               time of its creation by the producer's clock, to the millisecond; null if its
                                 microseconds do not fit in 64 bits, as for store_timestamp
    born_host                    address:port of the producer
    store_timestamp              time when the broker stored it, to the millisecond
    store_host                   address:port of the broker
    reconsume_times              number of times that consumers have sent it back
    prepared_transaction_offset  log offset of the half message that a commit or rollback ends; else 0
    body_crc                     CRC-32 of the body, from the record
    crc_ok                       whether the stored body has that CRC
    body_size                    of the body as stored, compressed or not, in bytes
    properties                   all of them; of equal names the last
    property_bytes               the property string, if encoding the map gives other bytes; else null
    compression                  zlib, lz4, zstd, or `type N` for an undefined one; null for a plain body
    body_state                   plain, or stored: still compressed
    body_problem                 why a compressed body cannot be decompressed; null if it can, for a plain body, and
                                 with the option body=none
    body                         as stored, compressed or not; null with the option body=none
    outer_queue_offset           of a message inside a record of several (5.x): the queue offset of that record;
                                 log_offset and msg_id are that record's too, size is that of the message as a separate
                                 record. Null for a record's own message. With outer=true such records are rows

consumequeue: one row per written unit of a consume queue
    topic, queue_id              of the queue
    queue_offset                 number of the unit in its queue, from 0
    log_offset                   start of the record by the unit, in bytes
    size                         size of the record by the unit, in bytes
    tags_code                    hash of the tags, the time in ms when a delayed message is due, or an address in the
                                 extension file (below -2^31)
    is_pre_blank                 whether it only fills the file up to the queue's first message

index: one row per entry of an index file
    file                         path in the store
    entry_index                  number of the entry in its file, from 1
    key_hash                     of topic#key; the key itself is not stored
    log_offset                   start of the record by the entry, in bytes
    store_timestamp              of the message, to the second, counted from the begin time in the file's header
    previous_entry               number of the next older entry in the same slot, 0 without one

segments: one row per commit-log file, the result of its scan
    file                         path in the store
    file_start                   log offset of its first byte, which is its name
    file_size                    in bytes
    used_bytes                   up to the end of the last record of the scan
    record_count                 records of the scan
    first_store_timestamp        of its first record, to the millisecond; null without records
    last_store_timestamp         of its last record, to the millisecond; null without records
    modified                     the file's modification time
    outcome                      end of the scan: blank (the filler at the end of a full segment), end (zeros or the
                                 file's end), damage
    reason                       the damage in words; null without damage

anomalies: one row per finding in files and in single segments; `audit` has those between segments as well
    kind                         one of the kinds in store/structures/findings.py
    file                         path in the store
    offset                       a log offset in the commit log, a queue offset in a queue, an entry number in an index
    topic, queue_id              of the queue or record concerned; null without one
    count                        number of faults of the kind in this row; offset and detail are those of the first
    detail                       the fault in words

Names are those of the message object of the command line; times are timestamps (the session's zone is UTC), bytes are
binary, properties a map. A column is never null unless its line says so. A reader may request fewer columns, in any
order, with `.schema("topic string, size int")`: only those are built. (The data-source interface of Spark 4.3 does not
pass the columns of a query to a Python source.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

OUTER = "outer_queue_offset"

MESSAGES = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "log_offset": "bigint",
    "size": "int",
    "msg_id": "string",
    "uniq_key": "string",
    "keys": "array<string>",
    "tags": "string",
    "flag": "int",
    "sys_flag": "int",
    "born_timestamp": "timestamp",
    "born_host": "string",
    "store_timestamp": "timestamp",
    "store_host": "string",
    "reconsume_times": "int",
    "prepared_transaction_offset": "bigint",
    "body_crc": "int",
    "crc_ok": "boolean",
    "body_size": "int",
    "properties": "map<string,string>",
    "property_bytes": "binary",
    "compression": "string",
    "body_state": "string",
    "body_problem": "string",
    "body": "binary",
    OUTER: "bigint",
}

RECORD = "record"
"""A column of `messages` that is returned only by its name: the whole stored record."""

CONSUMEQUEUE = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "log_offset": "bigint",
    "size": "int",
    "tags_code": "bigint",
    "is_pre_blank": "boolean",
}

INDEX = {
    "file": "string",
    "entry_index": "int",
    "key_hash": "int",
    "log_offset": "bigint",
    "store_timestamp": "timestamp",
    "previous_entry": "int",
}

SEGMENTS = {
    "file": "string",
    "file_start": "bigint",
    "file_size": "bigint",
    "used_bytes": "bigint",
    "record_count": "bigint",
    "first_store_timestamp": "timestamp",
    "last_store_timestamp": "timestamp",
    "modified": "timestamp",
    "outcome": "string",
    "reason": "string",
}

ANOMALIES = {
    "kind": "string",
    "file": "string",
    "offset": "bigint",
    "topic": "string",
    "queue_id": "int",
    "count": "bigint",
    "detail": "string",
}

TABLES = {
    "messages": MESSAGES,
    "consumequeue": CONSUMEQUEUE,
    "index": INDEX,
    "segments": SEGMENTS,
    "anomalies": ANOMALIES,
}


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """Return the columns as an Arrow schema."""
    import pyarrow as pa

    text = pa.string()
    types = {
        "string": text,
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(text),
        "map<string,string>": pa.map_(text, text),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])


def ddl(columns: dict[str, str]) -> str:
    """Return `{"topic": "string"}` in Spark's text form of a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
