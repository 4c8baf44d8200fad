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


class InBundle(TypedDict):
    """One file of a bundle."""

    file: str
    content: str
    size_bytes: int


class Bundle(TypedDict):
    """The content of a bundle, and its result."""

    applied: bool
    target: str
    size_bytes: int
    stored_bytes: NotRequired[int]
    finding_count: NotRequired[int]
    same_findings: NotRequired[bool]
    files: list[InBundle]


TYPES: dict[str, tuple[type, ...]] = {
    "bundle": (Bundle,),
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
