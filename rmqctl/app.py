"""The application: runs one command line and returns its exit code; errors become exit codes here.

    rmqctl [GLOBAL OPTIONS] COMMAND [GLOBAL OPTIONS] …

main() parses, runs one command inside a session, prints its result, and closes the store in any case. Only the
module of this command is imported; the engine is imported when the command runs.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from rmqctl.context import Session
from rmqctl.contradictions import other_names
from rmqctl.defaults import default_in, origin_of_default, read_defaults
from rmqctl.environment import Environment, use_utf8_names
from rmqctl.exit_codes import DEFECT, FINDINGS, INTERRUPTED, IO_ERROR, OK, USAGE, exit_code_of
from rmqctl.group import CONTEXT_SETTINGS, RootGroup
from rmqctl.options import global_options
from rmqctl.result import Result
from rmqctl.topics import TOPICS

# Typer does not export the base class of parsing errors; it is among the ancestors of BadParameter.
USAGE_ERROR = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


_KINDS_OF_NUMBER = {
    "int range": "a whole number", "int": "a whole number", "float range": "a number", "float": "a number",
}  # fmt: skip
"""Names of types in Typer's errors, in words."""


class Application(RootGroup):
    """The application, with rmqctl's exit codes as a script and under typer.testing."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **extra: Any) -> object:
        if not standalone_mode:
            return super().main(*arguments, standalone_mode=False, **extra)  # type: ignore[misc]
        sys.exit(main(*arguments, *([extra["args"]] if "args" in extra else [])))


app = typer.Typer(
    name="rmqctl",
    cls=Application,
    help="Look into, repair and query the store of a RocketMQ broker, on its disk.",
    epilog="\b\nExamples:\n"
    "  rmqctl --store /data/store recover --abnormal --dry-run\n"
    "  rmqctl --store /data/store get OrderTopic --queue 3 --since -15m\n"
    "  rmqctl --store /data/store index-query OrderTopic order-4711 --format json\n"
    f"\nrmqctl help COMMAND explains a command; rmqctl help TOPIC prints a page: {', '.join(TOPICS)}.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT_SETTINGS,
)
app.callback()(global_options)


def main(arguments: Sequence[str] | None = None, environment: Environment | None = None) -> int:
    """Run one command line and return its exit code."""
    if arguments is None:
        use_utf8_names()
    # numpy's threads for linear algebra are never used here, and take up to 40 ms of CPU to start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    session = Session(environment or Environment.real(), main)
    session.words = list(sys.argv[1:] if arguments is None else arguments)
    with session.interrupts.installed():
        try:
            code = _run_and_report(session)
            code = IO_ERROR if session.report_lost_pages() else code
            session.log(f"exit code {code}")
        finally:
            session.release_notes()
            session.end_log()
    return code


def _run_and_report(session: Session) -> int:
    code = OK
    try:
        with _quiet_pipe(), session.resources:
            code = _run(session)
        # Damage that a store met while it was written to is known after its close.
        return FINDINGS if code == OK and session.met_findings else code
    except (Exception, KeyboardInterrupt) as error:
        if _is_closed_stdout(error):
            _silence_stdout()
        if session.interrupts.raised and exit_code_of(error) == DEFECT:
            # An interrupted library may raise an error of its own instead.
            session.log("ended by an error after an interrupt", level="WARNING", error=error)
            return _report(session, KeyboardInterrupt())
        return _report(session, error)


def _run(session: Session) -> int:
    command = _command()
    streams = sys.stdout, sys.stderr
    try:
        session.defaults = read_defaults(session.environment.variables)
        answer = command.main(
            args=session.words, prog_name="rmqctl", standalone_mode=False, obj=session, default_map=session.defaults
        )
    except SystemExit as end:
        # Typer wraps the streams, and exits with 1 if a pipe is closed.
        sys.stdout, sys.stderr = streams
        raise end.__context__ or end from None
    if isinstance(answer, Result):
        with _quiet_pipe():
            session.show(answer)
        return answer.final_exit_code()
    if answer == INTERRUPTED:
        # Typer swallows the interrupt and returns this number.
        raise KeyboardInterrupt
    return answer if isinstance(answer, int) else OK


@functools.cache
def _command() -> Any:
    # Reading the annotations of all options takes milliseconds.
    return typer.main.get_command(app)


def _report(session: Session, error: BaseException) -> int:
    """Report an error in one sentence on stderr; return the exit code."""
    if isinstance(error, USAGE_ERROR):
        return _report_usage(session, error)
    session.log(f"ended by {type(error).__name__}", level="ERROR", error=error)
    sentence = _sentence(error)
    sentence += _origin(session, error, sentence)
    if not session.repeats_full_disk(sentence):
        session.fail(sentence)
    return exit_code_of(error)


def _report_usage(session: Session, error: Any) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        session.environment.stderr.write(context.get_help() + "\n")
        return USAGE
    path = context.command_path if context is not None else "rmqctl"
    text = " ".join(str(error.format_message()).split()).rstrip(".").removeprefix("Invalid value: ")
    for kind, plain in _KINDS_OF_NUMBER.items():
        text = text.replace(f"is not a valid {kind}", f"is not {plain}")
    flag, listed, _ = text.partition("is not a valid boolean. Recognized values:")
    text = f"{flag}is neither true nor false" if listed else text
    text = _as_written(context, text) if context is not None else text
    session.fail(f"{text}{_origin(session, error, text)} (see {path} --help)")
    return USAGE


def _as_written(context: Any, text: str) -> str:
    """Name an option as the command line does where it has several names."""
    for names, written in other_names(context):
        text = text.replace(" / ".join(f"'{name}'" for name in names), written)
        text = re.sub(rf"(?<![\w-]){re.escape(names[0])}(?![\w-])", written, text)
    return text


def _origin(session: Session, error: Any, text: str) -> str:
    """Say where a value comes from that is not on the command line."""
    context: Any = getattr(error, "ctx", None)
    parameter: Any = getattr(error, "param", None)
    source = context.get_parameter_source(parameter.name) if context is not None and parameter is not None else None
    if source is None:
        name = default_in(text, session.defaults_of(error))
    else:
        name = parameter.name if source.name in ("ENVIRONMENT", "DEFAULT_MAP") else None
    origin = origin_of_default(name, session.environment.variables) if name else None
    return f"; the value is that of {origin}" if origin else ""


def _sentence(error: BaseException) -> str:
    from store.errors import StoreError

    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted; the store is consistent"
    if isinstance(error, (StoreError, ValueError)) and str(error):
        from rmqctl.hints import describe

        return describe(error)
    if _is_closed_stdout(error):
        return "stdout is closed, so the result was not written"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{(error.strerror or str(error)).lower()}"
    return f"a defect in rmqctl: {type(error).__name__}: {error}; run it again with --verbose and report what it prints"


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """End the block quietly when the reader of stdout has closed it."""
    try:
        yield
    except BrokenPipeError:
        _silence_stdout()


def _is_closed_stdout(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None


def _silence_stdout() -> None:
    """Redirect a closed stdout to /dev/null: else the interpreter's flush at exit prints an error."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
