"""The global options: declared once here, accepted before and after the command.

    rmqctl --format json get OrderTopic        rmqctl get OrderTopic --format json

`group.py` gives every command a copy of each option that the command has not declared under the same name itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, cast

import typer

from rmqctl.output import Format
from rmqctl.show import TimeForm
from rmqctl.version import UNCOMPILED, uncompiled_reason, version_text

if TYPE_CHECKING:
    from rmqctl.context import Session

DEFAULT_STORE = "~/store"
_SUFFIXES = ("", "K", "M", "G", "T")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


class Color(StrEnum):
    """Values of --color."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Compat(StrEnum):
    """Values of --compat."""

    V4_9 = "4.9"
    V5_3 = "5.3"
    V5_5 = "5.5"


class StartingLine(StrEnum):
    """Values of --compat of `simulate` and `doctor`."""

    V4_9 = "4.9"
    V5_3 = "5.3"
    V5_5 = "5.5"
    ALL = "all"


class Options(NamedTuple):
    """The values of the global options."""

    store: Path = Path(DEFAULT_STORE)
    uri: str | None = None
    """--store if it is a URI or a backup; commands that only read accept it."""
    broker_conf: Path | None = None
    settings: Mapping[str, str] = MappingProxyType({})
    format: Format = Format.AUTO
    wide: bool = False
    color: Color = Color.AUTO
    time: TimeForm = TimeForm.UTC
    log: Path | None = None
    scratch: Path | None = None
    nice: bool = False
    bwlimit: float | None = None
    """Bytes per second."""
    cold: bool = False
    remote_retries: int | None = None
    progress: bool = True
    quiet: bool = False
    verbose: bool = False


class OptionValues(TypedDict, total=False):
    """The parsed values of `global_options`, by its parameter names."""

    store: str | Path
    broker_conf: str | Path | None
    settings: Sequence[str] | None
    format: str
    wide: bool
    color: str
    no_color: bool
    time: str
    log: str | Path | None
    scratch: str | Path | None
    nice: bool
    bwlimit: str | None
    cold: bool
    remote_retries: int | str | None
    no_progress: bool
    quiet: bool
    verbose: bool


def read_options(values: OptionValues) -> Options:
    """Return the options from the parsed values; raise a usage error for an impossible one.

    Typer has validated the values, but leaves them as texts unless they are defaults.
    """
    store = str(values["store"])
    if not store.strip():
        raise typer.BadParameter("an empty path; name a store's folder", param_hint="--store")
    from store.layout import is_address

    return Options(
        store=Path(store),
        uri=store if is_address(store) else None,
        broker_conf=_path(values["broker_conf"]),
        settings=dict(_parse_setting(text) for text in values["settings"] or ()),
        format=Format(values["format"]),
        wide=values["wide"],
        color=Color.NEVER if values["no_color"] else Color(values["color"]),
        time=TimeForm(values["time"]),
        log=_path(values["log"]),
        scratch=_path(values["scratch"]),
        nice=values["nice"],
        bwlimit=_parse_rate(values["bwlimit"]),
        cold=values["cold"],
        remote_retries=None if values["remote_retries"] is None else int(values["remote_retries"]),
        progress=not values["no_progress"],
        quiet=values["quiet"],
        verbose=values["verbose"],
    )


def _path(value: str | Path | None) -> Path | None:
    return Path(value) if value else None


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name, value


def _parse_rate(text: str | None) -> float | None:
    """Return bytes per second."""
    if text is None:
        return None
    rate = parse_bytes(text.strip().removesuffix("/s"))
    if rate is None:
        raise typer.BadParameter(f"{text!r} is no rate; give bytes per second such as 50M", param_hint="--bwlimit")
    return rate


def parse_bytes(text: str) -> int | None:
    """Return a number of bytes above 0, else None.

    The suffixes K, M, G, T are powers of 1024, as in rsync's --bwlimit.
    """
    found = _BYTES.fullmatch(text.strip())
    return int(float(found[1]) * 1024 ** _SUFFIXES.index(found[2].upper())) or None if found is not None else None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


def names_uri(place: Path) -> bool:
    """Return whether the path was given as a URI; a Path has one slash in place of its two."""
    return place.parts[:1] != () and place.parts[0].endswith(":")


def require_folder(place: Path | None) -> Path | None:
    """Return the place; BadParameter for a file or a URI."""
    if place is not None and names_uri(place):
        raise typer.BadParameter("a folder of this machine is needed, not a URI")
    if place is not None and place.is_file():
        raise typer.BadParameter(f"{place} is a file; name a folder")
    return place


StartingLineOption = Annotated[
    StartingLine | None,
    typer.Option(
        "--compat", help="The broker version that starts next.", show_default="the version that wrote the store"
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        callback=require_folder,
        help="Where readers and dry runs build missing files.",
        show_default="the temporary folder",
    ),
]
Nice = Annotated[bool, typer.Option("--nice", help="Give other processes priority for processor and disk.")]
BwLimit = Annotated[
    str | None, typer.Option(metavar="RATE", help="Read the log at most this fast: bytes per second, as 50M or 1.5G.")
]
MOST_CONNECTIONS = 100
Connections = Annotated[
    int,
    typer.Option(min=2, metavar="N", help="At most N connections of a port or socket; one more closes the most idle."),
]
LOOPBACK = "127.0.0.1"
MetricsPort = Annotated[
    str | None,
    typer.Option("--metrics", metavar="[HOST:]PORT", help="Serve OpenMetrics by HTTP; without HOST on the loopback."),
]
Cold = Annotated[bool, typer.Option("--cold", help="Keep the log out of the page cache, which a broker needs.")]
Log = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append a log to FILE: opened files, decisions, changes.")
]
RemoteRetries = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Retries of a request to a busy object store, after growing pauses.",
        show_default="6",
    ),
]


def global_options(
    ctx: typer.Context,
    store: Annotated[
        str, typer.Option(envvar="RMQCTL_STORE", metavar="DIR", help="The store's root folder.")
    ] = DEFAULT_STORE,
    broker_conf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A broker.conf; without it sizes are inferred from the files.")
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
    wide: Annotated[bool, typer.Option("--wide", help="Do not fit tables to the terminal width.")] = False,
    color: Annotated[Color, typer.Option(help="Colours; auto: on a terminal, unless NO_COLOR is set.")] = Color.AUTO,
    no_color: Annotated[bool, typer.Option("--no-color", help="The same as --color never.")] = False,
    time: Annotated[TimeForm, typer.Option(help="Form of times for people; programs get ms.")] = TimeForm.UTC,
    log: Log = None,
    scratch: Scratch = None,
    nice: Nice = False,
    bwlimit: BwLimit = None,
    cold: Cold = False,
    remote_retries: RemoteRetries = None,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bars.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr, no notes and progress.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Write the log of --log, with tracebacks, to stderr."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    session: Session = ctx.obj
    given = {name: value for name, value in ctx.params.items() if name != "version"}
    session.take_options(cast(OptionValues, given))
    if uncompiled_reason() == UNCOMPILED:
        session.warn(UNCOMPILED)


def listen_address(text: str | None, option: str) -> str | None:
    """Return the address of an option, on the loopback without a host; None if it is not given."""
    from store import BadRequest
    from store.engine.ha import Address

    if text is None:
        return None
    whole = text if ":" in text else f"{LOOPBACK}:{text}"
    try:
        return str(Address.parse(whole))
    except BadRequest:
        raise typer.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint=option) from None
