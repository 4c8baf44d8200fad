"""Rebuild an index that has lost files or reaches past the log's end, for recovery and truncation.

A broker does not notice the loss: it indexes the records from its start of dispatch on.

    log     |---- file 1 ----|   lost   |---- file 3 ----|   lost   |
                            end       begin             end        stop

The header of an index file has the log offsets of its first and its last record. Records with keys between the files
show that a file is lost. A file whose end is before its newest entry has lost a part. The index is then rebuilt as a
whole, because only then its files are the same as a broker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from store.formats.derived import entries_of
from store.formats.run import Stretch
from store.formats.wording import amount_is
from store.opened.opened_store import OpenedStore
from store.opened.verified import index_verified_until
from store.structures.index.index_file import IndexFile
from store.structures.index.keys import KeyHasher
from store.verbs.recover.walk import Progress, dispatch_stretch


def find_lost_index(
    opened: OpenedStore,
    stop: int,
    *,
    judged: list[IndexFile] | None = None,
    to_stop: bool = True,
    progress: Progress | None = None,
) -> str:
    """Describe the lost part of the index before log offset `stop`; "" if nothing is lost.

    judged   the files that must be whole; None for all
    to_stop  whether the newest of them has to reach `stop`

    Unreadable files do not count as lost: they are dropped before.
    """
    index, begin = opened.index, opened.log.start
    if not opened.config.writes_index_files or index.removed_paths() or begin >= stop:
        return ""
    files = index.files if judged is None else judged
    if any(file.lacks_newest for file in files):
        return "a part of an index file"
    gaps = _gaps(files, Stretch(begin, stop), to_stop) if index.files else [Stretch(begin, stop)]
    if not _have_keys(opened, gaps, progress):
        return ""
    return "an index file" if index.files else "the index"


def build_lost_index(opened: OpenedStore, stop: int, lost: str, progress: Progress | None = None) -> list[str]:
    """Index the records before log offset `stop` again, in an overlay, if a part of the index is lost.

    Return a sentence for people about it.
    """
    index, begin = opened.index, opened.log.start
    if not lost:
        return []
    anew = ", and the index is rebuilt" if index.files else ""
    index.remove(list(index.files))
    for run in opened.runs(begin, stop):
        index.dispatch(run)
        if progress is not None:
            progress(run.end - begin, stop - begin)
    count = sum(file.header.index_count - 1 for file in index.files)
    return [f"{lost} was lost{anew}: {amount_is(count, 'key')} built from the log"] if count else []


def cut_index(opened: OpenedStore, log_end: int) -> bool:
    """Rebuild index files that reach past the log's end; return whether there are some.

    Records that are put below the end of an index get no entry in it.
    """
    unread_from = opened.index.drop_unreadable(with_empty=False)
    beyond = [file for file in opened.index.files if file.header.end_log_offset >= log_end]
    begins = [] if unread_from is None else [max(unread_from, opened.log.start)]
    begins += [file.header.begin_log_offset for file in beyond if file.header.index_count > 1]
    opened.index.remove(beyond)
    if begins and min(begins) < log_end:
        dispatch_stretch(opened, min(begins), log_end, [opened.index])
    return bool(beyond)


def _gaps(files: list[IndexFile], log: Stretch, to_stop: bool) -> Iterator[Stretch]:
    """Yield the stretches of log between files; each begins inside of the former file's last record."""
    at = log.start
    for file in files:
        header = file.header
        if header.index_count > 1:
            yield Stretch(at, min(header.begin_log_offset, log.stop))
            at = max(at, header.end_log_offset + 1)
    if to_stop and files:
        yield Stretch(at, log.stop)


def _have_keys(opened: OpenedStore, gaps: Iterable[Stretch], progress: Progress | None) -> bool:
    """Return whether a record in a gap has a key; verified stretches are not read."""
    # Tags do not count: before 5.4 they had no entry.
    hasher, known = KeyHasher(), index_verified_until(opened)
    for gap in (Stretch(max(gap.start, known), gap.stop) for gap in gaps):
        for run in opened.runs(*gap):
            if any(len(keys.hashes) for keys in hasher.keys_of(run)):
                return True
            if progress is not None:
                progress(run.end - gap.start, gap.stop - gap.start)
    return False


def indexed_between(file: IndexFile, first: int, log_offset: int) -> int:
    """Count the file's entries of messages from `first` up to `log_offset`; 0 if they can't be read."""
    if not file.is_readable():
        return 0
    entries = entries_of(file.buffer, file.slot_count, file.header.index_count)[1:]
    return int(((entries["log_offset"] >= first) & (entries["log_offset"] < log_offset)).sum())
