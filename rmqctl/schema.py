"""JSON Schema (2020-12) of every --format json document, from the types of its values.

    documents/        the types of the documents
    vocabulary.json   every name once, with its type and meaning

A schema contains the definitions that it refers to, so it needs no other file. A document has the name of its schema
with a number, `rmqctl.get/1`. The number is raised when a name is removed or changes its meaning.
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
from rmqctl.documents.joined import Joined
from rmqctl.result import Result

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
Schema = dict[str, Any]


def load_schema(command: str) -> dict[str, object]:
    """Return the schema of the document of a command such as `checkpoint show`; KeyError without one."""
    defs: Schema = {}
    title, body = Result(command).schema, _object(TYPES[command], defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **body,
        "properties": {"schema": {"const": title}, **body["properties"]},
        "required": ["schema", *body["required"]],
        "$defs": dict(sorted(defs.items())),
    }


def _object(types: Sequence[Any], defs: Schema) -> Schema:
    """Return the schema of an object with the names of all these types; a mapping allows any name."""
    named = {name: hint for one in types if not _is_mapping(one) for name, hint in _names_of(one)}
    others: bool | Schema = False
    for one in filter(_is_mapping, types):
        others = _schema_of(typing.get_args(one)[1], defs)
    optional = {
        name: typing.get_args(hint)[0] for name, hint in named.items() if typing.get_origin(hint) is typing.NotRequired
    }
    properties = {name: _property(name, optional.get(name, hint), defs) for name, hint in named.items()}
    required = [name for name in named if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": others}


def _is_mapping(one: Any) -> bool:
    return typing.get_origin(one) in (dict, Mapping)


def _names_of(one: type) -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(one, include_extras=True)
    names = [field.name for field in fields(one)] if is_dataclass(one) else list(hints)
    yield from ((name, hints[name]) for name in names)


def _property(name: str, hint: Any, defs: Schema) -> Schema:
    """Return a name's definition in the vocabulary, narrowed to the value's types; rows are not in it."""
    own = _schema_of(hint, defs)
    if "properties" in own.get("items", own) or (own.get("type") == "object" and name not in vocabulary()):
        return own
    word: Schema = vocabulary()[name]
    types, known = _types(own), _types(word)
    if known and not types <= known:
        raise TypeError(f"{name} is {sorted(types)}, and {sorted(known)} in the vocabulary")
    if types == known and typing.get_origin(hint) is not typing.Annotated:
        defs[name] = word
        return {"$ref": f"#/$defs/{name}"}
    return {**own, **word, **({"type": own["type"]} if known else {})}


def _schema_of(hint: Any, defs: Schema) -> Schema:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if origin is typing.Annotated:
        return _schema_of(args[0], defs) | {"enum": args[1]()}
    if origin is Joined:
        return _object(args, defs)
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


def _first_line(one: Any) -> str:
    one = typing.get_args(one)[0] if typing.get_origin(one) is Joined else one
    return (one.__doc__ or "").split("\n", 1)[0].rstrip(".")


def _types(schema: Schema) -> set[str]:
    """Return the JSON types of a value; an enumeration has strings."""
    types = schema.get("type", "string" if "enum" in schema else [])
    return {types} if isinstance(types, str) else set(types)


@cache
def vocabulary() -> Schema:
    """Return each name of a document with its type and meaning."""
    words: Schema = json.loads(files("rmqctl").joinpath("vocabulary.json").read_text(encoding="utf-8"))["$defs"]
    return words
