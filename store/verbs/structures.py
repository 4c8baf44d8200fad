"""Finds the structures of a store besides a plain log with file queues, by the broker's own criteria.

`DETECTED` is the order of detection. A structure that decides how others are read comes before them: DLedger's log
before its queues, queues in a RocksDB before batch queues. What no broker known here writes is looked for early, for
such a store is only read.

Source: DefaultMessageStore, RocksDBConsumeQueueStore, CompactionStore, TimerMessageStore, EpochFileCache,
BrokerMetadata, ConfigRocksDBStorage, ConsumerOrderInfoManager, DefaultMetadataStore (5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from store.errors import StoreError
from store.files.filesystem import Entry, Filesystem
from store.files.store_reader import StoreReader
from store.formats.topics import LMQ_PREFIX
from store.formats.wording import amount
from store.layout import EPOCHS, IDENTITY, ORDER_INFO, OWN_FOLDER, REVIVE_PREFIX, TIERED, StoreLayout
from store.opened.detect import has_rocksdb, newer_structures

if TYPE_CHECKING:
    from store.structures.state import StateLine

NEWER = "newer than 5.3"
"""Name of a structure that no broker known here writes."""
TIMER_PARTS = ("timerwheel", "timerlog", "config/timercheck")
_QUEUE_FOLDERS = ("consumequeue", "consumequeue_ext")
PLAIN_NAMES = frozenset(
    ("commitlog", *_QUEUE_FOLDERS, "index", "config", "checkpoint", "abort", "abort.bak", "lock", "transaction")
)
CONTROLLER_NAMES = (EPOCHS, IDENTITY)
NAMED_ELSEWHERE = frozenset(
    "batchconsumequeue compaction timerwheel timerlog epochFileCheckpoint epochFileCheckpoint.bak brokerIdentity "
    f"brokerIdentity-temp kvStore consumequeue_r tiered_index_file {OWN_FOLDER}".split()
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
    """All of them, in the order of detection."""
    store = _Store(layout, fs, {entry.path.name: entry for entry in fs.list_folder(layout.root)})
    return [structure for _, look in DETECTED for structure in look(store)]


class _Store(NamedTuple):
    """A store to look at, and the entries of its root."""

    layout: StoreLayout
    fs: Filesystem
    root: dict[str, Entry]


def _dledger(store: _Store) -> Iterator[Structure]:
    for name, entry in store.root.items():
        if entry.is_folder and name.startswith("dledger-"):
            is_read = store.layout.dledger is not None and store.layout.dledger.name == name
            folders = store.layout.writable_commitlogs if is_read else (entry.path / "data",)
            files = [one for folder in folders for one in store.fs.list_folder(folder) if one.is_file]
            size = sum(one.size for one in files)
            yield Structure("DLedger commit log", name, f"{amount(len(files), 'data file')}, {amount(size, 'byte')}")


def _rocksdb_queues(store: _Store) -> Iterator[Structure]:
    folder = store.layout.consumequeue
    if not has_rocksdb(folder, store.fs):
        return
    topics = [entry for entry in store.fs.list_folder(folder) if entry.is_folder]
    if topics:
        detail = f"double write: file queues of {amount(len(topics), 'topic')} beside it"
    else:
        detail = "storeType=defaultRocksDB"
    yield Structure("RocksDB with the consume queues", "consumequeue", detail, holds_queues=not topics)


def _newer(store: _Store) -> Iterator[Structure]:
    for path, found in newer_structures(store.layout, store.fs):
        yield Structure(NEWER, path.name, f"{found}: the store is only read")


def _batch_queues(store: _Store) -> Iterator[Structure]:
    topics = [entry.path.name for entry in store.fs.list_folder(store.layout.batchconsumequeue) if entry.is_folder]
    if topics:
        detail = f"queue.type=BatchCQ of {', '.join(topics[:5])}"
        yield Structure("set of batch consume queues", "batchconsumequeue", detail)


def _compaction(store: _Store) -> Iterator[Structure]:
    folder = store.layout.root / "compaction"
    topics = [entry.path.name for entry in store.fs.list_folder(folder / "compactionLog") if entry.is_folder]
    if topics:
        yield Structure("compacted topics", "compaction", f"cleanup.policy=COMPACTION of {', '.join(topics[:5])}")


def _timer(store: _Store) -> Iterator[Structure]:
    present = [name for name in TIMER_PARTS if store.fs.exists(store.layout.root / name)]
    lacking = [name for name in TIMER_PARTS if name not in present]
    if present:
        detail = "complete" if not lacking else f"{', '.join(lacking)} missing: pending messages may be lost"
        yield Structure("timer messages", present[0], detail)


def _controller(store: _Store) -> Iterator[Structure]:
    """The epochs and the identity of a broker with a controller; recovery goes by the confirm offset."""
    for name in CONTROLLER_NAMES:
        if name in store.root:
            lines = _lines_of(store, name)
            detail = "; ".join(f"{line.name} {line.value}{f' ({line.fault})' if line.fault else ''}" for line in lines)
            yield Structure("controller mode", name, detail or "empty")
    if EPOCHS not in store.root:
        return
    from store.verbs.check import confirmed_offset

    confirm = confirmed_offset(StoreReader(str(store.layout.root), store.fs))
    if confirm is not None:
        detail = f"records behind the confirm offset {confirm} are not confirmed: a new master may cut them"
        yield Structure("controller mode", "checkpoint", detail)


def _rocksdb_config(store: _Store) -> Iterator[Structure]:
    for name in ("rdb", "topics"):
        if has_rocksdb(store.layout.config / name, store.fs):
            yield Structure("RocksDB configuration", f"config/{name}", "the JSON files in config/ may be stale")


def _order_info(store: _Store) -> Iterator[Structure]:
    if store.fs.exists(store.layout.root / ORDER_INFO):
        lines = _lines_of(store, ORDER_INFO)
        if lines:
            yield Structure(
                "ordered consumption", ORDER_INFO, f"offsets that groups took of {amount(len(lines), 'queue')}"
            )


def _tiered(store: _Store) -> Iterator[Structure]:
    if store.fs.exists(store.layout.root / TIERED):
        kinds = [line.name.partition(" ")[0] for line in _lines_of(store, TIERED)]
        counts = [amount(kinds.count(kind), name) for kind, name in _TIERED_COUNTS]
        yield Structure("tiered storage", TIERED, f"{', '.join(counts)}: older messages may lie elsewhere")
    if "tiered_index_file" in store.root:
        yield Structure("tiered storage", "tiered_index_file", "its index before the upload")


def _pop_consumers(store: _Store) -> Iterator[Structure]:
    for name in store.fs.list_names(store.layout.consumequeue):
        if name.startswith(REVIVE_PREFIX):
            queues = len(store.fs.list_names(store.layout.consumequeue / name))
            detail = f"checkpoints and acknowledgements of pop consumers in {amount(queues, 'queue')}"
            yield Structure("pop consumers", f"consumequeue/{name}", detail)


def _light_queues(store: _Store) -> Iterator[Structure]:
    count = sum(name.startswith(LMQ_PREFIX) for name in store.fs.list_names(store.layout.consumequeue))
    if count:
        yield Structure("light queues", "consumequeue", f"{amount(count, 'folder')} of INNER_MULTI_DISPATCH (%LMQ%…)")


def _key_value_store(store: _Store) -> Iterator[Structure]:
    if "kvStore" in store.root:
        yield Structure("kvStore", "kvStore", "messages in flight of pop consumers, in a RocksDB that is not read")


def _unknown(store: _Store) -> Iterator[Structure]:
    for name, entry in store.root.items():
        if name not in PLAIN_NAMES | NAMED_ELSEWHERE and not name.startswith("dledger-"):
            yield Structure("unknown", name, "a folder" if entry.is_folder else "a file")


def _lines_of(store: _Store, path: str) -> list[StateLine]:
    """The lines of a small file; none of one that can't be read."""
    from store.structures.state import lines_of

    files = StoreReader(str(store.layout.root), store.fs)
    file = files.file_at(path)
    try:
        return list(lines_of(files, file)) if file is not None else []
    except StoreError:
        return []


_TIERED_COUNTS = (
    ("topic", "topic"),
    ("queue", "queue"),
    ("commitLog", "log file"),
    ("consumeQueue", "queue file"),
    ("index", "index file"),
)
DETECTED: tuple[tuple[str, Callable[[_Store], Iterator[Structure]]], ...] = (
    ("dledger-*/", _dledger),
    ("consumequeue/CURRENT, and numbered folders beside it", _rocksdb_queues),
    ("consumequeue_r/, checkpoint from byte 40", _newer),
    ("batchconsumequeue/", _batch_queues),
    ("compaction/compactionLog/", _compaction),
    ("timerwheel, timerlog/, config/timercheck: all or none", _timer),
    ("epochFileCheckpoint, brokerIdentity", _controller),
    ("config/rdb/, config/topics/", _rocksdb_config),
    ("config/tieredStoreMetadata.json, tiered_index_file/", _tiered),
    ("config/consumerOrderInfo.json", _order_info),
    ("consumequeue/rmq_sys_REVIVE_LOG_*/", _pop_consumers),
    ("kvStore/", _key_value_store),
    ("consumequeue/%LMQ%*/", _light_queues),
    ("other names", _unknown),
)
"""What is looked at, in this order, and the function that does."""
