"""Reading: messages by queue offset, by key, and whole processes that do little."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from store import open_store
from tests.bench import stores
from tests.bench.context import KIB, SMALL_BODY, Bench
from tests.bench.limits import best_seconds
from tests.bench.report import Row

KEY_COUNT = 20_000_000
RUNS_OF_PROCESS = 5


def get(bench: Bench) -> Iterator[Row]:
    """32 messages by queue offset, the mean of 200 calls at random places."""
    root = bench.store(KIB)
    with open_store(root, as_is=True) as store:
        end = store.max_offset("BenchTopic0", 0) - 32
        places = np.random.default_rng(7).integers(0, end, 200).tolist()

        def work() -> None:
            for place in places:
                assert len(store.get("BenchTopic0", 0, place, 32).messages) == 32

        yield Row("get of 32 messages by offset", best_seconds(work, 3) / len(places), "s", target=1e-3)


def query(bench: Bench) -> Iterator[Row]:
    """One key in an index of 20 M entries, the mean of 200 calls."""
    count = bench.scaled(KEY_COUNT) // 3
    root = bench.store(SMALL_BODY, count)
    with open_store(root, as_is=True) as store:
        entries = sum(file.header.index_count - 1 for file in store.opened.index.files)
        serials = np.random.default_rng(7).integers(0, count, 200).tolist()
        keys = [(f"BenchTopic{n % stores.TOPIC_COUNT}", order_key(n)) for n in serials]

        def work() -> None:
            for topic, key in keys:
                assert len(store.query(topic, key).messages) == 1

        note = f"{entries:,} entries in {len(store.opened.index.files)} file(s)"
        yield Row("query of one key", best_seconds(work, 3) / len(keys), "s", target=1e-3, note=note)


def order_key(serial: int) -> str:
    """The first of KEYS of the message with that number."""
    columns = stores.columns(1, 1, first=serial)
    return bytes(columns.properties).split(b"KEYS\x01")[1].split(b" ")[0].decode()


def processes(bench: Bench) -> Iterator[Row]:
    """Wall time of whole processes, the best of some, and the mean of their CPU times."""
    store = ("--store", str(bench.store(KIB)))
    get = (*store, "get", "BenchTopic0", "--queue", "1", "--offset", "7", "--max", "1")
    for name, words, target in (
        ("rmqctl --help", ("--help",), 0.09),
        ("rmqctl get of one message", get, 0.2),
        ("rmqctl checkpoint show", (*store, "checkpoint", "show"), 0.2),
    ):
        before = _cpu_seconds()
        run_s = _process("-m", "rmqctl", *words)
        cpu_s = (_cpu_seconds() - before) / RUNS_OF_PROCESS
        yield Row(name, run_s, "s", target=target, note=f"CPU {cpu_s:.3f} s")


def kernels(bench: Bench) -> Iterator[Row]:
    """What loading the compiled kernels adds to a process that has numpy."""
    load = "import numpy, store.kernels"
    _process("-c", load)
    with_kernels, without = _process("-c", load), _process("-c", "import numpy, store")
    yield Row("start-up added by kernels", with_kernels - without, "s", target=0.4)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _process(*arguments: str) -> float:
    command = [sys.executable, *arguments]
    # Without its bytecode a process takes twice as long.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return best_seconds(lambda: subprocess.run(command, check=True, env=variables, **quiet), RUNS_OF_PROCESS)
