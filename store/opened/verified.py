"""A writer's note on queues and index, ROOT/.rmqctl/verified.json: it spares the next writer a scan.

    log_end   every queue with records before this log offset had its folder
    segments  name, size and modification time of the segments that end before it
    queues    the queue ids by topic
    index     the log offset of each index file's newest key; every key before `log_end` is in one of the files

It holds while these segments have the same name, size and time, and these queues and index files exist. Readers never
write it.
"""

from __future__ import annotations

import json
from typing import Any

from store.errors import StoreIOError
from store.opened.opened_store import OpenedStore

FILE_NAME = "verified.json"
WORTH_REMEMBERING_BYTES = 64 << 20
"""The scan of a shorter log takes less time than reading the file."""


def verified_until(opened: OpenedStore) -> int:
    """Return a log offset: all queues are whole before it; 0 if unknown or outdated."""
    known = _read(opened)
    try:
        queues = known["queues"]
        has_all = all((topic, number) in opened.queues for topic, numbers in queues.items() for number in numbers)
        return _known_end(opened, known) if has_all else 0
    except (KeyError, TypeError, ValueError, AttributeError):
        return 0


def index_verified_until(opened: OpenedStore) -> int:
    """Return a log offset: every key before it is in an index file; 0 if unknown or outdated."""
    known, held = _read(opened), _newest_keys(opened)
    try:
        wanted = {name: int(end) for name, end in known["index"].items() if int(end) >= opened.log.min_offset}
        has_all = all(held.get(name, -1) >= end for name, end in wanted.items())
        return _known_end(opened, known) if has_all else 0
    except (KeyError, TypeError, ValueError, AttributeError):
        return 0


def remember_verified(opened: OpenedStore) -> None:
    """Write the note for a store that was recovered and is about to be written to; none for a short log."""
    log_end = opened.log.max_offset
    if log_end - opened.log.min_offset < WORTH_REMEMBERING_BYTES:
        return
    queues: dict[str, list[int]] = {}
    for topic, queue_id in opened.queues.names():
        queues.setdefault(topic, []).append(queue_id)
    known: dict[str, object] = {"log_end": log_end, "segments": _segments(opened, log_end), "queues": queues}
    if opened.config.writes_index_files:
        known["index"] = _newest_keys(opened)
    text = json.dumps(known)
    fs, path = opened.fs, opened.layout.own / FILE_NAME
    fs.make_folder(path.parent)
    fs.unlink(path)
    fs.write(fs.open_new(path), 0, text.encode())


def _read(opened: OpenedStore) -> Any:
    path = opened.layout.own / FILE_NAME
    try:
        return json.loads(opened.fs.read_file(path)) if opened.fs.exists(path) else {}
    except (StoreIOError, ValueError, RecursionError):
        return {}


def _known_end(opened: OpenedStore, known: Any) -> int:
    """Return the note's log end; 0 if the segments before it have changed."""
    log_end = int(known["log_end"])
    return log_end if known["segments"] == _segments(opened, log_end) else 0


def _newest_keys(opened: OpenedStore) -> dict[str, int]:
    return {file.path.name: file.header.end_log_offset for file in opened.index.files}


def _segments(opened: OpenedStore, log_end: int) -> list[list[Any]]:
    complete = [file for file in opened.log.segments.files if file.file_start + file.size <= log_end]
    return [[file.path.name, file.size, file.mtime_ms] for file in complete]
