"""Deprecated names: each still works for one minor version, and a warning names its successor.

A key has the form of a line in tests/promises.txt: `command get --max`, `alias audit`, `store find`,
`document get names messages[].flag`. The value is the minor version that deprecates the name, and the successor. The
entry is deleted together with the name. A deprecated function of the library also warns with DeprecationWarning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqctl.contradictions import given_options, other_names

if TYPE_CHECKING:
    # Typer brings its own copy of Click.
    from typer._click import Context

DEPRECATED: Mapping[str, tuple[str, str]] = {}


def warn_of_deprecated(ctx: Context) -> None:
    """Warn of a deprecated command, and of each deprecated option on its command line."""
    if DEPRECATED:
        path = ctx.command_path.partition(" ")[2]
        written = [name for _, name in other_names(ctx)]
        for name in ("", *dict.fromkeys([*given_options(ctx), *written])):
            warn_of(ctx, f"command {path} {name}".rstrip(), name or path)


def warn_of(ctx: Context, key: str, name: str) -> None:
    """Warn of a name on the command line if it is deprecated."""
    if key in DEPRECATED:
        since, successor = DEPRECATED[key]
        ctx.obj.warn(f"{name} is deprecated since {since}, and removed by the next minor version: use {successor}")
