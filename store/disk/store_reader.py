"""A store's files by name, as check and the pipeline read them: through pyarrow.fs, so that `s3://`,
`hdfs://` and `gs://` work like a folder.

A local or mounted folder is mapped: `read` copies nothing, and pages come in as the walk touches them. Of a remote file
`read` fetches just the bytes asked for, which is why every reader here asks part by part.

A StoreReader is picklable: a Spark task opens its own from the same address.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from store.disk.filesystem import MOVE_IT_OUT, Filesystem
from store.errors import ForeignFile, NotAStore, StoreIOError
from store.layout import parse_index_file_name, parse_queue_id, parse_segment_name

_EXPECTED = {
    "consumequeue": pafs.FileType.Directory,
    "index": pafs.FileType.Directory,
    "checkpoint": pafs.FileType.File,
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a store: its path below the store's root, its number (offset or time), length and mtime in ms."""

    path: str
    number: int
    size: int
    mtime_ms: int


class StoreReader:
    """The files of one store at a folder or URI. Numbers are log offsets or byte offsets (segments) or
    times (index)."""

    def __init__(self, address: str) -> None:
        self.address = address if "://" in address else str(Path(address).expanduser().absolute())
        self._fs, self._root = _connect(self.address)

    def __reduce__(self) -> tuple[type[StoreReader], tuple[str]]:
        return StoreReader, (self.address,)

    @property
    def is_local(self) -> bool:
        return isinstance(self._fs, pafs.LocalFileSystem)

    def check_is_store(self) -> None:
        """NotAStore unless the folder is there and holds a commitlog folder.

        ForeignFile where something else stands for one of the broker's folders, or for the checkpoint.
        """
        info = self._info(self._root)
        if info.type == pafs.FileType.NotFound:
            raise NotAStore("no such folder", file=self.address)
        if info.type != pafs.FileType.Directory:
            raise NotAStore("a store is a folder, this is a file", file=self.address)
        if self._info(f"{self._root}/commitlog").type != pafs.FileType.Directory:
            raise NotAStore("no commitlog folder in it", file=self.address, hint="name a broker's storePathRootDir")
        for name, expected in _EXPECTED.items():
            found = self._info(f"{self._root}/{name}").type
            if found not in (expected, pafs.FileType.NotFound):
                wanted = "a file" if expected == pafs.FileType.File else "a folder"
                raise ForeignFile(f"not {wanted}, as a broker makes it", file=self.name_of(name), hint=MOVE_IT_OUT)

    def segments(self) -> list[StoredFile]:
        """The commit log's segments by log offset; names that are no segment's are left to `check`."""
        return [file for file in self._numbered("commitlog", parse_segment_name) if file.size]

    def foreign_in_commitlog(self) -> list[tuple[str, str]]:
        """Path and fault of everything in commitlog/ that is no segment, by name."""
        found = []
        for info in self._list("commitlog"):
            if info.type == pafs.FileType.Directory:
                fault = "a folder among the segments"
            elif parse_segment_name(info.base_name) is None:
                fault = "not the name of a segment"
            elif not info.size:
                fault = "a segment of 0 bytes"
            else:
                continue
            found.append((f"commitlog/{info.base_name}", fault))
        return sorted(found)

    def index_files(self) -> list[StoredFile]:
        return self._numbered("index", parse_index_file_name)

    def queues(self) -> list[tuple[str, int]]:
        """Every (topic, queue id) that has a folder."""
        found = []
        for topic in self._folders("consumequeue"):
            ids = (parse_queue_id(name) for name in self._folders(f"consumequeue/{topic}"))
            found += [(topic, queue_id) for queue_id in ids if queue_id is not None]
        return sorted(found)

    def queue_files(self, topic: str, queue_id: int) -> list[StoredFile]:
        return self._numbered(f"consumequeue/{topic}/{queue_id}", parse_segment_name)

    def read(self, path: str, position: int = 0, size: int | None = None) -> pa.Buffer:
        """`size` bytes from `position` (to the file's end when None or beyond it); mapped, not copied, when local."""
        with self._errors(path, "read"), self._fs.open_input_file(f"{self._root}/{path}") as file:
            length = file.size()
            start = min(position, length)
            end = length if size is None else min(start + size, length)
            if end == start:
                return pa.py_buffer(b"")
            file.seek(start)
            return file.read_buffer(end - start)

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]:
        """The ranges (start, stop) at or behind `position` in which anything may ever have been written.

        A local file system knows them; of a remote file all of the rest is one range.
        """
        if self.is_local:
            yield from Filesystem().written_ranges(Path(self._root, path), position)
            return
        size = self._info(f"{self._root}/{path}").size or 0
        if position < size:
            yield position, size

    def forget(self, path: str) -> None:
        """Lets the page cache drop a local file, but for pages that some process maps."""
        if self.is_local:
            fs = Filesystem()
            fs.dont_need(fs.open_read(Path(self._root, path)), 0, 0)

    def exists(self, path: str) -> bool:
        return bool(self._info(f"{self._root}/{path}").type != pafs.FileType.NotFound)

    def name_of(self, path: str) -> str:
        """The path for messages and rows: full when local, the URI when remote."""
        return f"{self.address}/{path}"

    def _numbered(self, folder: str, parse: Any) -> list[StoredFile]:
        files = []
        for info in self._list(folder):
            number = parse(info.base_name)
            if info.type == pafs.FileType.File and number is not None:
                mtime_ms = (info.mtime_ns or 0) // 1_000_000
                files.append(StoredFile(f"{folder}/{info.base_name}", number, info.size, mtime_ms))
        return sorted(files, key=lambda file: file.number)

    def _folders(self, folder: str) -> list[str]:
        return [info.base_name for info in self._list(folder) if info.type == pafs.FileType.Directory]

    def _list(self, folder: str) -> list[Any]:
        with self._errors(folder, "list"):
            return list(self._fs.get_file_info(pafs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)))

    def _info(self, path: str) -> Any:
        with self._errors(path, "look at"):
            return self._fs.get_file_info(path)

    @contextmanager
    def _errors(self, path: str, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno:
                # pyarrow's own text says the path once more.
                error = OSError(error.errno, os.strerror(error.errno))
            raise StoreIOError.from_os(error, self.name_of(path), doing) from error


def _connect(address: str) -> tuple[Any, str]:
    if "://" not in address:
        return pafs.LocalFileSystem(use_mmap=True), address
    try:
        found, root = pafs.FileSystem.from_uri(address)
    except (OSError, ValueError) as error:
        raise NotAStore(f"cannot reach it: {str(error).splitlines()[0]}", file=address) from error
    if isinstance(found, pafs.LocalFileSystem):
        found = pafs.LocalFileSystem(use_mmap=True)
    return found, root.rstrip("/")
