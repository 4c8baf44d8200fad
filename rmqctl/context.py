"""A command's surroundings: streams, terminal and clock, the global options, and the opened store.

    Environment  the outside world; tests put their own in its place     environment.py
    Options      the global options as they were given             options.py
    Session      both together, with what commands need: open the store, say something, ask, show a result

A command opens the store through the session, which closes it when the command ends, however it ends.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rmqctl.environment import Environment
from rmqctl.interrupts import Interrupts
from rmqctl.options import DEFAULT_STORE, Color, Options, OptionValues, read_options
from rmqctl.output import Format, render
from rmqctl.show import escape_controls
from rmqctl.times import parse_time

if TYPE_CHECKING:
    from rmqctl.log import RunLog
    from rmqctl.progress import Progress
    from rmqctl.result import Result
    from rmqctl.tables import Look
    from store import MessageStore, OpenOptions, ServedStore, WritableStore
    from store.disk import Filesystem, StoreReader
    from store.opened import OpenedStore
    from store.serving import StoreClient

KEPT_BYTES = 128 << 20
"""Bytes of a walked log that a command keeps mapped."""
LONGEST_LINE = 2000
"""Characters of one line on stderr: what a user gave is not echoed whole."""


class Session:
    """One run of one command."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.options = Options()
        self.resources = ExitStack()
        self.met_findings = False
        """Whether a store that the command wrote to met damage while it was open."""
        self.interrupts = Interrupts()
        self._values: OptionValues = {}
        self._log: RunLog | None = None
        self._failures: list[str] = []
        self.command_line = ""

    def take_options(self, values: OptionValues) -> None:
        """Global options as parsed, by name; those behind the command win, and add to the settings before it."""
        both = [*(self._values.get("settings") or ()), *(values.get("settings") or ())]
        self._values = {**self._values, **values, "settings": both}
        self.options = read_options(self._values)

    def check_settings(self) -> None:
        """Refuses settings that RocketMQ does not know, and values that they cannot have."""
        if self.options.settings or self.options.broker_conf is not None:
            from store.config import StoreConfig

            StoreConfig().with_settings(self.settings())

    def take_pace(self) -> None:
        """Sets the process's pace and priority by the options, until the session ends."""
        from store.disk import Filesystem, Pace, lower_priority

        before, Filesystem.pace = (
            Filesystem.pace,
            Pace(self.options.bwlimit, kept_bytes=KEPT_BYTES, is_cold=self.options.cold),
        )
        if self.options.nice:
            lower_priority()

        def end() -> None:
            Filesystem().finish_pace()
            Filesystem.pace = before

        self.resources.callback(end)

    # The store.

    @property
    def place(self) -> str | Path:
        """The URI of --store, or its folder."""
        return self.options.uri or self.root

    @functools.cached_property
    def reached(self) -> tuple[Path, Filesystem]:
        """Folder and file system of --store for readers.

        A remote store is a mirror that fetches the bytes they read.
        """
        from store.opened import reach_store

        return reach_store(self.place, scratch=self.options.scratch)

    @property
    def root(self) -> Path:
        """The folder of --store; without it storePathRootDir, else the default.

        BadRequest where --store is a URI.
        """
        if self.options.uri is not None:
            from store.errors import BadRequest

            needs = "this command needs a store in a folder of this machine"
            raise BadRequest(
                needs,
                file=self.options.uri,
                hint="commands that only read take a URI",
            )
        root = self.options.store
        if root == Path(DEFAULT_STORE):
            root = Path(self.settings().get("storePathRootDir", root))
        return root.expanduser()

    def settings(self, **changes: str) -> dict[str, str]:
        """Settings given: of --broker-conf, then --set, then `changes`.

        Others are inferred from the files.
        """
        return {**self.file_settings, **self.options.settings, **changes}

    @functools.cached_property
    def file_settings(self) -> dict[str, str]:
        """The settings of --broker-conf; warns once of those there and in --set that have no effect."""
        from store.config import check_settings, read_broker_conf

        check_settings(self.options.settings, "--set")
        conf = self.options.broker_conf
        found = read_broker_conf(conf) if conf is not None else {}
        self._note_without_effect(found)
        self._note_other_root({**found, **self.options.settings}.get("storePathRootDir"))
        return found

    def _note_other_root(self, root: str | None) -> None:
        """Notes a storePathRootDir that is not the folder of --store."""
        given = self.options.store
        if root is not None and given != Path(DEFAULT_STORE) and Path(root).expanduser() != given.expanduser():
            self.note(f"note: {given} is taken, and not storePathRootDir={root}")

    def _note_without_effect(self, file_settings: Mapping[str, str]) -> None:
        from store.config import has_effect

        for name in self.options.settings:
            if not has_effect(name):
                self.note(f"note: the setting {name} has no effect here")
        count = sum(not has_effect(name) for name in file_settings)
        if count:
            self.note(f"note: {count} settings in the broker configuration have no effect here")

    def open_reader(self, *, as_it_is: bool = False, any_size: bool = False, or_segment: bool = False) -> StoreReader:
        """The files of --store, for commands that don't open the store; refuses a folder that is no store.

        as_it_is    refuses only a folder without any of a broker's files
        any_size    lets segments be of another size than mappedFileSizeCommitLog says
        or_segment  takes one segment file for a log too
        """
        place = str(self.place)
        if not as_it_is:
            return self.open_readers([place], any_size=any_size, or_segment=or_segment)[place]
        reader = self._reader(place, or_segment=or_segment)
        reader.check_has_broker_files()
        return reader

    def open_reached(self, *, or_segment: bool = False) -> StoreReader:
        """The files of --store at `reached`, for a command that also reads them in other ways."""
        from store.disk import StoreReader

        if self.options.uri is None:
            return self.open_reader(as_it_is=True, or_segment=or_segment)
        root, fs = self.reached
        reader = StoreReader(str(root), fs)
        reader.check_has_broker_files()
        return reader

    def open_readers(
        self, stores: Sequence[str], *, any_size: bool = False, or_segment: bool = False
    ) -> dict[str, StoreReader]:
        """The files of several stores by their names as given; the settings are for each of them."""
        from store.config import StoreConfig
        from store.errors import BadRequest

        settings = self.settings()
        if len(stores) > 1 and "storePathCommitLog" in settings:
            raise BadRequest("storePathCommitLog names the log of one store, and several are given")
        readers = {store: self._reader(store, or_segment=or_segment) for store in stores}
        for reader in readers.values():
            reader.check_is_store()
            if "mappedFileSizeCommitLog" in settings and not any_size and not reader.is_segment:
                reader.check_segment_sizes(StoreConfig().with_settings(settings).mapped_file_size_commit_log)
        return readers

    def _reader(self, store: str, *, or_segment: bool = False) -> StoreReader:
        from store.disk import StoreReader
        from store.opened import make_layout

        if "://" in store:
            return StoreReader(store)
        if or_segment and Path(store).expanduser().is_file():
            from store.forensics import open_segment

            return open_segment(Path(store))
        layout = make_layout(Path(store).expanduser(), self.settings())
        return StoreReader(store, commitlogs=layout.commitlogs if layout.commitlog_paths else ())

    def open_store(self, **settings: str) -> MessageStore:
        """The store of --store, open for reading until the command's result is printed."""
        from store import open_store

        with self.progress("reading the log") as bar:
            options = self._open_options(bar, **settings)
            options["scratch"] = self.options.scratch
            options["note"] = lambda text: self.note(f"note: {text}")
            root, options["fs"] = self.reached
            opened = open_store(root, **options)
            self.resources.callback(self._close, opened)
        self._log_range(opened)
        return opened

    def warn_of_unloaded(self, opened: OpenedStore, *names: str) -> None:
        """Warn of each table under config/ that a broker would not load from its own file."""
        from store.brokerconfig import review_loading

        for finding in review_loading(opened.layout.config, names, opened.line, opened.fs):
            self.warn(finding.detail)

    def open_for_writing(
        self, *, settings: Mapping[str, str], recover: bool, force_empty_log: bool, compat: str | None = None
    ) -> WritableStore:
        """The store of --store, open for puts until the command's result is printed."""
        from store import open_store

        # A store that is written to runs threads: a signal waits until the store can be closed.
        with self.interrupts.deferred(), self.progress("reading the log") as bar:
            options = self._open_options(bar, **settings)
            options["recover"] = recover
            options["force_empty_log"] = force_empty_log
            options["compat"] = compat
            opened = open_store(self.root, read_only=False, **options)
            self._close_at_end(opened)
        return opened

    def open_to_serve(
        self, services: Collection[str], *, recover: bool, force_empty_log: bool, listen: str | None
    ) -> ServedStore:
        """The same with a broker's services, for a caller that defers signals; `listen` is for slaves."""
        from store import open_store

        with self.progress("reading the log") as bar:
            options = self._open_options(bar)
            options["recover"] = recover
            options["force_empty_log"] = force_empty_log
            options["listen"] = listen
            opened = open_store(self.root, read_only=False, services=services, **options)
            self._close_at_end(opened)
        return opened

    def _close_at_end(self, opened: WritableStore) -> None:
        self.resources.callback(self._warn_of_findings, opened)
        self.resources.callback(self._close, opened)
        self._log_range(opened)
        for note in opened.notes:
            self.note(f"note: {note}")
        self._warn_of(opened.opening_findings)

    def find_served(self) -> StoreClient | None:
        """The process that serves the store, connected until the result is printed; None without one."""
        if self.options.uri is not None:
            return None
        from store.serving import has_socket

        if not has_socket(self.root):
            return None
        from store.serving import StoreClient

        client = StoreClient.find(self.root)
        if client is not None:
            self.resources.callback(client.close)
            self.note(f"note: process {client.process_id} serves this store; it is asked through its control socket")
        return client

    def has_owner(self) -> bool:
        """Whether a broker or another rmqctl has the store open for writing."""
        from store.disk import Filesystem, is_locked

        return self.options.uri is None and is_locked(self.root / "lock", Filesystem())

    def connect_served(self) -> StoreClient:
        """The same; BadRequest where no process serves the store."""
        from store.serving import StoreClient

        client = StoreClient.connect(self.root)
        self.resources.callback(client.close)
        return client

    def _open_options(self, bar: Progress, **settings: str) -> OpenOptions:
        given = self.settings(**settings)
        self.log(f"opening {self.place}, settings given: {_described(given)}")
        return {"settings": given, "clock": self.environment.clock_ms, "progress": bar.update}

    def _log_range(self, opened: MessageStore) -> None:
        if self._log is not None:
            changed = opened.config.changed_settings()
            self.log(
                f"opened: log offsets {opened.min_log_offset} to {opened.max_log_offset}, "
                f"settings given or inferred: {_described(changed)}"
            )

    def open_for_reading(self) -> MessageStore:
        """Opens the store for readers, also behind a body with a wrong CRC.

        A broker would cut its log there at the next start.

        A store that was not shut down is shown as its recovery will leave it, which cuts there.
        """
        is_closed = not self._reader(str(self.place)).exists("abort")
        known = self.settings()
        lax = {"checkCRCOnRecover": "false"} if is_closed and "checkCRCOnRecover" not in known else {}
        return self.open_store(**lax)

    def _close(self, opened: MessageStore) -> None:
        with self.interrupts.deferred():
            opened.close()

    def _warn_of_findings(self, closed: WritableStore) -> None:
        said = len(closed.opening_findings)
        self._warn_of(closed.describe_findings()[said:])

    def _warn_of(self, findings: Sequence[str]) -> None:
        for finding in findings:
            self.met_findings = True
            self.warn(finding)

    def parse_time(self, text: str, option: str) -> int:
        """A time given to `option`, in epoch milliseconds; a usage error where it is none."""
        try:
            return parse_time(text, self.environment.clock_ms())
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from None

    # Talking.

    def note(self, text: str) -> None:
        """A remark on stderr, unless --quiet."""
        if not self.options.quiet:
            self._say(text, "INFO")
        else:
            self.log(text)

    def warn(self, text: str) -> None:
        """Something the user has to know, on stderr."""
        self._say(f"warning: {text}", "WARNING")

    def fail(self, text: str) -> None:
        """Why the command ended, on stderr."""
        self._failures.append(text)
        self._say(f"rmqctl: {text}", "ERROR")

    def has_said(self, cause: str) -> bool:
        """Whether a sentence on why the command ended names this cause."""
        return any(cause in text for text in self._failures)

    def log(self, text: str, *, level: str = "INFO", error: BaseException | None = None) -> None:
        """A line for --log and --verbose."""
        if self._log is not None:
            self._log.write(level, text, error=error)

    def start_log(self) -> None:
        """Begins the log that --log and --verbose ask for."""
        if self.options.log is not None or self.options.verbose:
            from rmqctl.log import RunLog
            from store import __version__

            self._log = RunLog(self.options.log, self.environment.stderr if self.options.verbose else None)
            self.log(f"rmqctl {__version__}, process {os.getpid()}, in {Path.cwd()}: {self.command_line}")

    def end_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _say(self, text: str, level: str) -> None:
        if self.options.uri is not None and "reached" in self.__dict__:
            text = text.replace(str(self.reached[0]), self.options.uri)
        if len(text) > LONGEST_LINE:
            text = text[: LONGEST_LINE - 1] + "…"
        self.environment.stderr.write(escape_controls(text) + "\n")
        self.environment.stderr.flush()
        if self._log is not None:
            self._log.write(level, text, is_said=True)

    def ask(self, question: str) -> bool:
        """A yes or no question on the terminal; end of input is a no."""
        self.environment.stderr.write(f"{escape_controls(question)} [y/N] ")
        self.environment.stderr.flush()
        answer = self.environment.stdin.readline().decode(errors="replace").strip().lower() in ("y", "yes")
        self.log(f"asked: {question} {'yes' if answer else 'no'}")
        return answer

    def progress(self, title: str, total: int | None = None, unit: str = "bytes") -> Progress:
        """A bar on stderr for work of more than a second; shows nothing with --no-progress or --quiet."""
        from rmqctl.progress import Progress

        stderr = self.environment.stderr
        shown = self.options.progress and not self.options.quiet and stderr.isatty()
        return Progress(title, total, unit, stderr if shown else None)

    # The result.

    @property
    def format(self) -> Format:
        """--format, with `auto` decided."""
        if self.options.format is not Format.AUTO:
            return self.options.format
        return Format.TABLE if self.environment.stdout.isatty() else Format.PLAIN

    @property
    def color(self) -> bool:
        if self.options.color is Color.AUTO:
            return not self.environment.variables.get("NO_COLOR") and self.environment.stdout.isatty()
        return self.options.color is Color.ALWAYS

    def refuse_inside(self, store: Path, *targets: Path | None) -> None:
        """Refuses a target inside of a store that is only read.

        A foreign name in commitlog/ keeps a broker from starting.
        """
        source = store.resolve()
        source = source.parent if source.is_file() and source.parent.name == "commitlog" else source
        for target in targets:
            if target is not None and target.resolve().is_relative_to(source):
                raise typer.BadParameter(f"{target} is inside of {store}, which is only read; name another folder")

    def look(self, *, color: bool | None = None) -> Look:
        """How people see results: as wide as the terminal unless --wide, 80 columns where there is none."""
        from rmqctl.tables import Look

        width = None if self.options.wide else self.environment.columns()
        return Look(width, self.color if color is None else color, self.options.time)

    def show(self, result: Result) -> None:
        """Prints `result` as --format says."""
        stream = self.environment.stdout
        render(result, self.format, stream, None if self.format.is_for_programs else self.look())
        stream.flush()


def _described(settings: Mapping[str, object]) -> str:
    """Settings as --set takes them."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "none"
