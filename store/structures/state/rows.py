"""Dump the small files of a 5.x broker, and the messages of its pop consumers, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.store_reader import StoredFile, StoreReader
from store.formats.topics import REVIVE_PREFIX
from store.structures.entry import Asked, Entry
from store.structures.state.check import revive_lines_of
from store.structures.state.lines import StateLine, lines_of, state_files


def files(reader: StoreReader, asked: Asked) -> list[StoredFile]:
    """Return the files with state: the small files, and the queue files of pop consumers."""
    queues = [queue for queue in reader.queues() if queue[0].startswith(REVIVE_PREFIX)]
    return [*state_files(reader), *(file for queue in queues for file in reader.queue_files(*queue))]


def rows(reader: StoreReader, file: StoredFile, asked: Asked) -> Iterator[Entry]:
    """Yield an entry for each line of a small file, or for each message of a queue file."""
    if file.path.startswith("consumequeue/"):
        topic = file.path.split("/")[1]
        for queue_offset, line in revive_lines_of(reader, topic, file):
            yield _entry(file, queue_offset, line)
        return
    for number, line in enumerate(lines_of(reader, file)):
        yield _entry(file, number, line)


def _entry(file: StoredFile, number: int, line: StateLine) -> Entry:
    extra = {"field": line.name, "value": line.value} | ({"detail": line.fault} if line.fault else {})
    return Entry("state", file.path, number, 0, extra=extra, is_fault=bool(line.fault))
