"""The form of every --format json document, as JSON Schema (2020-12), in files below schemas/.

    schemas/vocabulary.json     every name once, with its type and meaning
    schemas/get.json            the document of `rmqctl get`: which names it has, and which lists

`load_schema` puts the definitions into the schema that refer to it, so that the schema needs no other file.
A document names its schema and number, `rmqctl.get/1`; the number goes up when a name goes or changes its meaning.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

VOCABULARY = "vocabulary.json#/$defs/"


def load_schema(command: str) -> dict[str, object]:
    """Loads the schema of a command's document (`checkpoint show`); FileNotFoundError without one."""
    schema = _read(f"{command.replace(' ', '-')}.json")
    defs: dict[str, Any] = {}
    _localise(schema, _read("vocabulary.json")["$defs"], defs)
    return {**schema, "$defs": dict(sorted(defs.items()))}


def _localise(node: Any, vocabulary: dict[str, Any], defs: dict[str, Any]) -> None:
    """Makes references to the vocabulary references into `defs`, and adds the definitions referred to."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _localise(value, vocabulary, defs)
    if isinstance(node, dict) and str(node.get("$ref", "")).startswith(VOCABULARY):
        name = node["$ref"].removeprefix(VOCABULARY)
        defs[name] = vocabulary[name]
        node["$ref"] = f"#/$defs/{name}"


def _read(name: str) -> dict[str, Any]:
    text = files("rmqctl").joinpath("schemas", name).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
