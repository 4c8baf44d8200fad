"""Names of a store's files and folders, made and parsed side by side.

    ROOT/commitlog/<20 digits>                          the name is the log offset of the first byte
    ROOT/consumequeue/<topic>/<queue id>/<20 digits>    the name is queue_offset of the first unit x 20
    ROOT/consumequeue_rocksdb                           5.5; queues in a RocksDB that has a folder of its own
    ROOT/consumequeue_ext/<topic>/<queue id>/<20 digits>
    ROOT/batchconsumequeue/<topic>/<queue id>/<20 digits>   5.x; the name is the file's place in the queue of bytes
    ROOT/dledger-<id>/data, index/<20 digits>           entries of DLedger and their index; currterm, checkpoint: a file
    ROOT/index/<yyyyMMddHHmmssSSS>                      local time of creation
    ROOT/checkpoint, abort, lock                        one file each
    ROOT/config/*.json                                  the broker's own tables
    ROOT/.rmqctl/                                       quarantine and staging of rmqctl; no broker looks there

Source: StorePathConfigHelper, UtilAll.offset2FileName, UtilAll.timeMillisToHumanString (4.9.8).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

OWN_FOLDER = ".rmqctl"
EPOCHS, IDENTITY = "epochFileCheckpoint", "brokerIdentity"
ORDER_INFO, TIERED = "config/consumerOrderInfo.json", "config/tieredStoreMetadata.json"
"""Files of a 5.x broker's state."""
STORE_NAMES = (
    "abort",
    "batchconsumequeue",
    "checkpoint",
    "commitlog",
    "compaction",
    "config",
    "consumequeue",
    "consumequeue_ext",
    "consumequeue_rocksdb",
    "index",
    "rocksdbstore",
    "timerlog",
    "timerwheel",
)
"""Files and folders of a store that a change may touch."""
OTHER_QUEUES = "batchconsumequeue"
STORE_TYPE, DOUBLE_WRITE = "storeType", "rocksdbCQDoubleWriteEnable"
SEPARATE_DATABASE = "useSeparateStorePathForRocksdbCQ"
QUEUE_SETTINGS = (STORE_TYPE, DOUBLE_WRITE, SEPARATE_DATABASE)
"""The settings that decide whether a broker reads queue files or a database of queues, and the database's folder."""
NAMES_OF_5 = ("abort.bak", "timerwheel", "compaction", EPOCHS, OTHER_QUEUES)
"""Files and folders that only a 5.x broker makes."""
TABLES_OF_5 = (
    "topicQueueMapping.json",
    "messageRequestMode.json",
    "transactionMetrics",
    "topics",
    "subscriptionGroups",
    "consumerOffsets",
    "rdb",
)
"""Tables in config/, files and databases, that only a 5.x broker has."""
JSON_FILES = (
    "topics.json",
    "subscriptionGroup.json",
    "consumerOffset.json",
    "lmqConsumerOffset.json",
    "delayOffset.json",
    "consumerFilter.json",
    "topicQueueMapping.json",
    "consumerOrderInfo.json",
    "messageRequestMode.json",
    "transactionMetrics",
    "timermetrics",
)
"""The broker's tables in config/."""
CONTROLLER_MODE = EPOCHS
"""The file that a broker in controller mode alone has."""
_MAX_FOLDER_NAME_SIZE = 255
_MOST_DIGITS = 255
_KNOWN_NAMES = 1024
READ_ONLY_PATHS = "readOnlyCommitLogStorePaths"
BACKUP = "backup:"
"""Prefix of the address of a backup that is read as a store."""
BUNDLE = ".tar.zst"
"""Suffix of a bundle's name."""


def is_address(text: str) -> bool:
    """Return whether a text is a URI, a backup's address or a bundle's name, not a folder's path."""
    return "://" in text or text.startswith(BACKUP) or is_bundle(text)


def is_bundle(text: str) -> bool:
    """Return whether a text is the path or URI of a bundle."""
    return text.endswith(BUNDLE) and not text.startswith(BACKUP)


def is_store_name(name: str) -> bool:
    """Return whether a change may touch a file or folder of the store's root."""
    # The wheel's snapshots have names of their own.
    wheel, _, number = name.partition(".")
    return name in STORE_NAMES or (wheel == "timerwheel" and parse_whole_number(number) is not None)


def segment_name(offset: int) -> str:
    """Return the file name of the segment that starts at `offset`."""
    return f"{offset:020d}"


def names_a_place(setting: str) -> bool:
    """Return whether a setting names a file or folder: a copy of the store has it elsewhere."""
    return setting == READ_ONLY_PATHS or setting.startswith("storePath")


