"""Finds and parses commands: lazily, and with the global options before or after the command.

Only the module of the command that runs is imported, and its parameters read; `rmqctl --help` imports none of them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from typer._click import HelpFormatter  # Typer brings its own copy of Click.
from typer.core import TyperCommand, TyperGroup
from typer.models import TyperPath

from rmqctl.commands import ALIASES, COMMANDS, FOREIGN, GROUPS, LONG, PANELS, RUNS_ON, CommandPlace
from rmqctl.contradictions import refuse_contradictions
from rmqctl.deprecated import warn_of, warn_of_deprecated
from rmqctl.topics import TOPICS, topic_text

if TYPE_CHECKING:
    from typer._click import Command as ClickCommand
    from typer._click import Context

GLOBAL_PREFIX = "global_"
GLOBALS_NOTE = "Global options (rmqctl --help) may stand here as well."
CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LARGEST = (1 << 63) - 1
PLACES = {"DIR", "FILE", "FOLDER", "FROM", "TO", "A", "B"}
"""Names of values that are paths or URIs, and so texts."""
_NOT_REPEATED = {"version", "install_completion", "show_completion"}


_UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class _WholeWords(HelpFormatter):
    """Breaks lines at blanks alone, so that the names of options stay whole."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBROKEN_HYPHEN))

    def write_dl(self, rows: Sequence[tuple[str, str]], *args: int, **kwargs: int) -> None:
        super().write_dl([(first, second.replace("-", _UNBROKEN_HYPHEN)) for first, second in rows], *args, **kwargs)

    def getvalue(self) -> str:
        return super().getvalue().replace(_UNBROKEN_HYPHEN, "-")


class _HasHelp:
    """Writes the help of a command or a group."""

    def get_help(self, ctx: Context) -> str:
        ctx.formatter_class = _WholeWords
        text: str = super().get_help(ctx)  # type: ignore[misc]
        return text


class _TakesGlobals(_HasHelp):
    """Adds the global options to a command or a group of commands."""

    params: list[Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_words(self, ctx, args)
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        _refuse_odd_numbers(self, ctx)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        own: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        taken = {name for parameter in own for name in parameter.opts}
        root = ctx.find_root().command
        missing = (one for one in root.params if one.name not in _NOT_REPEATED and taken.isdisjoint(one.opts))
        return [*own, *map(_copied, missing)]

    def take_globals(self, ctx: Any) -> None:
        """Move global options after the command's name to the session."""
        given = {}
        for name in [name for name in ctx.params if name.startswith(GLOBAL_PREFIX)]:
            value = ctx.params.pop(name)
            if ctx.get_parameter_source(name).name == "COMMANDLINE":
                given[name.removeprefix(GLOBAL_PREFIX)] = value
        if given:
            ctx.obj.take_options(given)


def _refuse_words(command: Any, ctx: Any, words: list[str]) -> None:
    """Raise a usage error for a second --store if one is taken, and for an empty text as a path.

    The parser would drop the first store, and an empty path is the working folder.
    """
    if ctx.resilient_parsing:
        return
    given, _, order = command.make_parser(ctx).parse_args(list(words))
    if sum("--store" in parameter.opts and not parameter.multiple for parameter in order) > 1:
        takers = "sql, usage, export and check take several, after the command's name"
        raise typer.BadParameter(f"given twice, and one store is taken here; {takers}", param_hint="--store")
    for parameter in order:
        value = given.get(parameter.name)
        is_place = isinstance(parameter.type, TyperPath) or (parameter.metavar or "").strip("[]") in PLACES
        if is_place and "" in (value if isinstance(value, list | tuple) else (value,)):
            raise typer.BadParameter("an empty path; name a folder or file", ctx=ctx, param=parameter)


def _refuse_odd_numbers(command: Any, ctx: Any) -> None:
    """Raise a usage error for a number that no offset, time or count can be."""
    for parameter in command.get_params(ctx):
        value = ctx.params.get(parameter.name)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int | float) and not -LARGEST <= one <= LARGEST:
                # NaN passes every range: each comparison with it is false.
                reason = "is not a number" if math.isnan(one) else "does not fit in 64 bits"
                raise typer.BadParameter(f"{one} {reason}", ctx=ctx, param=parameter)


def _copied(option: Any) -> Any:
    """Return a copy of a global option for a command, under a name of its own and hidden from the help."""
    twin = copy.copy(option)
    twin.name = GLOBAL_PREFIX + option.name
    twin.get_help_record = lambda ctx: None
    return twin


