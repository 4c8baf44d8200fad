"""Plan the message database anew, of an opened store or of a store's path."""

from __future__ import annotations

from store.opened.staged import takes_path
from store.structures.messagedb.build import plan_message_database as _plan
from store.structures.registry import DERIVE

plan_message_database = takes_path(DERIVE)(_plan)
