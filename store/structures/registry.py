"""The registry of the structures on a broker's disk, in the order of detection.

A structure that decides how others are read comes before them: DLedger's log before its queues, queues in a RocksDB
before batch queues. The registry is data and imports no room; a room is imported only if its traces are found.

Source: DefaultMessageStore.load, RocksDBMessageStore, CompactionStore, TimerMessageStore (5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from store.formats.topics import LMQ_PREFIX, REVIVE_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from store.layout import EPOCHS, IDENTITY, ORDER_INFO, OWN_FOLDER, TABLES_OF_5, TIERED

if TYPE_CHECKING:
    from store.files.filesystem import Filesystem
    from store.files.store_reader import StoreReader
    from store.layout import StoreLayout


class Trace(NamedTuple):
    """A path below the store's root that shows a structure; its last name may have `*`.

    holds     bytes that the file must contain
    of_topic  a topic's: it stays if the messages get a broker of an older version
    """

    path: str
    holds: bytes = b""
    of_topic: bool = False


class Present(NamedTuple):
    """A structure of a store, described for people; `detail` is a clause.

    holds_queues  the consume queues are in it, instead of in files
    """

    name: str
    file: str
    detail: str
    holds_queues: bool = False


class Structure(NamedTuple):
    """One kind of files on a broker's disk.

    room      its folder in store/structures; None for files that need no code of their own
    traces    paths; any of them shows that the structure exists
    settings  RocketMQ's settings that create or move it
    lines     the broker versions that write it
    refuses   the verbs that would leave it inconsistent; the room's guard has the reason
    dumped_as the kind of rows that its `rows` makes
    newer     a description, if only an unknown newer broker writes it
    holds_queues    consume queues may be in it, instead of in files
    is_switched     each of its settings shows it if it is on, even if the files are lost
    shares_records  its queues have units of other topics' records
    copied          names in the store's root that a salvage copies unchanged
    backed_up       names in the store's root that a backup copies unchanged, and a salvage does not
    made_anew       tables in config/ that a salvage rebuilds
    records         patterns of the files below the store's root that hold records, with the messages' bodies
    holds_keys      it is a RocksDB with the text of messages' keys, and not only their hash codes
    holds_names     it holds names of topics or groups in other places than paths, records, texts and a RocksDB
    groups_messages  its records hold several messages, and the index has no entries for these
    attribute        the attribute in topics.json that makes a topic use it, and the values that a broker accepts
    """

    name: str
    room: str | None
    traces: tuple[Trace, ...]
    settings: tuple[str, ...] = ()
    lines: tuple[str, ...] = ("5.3", "5.5")
    refuses: frozenset[str] = frozenset()
    dumped_as: str | None = None
    newer: str = ""
    holds_queues: bool = False
    is_switched: bool = False
    shares_records: bool = False
    groups_messages: bool = False
    records: tuple[str, ...] = ()
    holds_keys: bool = False
    holds_names: bool = False
    copied: tuple[str, ...] = ()
    backed_up: tuple[str, ...] = ()
    made_anew: tuple[str, ...] = ()
    attribute: tuple[str, tuple[str, ...]] | None = None

    def furniture(self, kind: str) -> ModuleType | None:
        """Import the room's module of that name; None if the room has none."""
        return import_module(f"store.structures.{self.room}.{kind}") if self.has_furniture(kind) else None

    def has_furniture(self, kind: str) -> bool:
        """Return whether the room has a module of that name, without importing it."""
        return _is_module(str(self.room), kind)


@cache
def _is_module(room: str, kind: str) -> bool:
    folder = Path(__file__).parent / room
    return PathFinder.find_spec(f"store.structures.{room}.{kind}", [str(folder)]) is not None


