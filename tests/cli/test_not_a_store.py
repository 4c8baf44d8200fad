"""A missing path and a folder that is no store: one sentence and one exit code for all commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.exit_codes import NOT_READABLE
from rmqctl.hints import HINTS
from tests.cli.running import rmqctl

MISSING = "no such folder"
EMPTY = "not a store: no commit log, queues or checkpoint are in it"
COMMANDS = (
    "info", "check", "doctor", "get T", "lag", "recover --dry-run", "simulate", "usage", "find order-1", "stale",
    "index-query T order-1", "timeline", "dump commitlog", "config check", "config show", "checkpoint show",
    "delay show", "timer show", "transaction show", "filter show", "truncate-dirty --dry-run", "rebuild --dry-run",
    "clean-expired --dry-run", "rebuild timer --dry-run", "fingerprint", "quarantine list", "quarantine purge --yes",
    "undo ID", "upgrade show --to 5.3", "sql select", "backup create TO", "stats", "flush", "stop", "config settings",
)  # fmt: skip


@pytest.mark.turns(4)
@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize(("name", "reason"), [("absent", MISSING), ("empty", EMPTY), ("other", EMPTY)])
def test_what_is_not_a_store_is_refused_by_every_command_in_the_same_words(
    line: str, name: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("no broker wrote this")
    store = tmp_path / name
    words = [str(tmp_path / "to") if word == "TO" else word for word in line.split()]
    run = rmqctl(*words, store=store)
    assert (run.code, run.out, run.err) == (NOT_READABLE, "", f"rmqctl: {store}: {reason}; {HINTS['no-store']}\n")


def test_a_checkpoint_without_a_log_names_the_setting_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    run = rmqctl("check", store=tmp_path)
    reason = "no commitlog folder is in it; set storePathCommitLog if its log is in another folder"
    assert (run.code, run.err) == (NOT_READABLE, f"rmqctl: {tmp_path}: {reason}\n")
