"""What is done before a command of each kind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from typer.core import TyperCommand

from rmqctl import group
from rmqctl.exit_codes import USAGE
from rmqctl.group import LARGEST, Command
from tests.cli.running import rmqctl
from tests.support.stores import make_store

AFTERWARDS = ["start_log", "take_pace", "take_scratch", "catch_lost_pages", "check_settings"]


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("rmqctl dump", ["hold_notes"]),
        ("rmqctl check", ["hold_notes", "show_opening"]),
        ("rmqctl serve", []),
        ("rmqctl put", ["show_opening"]),
        ("rmqctl export", []),
    ],
)
def test_notes_are_held_before_a_command_that_ends_and_a_long_one_shows_its_opening(
    path: str, first: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx: Any = SimpleNamespace(command_path=path, obj=MagicMock())
    for name in ("refuse_contradictions", "warn_of_deprecated"):
        monkeypatch.setattr(group, name, lambda ctx: None)
    monkeypatch.setattr(Command, "take_globals", lambda command, ctx: None)
    monkeypatch.setattr(TyperCommand, "invoke", lambda command, ctx: "done")
    assert Command(None, callback=None).invoke(ctx) == "done"
    assert [one[0] for one in ctx.obj.method_calls] == [*first, *AFTERWARDS]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("get", "T", "--from"), "--from"),
        (("get", "T", "--limit"), "--limit"),
        (("find", "x", "--max"), "--max"),
        (("truncate-dirty", "--offset"), "'--offset'"),
    ],
)
@pytest.mark.parametrize(("number", "is_refused"), [(LARGEST, False), (LARGEST + 1, True)])
def test_a_number_beyond_64_bits_is_refused_by_the_name_of_its_option(
    words: tuple[str, ...], option: str, number: int, is_refused: bool, tmp_path: Path
) -> None:
    make_store(tmp_path / "store")
    run = rmqctl(*words, str(number), store=tmp_path / "store")
    said = f"Invalid value for {option}: {number} does not fit in 64 bits"
    assert (said in run.err) is is_refused, run.err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("backup", "prune", "BACKUPS", "--keep-days"), "'--keep-days'"),
        (("check", "--sample"), "'--sample'"),
        (("clean-expired", "--disk-used-percent"), "'--disk-used-percent'"),
    ],
)
def test_a_number_that_is_none_is_in_no_range(words: tuple[str, ...], option: str) -> None:
    run = rmqctl(*words, "nan")
    assert (run.code, run.out) == (USAGE, "")
    assert f"Invalid value for {option}: nan is not a number" in run.err


def test_a_number_of_days_without_an_end_is_refused() -> None:
    run = rmqctl("backup", "prune", "BACKUPS", "--keep-days", "inf")
    assert (run.code, run.out) == (USAGE, "")
    assert "Invalid value for '--keep-days': inf does not fit in 64 bits" in run.err
