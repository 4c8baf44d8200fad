"""The files to salvage: a store's segments, a folder of files without names, or one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from store.config import NAMED_QUEUES, StoreConfig
from store.errors import NotAStore
from store.files.filesystem import Entry, Filesystem
from store.files.numbered import odd_size, segments_of, usual_size
from store.files.segment_folders import find_member_logs
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.java import INT_MAX
from store.layout import StoreLayout, parse_segment_name
from store.opened.detect import infer_config, make_layout
from store.opened.sizes import SEGMENT_SIZE
from store.structures.commitlog.segment_list import describe_blank, end_of_records, size_by_blank
from store.structures.commitlog.slices import Window
from store.verbs.salvage.walk import Source, find_start

_CHUNK_BYTES = 4 << 20


def find_sources(path: Path, fs: Filesystem, logs: Sequence[Path] = ()) -> list[tuple[Source, int]]:
    """Return the sources at a store's root, a folder or a file, with their log offsets, in log order.

    Files without a log offset in a record or in the name are left out. NotAStore if there is nothing to read.
    """
    entries = _files_at(path, fs, logs)
    sources = [open_source(entry.path, fs) for entry in entries]
    found = [(source, find_start(source)) for source in sources]
    placed = sorted((one for one in found if one[1] >= 0), key=lambda one: one[1])
    # A broker's segments have one size: a smaller file was cut, or lost bytes in the middle; a larger one got some.
    size = usual_size(entries)
    return [(replace(source, limit=start + size), start) for source, start in placed]


def config_of(path: Path, settings: Mapping[str, object], fs: Filesystem, logs: Sequence[Path] = ()) -> StoreConfig:
    """Return a store's settings; for loose files, with segments as large as the largest file.

    Records list the light queues of the new store unless enableMultiDispatch is given.
    """
    settings = {**NAMED_QUEUES, **settings}
    if logs or is_store_root(path, fs):
        return infer_config(make_layout(path, settings), settings, fs)
    size = max((entry.size for entry in _files_at(path, fs) if entry.size <= INT_MAX), default=0)
    return StoreConfig().with_settings({**({"mappedFileSizeCommitLog": size} if size else {}), **settings})


def with_whole_segments(config: StoreConfig, layout: StoreLayout, fs: Filesystem) -> tuple[StoreConfig, list[str]]:
    """Return the settings for a new store, and a remark if they have another segment size.

    So they have if the log's only segment was cut or lengthened.
    """
    files = StoreReader.of(layout, fs)
    segments = [StoredSegment(files, file) for file in files.segments()]
    if odd := odd_size(segments_of(layout, fs)):
        size = StoreConfig().mapped_file_size_commit_log
        remark = f"{odd}; the new store has the default {SEGMENT_SIZE}={size}"
    elif len(segments) != 1 or (size := size_by_blank(segments[0], end_of_records(segments[0]))) == segments[0].size:
        return config, []
    else:
        remark = f"{describe_blank(segments[0], size)}; the new store has {SEGMENT_SIZE}={size}"
    return config.with_settings({SEGMENT_SIZE: size}), [remark]


def is_store_root(path: Path, fs: Filesystem) -> bool:
    """Return whether the folder holds a commit log's folder, or a group's log."""
    found = fs.look_at(path / "commitlog")
    return (found is not None and found.is_folder) or bool(find_member_logs(path, fs))


def _files_at(path: Path, fs: Filesystem, logs: Sequence[Path] = ()) -> list[Entry]:
    """List the files that are not empty: the store's segments, the files of a folder, or one file.

    logs  folders of the store's log outside of its root

    NotAStore if the path does not exist.
    """
    found = fs.look_at(path)
    if found is None:
        raise NotAStore("no such file or folder", file=path)
    if not found.is_folder:
        return [found]
    if logs and not any(map(fs.look_at, logs)):
        raise NotAStore("no such file or folder", file=logs[0])
    members = find_member_logs(path, fs)
    inside = [path / "commitlog", *(one / "data" for one in members)] if is_store_root(path, fs) else [path]
    entries = [entry for folder in logs or inside for entry in fs.list_folder(folder)]
    return sorted((entry for entry in entries if entry.is_file and entry.size), key=lambda one: one.path)


def open_source(file: Path, fs: Filesystem) -> Source:
    """Map a file for a salvage, with the log offset in its name if it is a segment's name."""
    reader = StoreReader(str(file.parent), fs)
    stretch = reader.map(file.name)
    window = Window(file, 0, len(stretch.buffer), stretch)
    number = parse_segment_name(file.name)
    return Source(file.name, window, _last_written(reader, window), -1 if number is None else number)


def _last_written(reader: StoreReader, window: Window) -> int:
    """Return the position after the last non-zero byte. Unreadable pages count as written."""
    for start, stop in reversed(list(reader.written_ranges(window.path.name, 0))):
        for at in reversed(range(start, min(stop, window.size), _CHUNK_BYTES)):
            end = min(at + _CHUNK_BYTES, stop, window.size)
            if window.readable_end(at, end) < end:
                return end
            written = np.flatnonzero(np.frombuffer(window.buffer[at:end], np.uint8))
            if len(written):
                return at + int(written[-1]) + 1
    return 0
