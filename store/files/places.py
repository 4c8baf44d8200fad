"""Places of a store's files: a local folder, or a file system of pyarrow.fs.

Paths are relative to the store's root; "" is the root itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from store.errors import NotAStore, StoreError, StoreIOError
from store.files.descriptor import Entry, FolderEntry
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE
from store.files.readable import Stretch
from store.files.segment_folders import MEMBER_PREFIX
from store.layout import segment_name


class Place(Protocol):
    """The operations on a folder that a StoreReader needs."""

    def look_at(self, path: str) -> Entry | None: ...

    def list_folder(self, path: str) -> list[Entry]: ...

    def list_folders(self, path: str) -> list[str]: ...

    def list_below(self, path: str) -> list[FolderEntry]: ...

    def map(self, path: str, position: int, size: int | None) -> Stretch: ...

    def written(self, path: str, size: int) -> Stretch: ...

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]: ...

    def absent(self) -> NotAStore: ...


class FetchedPlace(Place, Protocol):
    """A place outside of this machine's files."""

    def list_tree(self) -> dict[str, Entry]: ...


_FIRST_FILE = segment_name(0)
_MOST_COPIED = 1 << 18
"""Above so many bytes a map costs less than a copy."""
GS_LIMIT_S = 20
"""Seconds during which a request to Google's storage may be retried."""


class LocalPlace:
    """A local or mounted folder; the log may be in other folders, listed in `commitlogs`."""

    def __init__(self, root: Path, fs: Filesystem, commitlogs: Sequence[Path] = ()) -> None:
        self._root = root
        self._fs = fs
        self._commitlogs = commitlogs

    def find(self, path: str) -> Path:
        """Return a file's path; a segment is in the first of the log's folders that has it."""
        if not self._commitlogs or path.split("/")[0] != "commitlog":
            return self._root / path
        places = [folder / path.removeprefix("commitlog").lstrip("/") for folder in self._commitlogs]
        return next((place for place in places if self._fs.exists(place)), places[0])

    def look_at(self, path: str) -> Entry | None:
        return self._fs.look_at(self.find(path))

    def list_folder(self, path: str) -> list[Entry]:
        if path == "commitlog" and self._commitlogs:
            return [entry for folder in self._commitlogs for entry in self._fs.list_folder(folder)]
        return self._fs.list_folder(self._root / path)

    def list_folders(self, path: str) -> list[str]:
        return self._fs.list_folders(self._root / path)

    def list_below(self, path: str) -> list[FolderEntry]:
        return self._fs.list_below(str(self._root), path)

    def resting_page(self, folder: str) -> bytes | None:
        """Return the first page of the folder's only file if that is a queue's first file.

        None if it can't be read.
        """
        folder = f"{self._root}/{folder}"
        size = self._fs.only_file(folder, _FIRST_FILE)
        try:
            return self._fs.read_start(f"{folder}/{_FIRST_FILE}", PAGE_SIZE) if size else None
        except StoreError:
            return None

    def map(self, path: str, position: int, size: int | None) -> Stretch:
        place = self.find(path)
        descriptor = self._fs.open_read(place)
        length = self._fs.size_of(descriptor)
        start = min(position, length)
        stop = length if size is None else min(start + size, length)
        if start == stop:
            return Stretch(memoryview(b""))
        # A segment is asked for below commitlog/, or alone by its name.
        is_derived = size is None and "/" in path and not path.startswith("commitlog/") and not self._fs.fetches
        if is_derived and stop - start <= _MOST_COPIED:
            # A hole takes memory if it is touched in a map, and may find none. An unreadable page is left to a map.
            with contextlib.suppress(StoreIOError):
                return Stretch(memoryview(self._fs.read(descriptor, start, stop - start)))
        whole = self._fs.map(descriptor, stop, writable=False)
        return Stretch(whole[start:stop], self._fs, place, whole, start)

    def written(self, path: str, size: int) -> Stretch:
        """Return the first `size` bytes without the hole at their end; few bytes are copied."""
        if (page := self._only_page(path, size)) is not None:
            return Stretch(memoryview(page))
        descriptor = self._fs.open_read(self.find(path))
        if size > PAGE_SIZE:
            size = min(size, self._fs.written_size(descriptor))
        # A process may have 65,530 maps by default, but a store may have more files.
        return (
            self.map(path, 0, size) if size > _MOST_COPIED else Stretch(memoryview(self._fs.read(descriptor, 0, size)))
        )

    def _only_page(self, path: str, size: int) -> bytes | None:
        """Return the first `size` bytes of a file that is no segment, and has no byte behind its first page.

        Most files of many queues are so. A path as text for each of 100,000 files takes half of the time.
        """
        if self._fs.fetches or path.startswith("commitlog"):
            return None
        place = f"{self._root}/{path}"
        try:
            return self._fs.read_start(place, size) if size <= PAGE_SIZE else self._fs.read_alone(place, PAGE_SIZE)
        except StoreError:
            # A link, or an unreadable byte.
            return None

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]:
        return self._fs.written_ranges(self.find(path), position)

    def absent(self) -> NotAStore:
        """Return the error for a missing root."""
        return NotAStore.absent(self._root)


