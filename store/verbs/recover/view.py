"""The store as recovery would leave it, for readers: the log's end first, the rest on demand.

A closed store, or one in use, is shown as it is. Missing units and index entries are built from the log on demand.
"""

from __future__ import annotations

from collections.abc import Callable

from store.errors import NotAStore
from store.formats.run import Stretch
from store.opened.detect import require_log
from store.opened.index_view import IndexView
from store.opened.log_end import FETCHED_ANYWAY_BYTES, NewestRecord, find_closed_end, find_crashed_end
from store.opened.missing import QueueBuilder
from store.opened.opened_store import OpenedStore
from store.opened.queue_view import QueueView
from store.structures.commitlog.scan import Damage
from store.structures.commitlog.start import starting_segment

Note = Callable[[str], None]


def show_view(
    opened: OpenedStore, *, is_live: bool, as_is: bool, note: Note, progress: Callable[[int, int], None] | None
) -> None:
    """Find the log's end of a store opened for a view, and prepare its queues and index for readers."""
    queues, index = opened.queues, opened.index
    assert isinstance(queues, QueueView)
    assert isinstance(index, IndexView)
    is_crashed = opened.abort.exists() and not is_live and not as_is
    segments = opened.log.segments.files
    rules = opened.scan_rules(check_crc=opened.config.check_crc_on_recover, cuts_torn=is_crashed)
    start = starting_segment(opened, abnormal=True).log_offset
    if is_crashed:
        found = find_crashed_end(list(segments), start, rules, progress)
    else:
        walked_anyway = FETCHED_ANYWAY_BYTES if opened.fs.fetches else None
        found = find_closed_end(list(segments), opened.line, rules, walked_anyway)
    log_end = found.end.log_end
    opened.log.segments.truncate_dirty_files(log_end)
    opened.log.segments.flushed_where = opened.log.segments.committed_where = log_end
    log, lax = Stretch(opened.log.start, log_end), opened.scan_rules(check_crc=False)
    builder = QueueBuilder(queues, opened.log.segments.files, log, lax)
    queues.show(builder, log, opened.line, trusted=log_end, note=note, progress=progress)
    if not is_crashed:
        start = start if is_live else log.start
    if is_crashed or not _has_unit(queues, found.newest):
        queues.show(builder, log, opened.line, trusted=start, note=note, progress=progress)
    index.show(opened.log.segments.files, log, lax, verify=is_crashed, indexed=opened.config.message_index_enable)
    if not segments:
        _note_empty_log(opened, note)
    if is_crashed:
        note(
            f"the last owner did not shut down; this is the store as recovery will leave it (the log ends at {log_end})"
        )
    for passed in found.end.describe_unreadable():
        note(passed)
    if isinstance(found.end.outcome, Damage) and not is_live:
        note(f"the log ends at {log_end} because of {found.end.describe()}")


def _note_empty_log(opened: OpenedStore, note: Note) -> None:
    """Note that the log is empty and queues are not: its disk may not be mounted."""
    try:
        require_log(opened.layout, opened.fs)
    except NotAStore as error:
        note(f"{error.reason}; is the disk of the log mounted?")


def _has_unit(queues: QueueView, newest: NewestRecord | None) -> bool:
    """Return whether the newest record is in its queue on disk."""
    return newest is None or queues.end_on_disk(newest.topic, newest.queue_id) >= newest.end
