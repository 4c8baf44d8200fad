"""The columns of every table that the pipeline shows, as Spark DDL, and what they mean.

    messages      one row per record of the commit log, in log order inside a partition
    consumequeue  one row per unit of a consume queue
    index         one row per entry of an index file
    segments      one row per commit-log segment, what a walk of it found
    anomalies     one row per finding of an audit (store/findings.py has the kinds)

Names are those of the message object of the command line; times are timestamps (the session's zone is UTC), bytes are
binary, properties a map. A reader may ask for fewer columns, in any order, with `.schema("topic string,
size int")`: only
those are built. (The data-source interface of Spark 4.3 tells a Python source nothing of the columns a query needs.)
"""

from __future__ import annotations

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
    "body_size": "int",
    "properties": "map<string,string>",
    "body": "binary",
}

CONSUMEQUEUE = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "log_offset": "bigint",
    "size": "int",
    "tags_code": "bigint",
    "is_filler": "boolean",
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


def ddl(columns: dict[str, str]) -> str:
    """`{"topic": "string"}` as the text Spark takes for a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
