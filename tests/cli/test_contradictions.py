"""Options that contradict, or of which one has no effect beside the other, are refused with both their names."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from typer.main import get_command

from rmqctl.app import app
from rmqctl.commands import COMMANDS
from rmqctl.contradictions import CHANGING, GLOBAL, PAIRS
from rmqctl.exit_codes import USAGE
from tests.cli.running import rmqctl

VALUES = {
    "TOPIC": "T", "BODY": "T x", "SOURCE": "folder", "A": "one two", "--queue": "--queue 1", "--limit": "--limit 2",
    "--offset": "--offset 3", "--log-offset": "--log-offset 3", "--flag": "--flag 1",
    "--delay-level": "--delay-level 1",
    "--transaction": "--transaction commit", "--body": "--body hex", "--property": "--property a=b",
    "--spark-above": "--spark-above 5", "--last": "--last 2", "--max-seconds": "--max-seconds 2", "--to": "--to 4",
    "--passes": "--passes 2", "--disk-used-percent": "--disk-used-percent 88", "--from": "--from 2",
}  # fmt: skip
"""How a command line gives an option; the others are flags, or take a text."""
END = "leave out one of them (see rmqctl"
NEEDED = {
    "replicate pull": "127.0.0.1:1",
    "config reset-offsets": "G --topic T --to first",
    "transaction resolve": "ID",
    "export": "--to -",
    "dump": "commitlog",
    "truncate-dirty": "--offset 0",
    "backup prune": "FOLDER",
    "backup restore": "FOLDER --to new",
    "bundle": "case.tar.zst",
}
"""What a command line must have besides."""


def words_of(path: str, *names: str) -> list[str]:
    """The command line of a command with these options and arguments."""
    own_and_global = [*parameters_of(path), *get_command(app).params]
    flags = {flag for one in own_and_global if getattr(one, "is_flag", False) for flag in one.opts}
    given = " ".join(VALUES.get(name, name if name in flags or " " in name else f"{name} text") for name in names)
    return [*path.split(), *f"{NEEDED.get(path, '')} {given}".split()]


@cache
def parameters_of(path: str) -> list[Any]:
    command: Any = get_command(app)
    for word in path.split():
        command = command.commands[word]
    return list(command.params)


def has_option(path: str, name: str) -> bool:
    return any(name in parameter.opts for parameter in parameters_of(path))


def changing() -> list[str]:
    return [place.path for place in COMMANDS if has_option(place.path, "--dry-run") and has_option(place.path, "--yes")]


@pytest.mark.turns(4)
def test_two_options_that_do_not_go_together_are_refused_by_both_names() -> None:
    pairs = [(path, *pair) for path, own in PAIRS.items() for pair in own]
    pairs += [
        (path, one, other, why)
        for path in changing()
        for one, others, why in CHANGING
        for other in others.split()
        if has_option(path, one) and has_option(path, other)
    ]
    pairs += [("info", *pair) for pair in GLOBAL]
    refused = {}
    for path, one, others, why in pairs:
        for other in others.split():
            run = rmqctl(*words_of(path, one, other))
            refused[path, one, other] = (run.code, run.out, run.err)
            assert refused[path, one, other] == (
                USAGE,
                "",
                f"rmqctl: {one} and {other} do not go together: {why}; {END} {path} --help)\n",
            ), run.err
    assert len(refused) > 100


REFUSED = {
    "diff one two --store three": ("A", "--store"),
    "--store three diff one two": ("A", "--store"),
    "salvage one --store three": ("SOURCE", "--store"),
    "replicate pull 127.0.0.1:1 --to one --store two": ("--to", "--store"),
    "get T --limit 2 --follow": ("--limit", "--follow"),
    "get T --key k --last 2": ("--key", "--last"),
    "get T --msg-id 00": ("TOPIC", "--msg-id"),
    "--color always info --no-color": ("--color always", "--no-color"),
    "put --input FILE --tags a": ("--input", "--tags"),
    "put T x --transient-pool --flush sync": ("--transient-pool", "--flush sync"),
    "recover --dry-run --as-broker --master local": ("--as-broker", "--master"),
    "sql --engine local --remote sc://x": ("--engine local", "--remote"),
    "sql --engine spark --spark-above 3": ("--engine spark", "--spark-above"),
    "clean-expired --dry-run --yes": ("--dry-run", "--yes"),
    "undo ID --quiet --verbose": ("--quiet", "--verbose"),
    "dump commitlog T/0 --topic U": ("T/0", "--topic U"),
    "salvage --stored-body --to folder": ("--stored-body", "--to"),
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_pair_is_refused_in_either_order_and_place(line: str) -> None:
    run = rmqctl(*line.split())
    assert (run.code, run.out, run.err.count("\n")) == (USAGE, "", 1), run.err
    assert [name for name in REFUSED[line] if name not in run.err] == []


@pytest.mark.parametrize("line", ["diff one two", "salvage one", "receive nowhere --to one"])
def test_a_store_in_the_environment_contradicts_nothing(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STORE", "/of/every/command")
    run = rmqctl(*line.split())
    assert "do not go together" not in run.err
    assert run.err.startswith("rmqctl: "), "one, two and nowhere are not there"
