"""Every command's JSON document has a schema, and all schemas use one vocabulary.

The documents themselves are validated wherever a test runs a command with --format json: tests/cli/running.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from importlib.resources import files
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from rmqctl import schema
from rmqctl.commands import DOCUMENTS
from rmqctl.documents import TYPES
from rmqctl.result import Result
from rmqctl.schema import VOCABULARY, load_schema
from store import PlannedAction
from store.formats.body import BodyState
from store.structures.commitlog.put_result import PutStatus
from store.structures.findings import KINDS
from store.structures.get_result import GetStatus
from store.structures.registry import STRUCTURES
from tests.cli.running import rmqctl

FOLDER = files("rmqctl").joinpath("schemas")
WORDS: dict[str, Any] = json.loads(FOLDER.joinpath("vocabulary.json").read_text("utf-8"))["$defs"]
PATHS = list(DOCUMENTS)


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every name that a document or a row of it may have, with what the schema says of it."""
    for name, said in schema.get("properties", {}).items():
        yield name, said
        yield from properties(said.get("items", {}))


def elsewhere(path: str) -> set[str]:
    """The names that other commands have for single values."""
    others = (other for other in PATHS if other != path)
    return {name for other in others for name, said in properties(load_schema(other)) if "items" not in said}


@pytest.mark.parametrize("path", PATHS)
def test_every_command_has_a_schema_that_is_one(path: str) -> None:
    schema = load_schema(path)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": Result(path).schema}


@pytest.mark.parametrize("path", PATHS)
def test_a_name_means_the_same_in_every_command(path: str) -> None:
    schema = load_schema(path)
    for name, said in properties(schema):
        if said.get("type") == "array":
            assert name not in WORDS, f"{name} is a list here and a value elsewhere"
        elif name in WORDS:
            narrowed = set(said) == {"enum"} or (path in TYPES and said | {"type": ()} == WORDS[name] | {"type": ()})
            assert narrowed or said == {"$ref": f"#/$defs/{name}"}, f"{name} does not mean what the vocabulary says"
        elif name != "schema":
            assert name not in elsewhere(path), f"{name} is a name of two commands: it belongs into the vocabulary"


def test_no_word_is_left_over_and_no_schema() -> None:
    schemas = {path.name for path in FOLDER.iterdir()} - {"vocabulary.json"}
    assert schemas == {f"{path.replace(' ', '-')}.json" for path in {*PATHS} - TYPES.keys()}
    assert TYPES.keys() <= {*PATHS}
    used = {name for path in PATHS for name, _ in properties(load_schema(path))}
    assert sorted(set(WORDS) - used) == []


@dataclass
class Sample:
    """Names of the vocabulary with types as dataclasses have them."""

    topic: str
    lag_seconds: float | None
    faults: list[str]
    counts: dict[str, int]
    compat: str
    actions: list[PlannedAction]


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
    for one in STRUCTURES:
        one.furniture("check")
    for command in ("check", "audit"):
        rows = load_schema(command)["properties"]["findings"]["items"]
        assert set(rows["properties"]["kind"]["enum"]) == KINDS.keys(), "list it in check.json and audit.json"


@pytest.mark.parametrize("path", PATHS)
def test_the_schema_command_prints_a_schema_that_stands_alone(path: str) -> None:
    run = rmqctl("schema", *path.split())
    schema = json.loads(run.out)
    assert (run.code, schema["title"]) == (0, Result(path).schema)
    assert VOCABULARY not in run.out


def test_an_unknown_command_has_no_schema_and_the_nearest_is_named() -> None:
    run = rmqctl("schema", "chek")
    assert (run.code, "did you mean 'check'?" in run.err) == (2, True)
    assert {row["command"] for row in rmqctl("schema", "--format", "json").json["schemas"]} == set(PATHS)
