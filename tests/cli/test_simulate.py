"""The verdict of simulate: what versions say alike is said once, and no loss is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.commands import simulate
from rmqctl.commands.simulate import _as_json, verdict_of
from rmqctl.options import StartingLine
from store import SimulatedStart
from store.structures.trap import Trap
from store.verbs.recover.lost import LossReport, LostQueue
from tests.support.sessions import said, session


def start(compat: str, **fields: object) -> SimulatedStart:
    return SimulatedStart(compat, **{"starts": True, "log_end": 4096, **fields})  # type: ignore[arg-type]


TRAP = Trap("lost-queue", "T, queue 0 lacks 5 entries")
LOST = LostQueue("T", 0, message_count=3, intact_count=2)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([start("4.9")], "a 4.9 broker starts and loses nothing; the log ends at 4096"),
        ([start("4.9", traps=[TRAP])], "a 4.9 broker starts and loses nothing, but meets 1 trap; the log ends at 4096"),
        (
            [start("4.9", unseen={("T", 0): 5, ("T", 1): 1}, traps=[TRAP])],
            "a 4.9 broker starts, but 6 messages of the log will be in no queue; the log ends at 4096",
        ),
        (
            [start("4.9", unseen={("T", 0): 5}, lost=LossReport(index_keys=2))],
            (
                "a 4.9 broker starts and loses no message, but 2 index keys no longer found; "
                "5 messages of the log will be in no queue"
            ),
        ),
        (
            [start("4.9", unseen={("T", 0): 1}, lost=LossReport([LOST]))],
            (
                "a 4.9 broker starts and loses 3 messages, 2 of them intact past the end; "
                "1 message of the log will be in no queue"
            ),
        ),
        ([start("4.9"), start("5.3")], "a 4.9 or 5.3 broker starts and loses nothing; the log ends at 4096"),
        (
            [start("4.9"), start("5.3", log_end=8), start("5.5")],
            (
                "a 4.9 or 5.5 broker starts and loses nothing; the log ends at 4096; "
                "a 5.3 broker starts and loses nothing; the log ends at 8"
            ),
        ),
        (
            [start(line, starts=False, reason="it is full") for line in ("4.9", "5.3", "5.5")],
            "a 4.9, 5.3 or 5.5 broker does not start: it is full",
        ),
    ],
)
def test_a_verdict_names_each_outcome_once(outcomes: list[SimulatedStart], verdict: str) -> None:
    assert verdict_of(*outcomes) == verdict


@pytest.mark.parametrize(("number", "shown"), [(-1, None), (0, 0), (65536, 65536)])
def test_a_start_that_never_gets_to_its_log_has_no_offsets(number: int, shown: int | None) -> None:
    found = _as_json(SimulatedStart("5.5", starts=False, start_segment=number, log_end=number))
    assert (found["start_segment"], found["log_end"]) == (shown, shown)


def ran(
    monkeypatch: pytest.MonkeyPatch, compat: StartingLine | None, **fields: Any
) -> tuple[list[Any], list[str], int]:
    """The lines that started, the commands that are advised, and the exit code."""
    one, lines = session(), list[Any]()

    def simulated(_: object, line: str | None) -> SimulatedStart:
        lines.append(line)
        return start(line or "4.9", **fields)

    monkeypatch.setattr(simulate, "simulated", simulated)
    monkeypatch.setattr("rmqctl.given_store.GivenStore.warn_of_holder", lambda self: lines.append("asked for a holder"))
    monkeypatch.setattr("rmqctl.given_store.GivenStore.place", "S")
    monkeypatch.setattr("rmqctl.given_store.GivenStore.is_uri", False)
    result = simulate.run(SimpleNamespace(obj=one), compat)  # type: ignore[arg-type]
    assert lines.pop(0) == "asked for a holder"
    assert result.is_plan
    return lines, [line.split("--store S ")[1].split(" (")[0] for line in said(one).splitlines()], int(result.exit_code)


@pytest.mark.parametrize(
    ("compat", "lines"),
    [(None, [None]), (StartingLine.V5_3, ["5.3"]), (StartingLine.ALL, ["4.9", "5.3", "5.5"])],
)
def test_the_store_s_own_line_starts_or_the_given_ones(
    compat: StartingLine | None, lines: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(monkeypatch, compat) == (lines, [], 0)


@pytest.mark.parametrize(
    ("fields", "advised", "code"),
    [
        ({}, [], 0),
        ({"mode": "abnormal"}, [], 0),
        ({"traps": [Trap("stray-unit", "", subject=("T", 0))], "mode": "normal"},
         ["rebuild --queues --topic T --queue 0"], 1),
        ({"traps": [Trap("stray-unit", "", subject=("T", 0))], "mode": "abnormal"},
         ["recover", "rebuild --queues --topic T --queue 0"], 1),
        ({"starts": False}, [], 1),
        ({"lost": LossReport(index_keys=1)}, [], 1),
    ],
)  # fmt: skip
def test_a_start_that_meets_something_ends_with_a_finding_and_advice(
    fields: dict[str, Any], advised: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(monkeypatch, None, **fields)[1:] == (advised, code)