PUT, CLEAN, TRUNCATE, RESOLVE = "put", "clean", "truncate", "resolve"
RECOVER, CHECKPOINT, DELAY, TIMER = "recover", "checkpoint", "delay", "timer"
DERIVE, SPARK = "rebuild", "spark"
"""Verbs that do not change the log: rebuilds and changes of tables; rebuilds on Spark."""
RECEIVE, AS_BROKER, BACK_UP = "receive", "start", "back up"
CHANGES = frozenset((PUT, CLEAN, TRUNCATE, RESOLVE, RECOVER, CHECKPOINT, DELAY, TIMER, DERIVE, SPARK, RECEIVE))
"""The verbs that change a store."""
ALL, NEWEST = ("4.9", "5.3", "5.5"), ("5.5",)
TOPICS = "config/topics.json"
STRUCTURES = (
    Structure(
        "commit log",
        "commitlog",
        (Trace("commitlog"),),
        ("storePathCommitLog",),
        ALL,
        CHANGES - {RECEIVE},
        dumped_as="commitlog",
        records=("commitlog/*",),
    ),
    Structure(
        "checkpoint", "checkpoint", (Trace("checkpoint"),), (), ALL, dumped_as="checkpoint", backed_up=("checkpoint",)
    ),
    Structure("abort marker", None, (Trace("abort"), Trace("abort.bak")), (), ALL),
    Structure("lock", None, (Trace("lock"),), (), ALL),
    Structure(
        "dledger",
        "dledger",
        (Trace("dledger-*"),),
        ("enableDLegerCommitLog", "dLegerSelfId"),
        ALL,
        frozenset((PUT, CLEAN, TRUNCATE, RESOLVE, SPARK, BACK_UP)),
        records=("dledger-*/data/*",),
    ),
    Structure("consume queue", "consumequeue", (Trace("consumequeue"),), (), ALL, dumped_as="consumequeue"),
    Structure(
        "light queue",
        "lightqueue",
        (Trace(f"consumequeue/{LMQ_PREFIX}*"), Trace("config/lmqConsumerOffset.json")),
        ("enableLmq", "enableMultiDispatch"),
        ALL,
        frozenset((SPARK,)),
        shares_records=True,
    ),
    Structure(
        "extension",
        "extension",
        (Trace("consumequeue_ext"),),
        ("enableConsumeQueueExt",),
        ALL,
        dumped_as="ext",
    ),
    Structure(
        "queue database",
        "queuedb",
        (Trace("consumequeue/CURRENT"), Trace("consumequeue/IDENTITY")),
        ("storeType", "rocksdbCQDoubleWriteEnable"),
        refuses=(CHANGES | {AS_BROKER}) - {RECOVER, DERIVE, TRUNCATE, CLEAN, TIMER},
        dumped_as="consumequeue",
        holds_queues=True,
    ),
    Structure(
        "queue database of its own folder",
        "queuedb",
        (Trace("consumequeue_rocksdb/CURRENT"), Trace("consumequeue_rocksdb/IDENTITY")),
        ("useSeparateStorePathForRocksdbCQ",),
        NEWEST,
        (CHANGES | {AS_BROKER}) - {RECOVER, DERIVE, TRUNCATE, CLEAN, TIMER},
        dumped_as="consumequeue",
    ),
    *(
        Structure("structure of a newer broker", None, (Trace(path),), (), lines, newer=what)
        for path, lines, what in (
            ("consumequeue_r", (), "consume queues of an unknown kind"),
            ("RocksDBMessageStore", (), "a message store of an unknown kind"),
        )
    ),
    Structure(
        "batch queue",
        "batchqueue",
        (Trace("batchconsumequeue/*"), Trace(TOPICS, b"queue.type")),
        ("mapperFileSizeBatchConsumeQueue",),
        refuses=frozenset((SPARK,)),
        dumped_as="consumequeue",
        groups_messages=True,
        attribute=("queue.type", ("SimpleCQ", "BatchCQ")),
    ),
    Structure(
        "message database",
        "messagedb",
        (
            Trace("rocksdbstore"),
            Trace(TOPICS, b"RMQ_SYS_ROCKSDB_TRANS_", of_topic=True),
            Trace("consumequeue/RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", of_topic=True),
        ),
        ("indexRocksDBEnable", "timerRocksDBEnable", "transRocksDBEnable"),
        NEWEST,
        CHANGES - {CLEAN, CHECKPOINT, DELAY, DERIVE, SPARK, RECOVER, TRUNCATE},
        is_switched=True,
        holds_keys=True,
        dumped_as="messages",
    ),
    Structure(
        "index",
        "index",
        (Trace("index"),),
        ("messageIndexEnable", "maxHashSlotNum", "maxIndexNum"),
        ALL,
        dumped_as="index",
    ),
    Structure(
        "compaction",
        "compaction",
        (
            Trace("compaction/compactionLog"),
            Trace("compaction/position-checkpoint"),
            Trace("compaction"),
            Trace(TOPICS, b'"COMPACTION"'),
        ),
        records=("compaction/compactionLog/*",),
        copied=("compaction",),
        attribute=("cleanup.policy", ("DELETE", "COMPACTION")),
    ),
    Structure(
        "timer",
        "timer",
        (
            Trace("timerwheel"),
            Trace("timerlog"),
            Trace("config/timercheck"),
            Trace(f"consumequeue/{TIMER_TOPIC}"),
        ),
        ("timerWheelEnable", "mappedFileSizeTimerLog", "timerPrecisionMs"),
        dumped_as="timer",
        made_anew=("timercheck", "timermetrics"),
    ),
    Structure("wheel snapshots", None, (Trace("timerwheel.[0-9]*"),), ("timerWheelSnapshotFlush",), NEWEST),
    Structure(
        "delay offsets",
        "delayoffsets",
        (Trace("config/delayOffset.json"), Trace(f"consumequeue/{SCHEDULE_TOPIC}")),
        ("messageDelayLevel",),
        ALL,
        dumped_as="delay",
    ),
    Structure(
        "epochs",
        "epochs",
        (Trace(EPOCHS), Trace(f"{EPOCHS}.bak"), Trace(IDENTITY), Trace(f"{IDENTITY}-temp")),
        ("enableControllerMode",),
        copied=(IDENTITY,),
        backed_up=(EPOCHS, f"{EPOCHS}.bak"),
    ),
    Structure("tiered storage", "tiered", (Trace(TIERED), Trace("tiered_index_file")), holds_names=True),
    Structure("tables", "tables", (Trace("config"), Trace("transaction")), (), ALL),
    Structure("tables of 5.x", None, tuple(Trace(f"config/{name}") for name in TABLES_OF_5)),
    Structure("one RocksDB for all tables", None, (Trace("config/metadata"),), (), NEWEST),
    Structure("pop consumers", "pop", (Trace(f"consumequeue/{REVIVE_PREFIX}*"), Trace("kvStore"))),
    Structure(
        "state",
        "state",
        (
            *(Trace(name) for name in (EPOCHS, f"{EPOCHS}.bak", IDENTITY, f"{IDENTITY}-temp", ORDER_INFO, TIERED)),
            Trace(f"consumequeue/{REVIVE_PREFIX}*"),
        ),
        dumped_as="state",
    ),
)
_ROOT_NAMES = frozenset(trace.path.split("/")[0] for one in STRUCTURES for trace in one.traces)
WHOLLY_UNREADABLE = ("no-rocksdict", "rocksdb-damaged")
"""Codes of errors that make a whole structure unreadable."""
UNKNOWN_DATABASE = "a RocksDB of an unknown kind"
_FILE_SYSTEMS_OWN = ("lost+found", ".nfs*", ".snapshot*")
"""Names that a file system may add to any folder."""


