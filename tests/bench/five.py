"""The walks over structures of 5.x brokers, made for the run: DLedger's entries, batch queues, the timer's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from store import check
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.dledger import DLEDGER_HEADER
from store.formats.message import Message, encode_record
from store.formats.run import Run
from store.formats.timer import TIMER_CHECK
from store.layout import StoreLayout, segment_name
from store.structures.commitlog.scan import ScanRules, scan_log
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, batch_units_of, written_count
from store.structures.dledger.files import headers_of
from store.structures.entry import Asked
from store.structures.queuedb.database import open_database
from store.structures.queuedb.rows import blocks
from store.structures.queuedb.writer import DatabaseWriter
from store.structures.timer.files import SLOT_COUNT, SLOT_DTYPE, UNIT_DTYPE, read_timer_files
from tests.bench import five_stores, limits
from tests.bench.context import Bench
from tests.bench.report import Row
from tests.cli.running import rmqctl

BYTES_PER_S, UNITS_PER_S = 1e9, 5e6
DLEDGER_SIZE = 128 << 20
BATCH_UNITS, TIMER_UNITS = 2_000_000, 2_000_000
ROCKSDB_UNITS, ROCKSDB_PER_S = 1_000_000, 1e6
TIMER_FILE_SIZE = 104_857_600
CHECKED_SIZE = 256 << 20
NOT_MADE = {"checkpoint-invalid", "lost-index", "missing-unit"}
"""What the checked stores lack: a checkpoint, an index, and the queues of a DLedger log."""


def five(bench: Bench) -> Iterator[Row]:
    """Each walk in this process, over files in the page cache; the best of the runs."""
    reading, folder = limits.read_bytes_per_s(), bench.folder / "five"
    count, size = _make_dledger(folder / "dledger")
    seconds = _best(bench, lambda: _walk_dledger(folder / "dledger"))
    yield Row("DLedger walk with headers", size / seconds, "B/s", "memory read", reading, target=BYTES_PER_S,
              note=f"{count / seconds / 1e6:.1f} M entries/s")  # fmt: skip
    _make_batch_queue(folder / "batch")
    seconds = _best(bench, lambda: _walk_batch_queue(folder / "batch"))
    yield Row("batch queue walk", BATCH_UNITS / seconds, "units/s", target=UNITS_PER_S,
              note=f"{BATCH_UNITS * BATCH_UNIT_DTYPE.itemsize / seconds / 1e9:.2f} GB/s")  # fmt: skip
    _make_timer(folder / "timer")
    seconds = _best(bench, lambda: _walk_timer(folder / "timer"))
    yield Row("timer walk: wheel and log", TIMER_UNITS / seconds, "units/s", target=UNITS_PER_S,
              note=f"{TIMER_UNITS * UNIT_DTYPE.itemsize / seconds / 1e9:.2f} GB/s of the log")  # fmt: skip
    _make_rocksdb(folder / "rocksdb")
    walks = {
        "units of one queue": _read_rocksdb_queue,
        "every key and value": _read_rocksdb,
        "every unit as columns": _read_rocksdb_columns,
        "dump as JSON lines": partial(_dump_rocksdb, "jsonl"),
        "dump as CSV": partial(_dump_rocksdb, "csv"),
    }
    for name, read in walks.items():
        seconds = _best(bench, partial(read, folder / "rocksdb"), time.process_time)
        yield Row(f"RocksDB, {name}, by CPU time", ROCKSDB_UNITS / seconds, "units/s", target=ROCKSDB_PER_S)


def five_checks(bench: Bench) -> Iterator[Row]:
    """Check of a sound store of each structure, the commit log and all that belongs to it, by CPU time."""
    makers = {
        "a DLedger log": five_stores.make_dledger_store,
        "a batch queue": five_stores.make_batch_store,
        "a compacted topic": five_stores.make_compacted_store,
        "waiting timers": five_stores.make_timer_store,
    }
    for number, (name, make) in enumerate(makers.items()):
        root = bench.folder / f"five-{number}"
        count = make(root, CHECKED_SIZE)
        seconds = _best(bench, partial(_check, root), time.process_time)
        yield Row(f"check of {name}, {CHECKED_SIZE >> 20} MiB of log, CPU", CHECKED_SIZE / seconds, "B/s",
                  target=BYTES_PER_S, note=f"{count / seconds / 1e6:.2f} M records/s")  # fmt: skip


def _check(root: Path) -> None:
    assert not {finding.kind for finding in check(root)} - NOT_MADE


def _best(bench: Bench, walk: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    def seconds() -> float:
        began = clock()
        walk()
        return clock() - began

    return min(seconds() for _ in range(bench.runs + 1))


def _make_dledger(root: Path) -> tuple[int, int]:
    """One data file of entries with bodies of 1 KiB; gives their number and bytes."""
    data = root / "dledger-n0" / "data"
    data.mkdir(parents=True)
    file, count = bytearray(DLEDGER_SIZE), 0
    message, at = Message.of("T", "x" * 1024, tags="a"), 0
    while True:
        record = encode_record(
            message, topic=b"T", sys_flag=0, queue_offset=count, log_offset=at + 48, store_timestamp_ms=1
        )
        size = DLEDGER_HEADER.size + len(record)
        if at + size + 8 > DLEDGER_SIZE:
            break
        file[at : at + size] = DLEDGER_HEADER.pack(1, size, count, 0, at, 0, 0, 0, len(record)) + record
        at, count = at + size, count + 1
    (data / segment_name(0)).write_bytes(file)
    return count, at


def _walk_dledger(root: Path) -> None:
    files = StoreReader(str(root))
    segments = [StoredSegment(files, file) for file in files.segments()]
    for step in scan_log(segments, rules=ScanRules()):
        if isinstance(step, Run):
            headers = headers_of(step)
            assert (headers["pos"] == step.columns.log_offset - DLEDGER_HEADER.size).all()


def _make_batch_queue(root: Path) -> None:
    units = np.zeros(BATCH_UNITS, BATCH_UNIT_DTYPE)
    numbers = np.arange(BATCH_UNITS)
    units["log_offset"], units["size"], units["queue_offset"] = numbers * 200, 200, numbers
    units["message_count"], units["compacted_offset"] = 1, -1
    folder = root / "batchconsumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (root / "commitlog").mkdir()
    (folder / segment_name(0)).write_bytes(units.tobytes())


def _walk_batch_queue(root: Path) -> None:
    files = StoreReader(str(root))
    (file,) = files.numbered_files("batchconsumequeue/T/0")
    units = batch_units_of(files.read(file.path))
    assert written_count(units) == BATCH_UNITS
    ends = units["queue_offset"] + units["message_count"]
    assert (units["queue_offset"][1:] == ends[:-1]).all()


def _make_rocksdb(root: Path) -> None:
    """A RocksDB of one queue, as rebuild writes it."""
    units = np.zeros(ROCKSDB_UNITS, BATCH_UNIT_DTYPE)
    numbers = np.arange(ROCKSDB_UNITS)
    units["log_offset"], units["size"], units["queue_offset"] = numbers * 200, 200, numbers
    units["store_timestamp_ms"] = 1_700_000_000_000 + numbers
    (root / "commitlog").mkdir(parents=True)
    writer = DatabaseWriter(root / "consumequeue", Filesystem())
    writer.put_units(("T", 0), units)
    writer.finish(ROCKSDB_UNITS * 200)


def _read_rocksdb_queue(root: Path) -> None:
    with Scratch() as scratch:
        database = open_database(root / "consumequeue", scratch.folder, Filesystem())
        assert len(database.units(("T", 0))) == ROCKSDB_UNITS


def _read_rocksdb(root: Path) -> None:
    with Scratch() as scratch:
        database = open_database(root / "consumequeue", scratch.folder, Filesystem())
        assert sum(1 for _ in database.entries()) == ROCKSDB_UNITS


def _read_rocksdb_columns(root: Path) -> None:
    assert sum(len(block) for block in blocks(root / "consumequeue", Asked())) == ROCKSDB_UNITS


def _dump_rocksdb(form: str, root: Path) -> None:
    """The whole command in this process."""
    run = rmqctl("-f", form, "dump", "consumequeue", store=root)
    assert run.data.count(b"\n") == ROCKSDB_UNITS + (form == "csv")


def _make_timer(root: Path) -> None:
    """A wheel whose slots share the units, each a chain of a few."""
    log, wheel = np.zeros(TIMER_UNITS, UNIT_DTYPE), np.zeros(SLOT_COUNT, SLOT_DTYPE)
    slots, first_time = TIMER_UNITS // 4, 1_700_000_000
    numbers = np.arange(TIMER_UNITS)
    log["size"], log["magic"], log["log_offset"], log["record_size"] = UNIT_DTYPE.itemsize, 1, numbers * 300, 300
    log["previous"] = np.where(numbers < slots, -1, (numbers - slots) * UNIT_DTYPE.itemsize)
    log["write_time_ms"] = first_time * 1000
    log["delay_ms"] = numbers % slots * 1000
    times = first_time + np.arange(slots)
    wheel["time"][times % SLOT_COUNT] = times
    wheel["first"][times % SLOT_COUNT] = np.arange(slots) * UNIT_DTYPE.itemsize
    wheel["last"][times % SLOT_COUNT] = (TIMER_UNITS - slots + np.arange(slots)) * UNIT_DTYPE.itemsize
    wheel["num"][times % SLOT_COUNT] = 4
    (root / "timerlog").mkdir(parents=True)
    (root / "config").mkdir()
    (root / "timerwheel").write_bytes(wheel.tobytes())
    (root / "timerlog" / segment_name(0)).write_bytes(log.tobytes().ljust(TIMER_FILE_SIZE, b"\0"))
    (root / "config" / "timercheck").write_bytes(TIMER_CHECK.pack(1, 0, 0, 0, 0, 0, 0).ljust(4096, b"\0"))


def _walk_timer(root: Path) -> None:
    timer = read_timer_files(StoreLayout(root), Filesystem(), StoreConfig())
    assert len(timer.units) >= TIMER_UNITS
    assert (timer.units["previous"].astype("i8") < timer.positions).all()
    assert len(timer.used_slots) == TIMER_UNITS // 4