class SegmentPlace(LocalPlace):
    """One segment file as a store with only this segment.

    start  log offset of its first byte; the file may have another name
    """

    def __init__(self, file: Path, fs: Filesystem, start: int) -> None:
        super().__init__(file.parent, fs)
        self._file = file
        self._path = f"commitlog/{segment_name(start)}"

    def find(self, path: str) -> Path:
        return self._file if path == self._path else self._file / path

    def look_at(self, path: str) -> Entry | None:
        found = super().look_at(self._path)
        if path in ("", "commitlog") and found is not None:
            return found._replace(is_folder=True, is_file=False)
        return found if path == self._path else None

    def list_folder(self, path: str) -> list[Entry]:
        found = self.look_at(self._path)
        return [found._replace(path=Path(self._path))] if path == "commitlog" and found is not None else []

    def list_folders(self, path: str) -> list[str]:
        return []


class RemotePlace:
    """A folder on a FileSystem of pyarrow.fs, `found`.

    As in a local store, the log of a group's member appears as commitlog/, after older plain segments.
    """

    def __init__(self, address: str, found: Any, root: str) -> None:
        self._address = address
        self._fs = found
        from store.files.remote_requests import RemoteRequests

        self._root = root
        self._requests = RemoteRequests(address, found)

    @cached_property
    def member(self) -> str | None:
        """The folder of the only member of a group with entries here; None without one, or with several."""
        members = [entry.path.name for entry in self._list("") if entry.path.name.startswith(MEMBER_PREFIX)]
        found = [name for name in members if self._look_at(f"{name}/data") is not None]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _entry_names(self) -> frozenset[str]:
        """Names of the segments with a member's entries."""
        return frozenset(entry.path.name for entry in self._list(f"{self.member}/data")) if self.member else frozenset()

    def _place(self, path: str) -> str:
        folder, _, name = path.partition("/")
        is_entries = folder == "commitlog" and (name in self._entry_names if name else self.member is not None)
        return f"{self.member}/data/{name}".rstrip("/") if is_entries else path

    def look_at(self, path: str) -> Entry | None:
        return self._look_at(self._place(path))

    def _look_at(self, path: str) -> Entry | None:
        place = f"{self._root}/{path}".rstrip("/")
        return _entry(self._requests.ask(path, "look at", lambda: self._fs.get_file_info(place)))

    def list_folder(self, path: str) -> list[Entry]:
        place = self._place(path)
        return self._list(place) + (self._list(path) if place != path else [])

    def _list(self, path: str) -> list[Entry]:
        from pyarrow.fs import FileSelector

        wanted = FileSelector(f"{self._root}/{path}".rstrip("/"), allow_not_found=True)
        infos = self._requests.ask(path, "list", lambda: self._fs.get_file_info(wanted))
        return [entry for entry in map(_entry, infos) if entry is not None]

    def list_folders(self, path: str) -> list[str]:
        return [entry.path.name for entry in self.list_folder(path) if entry.is_folder]

    def list_below(self, path: str) -> list[FolderEntry]:
        found, folders = [], [path]
        while folders:
            parent = folders.pop()
            for entry in self.list_folder(parent):
                below = f"{parent}/{entry.path.name}"
                found.append(FolderEntry(below, entry.is_folder, entry.size, entry.mtime_ns // 1_000_000))
                folders += [below] if entry.is_folder else []
        return sorted(found)

    def list_tree(self) -> dict[str, Entry]:
        """Return everything at any depth, by path below the root, from one listing."""
        from pyarrow.fs import FileSelector

        wanted = FileSelector(self._root, allow_not_found=True, recursive=True)
        infos = self._requests.ask("", "list", lambda: self._fs.get_file_info(wanted))
        found = {info.path.removeprefix(self._root).lstrip("/"): _entry(info) for info in infos}
        return {name: entry for name, entry in found.items() if entry is not None and name}

    def map(self, path: str, position: int, size: int | None) -> Stretch:
        path = self._place(path)
        return Stretch(self._requests.read(path, f"{self._root}/{path}", position, size))

    def written(self, path: str, size: int) -> Stretch:
        return self.map(path, 0, size)

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]:
        entry = self.look_at(path)
        if entry is not None and position < entry.size:
            yield position, entry.size

    def write(self, path: str, parts: Callable[[], Iterable[bytes | memoryview]]) -> None:
        """Write a whole file; each attempt calls `parts` for its bytes."""
        self._requests.write(path, f"{self._root}/{path}", parts)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._requests.ask(path, "delete", lambda: self._fs.delete_file(f"{self._root}/{path}"))

    def require_bucket(self) -> None:
        """Raise NotAStore unless the bucket exists."""
        bucket = self._root.partition("/")[0]
        if self._requests.ask("", "look at", lambda: _entry(self._fs.get_file_info(bucket))) is None:
            error = self.absent()
            error.code = None
            raise error

    def absent(self) -> NotAStore:
        """Return the error for an address without files."""
        bucket, _, prefix = self._root.partition("/")
        if prefix and self._requests.ask("", "look at", lambda: _entry(self._fs.get_file_info(bucket))) is not None:
            reason = f"the bucket is there, and has nothing below {prefix}"
            return NotAStore(reason, file=self._address, hint="name the folder that holds commitlog", code="no-store")
        reason, hint = f"no bucket or container is called {bucket}", "check its name, and the region"
        return NotAStore(reason, file=self._address, hint=hint, code="no-store")


def connect_folder(address: str, fs: Filesystem, commitlogs: Sequence[Path] = ()) -> LocalPlace | RemotePlace:
    """Return the place at a folder or URI; NotAStore if it can't be reached."""
    if "://" not in address:
        return LocalPlace(Path(address), fs, commitlogs)
    parts = urlsplit(address)
    if parts.scheme == "file":
        return LocalPlace(Path(unquote(parts.path)), fs, commitlogs)
    # Loading pyarrow takes longer than most commands, so only a remote store loads it.
    from pyarrow.fs import FileSystem

    from store.files.remote_requests import first_sentence

    try:
        found, root = FileSystem.from_uri(_with_limit(address, parts.scheme, parts.query))
    except (OSError, ValueError) as error:
        hint = _NEEDED.get(parts.scheme)
        raise NotAStore(f"cannot reach it: {first_sentence(error)}", file=address, hint=hint) from error
    if not root:
        raise NotAStore("the address names no bucket or container", file=address)
    return RemotePlace(address, _asked_once(found, has_keys=parts.username is not None), root.rstrip("/"))


_NEEDED = {
    "hdfs": "hdfs:// needs Java and a Hadoop client: set JAVA_HOME, HADOOP_HOME and CLASSPATH",
    "viewfs": "viewfs:// needs Java and a Hadoop client: set JAVA_HOME, HADOOP_HOME and CLASSPATH",
    "abfs": "name the account: abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
    "abfss": "name the account: abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
}
_LIMIT = "retry_limit_seconds"


def _with_limit(address: str, scheme: str, query: str) -> str:
    """Return the address; for Google's storage add a retry limit.

    Its client retries for 15 minutes without credentials.
    """
    if scheme not in ("gs", "gcs") or _LIMIT in query:
        return address
    return f"{address}{'&' if query else '?'}{_LIMIT}={GS_LIMIT_S}"


def _asked_once(files: Any, *, has_keys: bool) -> Any:
    """Return S3's client without attempts of its own: RemoteRequests tries again.

    That of pyarrow 23 crashes (SIGSEGV) when an attempt after a status 503 gets 429.

    has_keys  whether the address has a user and a password
    """
    if files.type_name != "s3":
        return files
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    # What pickle takes is all that the address and the environment gave.
    options = dict(files.__reduce__()[1][0])
    if not has_keys:
        # They are those of the moment, and a role's keys expire: the client asks for new ones.
        for name in ("access_key", "secret_key", "session_token"):
            del options[name]
    return S3FileSystem(**options, retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1))


def _entry(info: Any) -> Entry | None:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        return None
    return Entry(
        Path(info.path),
        info.size or 0,
        info.mtime_ns or 0,
        is_folder=info.type == FileType.Directory,
        is_file=info.type == FileType.File,
    )
