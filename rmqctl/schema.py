"""JSON Schema (2020-12) of every --format json document, from the types of its values.

    documents.py                the types that a document has its names from
    schemas/vocabulary.json     every name once, with its type and meaning
    schemas/get.json            the document of a command without such types

A schema holds the definitions that it refers to, so that it needs no other file.
A document names its schema and number, `rmqctl.get/1`; the number goes up when a name goes or changes its meaning.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any

from rmqctl.documents import TYPES
from rmqctl.result import Result

VOCABULARY = "vocabulary.json#/$defs/"
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
Schema = dict[str, Any]


def load_schema(command: str) -> dict[str, object]:
    """Return the schema of a command's document (`checkpoint show`); FileNotFoundError without one."""
    defs: Schema = {}
    if command in TYPES:
        title = Result(command).schema
        body = _object(TYPES[command], defs)
        properties = {"schema": {"const": title}, **body["properties"]}
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body}
        schema |= {"properties": properties, "required": ["schema", *body["required"]]}
    else:
        schema = _read(f"{command.replace(' ', '-')}.json")
        _localise(schema, defs)
    return {**schema, "$defs": dict(sorted(defs.items()))}


def _object(types: Sequence[type], defs: Schema) -> Schema:
    """Return the schema of an object with the names of all these dataclasses and TypedDicts."""
    properties, required = {}, []
    for name, hint in (pair for one in types for pair in _names_of(one)):
        is_optional = typing.get_origin(hint) is typing.NotRequired
        required += [] if is_optional else [name]
        properties[name] = _property(name, typing.get_args(hint)[0] if is_optional else hint, defs)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _names_of(one: type) -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(one, include_extras=True)
    names = [field.name for field in fields(one)] if is_dataclass(one) else list(hints)
    yield from ((name, hints[name]) for name in names)


def _property(name: str, hint: Any, defs: Schema) -> Schema:
    """Return the vocabulary's definition of a name, narrowed to the types of its value; rows have none."""
    own = _schema_of(hint, defs)
    if "properties" in own.get("items", {}):
        return own
    word: Schema = vocabulary()[name]
    types, known = _types(own), _types(word)
    if known and not types <= known:
        raise TypeError(f"{name} is {sorted(types)}, and {sorted(known)} in the vocabulary")
    if types == known:
        defs[name] = word
        return {"$ref": f"#/$defs/{name}"}
    return {**own, **word, **({"type": own["type"]} if known else {})}


def _schema_of(hint: Any, defs: Schema) -> Schema:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if origin in (typing.Union, UnionType):
        parts = [_schema_of(one, defs) for one in args]
        merged = {key: value for part in parts for key, value in part.items()}
        return merged | {"type": [name for part in parts for name in _types(part)]}
    if origin in (list, tuple, Sequence):
        meaning = {} if args[0] in _NAMES else {"description": _first_line(args[0])}
        return {"type": "array", **meaning, "items": _schema_of(args[0], defs)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(args[1], defs)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [one.value for one in hint]}
    return {} if hint in (Any, object) else _object([hint], defs)


def _first_line(one: type) -> str:
    return (one.__doc__ or "").split("\n", 1)[0].rstrip(".")


def _types(schema: Schema) -> set[str]:
    """Name the JSON types of a value; those of an enumeration are strings."""
    types = schema.get("type", "string" if "enum" in schema else [])
    return {types} if isinstance(types, str) else set(types)


def _localise(node: Any, defs: Schema) -> None:
    """Makes references to the vocabulary references into `defs`, and adds the definitions referred to."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _localise(value, defs)
    if isinstance(node, dict) and str(node.get("$ref", "")).startswith(VOCABULARY):
        name = node["$ref"].removeprefix(VOCABULARY)
        defs[name] = vocabulary()[name]
        node["$ref"] = f"#/$defs/{name}"


@cache
def vocabulary() -> Schema:
    """Return each name of a document with its type and meaning."""
    words: Schema = _read("vocabulary.json")["$defs"]
    return words


def _read(name: str) -> Schema:
    text = files("rmqctl").joinpath("schemas", name).read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema
