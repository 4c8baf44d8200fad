"""A store's files by name: in a folder, a backup, a bundle, or behind a URI.

A URI begins with `s3://`, `hdfs://`, `gs://`, or another scheme of pyarrow.fs.
A local or mounted folder is read through Filesystem: `read` and `map` copy nothing. From a remote file they fetch only
the requested bytes, so every reader requests parts.

A StoreReader is picklable: a Spark task opens its own from the same address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from store.errors import ForeignFile, NotAStore, StoreIOError, WrongFileSize
from store.files.connect import connect
from store.files.descriptor import Entry, FolderEntry
from store.files.filesystem import MOVE_IT_OUT, Filesystem
from store.files.places import LocalPlace, Place, RemotePlace, SegmentPlace
from store.files.readable import Salvaged, Stretch
from store.files.segment_folders import find_member_logs, member_log
from store.layout import (
    BACKUP,
    OTHER_QUEUES,
    StoreLayout,
    is_address,
    is_bundle,
    parse_index_file_name,
    parse_queue_id,
    parse_segment_name,
)

_FOLDERS = ("consumequeue", "index")


class StoredFile(NamedTuple):
    """One file of a store: path below the store's root, number (offset or time), length and mtime in ms."""

    path: str
    number: int
    size: int
    mtime_ms: int


def _member_log(address: str, fs: Filesystem) -> tuple[Path, ...]:
    """Return the folders of the log of a local store with one member of a group, else none."""
    members = [] if is_address(address) else find_member_logs(Path(address), fs)
    return member_log(members[0], fs) if len(members) == 1 else ()


