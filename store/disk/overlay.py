"""OverlayFileQueue: a MappedFileQueue whose files lie in a folder that must not change, and whose changes lie elsewhere.

    folder    what a broker wrote: opened read-only, never touched
    scratch   what was made since: a file is copied here before its first change, new files are created here

    load        both folders, a name in scratch hides the same name in folder
    last_file   gives a writable file, copied if it has to be
    removing    forgets a file of folder, deletes one of scratch

So a reading command builds what is missing beside the store, and a recovery stages what its plan will publish.
The scratch folder is made when it is needed first; a queue that is only read makes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from store.disk.filesystem import Filesystem
from store.disk.mapped_file import MappedFile
from store.disk.mapped_file_queue import DESTROY_INTERVAL_MS, MappedFileQueue


class OverlayFileQueue(MappedFileQueue):
    """The files of `folder` seen through `scratch`. Offsets and sizes as in MappedFileQueue."""

    def __init__(self, folder: Path, scratch: Path, file_size: int, fs: Filesystem) -> None:
        super().__init__(folder, file_size, fs, writable=False)
        self.scratch = scratch
        self.removed: list[Path] = []
        """Files of `folder` that were cut away here and are still there."""
        self._scratch_is_made = False

    def load(self, compat: str = "4.9") -> None:
        super().load(compat)
        changed = MappedFileQueue(self.scratch, self.file_size, self._fs, writable=True)
        changed.load()
        if changed.files:
            names = {file.file_start for file in changed.files}
            kept = [file for file in self.files if file.file_start not in names]
            self.files = sorted([*kept, *changed.files], key=lambda file: file.file_start)

    def staged_files(self) -> list[tuple[Path, Path]]:
        """(its place in the store, where it lies now) of every file that was made or changed."""
        return [(self.folder / file.path.name, file.path) for file in self.files if file.writable]

    def last_file(self, start_offset: int = 0) -> MappedFile:
        file = super().last_file(start_offset)
        return file if file.writable else self._copied(file)

    def truncate_dirty_files(self, offset: int) -> list[Path]:
        behind = [file for file in self.files if file.file_start > offset]
        for file in self.files:
            if file.file_start <= offset < file.file_start + self.file_size:
                file.set_positions(offset - file.file_start)
        return self._remove(behind)

    def delete_expired_by_offset(self, offset: int, unit_size: int) -> list[Path]:
        return self._remove(self.expired_by_offset(offset, unit_size))

    def delete_last_file(self) -> None:
        if self.last is not None:
            self._remove([self.last])

    def delete_files(self, files: Iterable[MappedFile]) -> list[Path]:
        return self._remove(list(files))

    def destroy(self) -> None:
        self._remove(self.files)
        self.flushed_where = self.committed_where = 0

    def _remove(self, files: list[MappedFile]) -> list[Path]:
        for file in files:
            if file.writable:
                file.destroy(DESTROY_INTERVAL_MS)
            place = self.folder / file.path.name
            if self._fs.exists(place):
                self.removed.append(place)
        self._forget(files)
        return [self.folder / file.path.name for file in files]

    def _create(self, file_start: int) -> MappedFile:
        return MappedFile.create(self._scratch_path(f"{file_start:020d}"), file_start, self.file_size, self._fs)

    def _copied(self, file: MappedFile) -> MappedFile:
        """A writable copy in scratch takes the file's place, with its positions."""
        copy = MappedFile.create(self._scratch_path(file.path.name), file.file_start, self.file_size, self._fs)
        self._fs.copy_range(self._fs.open_read(file.path), self._fs.open_write(copy.path), 0, self.file_size)
        copy.set_positions(file.wrote)
        with self._change_lock:
            self.files = [copy if other is file else other for other in self.files]
        return copy

    def _scratch_path(self, name: str) -> Path:
        if not self._scratch_is_made:
            self._fs.make_folder(self.scratch)
            self._scratch_is_made = True
        return self.scratch / name
