"""The types of the JSON documents: a command's document has exactly their names.

Schemas are made from these types. Tests check each command's document against its schema.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from rmqctl.documents import copies, messages, services, states, tables
from store import PlannedAction, PlanReport
from store.engine.services import ResolvePlan
from store.verbs import CleaningPlan, OffsetResetPlan, TopicsPlan
from store.verbs.rebuild import DatabasePlan, DelayOffsetsPlan, RebuildPlan, TimerPlan
from store.verbs.recover import CheckpointPlan, LostCounts, RecoveryPlan, TruncationPlan


class Planned(TypedDict):
    """The names of every change; those of its report come beside them."""

    applied: bool
    actions: list[PlannedAction]
    change_id: NotRequired[str | None]


class InBundle(TypedDict):
    """One file of a bundle."""

    file: str
    content: str
    size_bytes: int


class Bundle(TypedDict):
    """The files of a bundle, and the result of writing it."""

    applied: bool
    target: str
    size_bytes: int
    stored_bytes: NotRequired[int]
    finding_count: NotRequired[int]
    same_findings: NotRequired[bool]
    files: list[InBundle]


TYPES: dict[str, tuple[type, ...]] = {
    "get": (messages.Get,),
    "find": (messages.Find,),
    "index-query": (messages.IndexQuery,),
    "dump": (messages.Dump,),
    "put": (messages.Put,),
    "stale": (messages.Stale,),
    "usage": (messages.Usage,),
    "timeline": (messages.Timeline,),
    "sql": (messages.Sql,),
    "export": (messages.Export,),
    "info": (states.Info,),
    "check": (states.Check,),
    "audit": (states.Fleet,),
    "doctor": (states.Doctor,),
    "simulate": (states.Simulate,),
    "upgrade show": (states.Upgrade,),
    "report": (states.Report,),
    "lag": (states.Lag,),
    "backup list": (copies.BackupList,),
    "backup create": (copies.BackupCreate,),
    "backup verify": (copies.BackupVerify,),
    "backup diff": (copies.BackupDiff,),
    "backup prune": (copies.BackupPrune,),
    "backup restore": (copies.BackupRestore,),
    "salvage": (copies.Salvage, LostCounts),
    "undo": (copies.Undo,),
    "quarantine list": (copies.QuarantineList,),
    "quarantine purge": (copies.QuarantinePurge,),
    "replay": (copies.Replay,),
    "replicate pull": (copies.ReplicatePull,),
    "replicate serve": (copies.ReplicateServe,),
    "diff": (copies.Diff,),
    "fingerprint": (copies.Fingerprint,),
    "serve": (services.Serve,),
    "stats": (services.Stats,),
    "flush": (services.Flush,),
    "stop": (services.Stop,),
    "flush-bench": (services.FlushBench,),
    "filter register": (services.FilterRegister,),
    "filter unregister": (services.FilterUnregister,),
    "checkpoint show": (tables.CheckpointShow,),
    "config check": (tables.ConfigCheck,),
    "config settings": (tables.ConfigSettings,),
    "config show": (tables.ConfigShow,),
    "delay show": (tables.DelayShow,),
    "timer show": (tables.TimerShow,),
    "transaction show": (tables.TransactionShow,),
    "filter show": (tables.FilterShow,),
    "schema": (tables.Schemas,),
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
