"""Check the entries of a DLedger log against their records, their index, and the member's files.

    each header     magic, sizes, pos, an index one above the previous entry's, a term not below the previous entry's
    index           the unit of each entry, in all five fields; no unit after the last entry
    newer entries   without a message: skipped, but their indexes count
    currterm        at least the term of the last entry
    checkpoint      committed index <= end index <= last entry's index; both may lag after a broker was killed and
                    its queues were recovered

Imported only if a store has such a log. Faults inside records are found by the check of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.dledger import DLEDGER_HEADER, NEWER_MAGICS
from store.formats.java import parse_long
from store.formats.run import Int64Array, Run
from store.layout import StoreLayout
from store.structures.checked import CheckedStore
from store.structures.commitlog.resync import readable_behind
from store.structures.dledger.files import (
    HEADER_SIZE,
    INDEX_FILE_SIZE,
    EntryIndex,
    Headers,
    IndexUnits,
    read_member_state,
)
from store.structures.dledger.files import headers_of as headers_of_run
from store.structures.findings import WRONG_SIZE, Finding, Rank, group_findings, kind

DLEDGER_ENTRY = kind(
    "dledger-entry", "the header of a DLedger entry disagrees with its record, or with the entry before", Rank.LOSS
)
DLEDGER_INDEX = kind("dledger-index", "the index of a DLedger log disagrees with its entries")
DLEDGER_STATE = kind("dledger-state", "a DLedger member remembers something else than its entries hold")

_INDEX_FIELDS = ("magic", "pos", "size", "index", "term")
_STATE_LINES = {
    "checkpoint": {"committedIndex": True, "endIndex": True},
    "currterm": {"currTerm": True, "voteLeader": False},
}
"""The lines of the member's files, and whether each holds a number."""


def entry_files(files: StoreReader, layout: StoreLayout, fs: Filesystem) -> tuple[str, frozenset[str]] | None:
    """Return the member's folder and the names of its files with entries; None without a DLedger log."""
    if files.member is not None:
        found = files.numbered_files(f"{files.member}/data")
        return files.member, frozenset(file.path.rpartition("/")[2] for file in found)
    if layout.dledger is None:
        return None
    entries = (entry for folder in layout.writable_commitlogs for entry in fs.list_folder(folder))
    return layout.dledger.name, frozenset(entry.path.name for entry in entries)


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of the member's folder and of its files with entries."""
    files, horizon, found = store.files, store.horizon, entry_files(store.files, store.layout, store.fs)
    if found is None:
        return
    name, entry_names = found
    log = _Check(files, name)
    own = [file for file in files.segments() if file.path.rpartition("/")[2] in entry_names]
    segments = [StoredSegment(files, file) for file in own]
    start = segments[0].file_start if segments else 0
    findings: list[Finding] = []
    for step in readable_behind(segments, start, behind_end=False):
        if isinstance(step, Run):
            run = step if horizon is None else step.part(0, int((step.columns.log_offset < horizon).sum()))
            findings += log.take(run) if run.count else []
    log.pass_newer()
    if horizon is None:
        findings += [*log.index_end(), *log.state_findings()]
    yield from group_findings(findings)


