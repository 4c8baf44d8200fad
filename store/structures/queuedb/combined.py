"""The rules of queues that are written twice, in files and in a RocksDB (5.5).

    loaded    the kinds of queues that are written: combineCQLoadingCQTypes
    assigned  the kind that gives the queue offsets: combineAssignOffsetCQType
    read      the kind that consumers read: combineCQPreferCQType

A start (5.5):

    segment    the newest that the assigned kind reaches into. For the sake of the other kind, if it has units,
               combineCQMaxExtraSearchCommitLogFiles more segments are tried
    dispatch   after a shutdown, from the lower end of both kinds
    readers    if the kind that they read is not the assigned one, a start refuses a queue that ends differently in both

Setting: rocksdbCQDoubleWriteEnable. Source: CombineConsumeQueueStore, StoreType.fromString (5.5.0).
"""

from __future__ import annotations

from typing import NamedTuple

from store.config import NAMED_QUEUES_REFUSED, ROCKSDB_STORE, StoreConfig
from store.errors import DamagedFile
from store.layout import DOUBLE_WRITE
from store.structures.commitlog.start import Rule

IN_FILES, IN_DATABASE = "default", ROCKSDB_STORE.lower()
UNREADABLE = "not satisfied readable conditions"
_CLASSES = {IN_FILES: "ConsumeQueueStore", IN_DATABASE: "RocksDBConsumeQueueStore"}


def settings_fault(config: StoreConfig) -> str:
    """Return the exception of a broker that refuses these settings, else an empty text."""
    loaded = {name.strip().lower() for name in config.combine_cq_loading_cq_types.split(";")} & {IN_FILES, IN_DATABASE}
    assigned = config.combine_assign_offset_cq_type.lower()
    read = config.combine_cq_prefer_cq_type.lower()
    named = _has_named_queues(config)
    rules = (
        (bool(loaded), "CombineConsumeQueueStore loadingCQTypes is empty"),
        (assigned in loaded, "CombineConsumeQueue chooseAssignOffsetStore fail"),
        (read in loaded, "CombineConsumeQueue choosePreferCQ fail"),
        (not named or IN_DATABASE in loaded, NAMED_QUEUES_REFUSED),
        (not named or assigned == IN_FILES, "CombineConsumeQueueStore maybe incorrect config"),
    )
    return next((f"IllegalArgumentException: {text}" for holds, text in rules if not holds), "")


def _has_named_queues(config: StoreConfig) -> bool:
    """Return whether named queues are in the database alone, as these queues are written twice."""
    return config.with_settings({DOUBLE_WRITE: True}).has_named_queues_in_database


class Kinds(NamedTuple):
    """The kind of queues that gives queue offsets, and the kind that consumers read."""

    assigned: str
    read: str

    @classmethod
    def of(cls, config: StoreConfig) -> Kinds:
        return cls(config.combine_assign_offset_cq_type.lower(), config.combine_cq_prefer_cq_type.lower())

    @property
    def other(self) -> str:
        return IN_DATABASE if self.assigned == IN_FILES else IN_FILES


def rule_of_both(config: StoreConfig, files: Rule, files_end: int, database_end: int) -> Rule:
    """Return the rule for a scan's start, from the rule and the ends of each kind.

    Matching raises DamagedFile if consumers read a kind that no tried segment satisfies.
    """
    kinds, left = Kinds.of(config), config.combine_cq_max_extra_search_commit_log_files
    other_end = database_end if kinds.other == IN_DATABASE else files_end

    def matches(log_offset: int, time_ms: int) -> bool:
        nonlocal left
        within = {IN_FILES: files.matches(log_offset, time_ms), IN_DATABASE: log_offset <= database_end}
        if not within[kinds.assigned] or within[kinds.other] or other_end <= 0:
            return within[kinds.assigned]
        if kinds.other == IN_DATABASE and _has_named_queues(config):
            return False
        left -= 1
        if left < 0 and kinds.read != kinds.assigned:
            told = f"{_CLASSES[kinds.other]} {UNREADABLE}, only can read from {_CLASSES[kinds.assigned]}"
            raise DamagedFile(f"IllegalArgumentException: {told}", code="combined-database")
        return left < 0

    return Rule(matches, files.reason)
