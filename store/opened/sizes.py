"""Infers file sizes from a store's files, as a broker preallocates each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.filesystem import Entry, Filesystem
from store.files.numbered import segments_of, some_queue_files, usual_size
from store.formats.index_page import index_file_size
from store.formats.queue_unit import UNIT_SIZE, decode_unit, is_ext_address
from store.layout import StoreLayout, parse_index_file_name
from store.structures.index.geometry import geometry_of_size, infer_geometry

_SOME_FILES = 16
SEGMENT_SIZE = "mappedFileSizeCommitLog"
_SIZES = (
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "maxHashSlotNum",
    "maxIndexNum",
)
"""Settings whose defaults are assumed if nothing shows them."""


def infer_sizes(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> dict[str, object]:
    """Return settings for file sizes and the use of extension files, inferred from the files."""
    found: dict[str, object] = {}
    segment_size = usual_size(segments_of(layout, fs))
    if segment_size:
        found[SEGMENT_SIZE] = segment_size
    queue_size = usual_size(some_queue_files(layout.consumequeue, fs))
    if queue_size:
        found["mappedFileSizeConsumeQueue"] = queue_size
    some_files = islice(some_queue_files(layout.consumequeue, fs), _SOME_FILES)
    has_extension = fs.exists(layout.consumequeue_ext) or any(_begins_with_address(file, fs) for file in some_files)
    if "enableConsumeQueueExt" not in settings and has_extension:
        found["enableConsumeQueueExt"] = True
        ext_size = usual_size(some_queue_files(layout.consumequeue_ext, fs))
        if ext_size:
            found["mappedFileSizeConsumeQueueExt"] = ext_size
    if not {"maxHashSlotNum", "maxIndexNum"} <= settings.keys():
        found |= _index_geometry(layout.index, fs)
    return found


def known_sizes(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> dict[str, object]:
    """Return the sizes that are given or that the files show, at their default too."""
    known = {**infer_sizes(layout, settings, fs), **settings}
    return {name: int(str(known[name])) for name in _SIZES if name in known}


def assumed_sizes(
    layout: StoreLayout,
    config: StoreConfig,
    settings: Mapping[str, object],
    fs: Filesystem,
    *,
    queues: bool = True,
    index: bool = True,
) -> Iterator[str]:
    """Yield a sentence on each size that is assumed: a store with a log and no file of that kind.

    queues, index  whether files of that kind matter
    """
    if not segments_of(layout, fs):
        return
    hint = "give it as a setting if the broker uses another"
    has_files = any(some_queue_files(layout.consumequeue, fs)) or config.queues_in_database
    if queues and "mappedFileSizeConsumeQueue" not in settings and not has_files:
        size = config.mapped_file_size_consume_queue
        yield f"no queue file shows their size: mappedFileSizeConsumeQueue={size} is assumed; {hint}"
    is_told = "mappedFileSizeConsumeQueueExt" in settings or any(some_queue_files(layout.consumequeue_ext, fs))
    if queues and config.enable_consume_queue_ext and not is_told:
        size = config.mapped_file_size_consume_queue_ext
        yield f"no extension file shows their size: mappedFileSizeConsumeQueueExt={size} is assumed; {hint}"
    has_index = any(parse_index_file_name(entry.path.name) is not None for entry in fs.list_folder(layout.index))
    is_told = has_index or {"maxHashSlotNum", "maxIndexNum"} <= settings.keys()
    if index and config.writes_index_files and not is_told:
        slots, entries = config.max_hash_slot_num, config.max_index_num
        yield f"no index file shows their size: maxHashSlotNum={slots}, maxIndexNum={entries} is assumed; {hint}"


def _begins_with_address(file: Entry, fs: Filesystem) -> bool:
    try:
        unit = fs.read(fs.open_read(file.path), 0, UNIT_SIZE)
    except StoreIOError:
        # An unreadable file shows nothing; opening the queue reports it.
        return False
    return len(unit) == UNIT_SIZE and is_ext_address(decode_unit(unit).tags_code)


def _index_geometry(folder: Path, fs: Filesystem) -> dict[str, int]:
    """Return the settings of the index files' geometry, by the contents of one, else by their size."""
    found = None
    for entry in fs.list_folder(folder):
        if not entry.is_file or parse_index_file_name(entry.path.name) is None:
            continue
        found = infer_geometry(entry.path, fs)
        if found is not None:
            break
    else:
        size = usual_size(entry for entry in fs.list_folder(folder) if entry.size >= index_file_size(1, 2))
        found = geometry_of_size(size) if size else None
    return {"maxHashSlotNum": found.slot_count, "maxIndexNum": found.entry_count} if found is not None else {}