class _Check:
    """One scan of the entries; keeps index, term and end of the last entry."""

    def __init__(self, files: StoreReader, name: str) -> None:
        self.files, self.name = files, name
        self.index = EntryIndex(files, name)
        self.last_index: int | None = None
        self.last_term = -1
        self.last_end = -1

    def take(self, run: Run) -> Iterator[Finding]:
        """Yield the findings of a run's entries."""
        headers = headers_of_run(run)
        places = run.columns.position + run.file_start
        follows = run.start - HEADER_SIZE == self.last_end
        yield from self._header_findings(run, headers, places, follows)
        yield from self._index_findings(run, headers, places)
        self.last_index, self.last_term = int(headers["index"][-1]), max(self.last_term, int(headers["term"][-1]))
        self.last_end = run.end

    def _header_findings(self, run: Run, headers: Headers, places: Int64Array, follows: bool) -> Iterator[Finding]:
        sizes = run.columns.size
        name = self.files.name_of(f"commitlog/{run.path.name}")
        first = int(headers["index"][0]) - 1 if self.last_index is None or not follows else self.last_index
        term = self.last_term if follows else -1
        steps = np.diff(headers["index"].astype("i8"), prepend=first)
        out_of_order = steps != 1
        for row in np.flatnonzero(out_of_order[1:] & (steps[1:] > 1)) + 1:
            out_of_order[row] = not _newer_between(run, headers, int(row), int(steps[row]) - 1)
        faults = {
            "the magic is not 1": headers["magic"] != 1,
            "pos is not the entry's log offset": headers["pos"] != places - HEADER_SIZE,
            "size is not the record's and 48": headers["size"] != sizes + HEADER_SIZE,
            "the body's size is not the record's": headers["body_size"] != sizes,
            "the index does not follow the entry's before": out_of_order,
            "the term is below the entry's before": np.diff(headers["term"].astype("i8"), prepend=term) < 0,
            "channel and CRCs are not 0": (headers["channel"] | headers["chain_crc"] | headers["body_crc"]) != 0,
        }
        for detail, wrong in faults.items():
            rows = np.flatnonzero(wrong)
            if len(rows):
                place = int(places[rows[0]]) - HEADER_SIZE
                yield Finding(DLEDGER_ENTRY, name, place, count=len(rows), detail=detail)

    def _index_findings(self, run: Run, headers: Headers, places: Int64Array) -> Iterator[Finding]:
        first = int(headers["index"][0])
        if first < 0 or not self.index.index_files:
            return
        at = headers["index"].astype("i8") - first
        # Each entry has a header: an index that is past all that fit is damaged.
        most = int(places[-1] - places[0]) // HEADER_SIZE
        units = self.index.units(first, min(int(at.max()), most) + 1)
        wrong, known = np.ones(run.count, bool), (at >= 0) & (at < len(units))
        wrong[known] = _differ(units[at[known]], headers[known])
        rows = np.flatnonzero(wrong)
        if len(rows):
            entry, place = int(headers["index"][rows[0]]), int(places[rows[0]]) - HEADER_SIZE
            detail = f"the queue entry of log entry {entry} contradicts the record at log offset {place}"
            yield Finding(DLEDGER_INDEX, self._index_name(), entry, count=len(rows), detail=detail)

    def pass_newer(self) -> None:
        """Skip entries of a newer DLedger after the last one with a message."""
        while self.last_index is not None and len(unit := self.index.units(self.last_index + 1, 1)):
            if int(unit["magic"][0]) not in NEWER_MAGICS:
                return
            self.last_index, self.last_term = self.last_index + 1, max(self.last_term, int(unit["term"][0]))

    def index_end(self) -> Iterator[Finding]:
        """Yield findings for a lost index, files of wrong length, and units after the last entry."""
        if not self.index.index_files:
            if self.last_index is not None:
                detail = f"no index file for the entries up to {self.last_index}; a start rebuilds it from the entries"
                yield Finding(DLEDGER_INDEX, self._index_name(), 0, count=self.last_index + 1, detail=detail)
            return
        for file in self.index.index_files:
            if file.size != INDEX_FILE_SIZE:
                detail = f"{file.size} bytes instead of {INDEX_FILE_SIZE}"
                yield Finding(WRONG_SIZE, self.files.name_of(file.path), 0, detail=detail)
        behind = -1 if self.last_index is None else self.last_index
        units = self.index.units(behind + 1, 1)
        if len(units) and any(units.tobytes()):
            detail = f"a queue entry past the last log entry, {behind}: its entry was lost"
            yield Finding(DLEDGER_INDEX, self._index_name(), behind + 1, detail=detail)

    def state_findings(self) -> Iterator[Finding]:
        """Compare currterm and checkpoint with the entries."""
        state, last = read_member_state(self.files, self.name), -1 if self.last_index is None else self.last_index
        term, checkpoint = (self.files.name_of(f"{self.name}/{file}") for file in ("currterm", "checkpoint"))
        yield from self._form_findings()
        if last < 0:
            return
        committed = -1 if state.committed_index is None else min(state.committed_index, last)
        if state.end_index is None and state.committed_index is not None:
            yield Finding(
                DLEDGER_STATE, checkpoint, 0, detail="no endIndex, which is written with every committedIndex"
            )
        if state.end_index is not None and not committed <= state.end_index <= last:
            detail = f"endIndex={state.end_index}, committedIndex={state.committed_index}, the last entry is {last}"
            yield Finding(DLEDGER_STATE, checkpoint, 0, count=max(1, state.end_index - last), detail=detail)
        if state.term is None:
            yield Finding(DLEDGER_STATE, term, 0, detail="no currTerm: the member begins at term 0 and votes once more")
        elif state.term < self.last_term:
            detail = f"currTerm={state.term}, the last entry's term is {self.last_term}"
            yield Finding(DLEDGER_STATE, term, 0, detail=detail)
        if state.committed_index is None:
            detail = "no committedIndex: nothing is shown to readers until the next message is put"
            yield Finding(DLEDGER_STATE, checkpoint, 0, detail=detail)
        elif state.committed_index > last:
            count = state.committed_index - last
            detail = f"committedIndex={state.committed_index}, the last entry is {last}: {count} promised ones are lost"
            yield Finding(DLEDGER_STATE, checkpoint, 0, count=count, detail=detail)

    def _form_findings(self) -> Iterator[Finding]:
        """Yield a finding for each line in checkpoint and currterm that no member writes."""
        for file, names in _STATE_LINES.items():
            path = f"{self.name}/{file}"
            for line in bytes(self.files.read(path)).splitlines() if self.files.file_at(path) is not None else ():
                name, _, value = line.decode("utf-8", "replace").partition("=")
                if name not in names or (names[name] and parse_long(value) is None):
                    detail = f"a line that no member writes: {line.decode('utf-8', 'replace')!r}"
                    yield Finding(DLEDGER_STATE, self.files.name_of(path), 0, detail=detail)

    def _index_name(self) -> str:
        return self.files.name_of(f"{self.name}/index")


def _newer_between(run: Run, headers: Headers, row: int, count: int) -> bool:
    """Return whether `count` entries of a newer DLedger are between a run's record and the previous one."""
    at = int(run.columns.position[row - 1] + run.columns.size[row - 1])
    stop, index = int(run.columns.position[row]) - HEADER_SIZE, int(headers["index"][row]) - count
    while at < stop and count:
        _, size, found, *_ = DLEDGER_HEADER.unpack_from(run.buffer, at)
        if found != index:
            return False
        at, index, count = at + size, index + 1, count - 1
    return at == stop and not count


def _differ(units: IndexUnits, headers: Headers) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(units), np.bool_)
    for field in _INDEX_FIELDS:
        wrong |= units[field] != headers[field]
    return wrong
