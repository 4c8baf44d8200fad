"""Readers of whole files for tests/fuzz.py: each file as brokers wrote it, mutated, and put where its readers look."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from store.broker_line import LINE_4_9, LINE_5_3
from store.change.manifest import decode_manifest, encode_manifest
from store.change.quarantine import interrupted_change, list_quarantine, undo
from store.change.workspace import quarantine_folder
from store.config import StoreConfig
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.index_page import HEADER_SIZE
from store.formats.segment_head import first_record_at, holds_record_entry
from store.formats.timer import TIMER_CHECK
from store.layout import StoreLayout
from store.structures.batchqueue.rows import holds
from store.structures.compaction.files import read_positions, read_units, records_of, units_of_log
from store.structures.delayoffsets.files import read_delay_offsets
from store.structures.dledger.files import EntryIndex, headers_of, read_member_state
from store.structures.entry import Asked, Entry
from store.structures.epochs.files import Epoch, EpochFile, decode_epochs, encode_epochs
from store.structures.index.geometry import infer_geometry
from store.structures.index.index_file import IndexFile
from store.structures.state.lines import lines_of
from store.structures.tables.consumer_filters import read_consumer_filters
from store.structures.tables.consumer_offsets import read_consumer_offsets
from store.structures.tables.review import review_loading
from store.structures.timer.files import metrics_fault, read_timer_files
from tests.engine.services.stores import ARCHIVES
from tests.support.five_stores import five
from tests.support.golden import golden, unpacked
from tests.support.stores import make_store, truncate

Read = Callable[[StoreReader, StoredFile], object]
Seeds = Callable[[], Sequence[bytes]]
SEGMENT = "00000000000000000000"
TIMER_PARTS = (f"timerlog/{SEGMENT}", "timerwheel", "config/timercheck")
MOST_SEED_BYTES = 3000


@functools.cache
def folder() -> Path:
    """A folder of this process, for one file at a time."""
    made = Path(tempfile.mkdtemp(prefix="fuzzed-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def root_of(path: str) -> Path:
    """The root that `at` gives a file of its own."""
    return folder() / path.replace("/", "-")


def exhaust(found: object) -> None:
    if isinstance(found, Iterable):
        for _ in found:
            pass


def rows_of(room: str, *, with_fields: bool = False) -> Callable[[StoreReader, StoredFile], Iterator[Entry]]:
    """The function that makes a room's rows of a file."""
    rows = import_module(f"store.structures.{room}.rows").rows
    return lambda files, file: rows(files, file, Asked(with_fields=with_fields))


def at(path: str, *reads: Read) -> Callable[[bytes], None]:
    """A function that puts its bytes at a path below a store's root, and reads them there."""

    def read(data: bytes) -> None:
        place = root_of(path) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        files = StoreReader(str(place).removesuffix(path))
        file = StoredFile(path, 0, len(data), 0)
        for one in reads:
            with contextlib.suppress(StoreError):
                exhaust(one(files, file))

    return read


def of_five(name: str, *patterns: str) -> Seeds:
    """The beginnings of a store's files, without the zeros behind what is written."""

    def found() -> list[bytes]:
        paths = [path for pattern in patterns for path in sorted((five(name) / "store").glob(pattern))]
        heads = []
        for path in paths:
            with path.open("rb") as file:
                heads.append(file.read(MOST_SEED_BYTES))
        return [head.rstrip(b"\0") for head in heads]

    return found


def queue_units() -> list[bytes]:
    folders = [golden(name).store / "consumequeue" for name in ("normal", "many")]
    return [sorted(one.rglob("0*"))[-1].read_bytes()[:400] for one in folders]


def index_seeds() -> list[bytes]:
    return [sorted((golden(name).store / "index").iterdir())[0].read_bytes() for name in ("normal", "preblank")]


def checkpoint_seeds() -> list[bytes]:
    return [(golden("normal").store / "checkpoint").read_bytes()[:64]]


def index_entries(files: StoreReader, file: StoredFile) -> object:
    return rows_of("index")(files, file)


def index_chains(files: StoreReader, file: StoredFile) -> None:
    """The entries of an index file by key, as a query finds them."""
    fs = Filesystem()
    path = Path(files.address, file.path)
    geometry = infer_geometry(path, fs)
    if geometry is not None and file.size >= HEADER_SIZE:
        index = IndexFile(path, geometry.slot_count, geometry.entry_count, fs.open_read(path), fs, writable=False)
        for number in range(8):
            index.select(f"T#k{number}", 32, 0, 1 << 62, [])


