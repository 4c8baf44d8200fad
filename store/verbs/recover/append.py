"""Plan puts into a closed store as a Change, with the same bytes as an open store's put and dispatch.

1. the store is recovered in the overlay, so that log end and queue ends are known
2. the messages are put; the last segment's new bytes become a patch, a new segment is published
3. queues and index get their units, the checkpoint its times
"""

from __future__ import annotations

from collections.abc import Sequence

from store.change.actions import Patch, Publish
from store.change.change import AnyChange, Change, PlanReport, R
from store.dispatch.dispatcher import Dispatcher
from store.dispatch.fan_out import Handler
from store.errors import BadRequest
from store.files.overlay import OverlayFileQueue
from store.formats.message import BLANK_SIZE, Message
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.put_result import PutResult
from store.verbs.recover.plan import add_checkpoint, add_cut, add_derived, new_change, require_no_losses
from store.verbs.recover.recover import RecoveryReport, recover_store
from store.verbs.recover.rules import OWNER


def recover_to_append(opened: OpenedStore) -> RecoveryReport:
    """Run step 1, for plan_append. Read records before plan_append, as it hides the last segment.

    Raises UncleanStore for a log with damage in front of messages.
    """
    found = recover_store(opened, OWNER)
    cut = new_change(opened, "", PlanReport())
    add_cut(opened, cut, found)
    if cut.actions:
        require_no_losses(opened.layout, found.lost.counts(), found.log_end, found.end.describe())
    for (topic, queue_id), next_offset in opened.queues.next_offsets():
        opened.commit_log.set_queue_offset(topic, queue_id, next_offset)
    return found


def plan_append(
    opened: OpenedStore, found: RecoveryReport, command: str, messages: Sequence[Message], report: R
) -> tuple[Change[R], list[PutResult]]:
    """Run steps 2 and 3; return the Change and each message's result. BadRequest if a put refuses one."""
    change = new_change(opened, command, report)
    change.notes, change.remarks = found.findings, found.remarks
    add_cut(opened, change, found)
    results = _put(opened, messages)
    _add_log(opened, change, found.log_end, results)
    handlers: list[Handler] = [opened.queues, *([opened.index] if opened.config.writes_index_files else [])]
    Dispatcher(opened.log, handlers, found.log_end, opened.scan_rules(check_crc=False)).catch_up()
    add_derived(opened, change)
    # The last record's time, as in an open store: it is the older one where the clock went back.
    opened.checkpoint.physic_ms = opened.checkpoint.logics_ms = results[-1].store_timestamp_ms
    add_checkpoint(opened, change)
    return change, results


def _put(opened: OpenedStore, messages: Sequence[Message]) -> list[PutResult]:
    segments = opened.log.segments
    assert isinstance(segments, OverlayFileQueue), "a plan is made on a store with an overlay"
    segments.copies_whole_files = False
    results = [opened.commit_log.put(message) for message in messages]
    for message, result in zip(messages, results, strict=True):
        if not result.is_ok:
            raise BadRequest(f"a put into {message.topic} is refused: {result.reason or result.status.value}")
    return results


def _add_log(opened: OpenedStore, change: AnyChange, log_end: int, results: Sequence[PutResult]) -> None:
    segments = opened.log.segments
    assert isinstance(segments, OverlayFileQueue)
    for place, staged in segments.staged_files():
        file = next(one for one in segments.files if one.path == staged)
        if file.file_start >= log_end:
            change.actions.append(Publish(place, staged, "holds the new records"))
            continue
        position = log_end - file.file_start
        ends = [
            one.log_offset + one.size - file.file_start
            for one in results
            if one.log_offset < file.file_start + file.size
        ]
        # A blank, or zeros before older bytes past the end, so that these are not read as records.
        end = min(max(ends, default=position) + BLANK_SIZE, file.size)
        change.actions.append(Patch(place, position, bytes(file.raw(position, end)), "holds the new records"))
