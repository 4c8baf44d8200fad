"""Builds an index that has lost files, for recovery and truncation.

A broker does not notice it: it indexes what comes from where it starts to dispatch.

    log     |---- file 1 ----|   lost   |---- file 3 ----|   lost   |
                            end       begin             end        stop

Each index file names the first and the last record of its keys. Records between the files that have keys show that a
file is lost, and a file that ends before its newest entry has lost a part. The index is then built anew as a whole:
only so its files are those that a broker would have written.
"""

from __future__ import annotations

from collections.abc import Iterator

from store.commitlog.resync import runs_between
from store.formats.run import Run
from store.formats.wording import amount_is
from store.index.index_file import IndexFile
from store.index.keys import KeyHasher
from store.opened.missing import Stretch
from store.opened.opened_store import OpenedStore


def build_lost_index(
    opened: OpenedStore, stop: int, *, judged: list[IndexFile] | None = None, to_stop: bool = True
) -> list[str]:
    """Indexes the records before log offset `stop` where an index file is lost.

    judged   the files that must be whole; all where it is None
    to_stop  whether the newest of them has to reach `stop`

    Gives a sentence for people where it did. The index is in an overlay. Files that can't be read are not lost: they
    are dropped before.
    """
    index, begin = opened.index, max(opened.log.min_offset, 0)
    if not opened.config.message_index_enable or index.removed_paths() or begin >= stop:
        return []
    files = index.files if judged is None else judged
    is_cut = any(file.is_cut for file in files)
    gaps = _gaps(files, Stretch(begin, stop), to_stop)
    if index.files and not is_cut and not any(_has_keys(opened, gap) for gap in gaps):
        return []
    what = "the index was lost"
    if index.files:
        what = f"{'a part of an index file' if is_cut else 'an index file'} was lost, and the index is built anew"
    index.remove(list(index.files))
    for run in _runs(opened, Stretch(begin, stop)):
        index.dispatch(run)
    count = sum(max(0, file.header.index_count - 1) for file in index.files)
    return [f"{what}: {amount_is(count, 'key')} built from the log"] if count else []


def _gaps(files: list[IndexFile], log: Stretch, to_stop: bool) -> Iterator[Stretch]:
    """Finds the stretches of log between files; each begins inside of the last record of the file before."""
    at = log.start
    for file in files:
        header = file.header
        if header.index_count > 1:
            yield Stretch(at, min(header.begin_log_offset, log.stop))
            at = max(at, header.end_log_offset + 1)
    if to_stop and files:
        yield Stretch(at, log.stop)


def _has_keys(opened: OpenedStore, gap: Stretch) -> bool:
    """Whether a record that begins inside of `gap` has a key."""
    hasher = KeyHasher()
    return any(len(keys.hashes) for run in _runs(opened, gap) for keys in hasher.keys_of(run))


def _runs(opened: OpenedStore, stretch: Stretch) -> Iterator[Run]:
    return runs_between(opened.log.segments.files, *stretch, rules=opened.scan_rules(check_crc=False))