class StoreReader:
    """The files of one store. Numbers are log offsets or byte offsets (segments) or times (index).

    commitlogs      the folders of the log, if it is not in commitlog/; those of a group's member are found by default
    segment_start   for the address of one segment file: the log offset of its first byte
    queue_settings  those of the store's layout
    """

    def __init__(
        self,
        address: str,
        fs: Filesystem | None = None,
        commitlogs: Sequence[Path] = (),
        segment_start: int | None = None,
        queue_settings: Sequence[tuple[str, object]] = (),
    ) -> None:
        if is_bundle(address):
            # Most commands read no bundle.
            from store.files.bundle_files import unpack_bundle

            root, fs = unpack_bundle(address)
            address = str(root)
        self.address = address if is_address(address) else str(Path(address).expanduser().absolute())
        self._fs = fs = fs or Filesystem()
        self.holds_log_alone = segment_start is not None or fs.holds_log_alone or self.address.startswith(BACKUP)
        """Whether the address is one segment or a backup, without derived files."""
        self._segment_start = segment_start
        self.damage: dict[tuple[str, int], str] = {}
        """Reasons why rows lack bytes of a segment, by file and position."""
        self.queue_settings = tuple(queue_settings)
        if segment_start is not None:
            self._commitlogs: tuple[Path, ...] = ()
            self._place: Place = SegmentPlace(Path(self.address), fs, segment_start)
            return
        self._commitlogs = tuple(commitlogs) or _member_log(self.address, fs)
        self._place = connect(self.address, fs, self._commitlogs)

    @classmethod
    def of(cls, layout: StoreLayout, fs: Filesystem | None = None) -> StoreReader:
        """Return the files of the store at a layout."""
        return cls(str(layout.root), fs, layout.commitlogs_elsewhere, queue_settings=layout.queue_settings)

    def __reduce__(self) -> tuple[type[StoreReader], tuple[object, ...]]:
        return StoreReader, (self.address, None, self._commitlogs, self._segment_start, self.queue_settings)

    @property
    def is_local(self) -> bool:
        return isinstance(self._place, LocalPlace)

    @cached_property
    def tree(self) -> tuple[Path, Filesystem]:
        """The folder of the files and its file system; for a remote store a mirror that reads fill."""
        if self.is_local:
            return Path(self.address), self._fs
        from store.files.mirror import mirror_of

        return mirror_of(self.address)

    @property
    def member(self) -> str | None:
        """For a remote store, the folder of the group's member whose entries are the log."""
        return self._place.member if isinstance(self._place, RemotePlace) else None

    @property
    def is_segment(self) -> bool:
        """Whether the address is one segment file, without queues, index and tables."""
        return self._segment_start is not None

    def check_has_broker_files(self) -> None:
        """Raise NotAStore unless the folder exists and holds any file or folder of a broker."""
        self._check_is_folder()
        names = (*_FOLDERS, "commitlog", OTHER_QUEUES, "checkpoint", "config")
        if not self._commitlogs and not any(self.exists(name) for name in names):
            raise NotAStore.empty(self.address)

    def check_is_store(self) -> None:
        """Raise NotAStore unless the folder has a commitlog folder, or queues or index of a lost log.

        ForeignFile if a broker's folder is no folder, or the checkpoint is no file.
        """
        self._check_is_folder()
        log = self._place.look_at("commitlog")
        is_lost = log is None and any(self.exists(name) for name in _FOLDERS)
        if not is_lost and (log is None or not log.is_folder):
            if not self.exists("checkpoint"):
                raise NotAStore.empty(self.address)
            hint = "set storePathCommitLog if its log is in another folder"
            raise NotAStore("no commitlog folder is in it", file=self.address, hint=hint)
        for name in (*_FOLDERS, "checkpoint"):
            found = self._place.look_at(name)
            if found is not None and not (found.is_folder if name in _FOLDERS else found.is_file):
                wanted = "a folder" if name in _FOLDERS else "a file"
                raise ForeignFile(f"not {wanted}, as a broker makes it", file=self.name_of(name), hint=MOVE_IT_OUT)

    def check_segment_sizes(self, size: int) -> None:
        """Raise WrongFileSize for the first segment of another size, as opening the store does."""
        for segment in self.segments():
            if segment.size != size:
                raise WrongFileSize.of(segment.size, size, self.name_of(segment.path))

    def _check_is_folder(self) -> None:
        root = self._place.look_at("")
        if root is None:
            raise self._place.absent()
        if not root.is_folder:
            raise NotAStore.for_file(self.address)

    def segments(self, *, with_empty: bool = False) -> list[StoredFile]:
        """Return the commit log's segments by log offset; `check` reports other names, and empty ones."""
        return [file for file in self.numbered_files("commitlog") if file.size or with_empty]

    def foreign_in_commitlog(self) -> list[tuple[Entry, str]]:
        """Return entry and fault of each name in commitlog/ that is no file with a segment's name."""
        found = []
        for entry in self._place.list_folder("commitlog"):
            name = entry.path.name
            if entry.is_folder:
                fault = "a folder among the segments"
            elif parse_segment_name(name) is None:
                fault = "not the name of a segment"
            elif not entry.is_file:
                fault = f"{entry.kind} among the segments"
            else:
                continue
            found.append((entry, fault))
        return sorted(found, key=lambda one: one[0].path.name)

    def links(self) -> list[str]:
        """Return the working links among the broker's folders, the checkpoint and the segments."""
        if self.is_segment:
            return []
        log = () if self._commitlogs else ("commitlog",)
        names = (*log, *_FOLDERS, "consumequeue_ext", OTHER_QUEUES, "checkpoint")
        found = [name for name in names if (entry := self._place.look_at(name)) is not None and entry.is_link]
        segments = (entry for entry in self._place.list_folder("commitlog") if entry.is_link and entry.is_file)
        return sorted([*found, *(f"commitlog/{entry.path.name}" for entry in segments)])

    def index_files(self) -> list[StoredFile]:
        return self._numbered("index", parse_index_file_name)

    def queues(self) -> list[tuple[str, int]]:
        """Return every (topic, queue id) with a folder."""
        found = []
        for topic in self._folders("consumequeue"):
            ids = (parse_queue_id(name) for name in self._folders(f"consumequeue/{topic}"))
            found += [(topic, queue_id) for queue_id in ids if queue_id is not None]
        return sorted(found)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if the folder is missing."""
        return [entry.path.name for entry in self._place.list_folder(folder)]

    def below(self, folder: str) -> list[FolderEntry]:
        """Return everything below a folder, at any depth, by path."""
        return self._place.list_below(folder)

    def queue_files(self, topic: str, queue_id: int) -> list[StoredFile]:
        return self._numbered(f"consumequeue/{topic}/{queue_id}", parse_segment_name)

    def resting_page(self, topic: str, queue_id: int) -> bytes | None:
        """Read the first page of a queue's only file; None for queues of several files, and remote ones."""
        folder = f"consumequeue/{topic}/{queue_id}"
        return self._place.resting_page(folder) if isinstance(self._place, LocalPlace) else None

    def numbered_files(self, folder: str) -> list[StoredFile]:
        """Return the files of any folder whose names are numbers, by number."""
        return self._numbered(folder, parse_segment_name)

    def file_at(self, path: str) -> StoredFile | None:
        """Return one file by its path; None if it is missing."""
        entry = self._place.look_at(path)
        if entry is None or not entry.is_file:
            return None
        return StoredFile(path, -1, entry.size, entry.mtime_ns // 1_000_000)

    def map(self, path: str, position: int = 0, size: int | None = None) -> Stretch:
        """Map `size` bytes from `position`, at most to the file's end; local pages are not populated yet."""
        return self._place.map(path, position, size)

    def read(self, path: str, position: int = 0, size: int | None = None) -> memoryview:
        """Return `size` bytes from `position`, at most to the file's end.

        StoreIOError with the offset of an unreadable page.
        """
        return self.map(path, position, size).read()

    def salvage(self, path: str, size: int | None = None, item_size: int = 1) -> Salvaged:
        """Return the first `size` bytes, with zeros for unreadable ones.

        An item of `item_size` bytes with an unreadable byte becomes zeros."""
        return self.map(path, 0, size).salvage(item_size)

    def salvage_written(self, path: str, size: int, item_size: int = 1) -> Salvaged:
        """Read like `read_written`, with zeros for unreadable bytes."""
        try:
            return Salvaged(self.read_written(path, size))
        except StoreIOError:
            return self.salvage(path, size, item_size)

    def read_written(self, path: str, size: int) -> memoryview:
        """Return the first `size` bytes of a file, without the reserved hole at its end."""
        return self._place.written(path, size).read()

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]:
        """Return the ranges (start, stop) at or after `position` that may be written.

        A local file system lists them; for a remote file the whole rest is one range.
        """
        return self._place.written_ranges(path, position)

    def written_end(self, path: str) -> int:
        """Return the end of the bytes that may be written, before the hole at the file's end."""
        return max((stop for _, stop in self.written_ranges(path, 0)), default=0)

    def log_size(self) -> int:
        """Return the bytes of the segments, without the hole at the log's end."""
        segments = self.segments()
        return sum(file.size for file in segments[:-1]) + sum(self.written_end(file.path) for file in segments[-1:])

    def exists(self, path: str) -> bool:
        return self._place.look_at(path) is not None

    def name_of(self, path: str) -> str:
        """Return the path for messages and rows: a full local path, or a URI."""
        if (self._commitlogs or self.is_segment) and isinstance(self._place, LocalPlace):
            return str(self._place.find(path))
        return f"{self.address}/{path}"

    def _numbered(self, folder: str, parse: Callable[[str], int | None]) -> list[StoredFile]:
        files = []
        for entry in self._place.list_folder(folder):
            number = parse(entry.path.name)
            if entry.is_file and number is not None:
                files.append(StoredFile(f"{folder}/{entry.path.name}", number, entry.size, entry.mtime_ns // 1_000_000))
        return sorted(files, key=lambda file: file.number)

    def _folders(self, folder: str) -> list[str]:
        return self._place.list_folders(folder)
