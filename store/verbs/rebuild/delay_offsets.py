"""Plan a new config/delayOffset.json, of an opened store or of a store's path."""

from __future__ import annotations

from store.opened.staged import takes_path
from store.structures.delayoffsets.build import plan_delay_offsets as _plan
from store.structures.registry import DELAY

plan_delay_offsets = takes_path(DELAY)(_plan)
