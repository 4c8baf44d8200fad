"""The files of a store with an offset as name: segments, and files of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from store.files.filesystem import Entry, Filesystem
from store.formats.java import INT_MAX
from store.layout import StoreLayout, parse_segment_name

if TYPE_CHECKING:
    from store.files.store_reader import StoredFile

SOME_QUEUES = 16
SIZE_STEP = 1024
"""Brokers' segments have a multiple of it and of a 2,048th of their length, in every example of a setting too."""


def segments_of(layout: StoreLayout, fs: Filesystem) -> list[Entry]:
    """Return the segments of all folders of the log."""
    return [entry for folder in layout.commitlogs for entry in numbered_files(folder, fs)]


def numbered_files(folder: Path, fs: Filesystem) -> list[Entry]:
    """Return the files of a folder with an offset as name."""
    return [
        entry for entry in fs.list_folder(folder) if entry.is_file and parse_segment_name(entry.path.name) is not None
    ]


def some_queue_files(folder: Path, fs: Filesystem) -> Iterable[Entry]:
    """Yield the files of the first few queues, as all queue files of a broker have one length."""
    queues = 0
    for topic in fs.list_names(folder):
        for queue in fs.list_names(folder / topic):
            files = numbered_files(folder / topic / queue, fs) if fs.is_folder(folder / topic / queue) else []
            yield from files
            queues += bool(files)
            if queues >= SOME_QUEUES:
                return


def usual_size(files: Iterable[Entry | StoredFile]) -> int:
    """Return the most frequent length above 0 that a setting can have, the larger of two, else 0.

    The distance to the next file counts as one more file of that length: names of segments and queue files are offsets.
    Loading the folder reports wrong lengths.
    """
    files = list(files)
    counts = Counter(file.size for file in files if 0 < file.size <= INT_MAX)
    numbers = [parse_segment_name(PurePath(file.path).name) for file in files]
    for number, following in pairwise(numbers):
        if number is not None and following is not None and following - number in counts:
            counts[following - number] += 1
    return max(counts, key=lambda size: (counts[size], size), default=0)


def odd_size(files: Iterable[Entry | StoredFile]) -> str:
    """Describe the length of a log's only file with bytes if few brokers give a segment that length.

    Return an empty text for other lengths, and for one that no setting can have. An empty file at its end shows that
    the length is right.
    """
    sizes = {parse_segment_name(PurePath(file.path).name) or 0: file.size for file in files}
    written = [number for number, size in sizes.items() if size]
    if len(written) != 1:
        return ""
    [number], size = written, sizes[written[0]]
    step = max(SIZE_STEP, (1 << size.bit_length()) // 2048)
    if number + size in sizes or size > INT_MAX or (not size % step and not number % size):
        return ""
    unless = f"unless its mappedFileSizeCommitLog is {size}, no broker starts with it"
    return f"{size} bytes, as few brokers give a segment, and no other file shows the size: {unless}"
