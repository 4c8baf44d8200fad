"""Hands a stretch of the log to queues or index that lack it."""

from __future__ import annotations

from collections.abc import Sequence

from store.commitlog.end import walk_log
from store.dispatch.fan_out import Handler
from store.formats.run import Run
from store.opened.opened_store import OpenedStore


def dispatch_stretch(opened: OpenedStore, start: int, stop: int, handlers: Sequence[Handler]) -> None:
    """Hands the records from `start` to before `stop` to the handlers."""
    for step in walk_log(opened.log.segments.files, start, opened.scan_rules(check_crc=False)):
        if isinstance(step, Run):
            columns = step.columns
            count = int((columns.position + step.file_start < stop).sum())
            for handler in handlers if count else ():
                handler.dispatch(step.part(0, count))
            if count < step.count:
                return
