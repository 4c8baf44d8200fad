"""Names in the store's folders that keep a broker from starting, by broker line.

The rules are those of the load (files/mapped_file_queue.py, consumequeue/consume_queue_store.py). A folder named like
an index file makes IndexService.load fail: 5.3.3 then does not start, 4.9.8 does.
"""

from __future__ import annotations

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.errors import ForeignFile, StoreError
from store.files.mapped_file_queue import MappedFileQueue
from store.layout import parse_index_file_name
from store.opened.opened_store import OpenedStore

LINES = (LINE_4_9, LINE_5_3)


def describe_foreign_names(opened: OpenedStore) -> list[str]:
    """Describe each foreign name that keeps a broker line from starting, as sentences for people."""
    refused: dict[str, list[str]] = {}
    for line in LINES:
        found: list[StoreError] = []
        segments = opened.log.segments
        log = MappedFileQueue(segments.folder, segments.file_size, opened.fs, writable=False, folders=segments.folders)
        log.load(line, found.append)
        for error in [*found, *opened.queues.refused_by(line), *index_folders(opened, line)]:
            if isinstance(error, ForeignFile):
                refused.setdefault(f"{error.file}: {error.reason}", []).append(line.name)
    return [
        f"{what}; it keeps {_brokers(lines)} from starting: move it away" for what, lines in sorted(refused.items())
    ]


def index_folders(opened: OpenedStore, line: BrokerLine) -> list[StoreError]:
    """Find folders among the index files that keep a broker of the line from starting."""
    names = (entry for entry in opened.fs.list_folder(opened.layout.index) if line.loads_every_index_file)
    return [
        ForeignFile("a folder among the index files", file=entry.path, hint="move it away")
        for entry in names
        if entry.is_folder and parse_index_file_name(entry.path.name) is not None
    ]


def _brokers(lines: list[str]) -> str:
    others = [line.name for line in LINES if line.name not in lines]
    kept = f"a broker of {' and of '.join(lines)}"
    return f"{kept}, not one of {' or '.join(others)}," if others else kept
