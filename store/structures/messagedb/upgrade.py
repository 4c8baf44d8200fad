"""Notes on the losses with an older broker version: it does not read the message database.

Source: MessageRocksDBStorage (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.formats.wording import amount
from store.structures.messagedb.halves import half_messages
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def notes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    """Yield notes on open half messages and keys that only the database has."""
    if other.line.opens_halves_by_key:
        return
    waiting = sum(not half.is_ended and not half.is_given_up for half in half_messages(own))
    if waiting:
        detail = f"{amount(waiting, 'open half message')} of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC: no producer is asked"
        yield Trap("half-messages-in-database", detail, (waiting,))
    if not own.config.writes_index_files and own.config.message_index_enable:
        yield Trap("index-in-database", "keys are in the database alone, and a query finds no message")
