"""Opening a store, for reading or for writing (open_for_writing.py).

For reading nothing is written and no lock is taken. What is missing or behind is built in a scratch folder; a store
that was not shut down is shown as it will be after recovery, unless a live broker holds it or `as_is` is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.kernels.native import clock_ms
from store.opened.detect import make_layout
from store.opened.reach import reach_store
from store.opened.request import OpenRequest
from store.reading.message_store import MessageStore
from store.verbs.recover.open_for_reading import ReadingOpener

if TYPE_CHECKING:
    from store.engine.services.served_store import ServedStore
    from store.engine.writable_store import WritableStore
    from store.verbs.recover.walk import Progress


class OpenOptions(TypedDict, total=False):
    """Options of open_store besides the folder and whether to write."""

    settings: Mapping[str, Any] | None
    clock: Callable[[], int]
    recover: bool
    compat: str | None
    as_is: bool
    fs: Filesystem | None
    scratch: str | Path | None
    note: Callable[[str], None] | None
    force_empty_log: bool
    progress: Progress | None
    listen: str | None
    master: str | None


_OF_READERS = {"as_is", "scratch", "note"}
_OF_WRITERS = {"recover", "force_empty_log", "listen", "master"}


@overload
def open_store(
    root: str | Path, *, read_only: Literal[True] = True, **options: Unpack[OpenOptions]
) -> MessageStore: ...


@overload
def open_store(
    root: str | Path, *, read_only: Literal[False], services: Collection[str], **options: Unpack[OpenOptions]
) -> ServedStore: ...


@overload
def open_store(root: str | Path, *, read_only: Literal[False], **options: Unpack[OpenOptions]) -> WritableStore: ...


def open_store(
    root: str | Path,
    *,
    read_only: bool = True,
    services: Collection[str] | None = None,
    **options: Unpack[OpenOptions],
) -> MessageStore:
    """Opens the store at `root`; use it as a context manager, or close() it.

    >>> import tempfile
    >>> from store import Message, open_store
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False, settings={"flushDiskType": "SYNC_FLUSH"}) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> with open_store(root) as store:
    ...     store.topics(), store.max_offset("Orders", 0)
    (['Orders'], 1)

    root       a folder, or for reading a URI that pyarrow.fs knows (s3://, gs://, hdfs://)
    read_only  write nothing, take no lock; otherwise create the store if the folder is absent or empty
    services   when writing: those of a broker that run beside it, of "schedule", "transactions", "cleaning" and
               "statistics"; without the option a store delivers, checks and deletes nothing by itself
    settings   RocketMQ names to values; what is not given is read off the files, then the broker's defaults
    clock      milliseconds for store times and index file names
    recover    when writing: recover after an unclean exit instead of refusing
    force_empty_log  when writing: go on where the commit log is empty and queues are not, which go to quarantine
    compat     the broker line to follow, "4.9" or "5.3"; by default the one whose traces the store shows
    scratch    when reading: where to make a folder for what has to be built, the temporary folder by default
    as_is      when reading: show an unclean store's queues as they are on disk, without recovering them
    note       when reading: called with each note, also with those that come up later
    progress   called with bytes done and bytes in all while the log is read
    listen     when writing: serve slaves at this HOST:PORT, as the broker's haListenPort does
    master     when writing, with the role SLAVE: follow the master at this HOST:PORT
    fs         the door to the disk, for tests

    Raises NotAStore, UnsupportedFormat, StoreLocked, UncleanStore, DamagedFile, StoreIOError. TypeError for an option
    that does not exist, or that a store opened in the other way has.
    """
    _require_options(options, read_only=read_only)
    if not read_only:
        return _open_for_writing(root, options, services)
    if services is not None:
        raise BadRequest("services need a store that is opened for writing")
    return _open_for_reading(root, options)


def _require_options(options: OpenOptions, *, read_only: bool) -> None:
    unknown = options.keys() - OpenOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"open_store() has no option {min(unknown)!r}")
    others = {name for name in (_OF_WRITERS if read_only else _OF_READERS) if options.get(name)}
    if others:
        way = "writing (read_only=False)" if read_only else "reading"
        raise TypeError(f"{min(others)!r} is an option of open_store() for {way}")


def _open_for_reading(root: str | Path, options: OpenOptions) -> MessageStore:
    scratch = options.get("scratch")
    scratch = Path(scratch) if scratch is not None else None
    opener = ReadingOpener(_request(root, options, scratch, to_change=False), scratch, options.get("note"))
    return opener.open(options.get("as_is", False))


def _open_for_writing(root: str | Path, options: OpenOptions, services: Collection[str] | None) -> WritableStore:
    # Readers need neither, and both take long to import.
    from store.engine.ha.link import Address
    from store.engine.open_for_writing import WritingOpener

    def address(text: str | None) -> Address | None:
        return Address.parse(text) if text is not None else None

    opener = WritingOpener(
        _request(root, options, None, to_change=True),
        options.get("recover", False),
        options.get("force_empty_log", False),
        address(options.get("listen")),
        address(options.get("master")),
    )
    return opener.open(services)


def _request(root: str | Path, options: OpenOptions, scratch: Path | None, *, to_change: bool) -> OpenRequest:
    settings = options.get("settings") or {}
    folder, fs = reach_store(root, options.get("fs"), scratch, to_change=to_change)
    return OpenRequest(
        make_layout(folder, settings, fs),
        settings,
        fs,
        options.get("clock", clock_ms),
        options.get("compat"),
        options.get("progress"),
    )
