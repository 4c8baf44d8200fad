"""The engine: an Apache RocketMQ message store, byte for byte.

    >>> import tempfile
    >>> from store import Message, check, find, open_store, plan_recovery
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello", keys=["order-1"], tags="paid"))
    ...     result.status.name, result.queue_offset
    ('PUT_OK', 0)
    >>> with open_store(root) as store:
    ...     for message in store.messages("Orders", 0):
    ...         print(message.queue_offset, message.tags, message.body)
    0 paid b'hello'
    >>> [finding.kind for finding in check(root)]
    []
    >>> [message.body for message in find(root, "order-1")]
    [b'hello']
    >>> with plan_recovery(root) as change:
    ...     change.is_empty
    True

How a message travels, and where to read it:

    files/mapped_file.py → commitlog/commit_log.py → commitlog/scan.py → dispatch/dispatcher.py
    → consumequeue/consume_queue.py and index/index_file.py

The public names are those of `__init__.pyi`; they are imported at first use, so that `import store` costs nothing.
"""

from __future__ import annotations

from store.public_names import public_names

__version__ = "1.0.0"
__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
__all__ += ["__version__"]
