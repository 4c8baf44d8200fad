"""schema: the form of a command's JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from rmqctl.commands import ALIASES, DOCUMENTS
from rmqctl.context import Session
from rmqctl.exit_codes import OK
from rmqctl.output import Format
from rmqctl.result import Result, Table
from rmqctl.show import did_you_mean

EXAMPLES = (
    "rmqctl schema",
    "rmqctl schema get > get.schema.json",
    "rmqctl schema checkpoint show",
)
FILES = ()
SEE_ALSO = ("get", "check")


def _complete(incomplete: str) -> list[str]:
    return [path for path in DOCUMENTS if path.startswith(incomplete)]


def run(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A command; without one all are listed.", autocompletion=_complete),
    ] = None,
) -> Result | int:
    """Print the JSON Schema of a command's document.

    Every --format json document has the name of its schema in `schema` and is valid against it. A name has the same
    type and meaning in every command. Times are milliseconds since 1970 and end in _ms. The schema's number grows when
    a name is removed or changes its meaning. Without --format the schema is JSON in short lines; --format jsonl prints
    one line, the other formats a row for each name.
    """
    from rmqctl.programs import json_for
    from rmqctl.schema import load_schema

    session: Session = ctx.obj
    if not words:
        rows = [{"command": path, "schema": Result(path).schema} for path in DOCUMENTS]
        return Result("schema", {}, [Table("schemas", rows)])
    known = {one.replace("-", " "): one for one in DOCUMENTS}
    known = {old.replace("-", " "): new for old, new in ALIASES.items() if new in DOCUMENTS} | known
    path = " ".join(words).replace("-", " ")
    if path not in known:
        raise typer.BadParameter(f"no command is called {' '.join(words)!r}{did_you_mean(' '.join(words), DOCUMENTS)}")
    schema: dict[str, Any] = load_schema(known[path])
    given, stdout = session.options.format, session.environment.stdout
    if given not in (Format.AUTO, Format.JSON, Format.JSONL):
        return Result("schema", {}, [Table("names", list(_names(schema, schema["$defs"])))])
    stdout.write(json_for(stdout, schema, indent=None if given is Format.JSONL else 2) + "\n")
    return OK


def _names(schema: Mapping[str, Any], words: Mapping[str, Any], prefix: str = "") -> Iterator[dict[str, str]]:
    """Yield each name of a document; the names of rows follow their list's name.

    words  the schema's definitions
    """
    for name, said in schema.get("properties", {}).items():
        meaning = {**words.get(name, {}), **said}
        types = meaning.get("type", "string")
        shown = types if isinstance(types, str) else " or ".join(types)
        yield {"name": prefix + name, "type": shown, "description": meaning.get("description", "")}
        yield from _names(said.get("items", {}), words, f"{prefix}{name}[].")
