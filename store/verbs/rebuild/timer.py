"""Plan a rebuild of the timer's wheel, log and checkpoint, of an opened store or of a store's path."""

from __future__ import annotations

from store.opened.staged import takes_path
from store.structures import plan_timer_rebuild as _plan
from store.structures.registry import TIMER

plan_timer_rebuild = takes_path(TIMER)(_plan)
