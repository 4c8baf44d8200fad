"""The application: global options, the list of commands, and the one place where an error becomes an exit code.

    rmqctl [GLOBAL OPTIONS] COMMAND …

main() parses, runs one command inside a session, prints what it returned, and closes the store whatever happened.
A command's module is imported when that command is asked for, and the engine when it runs.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmqctl import __version__
from rmqctl.commands import COMMANDS, add_commands
from rmqctl.context import DEFAULT_STORE, Environment, Options, Session
from rmqctl.exit_codes import INTERRUPTED, OK, USAGE, exit_code_of
from rmqctl.output import Format
from rmqctl.result import Result

# Typer exports no base class of the errors that parsing raises, but one of them, whose ancestors it is among.
USAGE_ERROR = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class CommandGroup(TyperGroup):
    """Lists commands in the order in which people need them, not by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(
    name="rmqctl",
    cls=CommandGroup,
    help="Look into, repair and query the store of a RocketMQ broker, on its disk.",
    epilog="\b\nExamples:\n"
    "  rmqctl --store /data/store recover --abnormal --dry-run\n"
    "  rmqctl --store /data/store get OrderTopic --queue 3 --since -15m\n"
    "  rmqctl --store /data/store --format json index-query OrderTopic order-4711\n",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rmqctl {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    ctx: typer.Context,
    store: Annotated[
        str, typer.Option(envvar="RMQCTL_STORE", metavar="DIR", help="The store's root folder.")
    ] = DEFAULT_STORE,
    broker_conf: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A broker.conf with paths, file sizes and retention. Without it sizes are read off the files.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="One MessageStoreConfig setting by its RocketMQ name; repeatable.",
        ),
    ] = None,
    format: Annotated[
        Format,
        typer.Option(
            "--format", "-f", help="How results are printed; auto is a table on a terminal, plain when piped."
        ),
    ] = Format.AUTO,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bars.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr; results and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Details, and tracebacks of errors.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours (as the variable NO_COLOR).")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    session: Session = ctx.obj
    session.options = Options(
        store=Path(store),
        uri=store if "://" in store else None,
        broker_conf=broker_conf,
        settings=dict(_parse_setting(text) for text in settings or ()),
        format=format,
        progress=not no_progress,
        quiet=quiet,
        verbose=verbose,
        color=not no_color,
    )


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name, value


add_commands(app)


def main(arguments: Sequence[str] | None = None, environment: Environment | None = None) -> int:
    """Runs one command line and gives its exit code."""
    session = Session(environment or Environment.real())
    with session.interrupts.installed():
        try:
            with session.resources:
                return _run(session, arguments)
        except BrokenPipeError:
            _silence_stdout()
            return OK
        except (Exception, KeyboardInterrupt) as error:
            return _report(session, error)


def _run(session: Session, arguments: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    answer = command.main(
        args=None if arguments is None else list(arguments),
        prog_name="rmqctl",
        standalone_mode=False,
        obj=session,
    )
    if isinstance(answer, Result):
        session.show(answer)
        return answer.final_exit_code()
    if answer == INTERRUPTED:
        # Typer swallows the interrupt and answers with this number.
        raise KeyboardInterrupt
    return answer if isinstance(answer, int) else OK


def _report(session: Session, error: BaseException) -> int:
    """One sentence on stderr, and the exit code."""
    if session.options.verbose:
        session.environment.stderr.write("".join(traceback.format_exception(error)))
    if isinstance(error, USAGE_ERROR):
        return _report_usage(session, error)
    code = exit_code_of(error)
    session.fail(_sentence(error))
    return code


def _report_usage(session: Session, error: Any) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        session.environment.stderr.write(context.get_help() + "\n")
        return USAGE
    path = context.command_path if context is not None else "rmqctl"
    text = " ".join(str(error.format_message()).split()).rstrip(".")
    hint = _global_option_hint(getattr(error, "option_name", None), path)
    session.fail(hint or f"{text} (see {path} --help)")
    return USAGE


def _global_option_hint(option: str | None, path: str) -> str | None:
    """A global option written after the command is the likeliest slip of all."""
    names = {name for parameter in typer.main.get_command(app).params for name in parameter.opts}
    if option not in names or path == "rmqctl":
        return None
    command = path.removeprefix("rmqctl ")
    return f"{option} is a global option, write it before the command: rmqctl {option} … {command} …"


def _sentence(error: BaseException) -> str:
    from store.errors import StoreError

    if isinstance(error, KeyboardInterrupt):
        return "interrupted; the store is consistent"
    if isinstance(error, (StoreError, ValueError)) and str(error):
        return str(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{(error.strerror or str(error)).lower()}"
    if type(error).__name__ == "Abort":
        return "interrupted; the store is consistent"
    return f"a defect in rmqctl: {type(error).__name__}: {error}; run it again with --verbose and report what it prints"


def _silence_stdout() -> None:
    """Whoever read our output has gone; the interpreter must not complain when it flushes at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())


__all__ = ["COMMANDS", "app", "main"]
