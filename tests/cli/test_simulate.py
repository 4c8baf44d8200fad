"""The verdict of simulate: what versions say alike is said once, and no loss is left out."""

from __future__ import annotations

import pytest

from rmqctl.commands.simulate import _as_json, verdict_of
from store import SimulatedStart
from store.structures.trap import Trap
from store.verbs.recover.lost import LossReport, LostQueue


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
