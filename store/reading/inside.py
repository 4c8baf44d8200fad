"""Messages of a record: the inner messages of a record of several (5.x), else its own."""

from __future__ import annotations

from collections.abc import Callable

from store.errors import DamagedRecord
from store.formats.message import INNER_BATCH, StoredMessage


def messages_inside(
    record: StoredMessage, is_wanted: Callable[[StoredMessage], bool] = lambda message: True
) -> list[StoredMessage]:
    """Return the wanted messages of a wanted record; if no inner message is wanted, return all of them.

    If the inner messages can't be read, return the record.
    """
    if not record.sys_flag & INNER_BATCH:
        return [record]
    from store.formats.inner_batch import unwrap

    try:
        inside = list(unwrap(record))
    except DamagedRecord:
        return [record]
    return [message for message in inside if is_wanted(message)] or inside or [record]
