"""Drafts a command's schema from documents that it printed.

    python -m rmqctl --format json find-gaps > one.json
    python -m tests.cli.draft_schema one.json two.json … > rmqctl/schemas/find-gaps.json

A name that other commands have as well belongs into rmqctl/schemas/vocabulary.json. The names that are not there are
listed on stderr, and get the type that they have in the documents: describe them in the draft. A name that only some
of the documents, or of the rows, have is optional. Give a document for each way in which the command can end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rmqctl
from rmqctl.schema import VOCABULARY

KNOWN = json.loads((Path(rmqctl.__file__).parent / "schemas" / "vocabulary.json").read_text("utf-8"))["$defs"]


def draft(documents: Sequence[dict[str, Any]], unknown: set[str]) -> dict[str, Any]:
    """The schema that all of them are valid against."""
    name = documents[0]["schema"]
    body = _object([{k: v for k, v in document.items() if k != "schema"} for document in documents], unknown)
    properties = {"schema": {"const": name}, **body["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **body,
        "properties": properties,
        "required": ["schema", *body["required"]],
    }


def _object(objects: Sequence[dict[str, Any]], unknown: set[str]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for one in objects for name in one))
    properties = {name: _property(name, [one[name] for one in objects if name in one], unknown) for name in names}
    required = [name for name in names if all(name in one for one in objects)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _property(name: str, values: Sequence[Any], unknown: set[str]) -> dict[str, Any]:
    if name in KNOWN:
        return {"$ref": VOCABULARY + name}
    rows = [row for value in values if isinstance(value, list) for row in value]
    if all(isinstance(value, list) for value in values) and all(isinstance(row, dict) for row in rows):
        return {"type": "array", "items": _object(rows, unknown)}
    unknown.add(name)
    return {"description": "", "type": sorted({_type_of(value) for value in values})}


def _type_of(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def main(paths: Sequence[str]) -> None:
    unknown: set[str] = set()
    schema = draft([json.loads(Path(path).read_text("utf-8")) for path in paths], unknown)
    print(json.dumps(schema, indent=2, ensure_ascii=False))
    for name in sorted(unknown):
        print(f"not in the vocabulary: {name}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