class Names:
    """The names in a store's folders, each folder listed once."""

    def __init__(
        self,
        list_names: Callable[[str], Iterable[str]],
        exists: Callable[[str], bool],
        read: Callable[[str], bytes | None],
    ) -> None:
        self._list_names, self._exists, self._read = list_names, exists, cache(read)
        self._known: dict[str, frozenset[str]] = {}
        self._found: dict[Trace, bool] = {}

    @classmethod
    def of_files(cls, files: StoreReader, *, reads: bool = True) -> Names:
        """Return the names in a reader's store; without `reads`, traces are found by path alone."""

        def read(path: str) -> bytes | None:
            return bytes(files.read(path)) if reads and files.file_at(path) is not None else None

        return cls(files.names, files.exists, read)

    def of(self, folder: str) -> frozenset[str]:
        """Return the names in a folder, none if the folder is missing."""
        if folder not in self._known:
            self._known[folder] = frozenset(self._list_names(folder))
        return self._known[folder]

    def matching(self, trace: Trace) -> list[str]:
        """Return the names in the trace's folder that match its last name."""
        folder, _, pattern = trace.path.rpartition("/")
        return sorted(name for name in self.of(folder) if fnmatchcase(name, pattern))

    def has(self, trace: Trace) -> bool:
        """Return whether the trace is in the store."""
        if trace not in self._found:
            self._found[trace] = self._look_for(trace)
        return self._found[trace]

    def _look_for(self, trace: Trace) -> bool:
        folder, _, name = trace.path.rpartition("/")
        if "*" in name:
            return bool(self.matching(trace))
        if name not in self.of(folder) or not self._exists(trace.path):
            return False
        return not trace.holds or trace.holds in (self._read(trace.path) or b"")


