"""The confirm offset of a broker in controller mode: its slaves have the log up to this offset.

A 5.x broker in controller mode dispatches only records up to the confirm offset, which it reads from the checkpoint:
otherwise consumers would read messages that a new master may truncate. Outside of controller mode the field is no
promise.
A checkpoint without the field, 0, lets a broker dispatch nothing; here it is no limit.

Source: CommitLog.recoverAbnormally, setConfirmOffset (5.3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from store.dispatch.fan_out import Handler
from store.formats.run import Run
from store.opened.opened_store import OpenedStore


def confirm_offset(opened: OpenedStore) -> int | None:
    """Return the confirm offset that the checkpoint holds; None outside of controller mode."""
    if not opened.line.accepts_v2 or not opened.fs.exists(opened.layout.controller_state):
        return None
    return opened.checkpoint.confirm_log_offset


def keep_confirm_offset(opened: OpenedStore, log_end: int, *, only_confirmed: bool) -> list[str]:
    """Clamp the checkpoint's confirm offset to the log, in controller mode; describe the records past it."""
    confirm = confirm_offset(opened)
    if confirm is None:
        return []
    opened.checkpoint.confirm_log_offset = max(opened.log.start, min(confirm, log_end))
    return describe_unconfirmed(confirm, log_end, only_confirmed=only_confirmed)


def describe_unconfirmed(confirm: int, log_end: int, *, only_confirmed: bool) -> list[str]:
    """Return the sentence about the records past the confirm offset, if there are any."""
    if not 0 < confirm < log_end:
        return []
    behind = log_end - confirm
    remark = f"{behind} bytes past the confirm offset {confirm} may lack on slaves: a new master may cut them"
    unentered = ". They get no new entries here, only from a broker whose slaves have them"
    return [f"{remark}{unentered if only_confirmed else ''}"]


def up_to_confirmed(opened: OpenedStore, handlers: Sequence[Handler], *, as_broker: bool) -> Sequence[Handler]:
    """Limit handlers to confirmed records in controller mode."""
    confirm = confirm_offset(opened)
    return handlers if confirm is None or not (confirm or as_broker) else [UpTo(handlers, confirm)]


class UpTo:
    """A handler that dispatches the records up to a log offset to other handlers."""

    def __init__(self, handlers: Sequence[Handler], log_offset: int) -> None:
        self._handlers = handlers
        self._log_offset = log_offset

    def dispatch(self, run: Run) -> None:
        confirmed = run.up_to(self._log_offset)
        for handler in self._handlers if confirmed.count else ():
            handler.dispatch(confirmed)
