"""doctor --fix, --fail-on and --format prometheus; plans that are answered with no."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.advice import SALVAGE
from rmqctl.exit_codes import DECLINED, FINDINGS, IO_ERROR, OK, USAGE
from rmqctl.fixing import _next, run_command
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.snapshots import snapshot


def with_lost_queue(copy_of: CopyOf) -> Path:
    _, root = copy_of("normal")
    shutil.rmtree(root / "consumequeue/TopicA/1")
    (root / "checkpoint").unlink()
    return root


@pytest.mark.turns(3)
def test_the_steps_are_run_until_the_store_is_sound_and_undo_takes_them_back(copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    before = snapshot(root)
    run = rmqctl("--format", "json", "doctor", "--fix", "--yes", store=root)
    assert (run.code, run.json["worst_rank"]) == (OK, 0)
    steps = re.findall(r"^step \d: rmqctl --store \S+ (.*) \(", run.err, re.MULTILINE)
    assert steps == ["rebuild --queues", "checkpoint rewrite"]
    for change in reversed(re.findall(r"^undo with: rmqctl --store \S+ undo (\S+)", run.err, re.MULTILINE)):
        assert rmqctl("undo", change, store=root).code == OK
    after = {name: one for name, one in snapshot(root).items() if not name.startswith(".rmqctl")}
    assert after == before


def test_a_fix_without_a_step_says_that_it_changed_nothing(copy_of: CopyOf) -> None:
    for name in ("normal", "aborted"):
        _, root = copy_of(name)
        before = snapshot(root)
        run = rmqctl("doctor", "--fix", "--yes", store=root)
        assert run.err == "note: nothing was changed: no command of the plan changes the store\n"
        assert run.code == rmqctl("doctor", store=root).code
        assert snapshot(root) == before


def test_a_step_that_fails_is_the_last_one(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    root = with_lost_queue(copy_of)
    before = snapshot(root)
    monkeypatch.setattr("rmqctl.fixing.run_command", lambda session, words: IO_ERROR)
    run = rmqctl("doctor", "--fix", "--yes", store=root)
    cost = "reads the whole log, rewrites the queues; undo takes it back"
    assert run.err.splitlines() == [
        f"step 1: rmqctl --store {root} rebuild --queues ({cost})",
        f"warning: rebuild --queues failed (exit code {IO_ERROR}); later steps were not run",
    ]
    assert snapshot(root) == before


def test_a_step_with_findings_is_followed_by_the_next(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    root = with_lost_queue(copy_of)
    monkeypatch.setattr("rmqctl.fixing.run_command", lambda session, words: max(run_command(session, words), FINDINGS))
    run = rmqctl("doctor", "--fix", "--yes", store=root)
    assert re.findall(r"^step \d: rmqctl --store \S+ (.*) \(", run.err, re.MULTILINE) == [
        "rebuild --queues",
        "checkpoint rewrite",
    ]
    assert "warning" not in run.err


def test_each_step_asks_and_a_no_ends_it(copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    before = snapshot(root)
    run = rmqctl("doctor", "--fix", store=root, stdin=b"n\n", terminal=True)
    assert (run.code, run.err.count("[y/N]")) == (DECLINED, 1)
    assert snapshot(root) == before


def test_a_no_to_fixing_before_a_salvage_is_a_no_to_the_plan(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    before = snapshot(root)
    run = rmqctl("doctor", "--fix", store=root, stdin=b"n\n", terminal=True)
    assert (run.code, run.err.count("[y/N]"), snapshot(root)) == (DECLINED, 1, before)


def test_a_salvage_comes_before_what_it_keeps_is_cut(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    before = snapshot(root)
    run = rmqctl("doctor", "--fix", "--yes", store=root)
    assert (run.code, "salvage --to NEWSTORE` keeps what a later step may cut; run it first" in run.err) == (
        FINDINGS,
        True,
    )
    assert snapshot(root) == before


def test_without_a_terminal_a_fix_needs_yes(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    run = rmqctl("doctor", "--fix", store=root)
    assert (run.code, "give --yes" in run.err) == (USAGE, True)


@pytest.mark.parametrize(("rank", "code"), [(1, OK), (2, FINDINGS), (4, FINDINGS)])
def test_doctor_fails_on_findings_up_to_a_rank(rank: int, code: int, copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    assert rmqctl("doctor", "--fail-on", rank, store=root).code == code


def test_metrics_are_lines_that_prometheus_reads(copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    lines = rmqctl("--format", "prometheus", "doctor", store=root).out.splitlines()
    assert "rmqctl_doctor_worst_rank 2" in lines
    assert 'rmqctl_doctor_count{number="2",rank="3",area="check",what="missing-unit"} 41' in lines
    line = re.compile(r'# TYPE [a-z_]+ gauge|[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? -?\d+(\.\d+)?')
    assert [one for one in lines if not line.fullmatch(one)] == []


def test_a_plan_that_is_answered_with_no_has_a_code_of_its_own(copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    run = rmqctl("rebuild", "--queues", store=root, stdin=b"n\n", terminal=True)
    assert (run.code, run.out) == (DECLINED, "nothing was changed\n")
    assert run.err.count("rebuilt from the log") > 1
    yes = rmqctl("rebuild", "--queues", store=root, stdin=b"y\n", terminal=True)
    verdict, empty, change = yes.out.splitlines()
    assert (verdict.startswith("changed the store in "), empty) == (True, "")
    assert f"undo {change.removeprefix('change_id ')}" in yes.err


def test_a_purge_says_what_it_deletes(copy_of: CopyOf) -> None:
    root = with_lost_queue(copy_of)
    empty = rmqctl("quarantine", "purge", store=root)
    assert (empty.code, empty.out.splitlines()[0]) == (OK, "the quarantine is empty")
    assert rmqctl("rebuild", "--queues", "--yes", store=root).code == OK
    [change] = rmqctl("--format", "json", "quarantine", "list", store=root).json["changes"]
    no = rmqctl("quarantine", "purge", store=root, stdin=b"n\n", terminal=True)
    assert (no.code, f"Delete {change['file_count']} files of 1 change, " in no.err) == (DECLINED, True)
    assert change["change_id"] in no.err
    look = rmqctl("quarantine", "purge", "--dry-run", store=root)
    assert (look.code, look.out.splitlines()[0]) == (OK, f"would delete {no.err.split('Delete ')[1].split('?')[0]}")
    wrong = rmqctl("quarantine", "purge", "nothing", "--yes", store=root)
    assert (wrong.code, wrong.err) == (USAGE, "rmqctl: no quarantined change nothing; see `rmqctl quarantine list`\n")
    refused = rmqctl("quarantine", "purge", store=root)
    assert (refused.code, "give --yes, or look first with --dry-run" in refused.err) == (USAGE, True)
    assert rmqctl("quarantine", "purge", "--yes", store=root).code == OK
    assert rmqctl("--format", "json", "quarantine", "list", store=root).json["changes"] == []


KEEPS = "`rmqctl salvage --to NEWSTORE` keeps what a later step may cut"
CUT, LOOK, SAVE = (
    SimpleNamespace(command=command, can_be_undone=can_be_undone)
    for command, can_be_undone in (("recover", True), ("check", False), (SALVAGE, False))
)


@pytest.mark.parametrize(
    ("plan", "done", "answer", "step", "said"),
    [
        ([], [], None, None, []),
        ([LOOK], [], None, None, []),
        ([LOOK, CUT], [], None, CUT, []),
        ([CUT], ["recover"], None, None, ["recover has run, but is still needed; later steps were not run"]),
        ([LOOK, CUT], ["check"], None, CUT, []),
        ([SAVE, CUT], [], True, CUT, [f"{KEEPS}. Go on without it?"]),
        ([SAVE, CUT], [], False, SAVE, [f"{KEEPS}. Go on without it?", f"note: {KEEPS}; run it first"]),
        ([SAVE, CUT], [], None, SAVE, [f"note: {KEEPS}; run it first"]),
        ([SAVE, CUT], [SALVAGE], None, CUT, []),
    ],
)
def test_the_next_step_is_the_first_that_mends_and_has_not_run(
    plan: list[Any], done: list[str], answer: bool | None, step: object, said: list[str]
) -> None:
    """An answer of None: nothing may be asked."""
    told: list[str] = []

    def ask(text: str) -> bool:
        told.append(text)
        return bool(answer)

    session = cast(Any, SimpleNamespace(ask=ask, note=told.append, warn=told.append))
    assert (_next(session, plan, set(done), may_ask=answer is not None), told) == (step, said)