def timer(data: bytes) -> None:
    """The bytes as one of the timer's files beside the two others: which one, the first byte says."""
    root = folder() / "timer"
    originals = timer_seeds()
    chosen = (data[0] if data else 0) % 3
    for number, name in enumerate(TIMER_PARTS):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((data if number == chosen else originals[number])[1:])
    layout, files = StoreLayout(root), StoreReader(str(root))
    found = read_timer_files(layout, Filesystem(), StoreConfig())
    exhaust(found.start_faults())
    exhaust(found.lost_parts(3))
    found.are_whole(found.live_slots)
    for slot in found.used_slots.tolist():
        found.chain(slot)
    for name in TIMER_PARTS:
        with contextlib.suppress(StoreError):
            exhaust(rows_of("timer")(files, StoredFile(name, 0, (root / name).stat().st_size, 0)))


@functools.cache
def timer_seeds() -> list[bytes]:
    """Each of the three files behind its number; of the wheel the slots that are used, and some that are not."""
    root = five("timer") / "store"
    log = (root / TIMER_PARTS[0]).read_bytes()
    used: list[bytes] = []
    with (root / TIMER_PARTS[1]).open("rb") as wheel:
        while block := wheel.read(1 << 20):
            if any(block):
                used += [
                    block[start : start + 32] for start in range(0, len(block), 32) if any(block[start : start + 32])
                ]
    check = (root / TIMER_PARTS[2]).read_bytes()[: TIMER_CHECK.size]
    return [b"\0" + log, b"\1" + b"".join(used) + bytes(320), b"\2" + check]


def dledger_entries(files: StoreReader, file: StoredFile) -> None:
    exhaust(rows_of("commitlog", with_fields=True)(files, file))
    head = bytes(files.read(file.path))[:256]
    first_record_at(head)
    holds_record_entry(head, 0)
    for run in records_of(files, file)[0]:
        headers_of(run)


def dledger_index(files: StoreReader, file: StoredFile) -> None:
    index = EntryIndex(files, "dledger-n0")
    index.units(0, 1 << 40)
    index.units(3, 2)
    index.first_newer()


def member_state(files: StoreReader, file: StoredFile) -> object:
    return read_member_state(files, "dledger-n0")


def positions(files: StoreReader, file: StoredFile) -> object:
    return read_positions(files, file.path)


def compacted(files: StoreReader, file: StoredFile) -> None:
    """The bytes as a compacted log, whose units are made anew, and as the units."""
    runs, outcome = records_of(files, file)
    units_of_log(runs, outcome, file.size)
    read_units(files, file)


def epochs(data: bytes) -> None:
    at("epochFileCheckpoint", lines_of)(data)
    with contextlib.suppress(ValueError):
        decode_epochs(data)
    with contextlib.suppress(StoreError):
        EpochFile(root_of("epochFileCheckpoint"), Filesystem())


def epoch_seeds() -> list[bytes]:
    data = encode_epochs([Epoch(1, 0), Epoch(2, 4096), Epoch(7, 1 << 40)])
    return [data, data.replace(data.split(b"\n")[1], b"0", 1)]


def config_tables(data: bytes) -> None:
    """The bytes as each table under config/ that a change or a report reads."""
    root = folder() / "tables"
    (root / "config").mkdir(parents=True, exist_ok=True)
    names = ("delayOffset.json", "consumerOffset.json", "consumerFilter.json", "topics.json")
    for name in names:
        (root / "config" / name).write_bytes(data)
    layout, fs = StoreLayout(root), Filesystem()
    read_delay_offsets(layout, fs)
    read_consumer_offsets(layout.config, fs)
    read_consumer_filters(layout.config, fs)
    for line in (LINE_4_9, LINE_5_3):
        review_loading(layout.config, names, line, fs)
    files = StoreReader(str(root))
    file = files.file_at("config/delayOffset.json")
    assert file is not None
    with contextlib.suppress(StoreError):
        exhaust(rows_of("delayoffsets")(files, file))


def table_seeds() -> list[bytes]:
    found = []
    for name in ("services", "services5"):
        config = unpacked(ARCHIVES / f"{name}.tar.xz") / name / "store" / "config"
        found += [path.read_bytes()[:MOST_SEED_BYTES] for path in sorted(config.glob("*.json"))]
    return found


