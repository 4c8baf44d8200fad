"""EpochFile: epochFileCheckpoint of a store in controller mode (5.x), the epochs of its log.

    2                   number of entries
    1234567890          CRC-32 of the following lines, without its top bit; 0 is not checked
    1-0                 epoch, and the log offset at which it begins
    2-4096

An epoch ends at the start of the next one. An entry is added only if both its numbers are above the last entry's.

Source: EpochFileCache, CheckpointFile (5.3.3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.formats.java import crc32
from store.layout import EPOCHS, parse_whole_number

_LINE = re.compile(r"(\d{1,10})-(\d{1,19})", re.ASCII)


class Epoch(NamedTuple):
    """One master's part of the log, from `start` on."""

    epoch: int
    start: int


class EpochFile:
    """The epochs of the store at `root`."""

    def __init__(self, root: Path, fs: Filesystem) -> None:
        self._path = root / EPOCHS
        self._fs = fs
        self.entries: list[Epoch] = self._load()

    def _load(self) -> list[Epoch]:
        """Return the entries of the file, or of its .bak; none without either."""
        damage: DamagedFile | None = None
        for path in (self._path, self._path.with_name(EPOCHS + ".bak")):
            if not self._fs.exists(path):
                continue
            try:
                return decode_epochs(self._fs.read_file(path))
            except ValueError as error:
                damage = DamagedFile(str(error), file=path, hint="move it away; the copy goes on without epochs")
        if damage is not None:
            raise damage
        return []

    def drop_from(self, log_offset: int) -> None:
        """Drop epochs that begin at or after `log_offset`, as the log ends there."""
        self.entries = [one for one in self.entries if one.start < log_offset]

    def note(self, epoch: Epoch) -> None:
        """Add an epoch of received log bytes if it is newer than the last, and write the file."""
        last = self.entries[-1] if self.entries else Epoch(-1, -1)
        if epoch.epoch > last.epoch and epoch.start > last.start:
            self.entries.append(epoch)
            self._write()

    def _write(self) -> None:
        staged = self._path.with_name(EPOCHS + ".tmp")
        self._fs.unlink(staged)
        file = self._fs.open_new(staged)
        self._fs.write(file, 0, encode_epochs(self.entries))
        self._fs.fdatasync(file)
        if self._fs.exists(self._path):
            self._fs.rename(self._path, self._path.with_name(EPOCHS + ".bak"))
        self._fs.rename(staged, self._path)
        self._fs.fsync_folder(self._path.parent)


def encode_epochs(entries: Sequence[Epoch]) -> bytes:
    """Return the file's bytes."""
    lines = "".join(f"{one.epoch}-{one.start}\n" for one in entries).encode()
    return f"{len(entries)}\n{crc32(lines)}\n".encode() + lines


def decode_epochs(data: bytes) -> list[Epoch]:
    """Return the entries of a file; ValueError for a wrong count, CRC or line."""
    parts = data.split(b"\n", 2)
    count, stored_crc = [*(parse_whole_number(part.decode("utf-8", "replace")) for part in parts[:2]), None, None][:2]
    if len(parts) < 3 or count is None or stored_crc is None:
        raise ValueError("no count and CRC in the first two lines")
    if stored_crc not in (0, crc32(parts[2])):
        raise ValueError(f"the lines have the CRC {crc32(parts[2])}, the second line says {stored_crc}")
    found = [_LINE.fullmatch(line) for line in parts[2].decode("utf-8", "replace").splitlines()]
    entries = [Epoch(int(match[1]), int(match[2])) for match in found if match is not None]
    if len(entries) != len(found) or len(entries) != count:
        raise ValueError(f"{len(entries)} of {len(found)} lines are epochs, the first line says {count}")
    return entries


def consistent_end(own: Sequence[Epoch], own_end: int, others: Sequence[Epoch], others_end: int) -> int | None:
    """Return the end of the common part of two logs by their epochs; None without a common epoch."""
    ends = dict(_with_ends(others, others_end))
    for one, end in reversed(_with_ends(own, own_end)):
        if one in ends:
            return min(end, ends[one])
    return None


def _with_ends(entries: Sequence[Epoch], log_end: int) -> list[tuple[Epoch, int]]:
    ends = [*(one.start for one in entries[1:]), log_end]
    return list(zip(entries, ends[: len(entries)], strict=True))
