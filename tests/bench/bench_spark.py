"""How fast the pipeline is: `python -m tests.bench.bench_spark --gib 1 10`. Prints a table, or JSON with --json.

A store of 1 KiB bodies (unique key, two keys, four topics of four queues) is made by bulk put with a fixed seed; then,
each after Spark has started:

    local rebuild   store.verbs.rebuild.local, this process
    spark rebuild   the same on local[2]
    check           store.verbs.check.check, this process
    sql, first      count and sum by topic, without bodies, on local[2]; Spark loads and compiles itself on the way
    sql             the same once more
    export          everything to Parquet, on local[2]
    worker memory   the largest private memory of any Python worker while the above ran
    spark of local  rate of Spark's rebuild by that of the local one, both on the machine's cores
    CPU             the same by seconds of CPU, those of JVM and Python workers together; of each rebuild the seconds
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from store import open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import Message
from store.opened.detect import infer_config, make_layout
from store.query.spark.query import run_query, write_export
from store.query.spark.rebuild import rebuild_on_spark
from store.query.spark.session import open_session
from store.query.tables.export import Export
from store.structures.commitlog.bulk import MessageColumns
from store.verbs.check.check import check_files
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildScope
from tests.bench.spark_start import children_cpu_s

BATCH = 20_000
NO_RATES = ("worker MiB", "spark start", "spark of local", "spark of local, CPU")
COUNT_BY_TOPIC = "select topic, count(*), sum(size) from messages group by topic"


def make_store(root: Path, total_bytes: int) -> None:
    """A store of about so many bytes of commit log."""
    random = np.random.default_rng(7)
    with open_store(root, read_only=False) as store:
        made, serial = 0, 0
        while made < total_bytes:
            messages = [_message(random, serial + i) for i in range(BATCH)]
            store.put_many(MessageColumns.of(messages))
            serial += BATCH
            made += BATCH * 1220


def _message(random: np.random.Generator, n: int) -> Message:
    properties = f"UNIQ_KEY\x01{n:032X}\x02KEYS\x01order{n} user{n % 9973}\x02TAGS\x01tag{n % 5}"
    return Message(f"Topic{n % 4}", random.bytes(1024), n // 4 % 4, properties.encode())


def measure(root: Path, scratch: Path) -> dict[str, float]:
    """Seconds of each operation, and megabytes of private memory of the largest worker."""
    config = infer_config(make_layout(root, {}), {}, Filesystem())
    found: dict[str, float] = {}

    def clock() -> int:
        return time.time_ns() // 1_000_000

    def staged(name: str) -> Path:
        shutil.rmtree(scratch, ignore_errors=True)
        return scratch / name

    def timed(name: str, work: Callable[[], Any]) -> None:
        began, cpu = time.perf_counter(), _cpu_s()
        work()
        found[name] = time.perf_counter() - began
        if name.endswith("rebuild"):
            found[f"{name}, CPU"] = _cpu_s() - cpu

    timed(
        "local rebuild",
        lambda: rebuild_locally(StoreReader(str(root)), staged("local"), config, RebuildScope(), clock=clock),
    )
    timed("check", lambda: sum(1 for _ in check_files(StoreReader(str(root)))))
    began = time.perf_counter()
    with open_session("local[2]") as spark, _largest_worker() as peak:
        found["spark start"] = time.perf_counter() - began
        timed("sql, first", lambda: run_query(spark, [str(root)], COUNT_BY_TOPIC, limit=10))
        timed("sql", lambda: run_query(spark, [str(root)], COUNT_BY_TOPIC, limit=10))
        timed(
            "spark rebuild",
            lambda: rebuild_on_spark(spark, str(root), staged("spark"), config, RebuildScope(), now_ms=clock()),
        )
        staged("").mkdir(parents=True)
        timed("export", lambda: write_export(spark, [str(root)], scratch / "parquet", Export("parquet")))
    found["worker MiB"] = peak[0] / (1 << 20)
    found["spark of local"] = found["local rebuild"] / found["spark rebuild"]
    found["spark of local, CPU"] = found["local rebuild, CPU"] / found["spark rebuild, CPU"]
    shutil.rmtree(scratch, ignore_errors=True)
    return found


def _cpu_s() -> float:
    return time.process_time() + children_cpu_s()


@contextmanager
def _largest_worker() -> Iterator[list[int]]:
    """The greatest private memory (RssAnon) of any Python worker seen, looked at ten times a second."""
    peak, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    # Not by "pyspark": a JVM that starts a program shares its memory with it for a moment.
                    if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                        status = (process / "status").read_text()
                        kib = next(line for line in status.splitlines() if line.startswith("RssAnon"))
                        peak[0] = max(peak[0], int(kib.split()[1]) << 10)
                except (OSError, StopIteration):
                    continue

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield peak
    stop.set()
    watcher.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gib", type=float, nargs="+", default=[1.0])
    parser.add_argument("--folder", type=Path, help="where the stores are made (default: the system's scratch folder)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for gib in arguments.gib:
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bench-spark-") as folder:
            root = Path(folder, "store")
            make_store(root, round(gib * (1 << 30)))
            found = measure(root, Path(folder, "scratch"))
        if arguments.json:
            print(json.dumps({"gib": gib, **found}))
            continue
        print(f"{gib:g} GiB")
        for name, value in found.items():
            rate = f"{gib * 1024 / value:10.0f} MiB/s" if name not in NO_RATES else ""
            print(f"  {name:19} {value:8.2f}{rate}")


if __name__ == "__main__":
    main()
