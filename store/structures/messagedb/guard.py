"""Refuses a put if the next start could not bring the message database to the log's end."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout, parse_segment_name
from store.structures.messagedb.database import CONTENT, FOLDER, may_hold_entries, open_database
from store.structures.messagedb.keys import INDEX, LAST_OFFSET, TRANS

_MOST_SEGMENTS = 9
"""One fewer than a start reads (commitLogRecoverMaxNum), as a put may begin another segment."""


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for an index, or half messages, that end before the newest segments.

    The next start enters messages that are put into the newest segments. BadRequest without the package rocksdict,
    DamagedFile if RocksDB does not open the database.
    """
    if not may_hold_entries(layout, fs):
        return
    with Scratch() as scratch:
        longs = open_database(layout.root / FOLDER, scratch.folder, fs).longs
    ends = [end for family in (INDEX, TRANS) if (end := longs[family].get(LAST_OFFSET, 0))]
    names = (parse_segment_name(name) for folder in layout.commitlogs for name in fs.list_names(folder))
    starts = sorted(start for start in names if start is not None)
    if ends and starts and min(ends) < starts[-_MOST_SEGMENTS:][0]:
        raise UnsupportedFormat(
            f"the {CONTENT} in a RocksDB (5.4 and later) end at log offset {min(ends)}, more than {_MOST_SEGMENTS} "
            "segments before the log's: a start would never enter what is between",
            file=layout.root / FOLDER,
            code="message-database-behind",
        )
