"""Check the form of the small files with a 5.x broker's state, and the epochs against the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.errors import DamagedRecord
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.message import decode_record
from store.formats.queue_unit import UNIT_SIZE
from store.formats.topics import REVIVE_PREFIX
from store.layout import EPOCHS
from store.structures.checked import CheckedStore
from store.structures.findings import Finding, group_findings, kind
from store.structures.state.lines import StateLine, epochs_of, revive_line, state_lines

STATE_FILE = kind("state-file", "a small file of a 5.x broker, or a message of its pop consumers, cannot be right")


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield a finding for each invalid line, for epochs past the log, and for invalid pop messages."""
    files = store.files
    for line in state_lines(files):
        if line.fault:
            yield Finding(STATE_FILE, files.name_of(line.file), 0, detail=f"{line.name}: {line.fault}")
    yield from _epochs_beyond_the_log(files)
    for topic, queue_id in files.queues():
        if topic.startswith(REVIVE_PREFIX):
            yield from group_findings(_revive_findings(files, topic, queue_id))


def _epochs_beyond_the_log(files: StoreReader) -> Iterator[Finding]:
    segments = files.segments()
    if files.file_at(EPOCHS) is None or not segments:
        return
    found, _ = epochs_of(bytes(files.read(EPOCHS)).decode("utf-8", "replace"))
    last = segments[-1]
    end = last.number + last.size
    if found and found[-1][1] > end:
        detail = f"epoch {found[-1][0]} begins at log offset {found[-1][1]}, the last segment ends at {end}"
        yield Finding(STATE_FILE, files.name_of(EPOCHS), 0, detail=detail)


def _revive_findings(files: StoreReader, topic: str, queue_id: int) -> Iterator[Finding]:
    for file in files.queue_files(topic, queue_id):
        for queue_offset, line in revive_lines_of(files, topic, file):
            if line.fault:
                name = files.name_of(file.path)
                yield Finding(STATE_FILE, name, queue_offset, topic, queue_id, detail=f"{line.name}: {line.fault}")


def revive_lines_of(files: StoreReader, topic: str, file: StoredFile) -> Iterator[tuple[int, StateLine]]:
    """Yield queue offset and content of each message in a queue file; skip expired and damaged records."""
    segments = files.segments()
    units = units_of(files.read(file.path))
    for row in np.flatnonzero((units["size"] > 0) & ~is_pre_blank(units)).tolist():
        place, size = int(units["log_offset"][row]), int(units["size"][row])
        segment = next((one for one in segments if one.number <= place < one.number + one.size), None)
        if segment is None:
            continue
        try:
            record = decode_record(files.read(segment.path, place - segment.number, size))
        except DamagedRecord:
            continue
        yield file.number // UNIT_SIZE + row, revive_line(topic, record.tags, record.body)
