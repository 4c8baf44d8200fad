"""The engine: an Apache RocketMQ message store, byte for byte.

    >>> import tempfile
    >>> from store import Message, check_store, open_store
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello", keys=["order-1"], tags="paid"))
    ...     result.status.name, result.queue_offset
    ('PUT_OK', 0)
    >>> with open_store(root) as store:
    ...     for message in store.messages("Orders", 0):
    ...         print(message.queue_offset, message.tags, message.body)
    0 paid b'hello'
    >>> [finding.kind for finding in check_store(root)]
    []

How a message travels, and where to read it:

    disk/mapped_file.py → commitlog/commit_log.py → commitlog/scan.py → dispatch/dispatcher.py
    → consumequeue/consume_queue.py and index/index_file.py

The names below are the public ones; they are imported at first use, so that `import store` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.change.change import Change
    from store.check.check import CheckOptions, check_store
    from store.check.findings import Finding
    from store.cleaning.plan import plan_clean
    from store.commitlog.bulk import MessageColumns, PutManyResult
    from store.commitlog.put_result import PutResult, PutStatus
    from store.commitlog.scan import VERIFYING, ScanRules
    from store.config import StoreConfig
    from store.embedded.dataset import export_arrow
    from store.errors import (
        BadRequest,
        DamagedFile,
        DamagedRecord,
        ForeignFile,
        NotAStore,
        StoreClosed,
        StoreError,
        StoreIOError,
        StoreLocked,
        UncleanStore,
        UnsupportedFormat,
        WrongFileSize,
    )
    from store.formats.host import Host
    from store.formats.message import Message, StoredMessage
    from store.message_store import MessageStore, QueryResult, QueueState, WritableStore
    from store.open import open_store
    from store.opened.staged import staged_store
    from store.reading.get import GetResult, GetStatus, MessageFilter
    from store.reading.messages import MessageIterator
    from store.recovery.checkpoint_review import plan_checkpoint
    from store.recovery.plan import plan_recovery
    from store.recovery.truncate import plan_truncate

_NAMES = {
    "store.change.change": ["Change"],
    "store.check.check": ["CheckOptions", "check_store"],
    "store.check.findings": ["Finding"],
    "store.cleaning.plan": ["plan_clean"],
    "store.commitlog.bulk": ["MessageColumns", "PutManyResult"],
    "store.commitlog.put_result": ["PutResult", "PutStatus"],
    "store.commitlog.scan": ["VERIFYING", "ScanRules"],
    "store.config": ["StoreConfig"],
    "store.embedded.dataset": ["export_arrow"],
    "store.errors": [
        "BadRequest",
        "DamagedFile",
        "DamagedRecord",
        "ForeignFile",
        "NotAStore",
        "StoreClosed",
        "StoreError",
        "StoreIOError",
        "StoreLocked",
        "UncleanStore",
        "UnsupportedFormat",
        "WrongFileSize",
    ],
    "store.formats.host": ["Host"],
    "store.formats.message": ["Message", "StoredMessage"],
    "store.message_store": ["MessageStore", "QueryResult", "QueueState", "WritableStore"],
    "store.open": ["open_store"],
    "store.opened.staged": ["staged_store"],
    "store.reading.get": ["GetResult", "GetStatus", "MessageFilter"],
    "store.reading.messages": ["MessageIterator"],
    "store.recovery.checkpoint_review": ["plan_checkpoint"],
    "store.recovery.plan": ["plan_recovery"],
    "store.recovery.truncate": ["plan_truncate"],
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "VERIFYING",
    "BadRequest",
    "Change",
    "CheckOptions",
    "DamagedFile",
    "DamagedRecord",
    "Finding",
    "ForeignFile",
    "GetResult",
    "GetStatus",
    "Host",
    "Message",
    "MessageColumns",
    "MessageFilter",
    "MessageIterator",
    "MessageStore",
    "NotAStore",
    "PutManyResult",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueState",
    "ScanRules",
    "StoreClosed",
    "StoreConfig",
    "StoreError",
    "StoreIOError",
    "StoreLocked",
    "StoredMessage",
    "UncleanStore",
    "UnsupportedFormat",
    "WritableStore",
    "WrongFileSize",
    "check_store",
    "export_arrow",
    "open_store",
    "plan_checkpoint",
    "plan_clean",
    "plan_recovery",
    "plan_truncate",
    "staged_store",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'store' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
