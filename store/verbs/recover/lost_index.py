"""Builds an index that has lost files, for recovery and truncation.

A broker does not notice it: it indexes the records from its start of dispatch on.

    log     |---- file 1 ----|   lost   |---- file 3 ----|   lost   |
                            end       begin             end        stop

Each index file names the first and the last record of its keys. Records with keys between the files show that a file is
lost. A file that ends before its newest entry has lost a part. The index is then rebuilt as a whole: only so its
files are those that a broker would have written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from store.formats.run import Run
from store.formats.wording import amount_is
from store.opened.missing import Stretch
from store.opened.opened_store import OpenedStore
from store.opened.verified import index_verified_until
from store.structures.commitlog.resync import runs_between
from store.structures.index.index_file import IndexFile
from store.structures.index.keys import KeyHasher
from store.verbs.recover.walk import Progress


def find_lost_index(
    opened: OpenedStore,
    stop: int,
    *,
    judged: list[IndexFile] | None = None,
    to_stop: bool = True,
    progress: Progress | None = None,
) -> str:
    """Name the part of the index before log offset `stop` that is lost, "" where none is.

    judged   the files that must be whole; all where it is None
    to_stop  whether the newest of them has to reach `stop`

    Files that can't be read are not lost: they are dropped before.
    """
    index, begin = opened.index, max(opened.log.min_offset, 0)
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
    """Index in an overlay the records before log offset `stop`, where a part of the index is lost.

    Gives a sentence for people where it did.
    """
    index, begin = opened.index, max(opened.log.min_offset, 0)
    if not lost:
        return []
    anew = ", and the index is rebuilt" if index.files else ""
    index.remove(list(index.files))
    for run in _runs(opened, Stretch(begin, stop)):
        index.dispatch(run)
        if progress is not None:
            progress(run.end - begin, stop - begin)
    count = sum(max(0, file.header.index_count - 1) for file in index.files)
    return [f"{lost} was lost{anew}: {amount_is(count, 'key')} built from the log"] if count else []


def _gaps(files: list[IndexFile], log: Stretch, to_stop: bool) -> Iterator[Stretch]:
    """Find the stretches of log between files; each begins inside of the last record of the file before."""
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
    # Tags alone tell nothing: before 5.4 they had no entry.
    hasher, known = KeyHasher(), index_verified_until(opened)
    for gap in (Stretch(max(gap.start, known), gap.stop) for gap in gaps):
        for run in _runs(opened, gap):
            if any(len(keys.hashes) for keys in hasher.keys_of(run)):
                return True
            if progress is not None:
                progress(run.end - gap.start, gap.stop - gap.start)
    return False


def _runs(opened: OpenedStore, stretch: Stretch) -> Iterator[Run]:
    return runs_between(opened.log.segments.files, *stretch, rules=opened.scan_rules(check_crc=False))
