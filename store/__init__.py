"""The engine: an Apache RocketMQ message store, byte for byte.

    with open_store("/data/store") as store:
        for message in store.get("OrderTopic", 0, offset=0).messages:
            print(message.msg_id, message.body)

How a message travels, and where to read it:

    disk/mapped_file.py → commitlog/commit_log.py → commitlog/scan.py → dispatch/dispatcher.py
    → consumequeue/consume_queue.py and index/index_file.py

The names below are the public ones; they are imported at first use, so that `import store` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.commitlog.bulk import MessageColumns
    from store.commitlog.put_result import PutResult, PutStatus
    from store.commitlog.scan import VERIFYING, ScanRules
    from store.config import StoreConfig
    from store.embedded.dataset import export_arrow
    from store.errors import StoreError
    from store.formats.host import Host
    from store.formats.message import Message, StoredMessage
    from store.message_store import MessageStore, QueryResult, WritableStore
    from store.open import open_store
    from store.reading.get import GetResult, GetStatus
    from store.reading.messages import MessageIterator

_PLACES = {
    "VERIFYING": "store.commitlog.scan",
    "ScanRules": "store.commitlog.scan",
    "MessageIterator": "store.reading.messages",
    "MessageColumns": "store.commitlog.bulk",
    "GetResult": "store.reading.get",
    "GetStatus": "store.reading.get",
    "Host": "store.formats.host",
    "Message": "store.formats.message",
    "MessageStore": "store.message_store",
    "PutResult": "store.commitlog.put_result",
    "PutStatus": "store.commitlog.put_result",
    "QueryResult": "store.message_store",
    "StoreConfig": "store.config",
    "StoreError": "store.errors",
    "StoredMessage": "store.formats.message",
    "WritableStore": "store.message_store",
    "export_arrow": "store.embedded.dataset",
    "open_store": "store.open",
}

__all__ = [
    "VERIFYING",
    "GetResult",
    "GetStatus",
    "Host",
    "Message",
    "MessageColumns",
    "MessageIterator",
    "MessageStore",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "ScanRules",
    "StoreConfig",
    "StoreError",
    "StoredMessage",
    "WritableStore",
    "export_arrow",
    "open_store",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'store' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value
