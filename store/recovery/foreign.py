"""Names among segments and queues that keep a broker from starting, by broker line.

The rules are those of the load (store.disk.mapped_file_queue, store.consumequeue.consume_queue_store).
"""

from __future__ import annotations

from store.config import LINE_4_9, LINE_5_3
from store.disk.mapped_file_queue import MappedFileQueue
from store.errors import ForeignFile, StoreError
from store.opened.opened_store import OpenedStore

LINES = (LINE_4_9, LINE_5_3)


def describe_foreign_names(opened: OpenedStore) -> list[str]:
    """Describes each foreign name that keeps a broker line from starting, as sentences for people."""
    refused: dict[str, list[str]] = {}
    for line in LINES:
        found: list[StoreError] = []
        segments = opened.log.segments
        log = MappedFileQueue(segments.folder, segments.file_size, opened.fs, writable=False, folders=segments.folders)
        log.load(line, found.append)
        for error in [*found, *opened.queues.refused_by(line)]:
            if isinstance(error, ForeignFile):
                refused.setdefault(f"{error.file}: {error.reason}", []).append(line.name)
    return [
        f"{what}; it keeps {_brokers(lines)} from starting: move it away" for what, lines in sorted(refused.items())
    ]


def _brokers(lines: list[str]) -> str:
    others = [line.name for line in LINES if line.name not in lines]
    kept = f"a broker of {' and of '.join(lines)}"
    return f"{kept}, not one of {others[0]}," if others else kept
