"""Pairs of options that contradict each other, or make one another ineffective.

A command refuses a pair in PAIRS if both are on the command line. Defaults and variables such as RMQCTL_STORE do not
count. `--flush sync` is the option with this value only; such a name comes first in its pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    # Typer brings its own copy of Click.
    from typer._click import Context, Parameter

Pairs = tuple[tuple[str, str, str], ...]

GLOBAL: Pairs = (
    ("--quiet", "--verbose", "one reduces stderr, the other extends it"),
    ("--color always", "--no-color", "they say the opposite"),
)
_IN_PROCESS: Pairs = (
    ("--engine local", "--master --remote", "these are the address of a Spark"),
    ("--engine local", "--spark-above", "the engine is chosen"),
    ("--engine spark", "--spark-above", "the engine is chosen"),
    ("--spark-above", "--master --remote", "an address of a Spark chooses it"),
    ("--master", "--remote", "each is the address of a Spark"),
)
_ONE_MESSAGE = "one message is requested"
_STORED = "records are written as they are stored"
_OF_LINES = "each line of the file has its own"
PAIRS: Mapping[str, Pairs] = {
    "clean-expired": (
        ("--free", "--passes", "SIZE sets the number of files"),
        ("--free", "--force --disk-used-percent", "--free cleans at any hour and disk usage"),
    ),
    "get": (
        ("--limit", "--follow", "a get ends there, and one that follows does not end"),
        ("--msg-id", "TOPIC --queue --limit --key --tags --sql --group --one-call --follow", _ONE_MESSAGE),
        ("--log-offset", "TOPIC --queue --limit --key --tags --sql --group --one-call --follow", _ONE_MESSAGE),
        ("--from", "--since --msg-id --log-offset", "each is a place to begin at"),
        ("--since", "--msg-id --log-offset", "each is a place to begin at"),
        ("--last", "--limit --from --follow --one-call --msg-id --log-offset", "the last messages are requested"),
        ("--until", "--follow --one-call --msg-id --log-offset", "--until ends a range"),
        ("--to", "--last --follow --one-call --msg-id --log-offset", "--to ends a range"),
        ("--msg-id", "--log-offset", "each is the place of a message"),
        ("--key", "--queue --from --to --last --one-call", "the index covers all queues"),
        ("--key", "--tags --sql --group", "each is a filter"),
        ("--tags", "--sql", "each is a filter"),
        ("--group", "--tags --sql", "a group has a filter of its own"),
        ("--raw", "--body --stored-body", _STORED),
    ),
    "dump": (("--hex", "--body --stored-body", "fields are shown with their bytes"),),
    "put": (
        ("--input", "BODY --body-file", "the file brings the bodies"),
        ("--input", "--queue --tags --key --uniq-key --property --flag --delay-level --transaction --half", _OF_LINES),
        ("BODY", "--body-file", "each is the body"),
        ("--transaction prepared", "--delay-level", "a half does not wait for a delay"),
        ("--transaction rollback", "--delay-level", "a rolled-back message is never delivered"),
        ("--half", "--transaction --delay-level", "a half is of no other type, and waits for its end alone"),
        ("--flush sync", "--transient-pool", "a broker has the pool with asynchronous flushes only"),
    ),
    "recover": (
        ("--normal", "--abnormal", "they say the opposite"),
        ("--as-broker", "--keep-index", "a broker throws those index files away"),
        ("--engine spark", "--normal --as-broker --cold", "Spark rebuilds everything from the whole log"),
        ("--master", "--normal --as-broker --cold", "Spark rebuilds everything from the whole log"),
        ("--remote", "--normal --as-broker --cold", "Spark rebuilds everything from the whole log"),
        *_IN_PROCESS,
    ),
    "rebuild": (
        ("--index", "--topic", "the index holds all topics"),
        *_IN_PROCESS,
    ),
    "salvage": (
        ("SOURCE", "--raw", "each is what is read"),
        ("SOURCE", "--store", "each is what is read"),
        ("--raw", "--store", "each is what is read"),
        ("--keep-offsets", "--map", "no record gets another log offset"),
    ),
    "diff": (("A", "--store", "A and B are the stores that are compared"),),
    "replicate pull": (("--to", "--store", "--to is the store"),),
    "export": (("--no-body", "--stored-body", "no body is written"), *_IN_PROCESS),
    "sql": _IN_PROCESS,
    "backup restore": _IN_PROCESS,
    "usage": _IN_PROCESS,
    "check": (
        ("--fleet", "--max-seconds --from", "each of the stores is checked as a whole"),
        ("--master", "--max-seconds --from", "Spark checks a store as a whole"),
        ("--remote", "--max-seconds --from", "Spark checks a store as a whole"),
        ("--engine spark", "--max-seconds --from", "Spark checks a store as a whole"),
        *_IN_PROCESS,
    ),
    "transaction resolve": (("--commit", "--rollback", "they say the opposite"),),
}
CHANGING: Pairs = (
    ("--dry-run", "--yes", "one changes nothing, the other changes without asking"),
    ("--quarantine", "--no-quarantine", "one keeps what is removed, the other deletes it"),
)


def refuse_contradictions(ctx: Context) -> None:
    """Raise a usage error for two options of the command line that contradict each other."""
    path = ctx.command_path.partition(" ")[2]
    given = set(given_options(ctx))
    for one, others, why in (*PAIRS.get(path, ()), *CHANGING, *GLOBAL):
        for other in others.split():
            if {one, other} <= given:
                raise typer.BadParameter(f"{one} and {other} do not go together: {why}; leave out one of them", ctx)


def given_options(ctx: Context) -> Iterator[str]:
    """Yield the first names of options and arguments on the command line.

    They may stand before or after the command. Each option is yielded as name, and as name with value: `--flush` and
    `--flush sync`. Variables and defaults do not count.
    """
    for context, parameter in _given(ctx):
        name = parameter.opts[0] if parameter.param_type_name == "option" else (parameter.name or "").upper()
        yield from (name, f"{name} {context.params.get(parameter.name or '')}")


def other_names(ctx: Context) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each given option that has several, and the one that the command line has."""
    words = {word.partition("=")[0] for word in ctx.find_root().obj.words}
    for _, parameter in _given(ctx):
        names = [name for name in parameter.opts if name.startswith("--")]
        written = [name for name in names if name in words]
        if len(names) > 1 and len(written) == 1:
            yield names, written[0]


def _given(ctx: Context) -> Iterator[tuple[Context, Parameter]]:
    root = ctx.find_root()
    for context in {id(one): one for one in (root, ctx)}.values():
        for parameter in context.command.get_params(context):
            source = context.get_parameter_source(parameter.name or "")
            if source is not None and source.name == "COMMANDLINE":
                yield context, parameter
