"""Walking the log: the scan alone, with CRC, and whole recoveries."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from store.change import staging_folder
from store.commitlog.scan import Run, ScanRules, scan_log
from store.disk.filesystem import Filesystem
from store.disk.overlay import Overlay
from store.kernels import compiled
from store import open_store
from store.opening import infer_config, make_layout
from store.recovery import plan_recovery
from store.store_parts import open_parts
from tests.bench import limits, stores
from tests.bench.context import GIB, KIB, MIB, SMALL_BODY, Bench, size_name
from tests.bench.memory import PeakMemory
from tests.bench.report import Row

RECOVER_SECONDS = {KIB: 0.35, SMALL_BODY: 0.6}
LARGE_BYTES_PER_S = 10 * 450e6
MEMORY_TARGET = 300 * MIB
SETTLED_COUNT = 20_000


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
    return f"{count / seconds / 1e6:.1f} M records/s, {size / seconds / 1e9:.2f} GB/s, {size / count:.0f} bytes per record"


def _scan_seconds(bench: Bench, root: Path, *, check_crc: bool) -> tuple[float, int]:
    """Best time of a walk over the whole log, whose pages are in the process's map, and its bytes."""
    rules, best, size = ScanRules(check_crc=check_crc, accept_v2=False), math.inf, 0
    with open_store(root, as_is=True) as store:
        segments = store.parts.log.files.files
        for _ in range(bench.runs + 1):
            began, size = time.perf_counter(), 0
            for step in scan_log(segments, rules=rules, kernels=compiled()):
                size += step.end - step.start if isinstance(step, Run) else 0
            best = min(best, time.perf_counter() - began)
    return best, size


def recover(bench: Bench) -> Iterator[Row]:
    """`recover --abnormal` with nothing but the log: walk, CRC, queues and index built from it."""
    tiny = bench.folder / "tiny"
    stores.make_store(tiny, SETTLED_COUNT, SMALL_BODY)
    for body_size, seconds in RECOVER_SECONDS.items():
        count = bench.count(body_size)
        root = _own_store(bench, body_size, count)
        target = seconds * bench.share
        name = f"{size_name(body_size)} x {count:,}"
        reading, size = limits.read_bytes_per_s(), stores.log_bytes(root)
        planned, applied = min(_recover_here(root) for _ in range(bench.runs))
        yield Row(f"recover in process, {name}", planned, "s", target=target,
                  note=f"the plan, that is walk, CRC, queues, index: {size / planned / 1e9:.2f} GB/s "
                       f"(memory read {reading / 1e9:.1f}); applying it durably {applied:.2f} s more")  # fmt: skip
        start = min(_recover_process(tiny, dry_run=True)[0] for _ in range(bench.runs))
        whole, peak = min(_recover_process(root, dry_run=True) for _ in range(bench.runs))
        yield Row(f"recover --dry-run process, {name}", whole - start, "s", target=target,
                  note=f"whole process {whole:.2f} s less {start:.2f} s for a store of {SETTLED_COUNT:,} messages; "
                       f"private memory {peak // MIB} MiB")  # fmt: skip
        start = min(_recover_process(tiny, dry_run=False)[0] for _ in range(bench.runs))
        whole, _ = min(_recover_process(root, dry_run=False) for _ in range(bench.runs))
        yield Row(f"recover --yes process, {name}", whole - start, "s",
                  note=f"whole process {whole:.2f} s less {start:.2f} s; every file it built is on the device")  # fmt: skip


def recover_large(bench: Bench) -> Iterator[Row]:
    """The same on 10 GiB."""
    count = bench.scaled(10 * GIB // 1260)
    root = _own_store(bench, KIB, count)
    size = stores.log_bytes(root)
    best, peak = min(_recover_process(root, dry_run=True) for _ in range(2))
    planned, _ = _recover_here(root, apply=False)
    yield Row("recover, 10 GiB, process", size / best, "B/s", "memory read", limits.read_bytes_per_s(),
              target=LARGE_BYTES_PER_S, note=f"{size / 1e9:.2f} GB, {count:,} records in {best:.2f} s; "
                                             f"in process {planned:.2f} s")  # fmt: skip
    yield Row("private memory of it", peak, "B", target=MEMORY_TARGET)


def _own_store(bench: Bench, body_size: int, count: int) -> Path:
    return bench.store(body_size, count)


def _recover_here(root: Path, *, apply: bool = True) -> tuple[float, float]:
    """Seconds for the plan and for applying it, in this process with its kernels loaded."""
    stores.forget_derived(root)
    fs, layout = Filesystem(), make_layout(root, {})
    began = time.perf_counter()
    overlay = Overlay(staging_folder(root, "bench"), sparse=True)
    parts = open_parts(layout, infer_config(layout, {}, fs), fs, _now_ms, compat="4.9", overlay=overlay)
    change = plan_recovery(parts, mode="abnormal")
    planned = time.perf_counter() - began
    if apply:
        change.apply(keep=False)
    else:
        change.drop()
    parts.close()
    return planned, time.perf_counter() - began - planned


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _recover_process(root: Path, *, dry_run: bool) -> tuple[float, int]:
    """Seconds and peak private memory of the whole command."""
    stores.forget_derived(root)
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), "recover", "--abnormal"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, "--dry-run" if dry_run else "--yes"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with PeakMemory(process.pid) as peak:
        code = process.wait()
    seconds = time.perf_counter() - began
    if code:
        raise SystemExit(f"recover ended with exit code {code}")
    return seconds, peak.peak_bytes