# 100,000 queues share few names of files and folders.
@lru_cache(_KNOWN_NAMES)
def parse_segment_name(name: str) -> int | None:
    """Return a segment's start offset, None for a foreign name (Long.parseLong would throw)."""
    return parse_whole_number(name)


def parse_whole_number(text: str) -> int | None:
    """Parse ASCII digits as a number of 63 bits; None for another text.

    isdigit accepts "²", but int() refuses it. int() also refuses more than 4300 digits.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) < 1 << 63
    return int(text) if is_number else None


def index_file_name(time_ms: int) -> str:
    """Return the name of an index file created at `time_ms`, in local time.

    A year before 1 is counted backwards, as in Java.
    """
    local = time.localtime(time_ms // 1000)
    year = local.tm_year if local.tm_year > 0 else 1 - local.tm_year
    return f"{year:04d}" + time.strftime("%m%d%H%M%S", local) + f"{time_ms % 1000:03d}"


def parse_index_file_name(name: str) -> int | None:
    """Return the name as a number (the broker sorts by it), or None for a foreign name."""
    return int(name) if name.isascii() and name.isdigit() else None


@lru_cache(_KNOWN_NAMES)
def parse_queue_id(name: str) -> int | None:
    """Return a queue folder's queue id, None for a foreign name; damaged records have negative ids."""
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(name) if -(1 << 31) <= int(name) < 1 << 31 else None


@lru_cache(_KNOWN_NAMES)
def is_topic_folder_name(topic: str) -> bool:
    """Return whether the topic is a valid name of a folder directly in consumequeue/."""
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        return False
    return len(topic.encode("utf-8", "surrogatepass")) <= _MAX_FOLDER_NAME_SIZE


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The folders of one store.

    commitlog_paths    of storePathCommitLog, when the log is elsewhere, or in several folders
    read_only_paths    of readOnlyCommitLogStorePaths, which counts only when the log is in several folders
    dledger            the folder of the group's member, where the log is DLedger's
    queue_settings     the given settings of QUEUE_SETTINGS
    """

    root: Path
    commitlog_paths: tuple[Path, ...] = ()
    read_only_paths: tuple[Path, ...] = ()
    dledger: Path | None = None
    queue_settings: tuple[tuple[str, object], ...] = ()

    @property
    def has_plain_log(self) -> bool:
        """Whether the log has plain records, not the entries of a group's member."""
        return self.dledger is None

    @property
    def commitlog(self) -> Path:
        """The folder of the log, the first of several."""
        return self.writable_commitlogs[0]

    @property
    def writable_commitlogs(self) -> tuple[Path, ...]:
        """The folders for new segments."""
        return self.commitlog_paths or (self.root / "commitlog",)

    @property
    def commitlogs(self) -> tuple[Path, ...]:
        """Every folder that may hold segments."""
        return tuple(dict.fromkeys((*self.writable_commitlogs, *self.read_only_paths)))

    @property
    def commitlogs_elsewhere(self) -> tuple[Path, ...]:
        """The configured folders of the log; empty if the log is in the store's own folder."""
        return self.commitlogs if self.commitlog_paths else ()

    @property
    def consumequeue(self) -> Path:
        return self.root / "consumequeue"

    @property
    def consumequeue_rocksdb(self) -> Path:
        return self.root / "consumequeue_rocksdb"

    @property
    def separates_database(self) -> bool | None:
        """Whether the given setting puts a database of queues into a folder of its own; None without it."""
        value = dict(self.queue_settings).get(SEPARATE_DATABASE)
        return value if isinstance(value, bool) else None

    @property
    def consumequeue_ext(self) -> Path:
        return self.root / "consumequeue_ext"

    @property
    def batchconsumequeue(self) -> Path:
        return self.root / OTHER_QUEUES

    @property
    def queue_parents(self) -> tuple[Path, ...]:
        """The folders of topics with queue files, of every type."""
        return self.consumequeue, self.batchconsumequeue

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        return self.root / "abort"

    @property
    def controller_state(self) -> Path:
        """The file that a broker in controller mode has."""
        return self.root / EPOCHS

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def own(self) -> Path:
        """The folder of rmqctl's own files, such as removed files."""
        return self.root / OWN_FOLDER

    def queue_folder(self, topic: str, queue_id: int) -> Path:
        return self.consumequeue.joinpath(topic, str(queue_id))

    def queue_ext_folder(self, topic: str, queue_id: int) -> Path:
        return self.consumequeue_ext / topic / str(queue_id)
