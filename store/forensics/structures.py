"""Finds the structures of a store besides a plain log with file queues, by the broker's own criteria.

    1. dledger-*/                          DLedger commit log
    2. consumequeue/CURRENT                RocksDB consume queues, or both kinds where topics' folders are there too
    3. consumequeue_r, long checkpoint     a broker newer than those known here
    4. batchconsumequeue/                  batch consume queues
    5. compaction/                         compacted topics
    6. timerwheel, timerlog/, timercheck   timer messages; all three or none
    7. epochFileCheckpoint, brokerIdentity controller mode
    8. config/rdb, config/topics/          the broker's tables in a RocksDB: its JSON files may be stale
    9. tieredStoreMetadata.json            tiered storage
   10. kvStore                             a key-value store of a 5.x broker
   11. other names                         no broker known here makes them

Source: DefaultMessageStore, RocksDBConsumeQueueStore, CompactionStore, TimerMessageStore, EpochFileCache,
ConfigRocksDBStorage (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store.disk.filesystem import Entry, Filesystem
from store.formats.checkpoint_page import CHECKPOINT_SIZE, FIELDS
from store.formats.wording import amount
from store.layout import OWN_FOLDER, StoreLayout
from store.opened.detect import has_rocksdb

TIMER_PARTS = ("timerwheel", "timerlog", "config/timercheck")
_QUEUE_FOLDERS = ("consumequeue", "consumequeue_ext")
PLAIN_NAMES = frozenset(
    ("commitlog", *_QUEUE_FOLDERS, "index", "config", "checkpoint", "abort", "abort.bak", "lock", "transaction")
)
TIERED_NAMES = ("tiered_index_file", "tieredStoreMetadata.json", "tieredStoreMetadata.json.bak")
NAMED_ELSEWHERE = frozenset(
    "batchconsumequeue compaction timerwheel timerlog epochFileCheckpoint epochFileCheckpoint.bak brokerIdentity "
    f"brokerIdentity-temp kvStore consumequeue_r {OWN_FOLDER}".split()
)


@dataclass(frozen=True, slots=True)
class Structure:
    """Something that a store holds; `detail` is a clause for people.

    holds_queues  the consume queues are in it, and in no files of their own
    """

    name: str
    file: str
    detail: str
    holds_queues: bool = False


def find_structures(layout: StoreLayout, fs: Filesystem) -> list[Structure]:
    """All of them, in the order of the module's docstring."""
    root = {entry.path.name: entry for entry in fs.list_folder(layout.root)}
    return [
        *_dledger(root, fs),
        *_rocksdb_queues(layout, fs),
        *_newer(layout, root, fs),
        *_batch_queues(layout, fs),
        *_compaction(layout, fs),
        *_timer(layout, fs),
        *_controller(root),
        *_rocksdb_config(layout, fs),
        *_tiered(root),
        *_named(root, "kvStore", "key-value store of a 5.x broker"),
        *_unknown(root),
    ]


def _dledger(root: dict[str, Entry], fs: Filesystem) -> Iterator[Structure]:
    for name, entry in root.items():
        if entry.is_folder and name.startswith("dledger-"):
            files = [one for one in fs.list_folder(entry.path / "data") if not one.is_folder]
            size = sum(one.size for one in files)
            yield Structure("DLedger commit log", name, f"{amount(len(files), 'data file')}, {amount(size, 'byte')}")


def _rocksdb_queues(layout: StoreLayout, fs: Filesystem) -> Iterator[Structure]:
    if not has_rocksdb(layout.consumequeue, fs):
        return
    topics = [entry for entry in fs.list_folder(layout.consumequeue) if entry.is_folder]
    if topics:
        detail = f"double write: file queues of {amount(len(topics), 'topic')} beside it"
    else:
        detail = "storeType=defaultRocksDB"
    yield Structure("RocksDB with the consume queues", "consumequeue", detail, holds_queues=not topics)


def _newer(layout: StoreLayout, root: dict[str, Entry], fs: Filesystem) -> Iterator[Structure]:
    if "consumequeue_r" in root:
        yield Structure("newer queues", "consumequeue_r", "of a broker newer than 5.3: only read this store")
    checkpoint = root.get("checkpoint")
    if checkpoint is not None and not checkpoint.is_folder:
        data = fs.read(fs.open_read(layout.checkpoint), FIELDS.size, CHECKPOINT_SIZE - FIELDS.size)
        if any(data):
            yield Structure("newer checkpoint", "checkpoint", "fields that 5.3 does not know: only read this store")


def _batch_queues(layout: StoreLayout, fs: Filesystem) -> Iterator[Structure]:
    topics = [entry.path.name for entry in fs.list_folder(layout.batchconsumequeue) if entry.is_folder]
    if topics:
        detail = f"queue.type=BatchCQ of {', '.join(topics[:5])}"
        yield Structure("set of batch consume queues", "batchconsumequeue", detail)


def _compaction(layout: StoreLayout, fs: Filesystem) -> Iterator[Structure]:
    folder = layout.root / "compaction"
    topics = [entry.path.name for entry in fs.list_folder(folder / "compactionLog") if entry.is_folder]
    if topics:
        yield Structure("compacted topics", "compaction", f"cleanup.policy=COMPACTION of {', '.join(topics[:5])}")


def _timer(layout: StoreLayout, fs: Filesystem) -> Iterator[Structure]:
    present = [name for name in TIMER_PARTS if fs.exists(layout.root / name)]
    lacking = [name for name in TIMER_PARTS if name not in present]
    if present:
        detail = "complete" if not lacking else f"{', '.join(lacking)} missing: pending messages may be lost"
        yield Structure("timer messages", present[0], detail)


def _controller(root: dict[str, Entry]) -> Iterator[Structure]:
    for name in ("epochFileCheckpoint", "brokerIdentity"):
        if name in root:
            yield Structure("controller mode", name, "recovery goes by the confirm offset")
            return


def _rocksdb_config(layout: StoreLayout, fs: Filesystem) -> Iterator[Structure]:
    for name in ("rdb", "topics"):
        if has_rocksdb(layout.config / name, fs):
            yield Structure("RocksDB configuration", f"config/{name}", "the JSON files in config/ may be stale")


def _tiered(root: dict[str, Entry]) -> Iterator[Structure]:
    for name in TIERED_NAMES:
        if name in root:
            yield Structure("tiered storage", name, "older messages may lie elsewhere")
            return


def _named(root: dict[str, Entry], name: str, detail: str) -> Iterator[Structure]:
    if name in root:
        yield Structure(name, name, detail)


def _unknown(root: dict[str, Entry]) -> Iterator[Structure]:
    known = PLAIN_NAMES | NAMED_ELSEWHERE | frozenset(TIERED_NAMES)
    for name, entry in root.items():
        if name not in known and not name.startswith("dledger-"):
            yield Structure("unknown", name, "a folder" if entry.is_folder else "a file")
