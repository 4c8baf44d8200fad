"""Every command's JSON document has a schema, and all schemas use one vocabulary.

The documents themselves are validated wherever a test runs a command with --format json: tests/cli/running.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, TypedDict, cast

import pytest
from jsonschema import Draft202012Validator

from rmqctl import schema
from rmqctl.commands import DOCUMENTS
from rmqctl.documents import TYPES
from rmqctl.documents.joined import Joined
from rmqctl.result import Result
from rmqctl.schema import load_schema
from store import PlannedAction
from store.formats.body import BodyState
from store.structures.commitlog.put_result import PutStatus
from store.structures.get_result import GetStatus
from tests.cli.running import rmqctl

WORDS = schema.vocabulary()
PATHS = list(DOCUMENTS)


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every name that a document or a row of it may have, with what the schema says of it."""
    for name, said in schema.get("properties", {}).items():
        yield name, said
        yield from properties(said.get("items", {}))


@pytest.mark.turns(6)
@pytest.mark.parametrize("path", PATHS)
def test_every_command_has_a_schema_that_is_one(path: str) -> None:
    schema = load_schema(path)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": Result(path).schema}


@pytest.mark.parametrize("path", PATHS)
def test_a_name_means_the_same_in_every_command(path: str) -> None:
    schema = load_schema(path)
    for name, said in properties(schema):
        if name not in WORDS:
            assert said["type"] in ("array", "object"), f"{name} has no meaning in the vocabulary"
        elif "const" not in said:
            narrowed = said | {"type": (), "enum": ()} == WORDS[name] | {"type": (), "enum": ()}
            assert narrowed or said == {"$ref": f"#/$defs/{name}"}, f"{name} does not mean what the vocabulary says"


def test_no_word_is_left_over_and_no_type() -> None:
    assert TYPES.keys() == {*PATHS}
    used = {name for path in PATHS for name, _ in properties(load_schema(path))}
    assert sorted(set(WORDS) - used) == []


@dataclass
class Report:
    """A report whose size may be unknown."""

    file: str
    size_bytes: int | None


class Known(TypedDict):
    """The size, known."""

    size_bytes: int


@dataclass
class Sample:
    """Names of the vocabulary with types as dataclasses have them."""

    topic: str
    lag_seconds: float | None
    faults: list[str]
    counts: dict[str, int]
    compat: str
    actions: list[PlannedAction]
    messages: list[Joined[Report, Known, dict[str, int]]]
    kind: Annotated[str, lambda: ["bad-crc"]]


def test_a_schema_has_the_types_of_the_values_and_the_words_of_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.TYPES, "stop", (Sample,))
    found = cast(dict[str, Any], load_schema("stop"))
    row = found["properties"]["actions"]["items"]
    assert found["properties"] == {
        "schema": {"const": "rmqctl.stop/1"},
        "topic": {**WORDS["topic"], "type": "string"},
        **{name: {"$ref": f"#/$defs/{name}"} for name in ("lag_seconds", "faults", "counts", "compat")},
        "actions": {
            "type": "array",
            "description": str(PlannedAction.__doc__).split("\n")[0].rstrip("."),
            "items": row,
        },
        "messages": {
            "type": "array",
            "description": "A report whose size may be unknown",
            "items": {
                "type": "object",
                "properties": {
                    "file": {**WORDS["file"], "type": "string"},
                    "size_bytes": {**WORDS["size_bytes"], "type": "integer"},
                },
                "required": ["file", "size_bytes"],
                "additionalProperties": {"type": "integer"},
            },
        },
        "kind": {**WORDS["kind"], "enum": ["bad-crc"]},
    }
    assert found["required"] == list(found["properties"])
    assert row["required"] == list(row["properties"]) == ["action", "file", "size_bytes", "reason"]


def test_a_type_that_the_vocabulary_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.TYPES, "stop", (make_dataclass("Wrong", [("log_end", str)]),))
    with pytest.raises(TypeError, match="log_end is"):
        load_schema("stop")


def test_times_end_in_ms_and_are_whole_numbers() -> None:
    for name, word in WORDS.items():
        if "since 1970" in word["description"]:
            assert name.endswith("_ms")
            assert "integer" in word["type"]


def test_enums_are_those_of_the_engine() -> None:
    answers = {one.value for one in GetStatus} | {one.value for one in PutStatus} | {"NOT_FOUND"}
    assert set(WORDS["status"]["enum"]) == answers
    assert set(WORDS["body_state"]["enum"]) == {one.value for one in BodyState}


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", PATHS)
def test_the_schema_command_prints_a_schema_that_stands_alone(path: str) -> None:
    run = rmqctl("schema", *path.split())
    schema = json.loads(run.out)
    assert (run.code, schema["title"]) == (0, Result(path).schema)
    assert "vocabulary" not in run.out


def test_an_unknown_command_has_no_schema_and_the_nearest_is_named() -> None:
    run = rmqctl("schema", "chek")
    assert (run.code, "did you mean 'check'?" in run.err) == (2, True)
    assert {row["command"] for row in rmqctl("schema", "--format", "json").json["schemas"]} == set(PATHS)
