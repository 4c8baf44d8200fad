"""What a command runs in: the environment (streams, terminal, clock), the global options, and the opened store.

    Environment  the outside world; tests put their own in its place
    Options      the global options as they were given
    Session      both together, with what commands need: open the store, say something, ask, show a result

A command opens the store through the session, which closes it when the command ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

import typer

from rmqctl.output import Format, render
from rmqctl.result import Result
from rmqctl.times import parse_time

if TYPE_CHECKING:
    from rmqctl.progress import Progress
    from store import MessageStore

DEFAULT_STORE = "~/store"


@dataclass(slots=True)
class Environment:
    """Streams, terminal, variables and clock of the process."""

    stdin: IO[bytes]
    stdout: TextIO
    stderr: TextIO
    variables: Mapping[str, str]
    clock_ms: Callable[[], int]
    width: int | None = None
    """Columns of the terminal; None asks it."""

    @classmethod
    def real(cls) -> Environment:
        return cls(sys.stdin.buffer, sys.stdout, sys.stderr, os.environ, lambda: time.time_ns() // 1_000_000)

    def columns(self) -> int:
        return self.width or shutil.get_terminal_size().columns

    @property
    def can_ask(self) -> bool:
        """Somebody sits at both ends: a question would be read and answered."""
        return self.stdin.isatty() and self.stderr.isatty()


@dataclass(frozen=True, slots=True)
class Options:
    """The global options."""

    store: Path = Path(DEFAULT_STORE)
    uri: str | None = None
    """--store where it is a URI, which the commands take that read stores anywhere."""
    broker_conf: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    format: Format = Format.AUTO
    progress: bool = True
    quiet: bool = False
    verbose: bool = False
    color: bool = True


class Session:
    """One run of one command."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.options = Options()
        self.resources = ExitStack()
        self.interrupts = Interrupts()

    # The store.

    @property
    def root(self) -> Path:
        return self.options.store.expanduser()

    def settings(self, **changes: str) -> dict[str, str]:
        """Settings given: of --broker-conf, then --set, then `changes`. What is not given is read off the files."""
        from store.config import read_broker_conf

        conf = self.options.broker_conf
        return {**(read_broker_conf(conf) if conf is not None else {}), **self.options.settings, **changes}

    def open_store(
        self, *, read_only: bool = True, settings: Mapping[str, str] | None = None, **options: Any
    ) -> MessageStore:
        """The store of --store, open until the command's result is printed."""
        from store import open_store

        # A store that is written to runs threads: a signal waits until somebody is there to close it.
        waiting = contextlib.nullcontext() if read_only else self.interrupts.deferred()
        with waiting, self.progress("reading the log") as bar:
            opened = open_store(
                self.root,
                settings=self.settings(**(settings or {})),
                read_only=read_only,
                clock=self.environment.clock_ms,
                progress=bar.update,
                **options,
            )
            self.resources.callback(self._close, opened)
        for note in opened.notes:
            self.note(f"note: {note}")
        return opened

    def _close(self, opened: MessageStore) -> None:
        with self.interrupts.deferred():
            opened.close()

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
            self._say(text)

    def warn(self, text: str) -> None:
        """Something the user has to know, on stderr."""
        self._say(f"warning: {text}")

    def fail(self, text: str) -> None:
        """Why the command ended, on stderr."""
        self._say(f"rmqctl: {text}")

    def _say(self, text: str) -> None:
        self.environment.stderr.write(text + "\n")
        self.environment.stderr.flush()

    def ask(self, question: str) -> bool:
        """A yes or no question on the terminal; end of input is a no."""
        self.environment.stderr.write(f"{question} [y/N] ")
        self.environment.stderr.flush()
        answer = self.environment.stdin.readline().decode(errors="replace")
        return answer.strip().lower() in ("y", "yes")

    def progress(self, title: str, total: int | None = None, unit: str = "bytes") -> Progress:
        """A bar on stderr for what takes longer than a second; shows nothing with --no-progress or --quiet."""
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
        return (
            self.options.color and not self.environment.variables.get("NO_COLOR") and self.environment.stdout.isatty()
        )

    def show(self, result: Result) -> None:
        """Prints `result` as --format says; for people it is cut to the terminal's width."""
        stream = self.environment.stdout
        render(result, self.format, stream, width=self.environment.columns(), color=self.color)
        stream.flush()


class Interrupts:
    """Ctrl-C and SIGTERM: both raise KeyboardInterrupt in the main thread, but not in the middle of a change.

    Inside deferred() the signal is kept until the block ends. After the first signal further ones are ignored, so that
    the store can be closed cleanly.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False
        self._raised = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handles both signals inside the block."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {number: signal.signal(number, self._handle) for number in numbers}
        except ValueError:
            # Not the main thread: whoever runs us there handles signals.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """A block that a signal must not cut in two."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._pending and not self._depth:
            self._pending = False
            self._raise()

    def _handle(self, number: int, frame: object) -> None:
        if self._depth:
            self._pending = True
        else:
            self._raise()

    def _raise(self) -> None:
        if not self._raised:
            self._raised = True
            raise KeyboardInterrupt
