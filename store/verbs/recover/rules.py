"""Rules of one recovery: of recover, a simulated start, or an opening for writing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecoveryRules:
    """Rules of one recovery beside those of the broker line.

    mode            "normal" or "abnormal"; "auto" goes by the abort marker
    as_broker       loses what a broker loses
    keep_index      rebuilds the index files that a broker deletes after a crash
    dispatch        False leaves out what a broker's start does after its load
    only_confirmed  in controller mode, gives units to confirmed records alone
    every_unit      looks for damage inside of queues, which a broker reads at their ends only
    """

    mode: str = "auto"
    as_broker: bool = False
    keep_index: bool = False
    dispatch: bool = True
    only_confirmed: bool = True
    every_unit: bool = True


OWNER = RecoveryRules(only_confirmed=False, every_unit=False)
"""Of an owner without slaves, before it writes: what is in its log is confirmed."""
