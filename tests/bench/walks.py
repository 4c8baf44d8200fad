"""Walking the log: the scan alone, with CRC, and whole recoveries."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from store import open_store
from store.change.workspace import staging_folder
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.run import Run
from store.layout import StoreLayout
from store.opened.detect import find_store
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.scan import ScanRules, scan_log
from store.verbs.recover.plan import plan_recovery
from tests.bench import limits, stores
from tests.bench.context import GIB, KIB, MIB, SMALL_BODY, Bench, size_name
from tests.bench.memory import PeakMemory
from tests.bench.report import Row

RECOVER_SECONDS = {KIB: 0.35, SMALL_BODY: 0.6}
# Body size, state of the store, how it is recovered, KEYS beside UNIQ_KEY, seconds wanted, how many times the
# reference's rate is wanted. The seconds are for a key each, as the reference's `bench --keys` writes them.
STATES = (
    (KIB, "closed", "normal", 2, 0.25, None),
    (KIB, "crashed with queues", "abnormal", 2, 0.25, 4.5),
    (KIB, "nothing derived", "abnormal", 1, 0.117, 10.0),
    (SMALL_BODY, "nothing derived", "abnormal", 1, 0.15, 10.0),
    (KIB, "nothing derived", "abnormal", 2, None, 10.0),
    (SMALL_BODY, "nothing derived", "abnormal", 2, None, 10.0),
)
WHOLE_COMMAND_SECONDS = 0.5
LARGE_BYTES_PER_S = 10 * 450e6
MEMORY_TARGET = 300 * MIB
SETTLED_COUNT = 20_000
PLANS_A_RUN = 4
"""A plan takes a tenth of a second, as long as the disturbance of another process."""
# What a message of 1 KiB with its keys takes.
LARGE_RECORD_SIZE = 1217


def scan(bench: Bench) -> Iterator[Row]:
    """Boundaries and columns, then the same with the CRC of every body; one thread."""
    for body_size in (SMALL_BODY, KIB):
        root, count = bench.store(body_size), bench.count(body_size)
        reading, crc = limits.read_bytes_per_s(), limits.crc_bytes_per_s()
        plain, size = _scan_seconds(bench, root, check_crc=False)
        checked, _ = _scan_seconds(bench, root, check_crc=True)
        name, record = size_name(body_size), size / count
        if body_size == SMALL_BODY:
            yield Row(f"scan, {name}", count / plain, "records/s", "memory read", reading / record, target=30e6,
                      note=_rates(size, count, plain))  # fmt: skip
            yield Row(f"scan + CRC, {name}", count / checked, "records/s", "isal over bodies", crc / body_size,
                      target=15e6, note=_rates(size, count, checked))  # fmt: skip
        else:
            yield Row(f"scan, {name}", size / plain, "B/s", "memory read", reading, target_ratio=0.6,
                      note=_rates(size, count, plain))  # fmt: skip
            yield Row(f"scan + CRC, {name}", size / checked, "B/s", "isal", crc, target=5e9,
                      note=_rates(size, count, checked))  # fmt: skip


def _rates(size: int, count: int, seconds: float) -> str:
    rates = f"{count / seconds / 1e6:.1f} M records/s, {size / seconds / 1e9:.2f} GB/s"
    return f"{rates}, {size / count:.0f} bytes per record"


def _scan_seconds(bench: Bench, root: Path, *, check_crc: bool) -> tuple[float, int]:
    """Best time of a walk over the whole log, whose pages are in the process's map, and its bytes."""
    rules, best, size = ScanRules(check_crc=check_crc, accept_v2=False), math.inf, 0
    with open_store(root, as_is=True) as store:
        segments = store.opened.log.segments.files
        for _ in range(bench.runs + 1):
            began, size = time.perf_counter(), 0
            for step in scan_log(segments, rules=rules):
                size += step.end - step.start if isinstance(step, Run) else 0
            best = min(best, time.perf_counter() - began)
    return best, size


def recover(bench: Bench) -> Iterator[Row]:
    """`recover --abnormal` with nothing but the log: walk, CRC, queues and index built from it."""
    tiny = bench.store(SMALL_BODY, SETTLED_COUNT)
    for body_size, seconds in RECOVER_SECONDS.items():
        count, target = bench.count(body_size), seconds * bench.share
        root, name = bench.store(body_size), f"{size_name(body_size)} x {count:,}"
        size, reading = stores.log_bytes(root), limits.read_bytes_per_s()
        planned, cpu, applied = min(recover_here(root) for _ in range(bench.runs + 1))
        yield Row(f"recover in process, {name}", planned, "s", target=target,
                  note=f"the plan (walk, CRC, queues, index) {size / planned / 1e9:.2f} GB/s, memory read "
                       f"{reading / 1e9:.1f}; {cpu:.2f} s of CPU time; applied durably in {applied:.2f} s")  # fmt: skip
        for option, bound in (("--dry-run", target), ("--yes", None)):
            start, start_cpu, _ = min(_recover_process(tiny, option) for _ in range(bench.runs))
            whole, cpu, peak = min(_recover_process(root, option) for _ in range(bench.runs))
            yield Row(f"recover {option} process, {name}", whole - start, "s", target=bound,
                      note=f"{whole:.2f} s less {start:.2f} s for {SETTLED_COUNT:,} messages; CPU time {cpu:.2f} s "
                           f"less {start_cpu:.2f} s; private memory {peak // MIB} MiB")  # fmt: skip


