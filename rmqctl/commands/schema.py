"""schema: the form of a command's JSON document."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.commands import COMMANDS
from rmqctl.context import Session
from rmqctl.exit_codes import OK
from rmqctl.result import Result, Table
from rmqctl.show import did_you_mean

EXAMPLES = (
    "rmqctl --store /data/store schema",
    "rmqctl --store /data/store schema get > get.schema.json",
    "rmqctl --store /data/store schema checkpoint show",
)
FILES = ()
SEE_ALSO = ("get", "check")


def _complete(incomplete: str) -> list[str]:
    return [place.path for place in COMMANDS if place.path.startswith(incomplete)]


def run(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A command; without one all are listed.", autocompletion=_complete),
    ] = None,
) -> Result | int:
    """Print the JSON Schema of a command's document.

    Every --format json document names its schema in `schema` and is valid against it. A name has the same type and
    meaning in every command; times are milliseconds since 1970 and end in _ms. The number behind the schema's name
    goes up when a name goes or changes its meaning.
    """
    from rmqctl.programs import json_for
    from rmqctl.schema import load_schema

    session: Session = ctx.obj
    paths = [place.path for place in COMMANDS]
    if not words:
        rows = [{"command": path, "schema": Result(path).schema} for path in paths]
        return Result("schema", {}, [Table("schemas", rows)])
    path = " ".join(words).replace("-", " ")
    known = {one.replace("-", " "): one for one in paths}
    if path not in known:
        raise typer.BadParameter(f"no command is called {' '.join(words)!r}{did_you_mean(' '.join(words), paths)}")
    schema = load_schema(known[path])
    session.environment.stdout.write(json_for(session.environment.stdout, schema, indent=2) + "\n")
    return OK
