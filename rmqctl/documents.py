"""The types of the JSON documents: the value of a command has their names, and no other.

Only the making of schemas imports this module.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from store import PlannedAction, PlanReport
from store.engine.services import ResolvePlan
from store.verbs import CleaningPlan, OffsetResetPlan, TopicsPlan
from store.verbs.rebuild import DatabasePlan, DelayOffsetsPlan, RebuildPlan, TimerPlan
from store.verbs.recover import CheckpointPlan, RecoveryPlan, TruncationPlan


class Planned(TypedDict):
    """The names of every change, beside those of its report."""

    applied: bool
    actions: list[PlannedAction]
    change_id: NotRequired[str | None]


TYPES: dict[str, tuple[type, ...]] = {
    "recover": (Planned, RecoveryPlan),
    "truncate-dirty": (Planned, TruncationPlan),
    "clean-expired": (Planned, CleaningPlan),
    "checkpoint rewrite": (Planned, CheckpointPlan),
    "rebuild": (Planned, RebuildPlan),
    "rebuild timer": (Planned, TimerPlan),
    "rebuild compaction": (Planned, PlanReport),
    "rebuild message-database": (Planned, DatabasePlan),
    "rebuild delay-offsets": (Planned, DelayOffsetsPlan),
    "rebuild topics": (Planned, TopicsPlan),
    "transaction resolve": (Planned, ResolvePlan),
    "config reset-offsets": (Planned, OffsetResetPlan),
}
"""The types of each command's document."""
