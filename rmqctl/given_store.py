"""GivenStore: the store of --store with its settings, and the ways to open it.

    place, root, reached     the URI or the folder; the folder; a folder to read, the mirror of a remote store
    settings                 of --broker-conf and --set
    open_reader …            the files, for commands that do not open the store
    open, open_for_reading   the store for readers
    open_for_writing …       the store for puts and services
    find_served …            the process that serves the store

An opened store is closed after the command's result is printed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.options import DEFAULT_STORE, Options
from rmqctl.show import count

if TYPE_CHECKING:
    from rmqctl.context import Session
    from store import MessageStore, ServedStore, WritableStore
    from store.engine.serving import StoreClient
    from store.files import Filesystem, StoreReader


class GivenStore:
    """The store of --store, for the run of one command."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: list[str] = []

    @property
    def _options(self) -> Options:
        # Not kept: the session takes options before the command, then those after it.
        return self._session.options

    @property
    def place(self) -> str | Path:
        """The URI of --store, or its folder."""
        return self._options.uri or self.root

    @property
    def is_uri(self) -> bool:
        """Whether --store is a URI, such as a backup's: commands that change a store refuse it."""
        return self._options.uri is not None

    @functools.cached_property
    def reached(self) -> tuple[Path, Filesystem]:
        """Folder and file system of --store for readers; a remote store's mirror fetches the bytes read."""
        from store.opened import reach_store

        return reach_store(self.place, scratch=self._options.scratch)

    @property
    def root(self) -> Path:
        """The folder of --store; without --store that of storePathRootDir, else the default.

        Raises BadRequest if --store is a URI.
        """
        self.require_folder()
        root = self._options.store
        if root == Path(DEFAULT_STORE):
            root = Path(self.settings().get("storePathRootDir", root))
        return root.expanduser()

    def require_folder(self) -> None:
        """Raise BadRequest if --store is a URI."""
        if self.is_uri:
            from store.errors import BadRequest

            needs = "this command needs a store in a folder of this machine"
            raise BadRequest(needs, file=self._options.uri, hint="commands that only read take a URI")

    def settings(self, **changes: str) -> dict[str, str]:
        """Return the given settings: of --broker-conf, overridden by --set, then by `changes`."""
        return {**self.file_settings, **self._options.settings, **changes}

    def settings_for_bundle(self) -> dict[str, str]:
        """Return the given settings, without paths that lead out of the store's folder."""
        from store.layout import names_a_place

        return {name: value for name, value in self.settings().items() if not names_a_place(name)}

    @functools.cached_property
    def file_settings(self) -> dict[str, str]:
        """The settings of --broker-conf, else of a bundle or a backup; notes those without effect once."""
        from store.config import check_settings, read_broker_conf

        check_settings(self._options.settings, "--set")
        conf = self._options.broker_conf
        found = read_broker_conf(conf) if conf is not None else self._own_settings()
        self._note_without_effect(found)
        root, given = {**found, **self._options.settings}.get("storePathRootDir"), self._options.store
        if root is not None and given != Path(DEFAULT_STORE) and Path(root).expanduser() != given.expanduser():
            self._session.note(f"note: {given} is used, not storePathRootDir={root}")
        return found

    def _own_settings(self) -> dict[str, str]:
        if self._options.uri is None:
            return {}
        from store.files import own_settings

        return own_settings(self._options.uri)

    def _note_without_effect(self, file_settings: Mapping[str, str]) -> None:
        from store.config import all_settings, has_effect
        from store.layout import READ_ONLY_PATHS

        for name in self._options.settings:
            if not has_effect(name):
                instead = all_settings()[name].instead
                self._session.note(f"note: the setting {name} has no effect here{instead and f': {instead}'}")
        without = sum(not has_effect(name) for name in file_settings)
        if without:
            what = f"{count(without, 'setting')} of the broker configuration"
            self._session.note(f"note: without effect here: {what}; `rmqctl config settings` lists them")
        given = {**file_settings, **self._options.settings}
        if given.get(READ_ONLY_PATHS) and "," not in given.get("storePathCommitLog", ""):
            self._session.note(f"note: {READ_ONLY_PATHS} has no effect without several folders in storePathCommitLog")

    def read_early(self, *folders: str, newest: int | None = None) -> None:
        """Read files of --store in a thread while the engine is imported; not with --cold, --nice, --bwlimit.

        newest  read only so many newest files of each folder
        """
        options = self._options
        if self.is_uri or options.cold or options.nice or options.bwlimit is not None:
            return
        from store.files import EarlyRead

        early = EarlyRead([self.root / folder for folder in folders], newest)
        self._session.resources.callback(early.close)

    def open_reader(self, *, as_it_is: bool = False, any_size: bool = False, or_segment: bool = False) -> StoreReader:
        """Return the files of --store, for commands that don't open it; raise NotAStore if it is no store.

        as_it_is    raise only if no file of a broker is there
        any_size    accept segments of another size than mappedFileSizeCommitLog
        or_segment  accept one segment file as a log
        """
        place = str(self.place)
        if not as_it_is:
            return self.open_readers([place], any_size=any_size, or_segment=or_segment)[place]
        reader = self._reader(place, or_segment=or_segment)
        reader.check_has_broker_files()
        return reader

    def open_reached(self, *, or_segment: bool = False) -> StoreReader:
        """Return the files of --store at `reached`, for a command that reads the mirror in other ways too."""
        from store.files import StoreReader
        from store.opened import make_layout

        if not self.is_uri:
            return self.open_reader(as_it_is=True, or_segment=or_segment)
        root, fs = self.reached
        reader = StoreReader.of(make_layout(root, self.settings(), fs), fs)
        reader.check_has_broker_files()
        return reader

    def open_readers(
        self, stores: Sequence[str], *, any_size: bool = False, or_segment: bool = False
    ) -> dict[str, StoreReader]:
        """Return the files of several stores, by the names given; the settings apply to each."""
        from store.config import LOG_PATHS, StoreConfig
        from store.errors import BadRequest

        settings = self.settings()
        for name in LOG_PATHS:
            if len(stores) > 1 and name in settings:
                raise BadRequest(f"{name} names the log of one store, and several are given")
        readers = {store: self._reader(store, or_segment=or_segment) for store in stores}
        for reader in readers.values():
            reader.check_is_store()
            if "mappedFileSizeCommitLog" in settings and not any_size and not reader.is_segment:
                reader.check_segment_sizes(StoreConfig().with_settings(settings).mapped_file_size_commit_log)
        return readers

    def _reader(self, store: str, *, or_segment: bool = False) -> StoreReader:
        from store.files import StoreReader
        from store.layout import is_address, is_bundle
        from store.opened import make_layout

        if is_bundle(store) and store == self._options.uri:
            return StoreReader(str(self.reached[0]))
        if is_address(store):
            return StoreReader(store)
        if or_segment and Path(store).expanduser().is_file():
            from store.verbs import open_segment

            return open_segment(Path(store))
        return StoreReader.of(make_layout(Path(store).expanduser(), self.settings()))

    def open(self, **settings: str) -> MessageStore:
        """Return the store of --store, open for reading until the command's result is printed."""
        from store import open_store

        with self._session.progress("reading the log") as bar:
            root, fs = self.reached
            opened = open_store(
                root,
                settings=self._opening(settings),
                clock=self._session.environment.clock_ms,
                scratch=self._options.scratch,
                # A store that is followed notes the same at each look.
                note=functools.cache(lambda text: self._session.note(f"note: {text}")),
                progress=bar.update,
                fs=fs,
            )
            self._session.resources.callback(lambda: self._warn_of(opened.describe_findings()))
            self._session.resources.callback(self._close, opened)
        self._log_range(opened)
        return opened

    def warn_of_holder(self) -> None:
        """Warn if a process holds the store: the start that is shown would follow its abrupt end."""
        from store.files import find_lock_holder
        from store.opened import make_layout

        root, fs = self.reached
        holder = find_lock_holder(make_layout(root, self.settings(), fs).lock, fs)
        if holder is not None:
            self._session.warn(f"{holder.describe()} holds the store; the start shown is the one after its abrupt end")

    def warn_of_unloaded(self, opened: MessageStore, *names: str) -> None:
        """Warn of each named table under config/ that a broker would not load from its file."""
        from store.structures.tables import review_loading

        for finding in review_loading(opened.layout.config, names, opened.line, self.reached[1]):
            self._session.warn(finding.detail)

    def open_for_writing(
        self, *, settings: Mapping[str, str], recover: bool, force_empty_log: bool, compat: str | None = None
    ) -> WritableStore:
        """Return the store of --store, open for puts until the command's result is printed."""
        from store import open_store

        # A store open for writing runs threads: a signal waits until it can be closed.
        with self._session.interrupts.deferred(), self._session.progress("reading the log") as bar:
            opened = open_store(
                self.root,
                read_only=False,
                settings=self._opening(settings),
                clock=self._session.environment.clock_ms,
                recover=recover,
                force_empty_log=force_empty_log,
                compat=compat,
                progress=bar.update,
            )
            self._close_at_end(opened)
        return opened

    def open_to_serve(
        self, services: Collection[str], *, recover: bool, force_empty_log: bool, listen: str | None
    ) -> ServedStore:
        """Return the same with a broker's services; the caller defers signals.

        listen  the address for slaves
        """
        from store import open_store

        with self._session.progress("reading the log") as bar:
            opened = open_store(
                self.root,
                read_only=False,
                services=services,
                settings=self._opening({}),
                clock=self._session.environment.clock_ms,
                recover=recover,
                force_empty_log=force_empty_log,
                progress=bar.update,
                listen=listen,
            )
            self._close_at_end(opened)
        return opened

    def _close_at_end(self, opened: WritableStore) -> None:
        self._session.resources.callback(self._warn_of_findings, opened)
        self._session.resources.callback(self._close, opened)
        self._log_range(opened)
        for note in opened.notes:
            self._session.note(f"note: {note}")
        self._warn_of(opened.opening_findings)

    def in_words(self, text: str) -> str:
        """Return `text` with the URI of a remote store in place of the mirror's folder."""
        if self._options.uri is None or "reached" not in self.__dict__:
            return text
        return text.replace(str(self.reached[0]), self._options.uri)

    def find_served(self) -> StoreClient | None:
        """Return a connection to the serving process, open until the result is printed; None without one."""
        if self.is_uri:
            return None
        from store.engine.serving import has_socket

        if not has_socket(self.root):
            return None
        from store.engine.serving import StoreClient

        client = StoreClient.find(self.root)
        if client is not None:
            self._session.resources.callback(client.close)
            self._session.note(
                f"note: process {client.process_id} serves this store; requests go through its control socket"
            )
        return client

    def has_owner(self) -> bool:
        """Return whether a broker or another rmqctl has the store open for writing."""
        from store.files import Filesystem, is_locked

        return self._options.uri is None and is_locked(self.root / "lock", Filesystem())

    def connect_served(self) -> StoreClient:
        """Return the same; BadRequest where no process serves the store."""
        from store.engine.serving import StoreClient, has_socket

        if not has_socket(self.root):
            # A folder that is no store is the user's mistake, before the process that is missing.
            self.open_reader(as_it_is=True)
        client = StoreClient.connect(self.root)
        self._session.resources.callback(client.close)
        return client

    def _opening(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to open the store with, and write them to the log."""
        given = self.settings(**changes)
        self._session.log(f"opening {self.place}, settings given: {_described(given)}")
        return given

    def _log_range(self, opened: MessageStore) -> None:
        if self._session.has_log:
            changed = opened.config.changed_settings(self.settings())
            self._session.log(
                f"opened: log offsets {opened.min_log_offset} to {opened.max_log_offset}, "
                f"settings given or inferred: {_described(changed)}"
            )

    def open_for_reading(self) -> MessageStore:
        """Return the store of --store for readers, with messages past a body with a bad CRC.

        A broker would truncate the log there at its next start. A store that was not shut down is shown as its
        recovery will leave it: truncated there.
        """
        is_closed = not self._reader(str(self.place)).exists("abort")
        known = self.settings()
        lax = {"checkCRCOnRecover": "false"} if is_closed and "checkCRCOnRecover" not in known else {}
        return self.open(**lax)

    def _close(self, opened: MessageStore) -> None:
        with self._session.interrupts.deferred():
            opened.close()

    def _warn_of_findings(self, closed: WritableStore) -> None:
        self.warn_of_news(closed)
        if len(closed.describe_findings()) > len(closed.opening_findings):
            self._session.met_findings = True

    def warn_of_news(self, opened: WritableStore) -> None:
        """Warn of new findings since the last call; a finding that has ended does not change the exit code."""
        findings = opened.describe_findings()[len(opened.opening_findings) :]
        for finding in findings:
            if finding not in self._told and not self._session.repeats_full_disk(finding):
                self._session.warn(finding)
        self._told = findings

    def warn_of_damage(self, readers: Iterable[StoreReader]) -> None:
        """Warn of damage in the log that the readers passed over; the command then ends with FINDINGS."""
        met = [(*place, reason) for reader in readers for place, reason in sorted(reader.damage.items())]
        for file, position, reason in met[:1]:
            others = f", and at {count(len(met) - 1, 'other place')}" if len(met) > 1 else ""
            self._warn_of(
                [f"{file}, offset {position}: {reason}{others}; messages there are left out, `rmqctl check` shows more"]
            )

    def _warn_of(self, findings: Sequence[str]) -> None:
        for finding in findings:
            self._session.met_findings = True
            self._session.warn(finding)


def _described(settings: Mapping[str, object]) -> str:
    """Return settings in the form of --set."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "none"
