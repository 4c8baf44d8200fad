"""Read the files beside the entries of a DLedger log, and the entries' headers as arrays.

    dledger-<id>/data/<n>     entries: header of 48 bytes, record (store.formats.dledger)
    dledger-<id>/index/<n>    magic | pos | size | index | term     32 bytes for each entry, at 32 x index
    dledger-<id>/checkpoint   committedIndex=<n>, endIndex=<n>      written every 3 s and at shutdown
    dledger-<id>/currterm     currTerm=<n>, voteLeader=<id>

Source: DLedgerEntryCoder, DLedgerMmapFileStore, MemberState (dledger 0.3.1.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from store.files.store_reader import StoredFile, StoreReader
from store.formats.dledger import DLEDGER_HEADER, NEWER_MAGICS
from store.formats.java import parse_long
from store.formats.run import Run
from store.formats.sets import is_in

HEADER_DTYPE = np.dtype(
    [
        ("magic", ">i4"),
        ("size", ">i4"),
        ("index", ">i8"),
        ("term", ">i8"),
        ("pos", ">i8"),
        ("channel", ">i4"),
        ("chain_crc", ">i4"),
        ("body_crc", ">i4"),
        ("body_size", ">i4"),
    ]
)
INDEX_DTYPE = np.dtype([("magic", ">i4"), ("pos", ">i8"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8")])
HEADER_SIZE, INDEX_UNIT_SIZE = HEADER_DTYPE.itemsize, INDEX_DTYPE.itemsize
INDEX_FILE_SIZE = 5 * 1024 * 1024 * INDEX_UNIT_SIZE
assert (DLEDGER_HEADER.size, 32) == (HEADER_SIZE, INDEX_UNIT_SIZE)

Headers = npt.NDArray[np.void]
IndexUnits = npt.NDArray[np.void]


def headers_of(run: Run) -> Headers:
    """Return the headers before the records of a run; zeros before a record at the buffer's start."""
    places = run.columns.position - HEADER_SIZE
    data = np.frombuffer(run.buffer, np.uint8)
    rows = np.maximum(places, 0)[:, None] + np.arange(HEADER_SIZE)
    headers = data[rows].view(HEADER_DTYPE).reshape(-1)
    headers[places < 0] = np.zeros(1, HEADER_DTYPE)
    return headers


@dataclass(frozen=True, slots=True)
class MemberState:
    """The values in a member's checkpoint and currterm; None for a missing value."""

    committed_index: int | None = None
    end_index: int | None = None
    term: int | None = None
    vote_leader: str | None = None


def read_member_state(files: StoreReader, name: str) -> MemberState:
    """Read checkpoint and currterm of the member's folder."""
    checkpoint, term = (_pairs(files, f"{name}/{file}") for file in ("checkpoint", "currterm"))
    return MemberState(
        _number(checkpoint, "committedIndex"),
        _number(checkpoint, "endIndex"),
        _number(term, "currTerm"),
        term.get("voteLeader"),
    )


def _pairs(files: StoreReader, path: str) -> dict[str, str]:
    if files.file_at(path) is None:
        return {}
    text = bytes(files.read(path)).decode("utf-8", "replace")
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)


def _number(pairs: dict[str, str], name: str) -> int | None:
    return parse_long(pairs.get(name, "").strip())


def start_faults(index_files: Sequence[StoredFile], data_files: Sequence[StoredFile]) -> Iterator[tuple[str, str]]:
    """Yield each file that ends a member's process at its start, with the reason.

    Source: MmapFileList.load, checkSelf (dledger 0.3.1.2).
    """
    for file in index_files:
        if file.size != INDEX_FILE_SIZE:
            yield file.path, f"{file.size} bytes instead of {INDEX_FILE_SIZE}"
    for before, after in pairwise(index_files):
        if before.number + INDEX_FILE_SIZE != after.number:
            yield after.path, f"the index files between {before.number} and {after.number} are missing"
    for before, after in pairwise(data_files):
        if before.number + before.size != after.number:
            yield after.path, f"the data files between {before.number} and {after.number} are missing"


class EntryIndex:
    """The index of a member's entries; each call reads only the units that it needs."""

    def __init__(self, files: StoreReader, name: str) -> None:
        self.files = files
        self.index_files: list[StoredFile] = files.numbered_files(f"{name}/index")

    def units(self, first: int, count: int) -> IndexUnits:
        """Return the units of `count` entries from index `first` on; fewer at the end of the files."""
        start, stop = first * INDEX_UNIT_SIZE, (first + count) * INDEX_UNIT_SIZE
        pieces = [np.empty(0, INDEX_DTYPE)]
        for file in self.index_files:
            begin, end = max(start, file.number), min(stop, file.number + file.size)
            if begin == start and begin < end:
                data = self.files.read(file.path, begin - file.number, end - begin)
                pieces.append(np.frombuffer(data, INDEX_DTYPE, len(data) // INDEX_UNIT_SIZE))
                start = end
        return np.concatenate(pieces)

    def first_newer(self) -> IndexUnits:
        """Return the unit of the first entry that DLedger 0.3.1.2 does not know; empty without one."""
        for file in self.index_files:
            data = self.files.read_written(file.path, file.size)
            units = np.frombuffer(data, INDEX_DTYPE, len(data) // INDEX_UNIT_SIZE)
            newer = np.flatnonzero(is_in(units["magic"], NEWER_MAGICS))
            if len(newer):
                return units[newer[:1]]
        return np.empty(0, INDEX_DTYPE)