def names_of(layout: StoreLayout, fs: Filesystem) -> Names:
    """Return the names in a local store's folders, and a DLedger member's folder even if missing."""
    member = () if layout.dledger is None else (layout.dledger.name,)
    return Names(
        lambda folder: [*fs.list_names(layout.root / folder), *(member if not folder else ())],
        lambda path: fs.exists(layout.root / path),
        lambda path: fs.read_file(layout.root / path) if fs.exists(layout.root / path) else None,
    )


def present(names: Names, *, in_database: bool = False, settings: Mapping[str, object] = {}) -> Iterator[Structure]:
    """Return the structures in the store, in the registry's order; settings that are on show lost ones."""
    on = [one for one in STRUCTURES if one.is_switched and any(settings.get(name) is True for name in one.settings)]
    return (one for one in STRUCTURES if one in on or is_present(one, names, in_database=in_database))


def is_present(one: Structure, names: Names, *, in_database: bool = False) -> bool:
    """Return whether a structure's traces are in the store, or `in_database` is True and it holds queues."""
    return (in_database and one.holds_queues) or any(map(names.has, one.traces))


def rooms_with(
    names: Names, kind: str, function: str, *, in_database: bool = False, settings: Mapping[str, object] = {}
) -> Iterator[ModuleType]:
    """Return the modules of this name, with this function, in the rooms of the store's structures."""
    found = dict.fromkeys(one.furniture(kind) for one in present(names, in_database=in_database, settings=settings))
    return (room for room in found if room is not None and hasattr(room, function))


def settings_told(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the settings that follow from the structures' files, and from the names of `given` ones."""
    told: dict[str, object] = {}
    for room in rooms_with(names_of(layout, fs), "infer", "infer_settings"):
        told |= room.infer_settings(layout, fs, given)
    return told


def refusing(names: Names, verb: str) -> Iterator[Structure]:
    """Return the structures of the store that refuse the verb."""
    return (one for one in STRUCTURES if verb in one.refuses and any(map(names.has, one.traces)))


def is_of_a_database(path: str) -> bool:
    """Return whether this is a path of RocksDB's own files."""
    from store.files.rocksdb_files import is_rocksdb_file

    return is_rocksdb_file(path.rpartition("/")[2])


def is_of_others(path: str, line: str) -> bool:
    """Return whether a path is that of a structure, and no broker of the line has it."""
    return (found := structure_of(path)) is not None and line not in found.lines


def structure_of(name: str) -> Structure | None:
    """Return the structure with a trace of this path, or with one below this name in the root."""
    whole = (one for one in STRUCTURES for trace in one.traces if fnmatchcase(name, trace.path) and not trace.holds)
    below = (one for one in STRUCTURES for trace in one.traces if fnmatchcase(name, trace.path.split("/")[0]))
    return next(whole, None) or next(below, None)


def unknown_names(names: Names, *, databases: bool = False) -> list[str]:
    """Return names in the store's root that belong to no structure: RocksDB folders, or all others."""
    known = (*_ROOT_NAMES, *_FILE_SYSTEMS_OWN, OWN_FOLDER)
    found = (name for name in sorted(names.of("")) if not any(fnmatchcase(name, pattern) for pattern in known))
    return [name for name in found if names.has(Trace(f"{name}/CURRENT")) == databases]
