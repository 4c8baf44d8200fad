"""Plan the message database anew, of an opened store or of a store's path."""

from __future__ import annotations

from store.change.change import Change
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.messagedb.build import plan_message_database as _plan
from store.structures.registry import DERIVE
from store.structures.timer.review import waiting_timers


@takes_path(DERIVE)
def plan_message_database(opened: OpenedStore) -> Change:
    """Give the Change that puts a database made of the log's records in the old one's place.

    BadRequest without the package rocksdict.
    """
    return _plan(opened, waiting_timers)