def manifest(data: bytes) -> None:
    """The bytes as a manifest; where they are an object, with the digest that makes it look written by a change."""
    for one in (data, signed(data)):
        for elsewhere in (None, [Path("/log")]):
            with contextlib.suppress(StoreError):
                decode_manifest(one, Path("manifest.json"), elsewhere)


def signed(data: bytes) -> bytes:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(document, dict):
        return data
    document.pop("digest", None)
    return encode_manifest(document)


@functools.cache
def truncated() -> tuple[Path, str]:
    """A store with a change that can be undone, and the change's id."""
    root = make_store(folder() / "truncated", 12)
    change_id = truncate(root, 555)[1]
    assert change_id is not None
    return root, change_id


def manifest_seeds() -> list[bytes]:
    root, change_id = truncated()
    applied = (quarantine_folder(root) / change_id / "manifest.json").read_bytes()
    return [applied, applied.replace(b'"applied"', b'"applying"'), applied.replace(b'"version": 2', b'"version": 1')]


def undone(data: bytes) -> None:
    """The bytes as the manifest of a change that is listed and undone."""
    original, change_id = truncated()
    root = folder() / "undone"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(original, root)
    (quarantine_folder(root) / change_id / "manifest.json").write_bytes(signed(data))
    fs = Filesystem()
    for look in (lambda: list_quarantine(root, fs=fs), lambda: interrupted_change(root, fs)):
        with contextlib.suppress(StoreError):
            look()
    with contextlib.suppress(StoreError):
        undo(root, change_id, fs=fs, force=True)


ORDER_INFO = b'{"table":{"T@g":{0:{"popTime":1,"i":60,"l":5,"o":[7,1],"cm":1}}}}'
TIERED = (
    b'{"topicMetadataTable":{"T":{"topicId":1,"status":0}},"queueMetadataTable":{"T":{"0":{"minOffset":0,"maxOffset":5}}},'
    b'"commitLogFileSegmentTable":{"a":{"0":{"baseOffset":0,"size":5}}}}'
)
FILES: dict[str, tuple[Callable[[bytes], object], Seeds]] = {
    "queue units": (at(f"consumequeue/T/0/{SEGMENT}", rows_of("consumequeue"), rows_of("extension")), queue_units),
    "batch units": (
        at(f"batchconsumequeue/T/0/{SEGMENT}", rows_of("batchqueue"), holds),
        of_five("bcq", "batchconsumequeue/*/*/0*"),
    ),
    "index entries": (at("index/20260101000000000", index_entries, index_chains), index_seeds),
    "checkpoint file": (at("checkpoint", rows_of("checkpoint")), checkpoint_seeds),
    "timer files": (timer, timer_seeds),
    "timer metrics": (metrics_fault, of_five("timer", "config/timermetrics")),
    "dledger entries": (at(f"dledger-n0/data/{SEGMENT}", dledger_entries), of_five("dledger", "dledger-n0/data/0*")),
    "dledger index": (at(f"dledger-n0/index/{SEGMENT}", dledger_index), of_five("dledger", "dledger-n0/index/0*")),
    "dledger state": (
        at("dledger-n0/checkpoint", member_state, lines_of),
        of_five("dledger", "dledger-n0/checkpoint", "dledger-n0/currterm"),
    ),
    "compacted": (
        at(f"compaction/compactionLog/T/0/{SEGMENT}", compacted),
        of_five("compaction", "compaction/compactionLog/*/0/0*", "compaction/compactionCq/*/0/0*"),
    ),
    "compaction positions": (
        at("compaction/position-checkpoint", positions, lines_of),
        of_five("compaction", "compaction/position-checkpoint"),
    ),
    "epochs": (epochs, epoch_seeds),
    "identity": (at("brokerIdentity", lines_of), lambda: [b"DefaultCluster#broker-a#1"]),
    "order info": (at("config/consumerOrderInfo.json", lines_of), lambda: [ORDER_INFO]),
    "tiered metadata": (at("config/tieredStoreMetadata.json", lines_of), lambda: [TIERED]),
    "config tables": (config_tables, table_seeds),
    "manifest": (manifest, manifest_seeds),
    "undo": (undone, manifest_seeds),
}
EVERY = {"timer metrics": 10, "manifest": 10, "undo": 200}
"""Of how many inputs a reader gets one; FILE_EVERY where none is named, as a file is written for each."""
FILE_EVERY = 40
