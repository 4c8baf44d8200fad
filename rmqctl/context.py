"""Session: the run of one command, with its environment, its global options and its store.

    Environment  streams, terminal, variables and clock; tests have their own   environment.py
    Options      the global options                                             options.py
    GivenStore   the store of --store, and the ways to open it                  given_store.py
    Session      all three; writes notes, asks questions, prints the result

Resources of the command are closed when it ends, also by an error.
"""

from __future__ import annotations

import errno
import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rmqctl.environment import Environment
from rmqctl.given_store import GivenStore
from rmqctl.interrupts import Interrupts
from rmqctl.options import Color, Options, OptionValues, read_options
from rmqctl.output import Format, render
from rmqctl.show import escape_controls
from rmqctl.times import parse_time

if TYPE_CHECKING:
    from rmqctl.blocks import Look
    from rmqctl.log import RunLog
    from rmqctl.progress import Opening, Progress
    from rmqctl.result import Result

KEPT_BYTES = 128 << 20
"""Bytes of a scanned log that a command keeps mapped."""
LONGEST_LINE = 2000
"""Characters of one line on stderr: long input of the user is not echoed whole."""
_FULL = tuple(os.strerror(code).lower() for code in (errno.ENOSPC, errno.EDQUOT))


class Session:
    """One run of one command."""

    def __init__(self, environment: Environment, run: Callable[[Sequence[str], Environment], int]) -> None:
        self.environment = environment
        self.run = run
        """Runs another command line, and returns its exit code."""
        self.options = Options()
        self.resources = ExitStack()
        self.met_findings = False
        """Whether an OK becomes FINDINGS: a written store met damage while it was open, or an id was not found."""
        self.interrupts = Interrupts()
        self.store = GivenStore(self)
        self.defaults: dict[str, object] = {}
        """Values of the file and of variables, by parameter."""
        self._values: OptionValues = {}
        self._log: RunLog | None = None
        self._failures: list[str] = []
        self._held: list[str] | None = None
        self._catches_lost_pages = False
        self._began = time.monotonic()
        self._opening: Opening | None = None
        self.words: list[str] = []
        """The command line, without the program's name."""

    def take_options(self, values: OptionValues) -> None:
        """Set parsed global options, by name; options after the command win, and settings add up."""
        both = [*(self._values.get("settings") or ()), *(values.get("settings") or ())]
        self._values = {**self._values, **values, "settings": both}
        self.options = read_options(self._values)

    def defaults_of(self, error: BaseException) -> dict[str, object]:
        """Return the defaults in use that may have caused an error."""
        from store.errors import BadRequest, NotAStore

        causes = {"log", "scratch", "broker_conf"}
        if isinstance(error, (BadRequest, NotAStore, typer.BadParameter)):
            causes |= {"store", "settings", "bwlimit"}
        values: dict[str, object] = {**self._values}
        found = {
            name: self.defaults[name]
            for name in causes & self.defaults.keys()
            if str(values.get(name)) == str(self.defaults[name])
        }
        settings, given = self.defaults.get("settings"), self._values.get("settings") or ()
        if "settings" in causes and isinstance(settings, list):
            last = {text.partition("=")[0]: text for text in given}
            found["settings"] = [setting for setting in settings if setting in last.values()]
        return found

    def check_settings(self) -> None:
        """Raise BadRequest for unknown settings and impossible values."""
        if self.options.settings or self.options.broker_conf is not None:
            from store.config import StoreConfig

            StoreConfig().with_settings(self.store.settings())

    def take_pace(self) -> None:
        """Set pace, priority and remote retries of the process by the options, until the session ends."""
        from store.files import Filesystem, Pace, lower_priority

        before, Filesystem.pace = (
            Filesystem.pace,
            Pace(self.options.bwlimit, kept_bytes=KEPT_BYTES, is_cold=self.options.cold),
        )
        if self.options.remote_retries is not None:
            from store.files import RemoteRequests

            self.resources.callback(setattr, RemoteRequests, "retries", RemoteRequests.retries)
            RemoteRequests.retries = self.options.remote_retries
        if self.options.nice:
            lower_priority()

        def end() -> None:
            Filesystem().finish_pace()
            Filesystem.pace = before

        self.resources.callback(end)

    def take_scratch(self) -> None:
        """Use the folder of --scratch as temporary folder until the session ends."""
        place = self.options.scratch
        if place is None:
            return
        if self.options.uri is None:
            self.refuse_inside(self.store.root, place)
        import tempfile

        before, tempfile.tempdir = tempfile.tempdir, str(place)

        def end() -> None:
            tempfile.tempdir = before

        self.resources.callback(end)

    def catch_lost_pages(self) -> None:
        """Survive lost pages of mapped files; `report_lost_pages` reports them."""
        from store import catch_lost_pages

        catch_lost_pages()
        self._catches_lost_pages = True

    def report_lost_pages(self) -> bool:
        """Report lost pages that no error or finding has reported yet; return whether there were any."""
        if not self._catches_lost_pages:
            return False
        from store.files import settle_lost_pages

        errors = settle_lost_pages()
        for error in errors:
            self.fail(str(error))
        return bool(errors)

    def parse_time(self, text: str, option: str) -> int:
        """Return the value of `option` as epoch milliseconds; raise a usage error if it is no time."""
        try:
            return parse_time(text, self.environment.clock_ms())
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from None

    # Notes, warnings, questions.
    def note(self, text: str) -> None:
        """Write a remark to stderr, unless --quiet."""
        if not self.options.quiet:
            self._say(text, "INFO")
        else:
            self.log(text)

    def warn(self, text: str) -> None:
        """Write a warning to stderr."""
        self._say(f"warning: {text}", "WARNING")

    def fail(self, text: str) -> None:
        """Write the reason of a failure to stderr."""
        self._failures.append(text)
        self._say(f"rmqctl: {text}", "ERROR")

    def repeats_full_disk(self, text: str) -> bool:
        """Return whether a full disk was reported before: the threads of log and queues both meet it."""
        return any(full in text and full in said for full in _FULL for said in self._failures)

    def hold_notes(self) -> None:
        """Hold notes back until the result is printed, if a terminal shows both: the verdict comes first."""
        if self.format is Format.TABLE and self.environment.stdout.isatty() and self.environment.stderr.isatty():
            self._held = []

    def release_notes(self) -> None:
        """Write the held notes, and hold no more."""
        held, self._held = self._held, None
        for line in held or ():
            self._write_line(line)

    def log(self, text: str, *, level: str = "INFO", error: BaseException | None = None) -> None:
        """Write a line for --log and --verbose."""
        if self._log is not None:
            self._log.write(level, text, error=error)

    @property
    def has_log(self) -> bool:
        return self._log is not None

    def start_log(self) -> None:
        """Begin the log of --log and --verbose."""
        if self.options.log is not None or self.options.verbose:
            from rmqctl.log import RunLog
            from store import __version__

            self._log = RunLog(self.options.log, self.environment.stderr if self.options.verbose else None)
            command_line = shlex.join(["rmqctl", *self.words])
            self.log(f"rmqctl {__version__}, process {os.getpid()}, in {Path.cwd()}: {command_line}")

    def end_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _say(self, text: str, level: str) -> None:
        text = self.store.in_words(text)
        if len(text) > LONGEST_LINE:
            text = text[: LONGEST_LINE - 1] + "…"
        line = self._fold_line(escape_controls(text))
        if self._held is not None and level != "ERROR":
            self._held.append(line)
        else:
            self.release_notes()
            self._write_line(line)
        if self._log is not None:
            self._log.write(level, text, is_said=True)

    def _fold_line(self, text: str) -> str:
        """Fold a line between words at the terminal's width; a command stays whole, to be copied."""
        if not self.environment.stderr.isatty():
            return text
        from rmqctl.layout import fold_words

        return fold_words(text, self.environment.screen()[0])

    def _write_line(self, line: str) -> None:
        self.end_opening()
        self.environment.stderr.write(line + "\n")
        self.environment.stderr.flush()

    def ask(self, question: str) -> bool:
        """Ask a yes or no question on the terminal; end of input is a no."""
        self.end_opening()
        self.release_notes()
        self.environment.stderr.write(f"{self._fold_line(f'{escape_controls(question)} [y/N]')} ")
        self.environment.stderr.flush()
        answer = self.environment.stdin.readline().decode(errors="replace").strip().lower() in ("y", "yes")
        self.log(f"asked: {question} {'yes' if answer else 'no'}")
        return answer

    def progress(self, title: str, total: int | None = None, unit: str = "bytes") -> Progress:
        """Return a bar on stderr; it shows nothing without a terminal, with --no-progress or --quiet."""
        from rmqctl.progress import Progress

        stream = self.environment.stderr if self._shows_progress else None
        return Progress(title, total, unit, stream, since=self._began, clear=self.end_opening)

    @property
    def _shows_progress(self) -> bool:
        return self.options.progress and not self.options.quiet and self.environment.stderr.isatty()

    def show_opening(self) -> None:
        """Show on a terminal that the command works, until its first bar or line."""
        if self._shows_progress:
            from rmqctl.progress import Opening

            self._opening = Opening(self.environment.stderr)
            self.resources.callback(self.end_opening)

    def end_opening(self) -> None:
        """Clear the line of `show_opening`."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.end()

    # The result.

    @property
    def format(self) -> Format:
        """--format; `auto` is a table on a terminal or with --color always, else plain."""
        if self.options.format is not Format.AUTO:
            return self.options.format
        is_table = self.options.color is Color.ALWAYS or self.environment.stdout.isatty()
        return Format.TABLE if is_table else Format.PLAIN

    @property
    def color(self) -> bool:
        if self.options.color is Color.AUTO:
            variables = self.environment.variables
            is_plain = variables.get("NO_COLOR") or variables.get("TERM") == "dumb"
            return not is_plain and self.environment.stdout.isatty()
        return self.options.color is Color.ALWAYS

    def refuse_inside(self, store: Path, *targets: Path | None) -> None:
        """Raise a usage error for a target inside of a store that is only read.

        A foreign name in commitlog/ would keep a broker from starting.
        """
        source = store.resolve()
        source = source.parent if source.is_file() and source.parent.name == "commitlog" else source
        for target in targets:
            if target is not None and target.resolve().is_relative_to(source):
                raise typer.BadParameter(f"{target} is inside of {store}, which is only read; name another folder")

    def look(self, *, color: bool | None = None) -> Look:
        """Return the look of results: fitted to a terminal; unlimited with --wide, in pipes and files."""
        from rmqctl.blocks import Look

        fits = self.environment.stdout.isatty() and not self.options.wide
        width, height = self.environment.screen() if fits else (None, None)
        return Look(width, self.color if color is None else color, self.options.time, height, self._held_lines)

    def _held_lines(self) -> int:
        """Count the lines of the held notes, with the blank one above them."""
        return sum(line.count("\n") + 1 for line in self._held or ()) + bool(self._held)

    def show(self, result: Result) -> None:
        """Print `result` in the form of --format, then the held notes."""
        self.end_opening()
        stream = self.environment.stdout
        render(result, self.format, stream, None if self.format.is_for_programs else self.look())
        stream.flush()
        if self._held:
            self._held[0] = f"\n{self._held[0]}"
        self.release_notes()
