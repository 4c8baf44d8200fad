"""Open a store, for reading or for writing (open_for_writing.py).

For reading nothing is written and no lock is taken. Missing units and entries are built in a scratch folder. A store
that was not shut down is shown as after recovery, unless a live broker holds it or `as_is` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.kernels.native import clock_ms
from store.opened.arguments import checks_arguments
from store.opened.detect import OpenRequest, make_layout
from store.opened.reach import reach_store
from store.reading.message_store import MessageStore
from store.verbs.recover.open_for_reading import ReadingOpener

if TYPE_CHECKING:
    from store.engine.services.served_store import ServedStore
    from store.engine.writable_store import WritableStore
    from store.verbs.recover.walk import Progress


@overload
def open_store(
    root: str | Path,
    *,
    read_only: Literal[True] = True,
    settings: Mapping[str, object] | None = None,
    clock: Callable[[], int] = clock_ms,
    compat: str | None = None,
    scratch: str | Path | None = None,
    as_is: bool = False,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    fs: Filesystem | None = None,
) -> MessageStore: ...


@overload
def open_store(
    root: str | Path,
    *,
    read_only: Literal[False],
    services: Collection[str],
    settings: Mapping[str, object] | None = None,
    clock: Callable[[], int] = clock_ms,
    recover: bool = False,
    force_empty_log: bool = False,
    compat: str | None = None,
    progress: Progress | None = None,
    listen: str | None = None,
    master: str | None = None,
    fs: Filesystem | None = None,
) -> ServedStore: ...


@overload
def open_store(
    root: str | Path,
    *,
    read_only: Literal[False],
    services: None = None,
    settings: Mapping[str, object] | None = None,
    clock: Callable[[], int] = clock_ms,
    recover: bool = False,
    force_empty_log: bool = False,
    compat: str | None = None,
    progress: Progress | None = None,
    listen: str | None = None,
    master: str | None = None,
    fs: Filesystem | None = None,
) -> WritableStore: ...


@checks_arguments
def open_store(
    root: str | Path,
    *,
    read_only: bool = True,
    services: Collection[str] | None = None,
    settings: Mapping[str, object] | None = None,
    clock: Callable[[], int] = clock_ms,
    recover: bool = False,
    force_empty_log: bool = False,
    compat: str | None = None,
    scratch: str | Path | None = None,
    as_is: bool = False,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    listen: str | None = None,
    master: str | None = None,
    fs: Filesystem | None = None,
) -> MessageStore:
    """Open the store at `root`; use it as a context manager, or close() it.

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
    services   when writing: a broker's services to run, of "schedule", "transactions", "cleaning" and "statistics";
               without the option a store delivers, checks and deletes nothing by itself
    settings   RocketMQ names to values; others are inferred from the files, else the broker's defaults
    clock      milliseconds for store times and index file names
    recover    when writing: recover after an unclean exit, or damage in front of messages, instead of refusing
    force_empty_log  when writing: accept an empty commit log, and move queues with entries to quarantine
    compat     the broker line to follow, "4.9" or "5.3"; by default the one that the store's files show
    scratch    when reading: the parent of a folder for built files, the temporary folder by default
    as_is      when reading: show an unclean store's queues as they are on disk, without recovering them
    note       when reading: called with each note, also with later ones
    progress   called with bytes done and bytes in all while the log is read
    listen     when writing: serve slaves at this HOST:PORT, as the broker's haListenPort does
    master     when writing, with the role SLAVE: follow the master at this HOST:PORT
    fs         the door to the disk, for tests

    Raises NotAStore, UnsupportedFormat, StoreLocked, UncleanStore, DamagedFile, StoreIOError. TypeError for an unknown
    option, or an option of the other way of opening.
    """
    if read_only:
        _refuse(
            "writing (read_only=False)",
            services=services,
            recover=recover,
            force_empty_log=force_empty_log,
            listen=listen,
            master=master,
        )
    else:
        _refuse("reading", scratch=scratch, as_is=as_is, note=note)
    folder = Path(scratch) if scratch is not None else None
    place, fs = reach_store(root, fs, folder, to_change=not read_only)
    request = OpenRequest(make_layout(place, settings or {}, fs), settings or {}, fs, clock, compat, progress)
    if read_only:
        return ReadingOpener(request, folder, note).open(as_is)
    # Readers need neither module, and both take long to import.
    from store.engine.ha.link import Address
    from store.engine.open_for_writing import WritingOpener

    if master is not None and StoreConfig().with_settings(settings or {}).broker_role != "SLAVE":
        raise BadRequest("master is given, and the setting brokerRole is not SLAVE")
    slaves, followed = (Address.parse(text) if text is not None else None for text in (listen, master))
    return WritingOpener(request, recover, force_empty_log, slaves, followed).open(services)


def _refuse(way: str, **others: object) -> None:
    """Raise TypeError if one of the `others`, options of the other `way` of opening, is given."""
    given = [name for name, value in others.items() if value is not None and value is not False]
    if given:
        raise TypeError(f"{min(given)!r} is an option of open_store() for {way}")