def recover_states(bench: Bench) -> Iterator[Row]:
    """`recover` by the state of the store: what is repeated is passed over, the rest is built."""
    for body_size, state, mode, keys, seconds, times in STATES:
        root, count = bench.store(body_size, keys=keys), bench.count(body_size)
        stores.put_into_state(root, state)
        planned, cpu = min(plan_here(root, mode) for _ in range(bench.runs * PLANS_A_RUN))
        name = f"{state}, {size_name(body_size)} x {count:,}, {'a key' if keys == 1 else 'two keys'} each"
        yield Row(f"recover --{mode} in process, {name}", planned, "s", target=seconds and seconds * bench.share,
                  note=f"the plan; {cpu:.2f} s of CPU time")  # fmt: skip
        whole = min(_whole_command(root, mode) for _ in range(bench.runs))
        yield Row(f"recover --{mode} --dry-run, {name}", whole, "s", target=WHOLE_COMMAND_SECONDS,
                  note="the whole command")  # fmt: skip
        if bench.against and times is not None:
            theirs = max(_reference_recovery(bench, root, state) for _ in range(bench.runs))
            yield Row(f"recover --{mode} in process, {name}", count / planned, "messages/s", "reference", theirs,
                      target_ratio=times)  # fmt: skip


def _reference_recovery(bench: Bench, root: Path, state: str) -> float:
    """Messages per second of the recovery by the command of --against, in its own process without the start of it."""
    stores.put_into_state(root, state)
    kept = ["--keep-derived"] if state == "crashed with queues" else []
    command = [*bench.against, "bench-recover", "--store", str(root), *kept]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(answer["messages"] / answer["secondsLoad"])


def plan_here(root: Path, mode: str) -> tuple[float, float]:
    """Seconds and CPU seconds for the plan, in this process with its kernels loaded; nothing is changed."""
    fs, layout = Filesystem(), StoreLayout(root)
    began, cpu_began = time.perf_counter(), time.process_time()
    overlay = Overlay(staging_folder(root, "bench"))
    opened = OpenedStore.load(find_store(layout, {}, fs, compat="4.9"), fs, _now_ms, overlay=overlay)
    change = plan_recovery(opened, mode=mode)
    planned = time.perf_counter() - began, time.process_time() - cpu_began
    change.close()
    opened.close()
    return planned


def _whole_command(root: Path, mode: str) -> float:
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), "recover", f"--{mode}", "--dry-run"]
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def recover_large(bench: Bench) -> Iterator[Row]:
    """The same on 10 GiB."""
    tiny = bench.store(SMALL_BODY, SETTLED_COUNT)
    count = bench.scaled(10 * GIB // LARGE_RECORD_SIZE)
    root, reading = bench.store(KIB, count), limits.read_bytes_per_s()
    size = stores.log_bytes(root)
    start, start_cpu, _ = min(_recover_process(tiny, "--dry-run") for _ in range(bench.runs))
    whole, cpu, peak = min(_recover_process(root, "--dry-run") for _ in range(bench.runs))
    planned, plan_cpu, _ = min(recover_here(root, apply=False) for _ in range(bench.runs))
    yield Row("recover --dry-run process, 10 GiB", size / (whole - start), "B/s", "memory read", reading,
              target=LARGE_BYTES_PER_S,
              note=f"{size / 1e9:.2f} GB, {count:,} records in {whole:.2f} s less {start:.2f} s for {SETTLED_COUNT:,} "
                   f"messages; CPU time {cpu:.2f} s less {start_cpu:.2f} s")  # fmt: skip
    yield Row("recover in process, 10 GiB", size / planned, "B/s", "memory read", reading, target=LARGE_BYTES_PER_S,
              note=f"CPU time {plan_cpu:.2f} s")  # fmt: skip
    yield Row("private memory of the process", peak, "B", target=MEMORY_TARGET)


def recover_here(root: Path, *, apply: bool = True) -> tuple[float, float, float]:
    """Seconds and CPU seconds for the plan, and seconds for applying it, in this process with its kernels loaded."""
    stores.forget_derived(root)
    fs, layout = Filesystem(), StoreLayout(root)
    began, cpu_began = time.perf_counter(), time.process_time()
    overlay = Overlay(staging_folder(root, "bench"))
    parts = OpenedStore.load(find_store(layout, {}, fs, compat="4.9"), fs, _now_ms, overlay=overlay)
    change = plan_recovery(parts, mode="abnormal")
    planned, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    if apply:
        change.apply(keep=False)
    else:
        change.close()
    parts.close()
    return planned, cpu, time.perf_counter() - began - planned


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _recover_process(root: Path, option: str) -> tuple[float, float, int]:
    """Seconds, CPU seconds and peak private memory of the whole command."""
    stores.forget_derived(root)
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), "recover", "--abnormal", option]
    began, cpu_began = time.perf_counter(), _children_cpu_s()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with PeakMemory(process.pid) as peak:
        code = process.wait()
        seconds = time.perf_counter() - began
    if code:
        raise SystemExit(f"recover ended with exit code {code}")
    return seconds, _children_cpu_s() - cpu_began, peak.peak_bytes


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system
