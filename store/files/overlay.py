"""OverlayFileQueue: a MappedFileQueue whose changes go to another folder.

    real folder      [file 0][file 1][file 2]            opened read-only, never changed
    staged folder                    [file 2'][file 3]   copies of written files, and new files

A file is copied before the first write to it. Deletions by truncation or expiry are only recorded. So the same engine
can read a store without changing it: the staged folder is deleted afterwards. And it can prepare a change: the staged
files are published by rename.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from store.files.filesystem import Descriptor, Filesystem
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.files.mapping import PAGE_SIZE
from store.files.segment_folders import SegmentFolders
from store.layout import segment_name


class Overlay(NamedTuple):
    """The folder for changes."""

    folder: Path


class StagedFile(NamedTuple):
    """A finished file in `staged`, and its final path."""

    path: Path
    staged: Path


def stage_new_file(staged: Path, size: int, fs: Filesystem) -> Descriptor:
    """Create a file of `size` zeros in the staged folder; the name appears before the size is set."""
    if not fs.exists(staged.parent):
        fs.make_folder(staged.parent)
    descriptor = fs.open_new(staged)
    fs.truncate(descriptor, size)
    # The first page may hold a header; owners reserve the rest before they write.
    fs.preallocate(descriptor, 0, min(size, PAGE_SIZE))
    return descriptor


def stage_copy(path: Path, staged: Path, size: int, fs: Filesystem) -> Descriptor:
    """Copy `path` into the staged folder, `size` bytes long; holes stay holes."""
    descriptor = stage_new_file(staged, size, fs)
    fs.copy_written(path, descriptor, size)
    return descriptor


class OverlayFileQueue(MappedFileQueue):
    """The files of `folder` with changes in `staged_folder`.

    prefix  of staged names, if several folders share one staged folder
    """

    def __init__(
        self,
        folder: Path,
        file_size: int,
        fs: Filesystem,
        overlay: Overlay,
        staged_folder: Path,
        folders: SegmentFolders | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(folder, file_size, fs, writable=False, folders=folders)
        self._overlay = overlay
        self._staged_folder, self._prefix = staged_folder, prefix
        self._staged: dict[Path, Path] = {}
        self._removed: list[Path] = []
        self.copies_whole_files = True
        """Whether a file is copied before the first write to it; else a staged file has only the written bytes."""

    def staged_files(self) -> list[StagedFile]:
        """Return copied and new files, oldest first."""
        return [StagedFile(path, staged) for path, staged in sorted(self._staged.items())]

    def removed_paths(self) -> list[Path]:
        """Return the real files that the change removes; files created again are not among them."""
        return sorted(path for path in self._removed if path not in self._staged)

    def last_file(self, start_offset: int = 0) -> MappedFile:
        file = super().last_file(start_offset)
        return self.writable_file(file)

    def writable_file(self, file: MappedFile) -> MappedFile:
        return file if file.writable else self._copied(file)

    def _copied(self, file: MappedFile) -> MappedFile:
        staged = self._staged_path(file.path.name)
        if self.copies_whole_files:
            descriptor = stage_copy(file.path, staged, file.size, self._fs)
        else:
            descriptor = stage_new_file(staged, file.size, self._fs)
        copy = MappedFile(staged, file.file_start, file.size, self._fs, writable=True, descriptor=descriptor)
        copy.wrote, copy.committed, copy.flushed = file.wrote, file.committed, file.flushed
        copy.first_created_in_queue = file.first_created_in_queue
        self._staged[file.path] = staged
        self.files = [copy if one is file else one for one in self.files]
        return copy

    def _create(self, file_start: int) -> MappedFile:
        path = self.folders.folder_of(file_start) / segment_name(file_start)
        staged = self._staged_path(path.name)
        descriptor = stage_new_file(staged, self.file_size, self._fs)
        self._staged[path] = staged
        return MappedFile(staged, file_start, self.file_size, self._fs, writable=True, descriptor=descriptor)

    def _staged_path(self, name: str) -> Path:
        return self._staged_folder / f"{self._prefix}{name}"

    def create_missing(self, file_start: int) -> MappedFile:
        """Create the file that starts at `file_start`, before or between the others."""
        file = self._create(file_start)
        self.files = sorted([*self.files, file], key=lambda one: one.file_start)
        return file

    def _delete(self, file: MappedFile) -> None:
        path = next((real for real, staged in self._staged.items() if staged == file.path), file.path)
        staged = self._staged.pop(path, None)
        if staged is not None:
            self._fs.unlink(staged)
        if self._fs.exists(path) and path not in self._removed:
            self._removed.append(path)

    def destroy(self) -> None:
        for file in reversed(self.files):
            self._delete(file)
        self.files = []
        self.flushed_where = self.committed_where = 0
