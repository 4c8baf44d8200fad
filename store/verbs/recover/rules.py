"""Rules of one recovery: of recover, a simulated start, or an opening for writing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecoveryRules:
    """Rules of one recovery besides those of the broker line.

    mode            "normal" or "abnormal"; "auto" decides by the abort marker
    as_broker       loses the same messages as a broker
    keep_index      rebuilds the index files that a broker deletes after a crash
    dispatch        False leaves out the dispatch after a broker's load
    only_confirmed  in controller mode, dispatches confirmed records alone
    every_unit      finds damage inside of queues; a broker reads them at their ends only
    """

    mode: str = "auto"
    as_broker: bool = False
    keep_index: bool = False
    dispatch: bool = True
    only_confirmed: bool = True
    every_unit: bool = True


OWNER = RecoveryRules(only_confirmed=False, every_unit=False)
"""The rules of an owner without slaves, before it writes: its whole log is confirmed."""
