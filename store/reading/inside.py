"""Messages of a record: those inside a record of several (5.x), else its own."""

from __future__ import annotations

from collections.abc import Callable

from store.errors import DamagedRecord
from store.formats.message import INNER_BATCH, StoredMessage


def messages_inside(
    record: StoredMessage, is_wanted: Callable[[StoredMessage], bool] = lambda message: True
) -> list[StoredMessage]:
    """Return the wanted messages of a record that is wanted; all of them where none is by itself.

    A record whose messages can't be read is given as it is.
    """
    if not record.sys_flag & INNER_BATCH:
        return [record]
    from store.formats.inner_batch import unwrap

    try:
        inside = list(unwrap(record))
    except DamagedRecord:
        return [record]
    return [message for message in inside if is_wanted(message)] or inside or [record]
