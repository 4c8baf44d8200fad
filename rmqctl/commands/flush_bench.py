"""flush-bench: throughput and latency of puts on the store's device, by flush mode."""

from __future__ import annotations

import functools
import shutil
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.progress import Progress
from rmqctl.result import Result, Table

EXAMPLES = (
    "rmqctl --store /data/store flush-bench",
    "rmqctl --store /data/store flush-bench --mode sync --threads 16 --messages 20000",
)
SEE_ALSO = ("put",)
FILES = ("commitlog",)
SCRATCH_PREFIX = ".rmqctl-flush-bench-"
OTHER_STORE = ("storePathRootDir", "storePathCommitLog", "readOnlyCommitLogStorePaths", "brokerRole")
"""Settings that would lead out of the scratch folder, or refuse puts."""
SHOWN = (
    "mode", "messages_per_s", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us", "flush_count",
    "messages_per_flush", "ratio",
)  # fmt: skip


class Mode(StrEnum):
    """Values of --mode."""

    ASYNC = "async"
    SYNC = "sync"
    TRANSIENT = "transient"
    ALL = "all"


def run(
    ctx: typer.Context,
    mode: Annotated[Mode, typer.Option(help="The flush mode.")] = Mode.ALL,
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages per mode.")] = 20_000,
    body_size: Annotated[int, typer.Option(min=0, max=4 << 20, metavar="BYTES", help="Bytes of a body.")] = 1024,
    threads: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Threads that put.")] = 4,
) -> Result:
    """Measure puts on the store's device.

    Throughput and latency for each flush mode, with the given settings and the store's file sizes (small files if there
    is no store). Works in a scratch folder beside the store, never in it, and removes it afterwards. Also measures the
    limits of device (append and fdatasync) and memory (copy) in the same run. The ratio of sync is messages per second
    divided by fdatasyncs per second times messages per flush. For other modes it is bytes per second divided by those
    of the memory copy.
    """
    from rmqctl.bench import SETTINGS, histogram, measure_limits, measure_mode

    session: Session = ctx.obj
    modes = list(SETTINGS) if mode is Mode.ALL else [mode.value]
    settings = _settings(session)
    scratch = _make_scratch(session)
    measured = []
    with session.progress("flush-bench", messages * len(modes), "messages") as bar:
        limits = measure_limits(scratch, body_size + 100)
        for number, name in enumerate(modes):
            note = functools.partial(_note, bar, number * messages)
            measured.append(measure_mode(scratch / name, name, messages, body_size, threads, note, settings))
            shutil.rmtree(scratch / name)
    facts = {
        "message_count": messages,
        "body_size_bytes": body_size,
        "thread_count": threads,
        "segment_size_bytes": int(settings["mappedFileSizeCommitLog"]),
        "device_fdatasync_per_s": round(limits.fdatasync_per_s),
        "device_write_bytes_per_s": round(limits.write_bytes_per_s),
        "memory_copy_bytes_per_s": round(limits.copy_bytes_per_s),
    }
    rows = [one.row(limits) for one in measured]
    tables = [
        Table("modes", rows, SHOWN),
        Table("latency", histogram(measured)),
    ]
    fastest = max(measured, key=lambda one: one.per_s)
    verdict = f"{round(fastest.per_s):,} messages/s at most ({fastest.mode}), on this device, now"
    return Result("flush-bench", facts, tables, verdict=verdict)


def _settings(session: Session) -> dict[str, Any]:
    """Return settings for the scratch store: those given, the store's file sizes, else small files."""
    from rmqctl.bench import GEOMETRY
    from store.files import Filesystem
    from store.opened import infer_settings, make_layout

    given = session.store.settings()
    inferred = infer_settings(make_layout(session.store.root, given), given, Filesystem())
    return {name: value for name, value in {**GEOMETRY, **inferred, **given}.items() if name not in OTHER_STORE}


def _note(bar: Progress, before: int, done: int) -> None:
    bar.update(before + done)


def _make_scratch(session: Session) -> Path:
    parent = session.store.root.absolute().parent
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=parent))
    session.resources.callback(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
