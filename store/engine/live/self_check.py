"""Find gaps between the segments of a live store, and between the files of its queues.

A broker logs such a gap and continues. Here it is a finding: another process or a fault deleted a file.

Source: DefaultMessageStore.checkSelf, MappedFileQueue.checkSelf (4.9.8).
"""

from __future__ import annotations

from itertools import pairwise

from store.engine.live.timetable import TimedTask
from store.errors import DamagedFile
from store.opened.opened_store import OpenedStore

FIRST_MS = 60_000
PERIOD_MS = 600_000


def self_check_task(opened: OpenedStore) -> TimedTask:
    """Return the timed task that checks `opened`."""
    return TimedTask("checking the files", lambda: check_self(opened), FIRST_MS, PERIOD_MS)


def check_self(opened: OpenedStore) -> None:
    """Raise DamagedFile if a file is missing between two others."""
    for files in (opened.log.segments, *(queue.files for queue in opened.queues.awake())):
        for before, file in pairwise(list(files.files)):
            expected = before.file_start + files.file_size
            if file.file_start != expected:
                fault = f"the file before it ends at {expected}: a file is missing between them"
                raise DamagedFile(fault, file=file.path)
