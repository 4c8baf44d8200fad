"""The steps of a changing command: the plan as a result, consent, what is applied, and the way back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from rmqctl.blocks import Look
from rmqctl.changing import SHOWN_STEPS, ChangeOptions, run_change, totals_of
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.output import Format
from rmqctl.result import Result
from store.change.change import PlanReport
from store.verbs.recover.truncate import TruncationPlan
from tests.support.sessions import Terminal


@dataclass
class Report(PlanReport):
    log_end: int = 7
    skipped: list[dict[str, int]] = field(default_factory=lambda: [{"a": 1}])
    names: list[str] = field(default_factory=lambda: ["x"])
    lost: list[dict[str, int]] = field(default_factory=list)


def row(action: str = "remove", size_bytes: int = 1024) -> dict[str, Any]:
    return {"action": action, "file": "f", "size_bytes": size_bytes, "reason": "r"}


class FakeChange(SimpleNamespace):
    """A plan that notes how it was applied or closed."""

    def __init__(self, steps: int = 2, **changed: Any) -> None:
        told: dict[str, Any] = {
            "actions": [row()] * steps, "report": Report(), "lost": {}, "notes": [], "damaged": [], "foreign": [],
            "remarks": [], "done": [], "change_id": "c1", **changed,
        }  # fmt: skip
        super().__init__(**told)

    @property
    def is_empty(self) -> bool:
        return not self.actions

    def rows(self) -> list[Any]:
        return self.actions

    def close(self) -> None:
        self.done.append("closed")

    def apply(self, *, quarantine: Path | None, keep: bool, on_action: Any) -> str | None:
        for action in self.actions:
            on_action(action)
        self.done.append((quarantine, keep))
        return self.change_id if keep else None


class FakeSession(SimpleNamespace):
    def __init__(self, *, answer: bool = True, is_terminal: bool = False, form: Format = Format.PLAIN) -> None:
        bar = SimpleNamespace(advance=lambda: self.said.append("advance"))
        super().__init__(
            said=[],
            store=SimpleNamespace(place="/s", require_folder=lambda: self.said.append("folder")),
            environment=SimpleNamespace(stderr=Terminal(False), stdout=Terminal(is_terminal), can_ask=is_terminal),
            interrupts=SimpleNamespace(deferred=contextlib.nullcontext),
            progress=lambda *asked: self.said.append(asked) or contextlib.nullcontext(bar),
            look=lambda color: self.drawn.append(f"color: {color}") or Look(None, color, cast(Any, None)),
            release_notes=lambda: self.said.append("released"),
            drawn=[],
            end_opening=lambda: self.drawn.append("the opening has ended"),
            note=self.tell, warn=self.tell, format=form,
            ask=lambda question: self.said.append(question) or answer,
        )  # fmt: skip

    def tell(self, text: str) -> None:
        self.said.append(text)


def changed(change: FakeChange, consent: ChangeOptions, session: FakeSession | None = None) -> tuple[Result, list[Any]]:
    session = session or FakeSession()
    return run_change(cast(Any, session), "recover", cast(Any, change), consent), session.said


YES, DRY = ChangeOptions(yes=True), ChangeOptions(dry_run=True)


@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        (FakeChange(0), "nothing to change", OK),
        (FakeChange(1), "would change the store in 1 step; no message is lost", OK),
        (FakeChange(2), "would change the store in 2 steps; no message is lost", OK),
        (FakeChange(1, lost={"T": 1}), "would change the store in 1 step; 1 message no longer shown", OK),
        (FakeChange(1, lost={"T": 1, "U": 2}), "would change the store in 1 step; 3 messages no longer shown", OK),
        (FakeChange(1, notes=["n"]), "would change the store in 1 step; no message is lost", FINDINGS),
        (FakeChange(1, foreign=["n"]), "would change the store in 1 step; no message is lost", FINDINGS),
    ],
)
def test_a_dry_run_is_the_plan_and_its_losses(change: FakeChange, verdict: str, code: int) -> None:
    result, said = changed(change, DRY)
    assert (result.verdict, result.exit_code, result.is_plan) == (verdict, code, True)
    assert result.facts == {"applied": False, "log_end": 7, "names": ["x"]}
    assert [(table.name, table.rows) for table in result.tables] == [
        ("actions", change.actions),
        ("lost", []),
        ("skipped", [{"a": 1}]),
    ]
    assert result.tables[0].columns == ("action", "file", "size_bytes", "reason")
    assert (change.done, said) == (["closed"], [*change.notes, *change.foreign])


@pytest.mark.parametrize(
    ("consent", "drawn"), [(YES, []), (DRY, []), (ChangeOptions(), ["the opening has ended", "color: False"])]
)
def test_a_plan_that_is_asked_for_is_drawn_without_colours_behind_the_opening(
    consent: ChangeOptions, drawn: list[str]
) -> None:
    one = FakeSession(is_terminal=True)
    changed(FakeChange(1), consent, one)
    assert one.drawn == drawn
    assert ("a" in one.environment.stderr.getvalue()) == bool(drawn)


@pytest.mark.parametrize(
    ("lost", "gone", "sentence"),
    [
        ({}, 0, "no message is lost"),
        ({}, 1, "1 message no longer shown, none of them known to be unconsumed"),
        ({"T": 2}, 3, "3 messages no longer shown, 2 of them known to be unconsumed"),
        ({"T": 3}, 3, "3 messages no longer shown"),
    ],
)
def test_of_expiring_messages_the_unconsumed_ones_are_lost(lost: dict[str, int], gone: int, sentence: str) -> None:
    report = TruncationPlan(0, "end")
    report.lost_messages = gone
    result, _ = changed(FakeChange(1, lost=lost, report=report), DRY)
    assert result.verdict == f"would change the store in 1 step; {sentence}"


@pytest.mark.parametrize(("keep", "code"), [(True, OK), (False, FINDINGS)])
def test_losses_are_a_finding_where_nothing_is_kept(keep: bool, code: int) -> None:
    result, _ = changed(FakeChange(1, lost={"T": 1}), ChangeOptions(dry_run=True, keep=keep))
    assert result.exit_code == code


def test_a_plan_is_applied_with_yes_and_the_way_back_is_named() -> None:
    change = FakeChange(2, remarks=["careful"], notes=["damage"])
    result, said = changed(change, YES)
    assert (result.verdict, result.exit_code) == ("changed the store in 2 steps; no message is lost", FINDINGS)
    assert result.facts == {"applied": True, "log_end": 7, "names": ["x"], "change_id": "c1"}
    assert [table.name for table in result.tables] == ["actions", "lost", "skipped"]
    undo = "undo with: rmqctl --store /s undo c1"
    steps = ("applying", 2, "steps")
    assert said == ["note: careful", "damage", "released", steps, "advance", "advance", undo]
    assert change.done == [(None, True)]


def test_an_undo_names_the_quarantine_and_nothing_is_named_where_nothing_is_kept() -> None:
    _, said = changed(FakeChange(1), ChangeOptions(yes=True, quarantine=Path("/q")))
    assert said[-1] == "undo with: rmqctl --store /s undo c1 --quarantine /q"
    result, said = changed(FakeChange(1), ChangeOptions(yes=True, keep=False))
    assert (said[-1], cast(Any, result.facts)["change_id"]) == ("advance", None)


@pytest.mark.parametrize(
    ("answer", "is_terminal", "form", "has_tables"),
    [
        (True, True, Format.TABLE, False),
        (True, True, Format.JSON, True),
        (True, False, Format.PLAIN, True),
        (False, True, Format.TABLE, False),
        (False, True, Format.JSON, True),
    ],
)
def test_a_plan_that_a_terminal_has_shown_is_not_shown_again(
    answer: bool, is_terminal: bool, form: Format, has_tables: bool
) -> None:
    change, session = FakeChange(3), FakeSession(answer=answer, is_terminal=is_terminal, form=form)
    result, said = changed(change, ChangeOptions(), session)
    assert "would change the store in 3 steps" in session.environment.stderr.getvalue()
    assert said[0] == "Apply these 3 steps?"
    assert bool(result.tables) is has_tables
    if answer:
        assert (result.exit_code, change.done) == (OK, [(None, True)])
        assert result.facts == ({"change_id": "c1"} if not has_tables else {**cast(Any, result.facts), "applied": True})
    else:
        assert (result.exit_code, result.verdict, change.done) == (DECLINED, "nothing was changed", ["closed"])


@pytest.mark.parametrize(
    ("consent", "can_ask", "is_refused", "said"),
    [
        (ChangeOptions(), False, True, ["folder"]),
        (ChangeOptions(), True, False, ["folder"]),
        (ChangeOptions(yes=True), False, False, ["folder"]),
        (ChangeOptions(dry_run=True), False, False, []),
    ],
)
def test_a_change_wants_consent_and_a_folder(
    consent: ChangeOptions, can_ask: bool, is_refused: bool, said: list[str]
) -> None:
    session = FakeSession(is_terminal=can_ask)
    if is_refused:
        with pytest.raises(typer.BadParameter, match="give --yes, or look first with --dry-run"):
            consent.require_consent(cast(Any, session))
    else:
        consent.require_consent(cast(Any, session))
    assert session.said == said


def test_plans_of_many_steps_begin_with_their_totals() -> None:
    few = [row()] * SHOWN_STEPS
    assert totals_of(cast(Any, few)) == ""
    many = [*few, row("write", 1 << 20)]
    assert totals_of(cast(Any, many)) == " (remove 10 files, 10.0 KiB; write 1 file, 1.0 MiB)"