class Command(_TakesGlobals, TyperCommand):
    """One command.

    commands  the commands of two words that begin with this one, by their second word, such as `rebuild timer`
    """

    commands: Mapping[str, Any] = {}

    def invoke(self, ctx: Context) -> object:
        refuse_contradictions(ctx)
        warn_of_deprecated(ctx)
        self.take_globals(ctx)
        if not any(_first_word(ctx) in PANELS[panel] for panel in RUNS_ON):
            ctx.obj.hold_notes()
        if _first_word(ctx) in LONG:
            ctx.obj.show_opening()
        ctx.obj.start_log()
        ctx.obj.take_pace()
        ctx.obj.take_scratch()
        ctx.obj.catch_lost_pages()
        ctx.obj.check_settings()
        return super().invoke(ctx)


def _first_word(ctx: Context) -> str:
    """Return the word after `rmqctl` of the command that runs."""
    return str(ctx.command_path).split()[1]


class LazyCommands(Mapping[str, Any]):
    """Commands by name; each is made at its first use."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class CommandGroup(_HasHelp, TyperGroup):
    """A group that lists its commands in their own order, with the first line of each help."""

    def __init__(self, *, commands: Any = None, summaries: Callable[[], Mapping[str, str]], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = commands
        self._summaries = summaries

    def list_commands(self, ctx: Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))


class SubGroup(_TakesGlobals, CommandGroup):
    """A group below the root, such as `checkpoint`."""

    def invoke(self, ctx: Context) -> object:
        self.take_globals(ctx)
        return super().invoke(ctx)


class RootGroup(CommandGroup):
    """The commands of the application."""

    def __init__(self, *, commands: Any = None, **attributes: Any) -> None:
        places = {place.path.split()[0]: place for place in reversed(COMMANDS)}
        places = {word: places[word] for word in dict.fromkeys(place.path.split()[0] for place in COMMANDS)}
        makers = {name: _maker(name, place) for name, place in places.items()}
        super().__init__(commands=LazyCommands(makers), summaries=lambda: _summaries(places), **attributes)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        _refuse_words(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, ClickCommand | None, list[str]]:
        if args[0] == "help":
            args = _help_on(ctx, args[1:])
        if alias := next((words for n in (2, 1) if (words := " ".join(args[:n])) in ALIASES), ""):
            warn_of(ctx, f"alias {alias}", alias)
            args = ALIASES[alias].split() + args[len(alias.split()) :]
        if args[0] not in self.commands and args[0].lower() in FOREIGN:
            commands = " or ".join(f"`rmqctl {words}`" for words in FOREIGN[args[0].lower()])
            ctx.fail(f"{args[0]} is a word of another tool; here {commands} does it")
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Command) and rest and rest[0] in command.commands:
            return f"{name} {rest[0]}", command.commands[rest[0]], rest[1:]
        return name, command, rest

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        TyperCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        summaries = self._summaries()
        width = max(map(len, summaries))
        for title, words in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(word.ljust(width), summaries[word]) for word in words])


def _help_on(ctx: Context, words: list[str]) -> list[str]:
    """Return the words for the help of a command; print rmqctl's own, or a topic's page, and exit."""
    is_topic = len(words) == 1 and words[0] in TOPICS
    if is_topic or not words:
        stdout = ctx.obj.environment.stdout
        stdout.write(topic_text(words[0]) if is_topic else f"{ctx.get_help()}\n")
        stdout.flush()
        ctx.exit()
    commands: Any = ctx.command
    known = {*commands.commands, *TOPICS}
    if words[0] not in {*known, *(alias.split()[0] for alias in ALIASES)} and words[0].lower() not in FOREIGN:
        from rmqctl.show import did_you_mean

        near = did_you_mean(words[0], known)
        ctx.fail(f"no command or topic is called {words[0]!r}{near}; topics: {', '.join(TOPICS)}")
    return [*words, "--help"]


def _summaries(places: Mapping[str, CommandPlace]) -> dict[str, str]:
    return {name: GROUPS.get(name) or place.summary for name, place in places.items()}


def _maker(name: str, place: CommandPlace) -> Callable[[], Any]:
    return (lambda: _make_group(name)) if name in GROUPS else (lambda: _make_command(name, place))


def _make_command(name: str, place: CommandPlace) -> Any:
    """Return the command, made by a Typer application of its own."""
    function, examples = place.load()
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples) + f"\n\n{GLOBALS_NOTE}"
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=Command, epilog=epilog, context_settings=CONTEXT_SETTINGS)(function)
    made: Any = typer.main.get_command(single)
    made.commands = _members(place.path)
    return made


def _members(name: str) -> LazyCommands:
    """Return the commands of two words that begin with this one."""
    return LazyCommands({word: partial(_make_command, word, place) for word, place in _member_places(name).items()})


def _member_places(name: str) -> dict[str, CommandPlace]:
    return {place.path.split()[1]: place for place in COMMANDS if place.path.startswith(f"{name} ")}


def _make_group(name: str) -> SubGroup:
    return SubGroup(
        name=name,
        commands=_members(name),
        summaries=lambda: {word: place.summary for word, place in _member_places(name).items()},
        help=GROUPS[name],
        epilog=GLOBALS_NOTE,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=CONTEXT_SETTINGS,
    )
