"""Walks over the log, for queues, index and counters of its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.dispatch.fan_out import Handler
from store.formats.run import Run
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import LogEnd, find_end
from store.structures.commitlog.scan import written_after

Progress = Callable[[int, int], None]
"""Is called with the bytes done and in all."""


def walk(
    opened: OpenedStore,
    start: int,
    handlers: Sequence[Handler] = (),
    progress: Progress | None = None,
    *,
    check_crc: bool | None = None,
    cuts_torn: bool = False,
) -> LogEnd:
    """Scan from log offset `start` to the first bytes that are no record; handlers get every run.

    check_crc  None for the setting's value
    """
    segments = opened.log.segments.files
    total = written_after(segments, start)

    def on_run(run: Run) -> None:
        for handler in handlers:
            handler.dispatch(run)
        if progress is not None:
            progress(run.end - start, total)

    check_crc = opened.config.check_crc_on_recover if check_crc is None else check_crc
    return find_end(segments, start, opened.scan_rules(check_crc=check_crc, cuts_torn=cuts_torn), on_run)


def dispatch_stretch(opened: OpenedStore, start: int, stop: int, handlers: Sequence[Handler]) -> None:
    """Dispatch the records from `start` to before `stop` to the handlers, also after damage."""
    for run in opened.runs(start, stop):
        for handler in handlers:
            handler.dispatch(run)
