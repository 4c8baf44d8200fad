"""The rules of queues that are written twice, in files and in a RocksDB (5.5).

    loaded    the kinds of queues that are written: combineCQLoadingCQTypes
    assigned  the kind that gives the queue offsets: combineAssignOffsetCQType
    read      the kind that consumers read: combineCQPreferCQType

Setting: rocksdbCQDoubleWriteEnable. Source: CombineConsumeQueueStore, StoreType.fromString (5.5.0).
"""

from __future__ import annotations

from store.config import NAMED_QUEUES_REFUSED, ROCKSDB_STORE, StoreConfig

IN_FILES, IN_DATABASE = "default", ROCKSDB_STORE.lower()


def settings_fault(config: StoreConfig) -> str:
    """Return the exception of a broker that refuses these settings, else an empty text."""
    loaded = {name.strip().lower() for name in config.combine_cq_loading_cq_types.split(";")} & {IN_FILES, IN_DATABASE}
    assigned = config.combine_assign_offset_cq_type.lower()
    read = config.combine_cq_prefer_cq_type.lower()
    named = config.has_named_queues_in_database
    rules = (
        (bool(loaded), "CombineConsumeQueueStore loadingCQTypes is empty"),
        (assigned in loaded, "CombineConsumeQueue chooseAssignOffsetStore fail"),
        (read in loaded, "CombineConsumeQueue choosePreferCQ fail"),
        (not named or IN_DATABASE in loaded, NAMED_QUEUES_REFUSED),
        (not named or assigned == IN_FILES, "CombineConsumeQueueStore maybe incorrect config"),
    )
    return next((f"IllegalArgumentException: {text}" for holds, text in rules if not holds), "")


def reads_database(config: StoreConfig) -> bool:
    """Return whether reads or queue offsets come from the queues in the RocksDB."""
    return IN_DATABASE in {config.combine_assign_offset_cq_type.lower(), config.combine_cq_prefer_cq_type.lower()}
