"""Refuses changes to a commit log whose segments hold DLedger entries."""

from __future__ import annotations

import errno

from store.errors import StoreIOError, UnsupportedFormat
from store.files.filesystem import Entry, Filesystem
from store.files.numbered import segments_of
from store.formats.segment_head import SEGMENT_HEAD_SIZE, holds_record_entry
from store.layout import StoreLayout, parse_segment_name

RULE = "it is read and checked, and queues and index are rebuilt from it; its group alone writes to it"


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for DLedger entries without a member's folder."""
    for entry in segments_of(layout, fs) if layout.has_plain_log else ():
        if _begins_with_entry(entry, fs):
            raise UnsupportedFormat(f"DLedger entries in the commit log: {RULE}", file=entry.path, offset=0)


def _begins_with_entry(segment: Entry, fs: Filesystem) -> bool:
    try:
        head = fs.read(fs.open_read(segment.path), 0, SEGMENT_HEAD_SIZE)
    except StoreIOError as error:
        if error.errno == errno.EIO:
            # A bad sector shows neither; the scan reports its position.
            return False
        raise
    return holds_record_entry(head, parse_segment_name(segment.path.name) or 0)
