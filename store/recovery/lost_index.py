"""Builds an index that has lost all its files, for recovery and truncation.

A broker does not notice it: it indexes what comes from where it starts to dispatch.
"""

from __future__ import annotations

from store.formats.wording import amount_is
from store.opened.opened_store import OpenedStore
from store.recovery.walk import dispatch_stretch


def build_lost_index(opened: OpenedStore, stop: int) -> list[str]:
    """Indexes the records before log offset `stop` where no index file is left.

    Gives a sentence for people where it did. The index is in an overlay. Files that can't be read are not lost: they
    are dropped before.
    """
    index, begin = opened.index, max(opened.log.min_offset, 0)
    if not opened.config.message_index_enable or index.files or index.removed_paths() or begin >= stop:
        return []
    dispatch_stretch(opened, begin, stop, [index])
    count = sum(max(0, file.header.index_count - 1) for file in index.files)
    return [f"the index was lost: {amount_is(count, 'key')} built from the log"] if count else []
