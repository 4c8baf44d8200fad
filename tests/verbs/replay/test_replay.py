"""A run against a target in memory: what is sent, what the ledger says, and what a kill leaves."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest

from store.errors import BadRequest, StoreLocked
from store.verbs.replay import replay as room
from store.verbs.replay.ledger import NAME, Ledger, acknowledged_in
from store.verbs.replay.replay import WINDOW, Replay, ReplayReport, plan_replay
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Answer, Doubt, Outcome, Place

NOW_MS = 1_800_000_000_000
OK = Answer(Outcome.ACKNOWLEDGED)


class Killed(BaseException):
    """Ends a run as a signal does."""


@dataclass
class Memory:
    """A target that has what it took. `behave` gives another answer by key and attempt, or raises."""

    has: list[tuple[str, str, Place]] = field(default_factory=list)
    behave: Callable[[str, int], Answer | None] = lambda key, attempt: None
    queues: dict[str, int] = field(default_factory=lambda: {"Orders": 4})
    attempts: Counter[str] = field(default_factory=Counter)
    batches: list[int] = field(default_factory=list)

    def places(self, topic: str) -> Sequence[Place]:
        if topic not in self.queues:
            raise BadRequest(f"there is no topic {topic}")
        return [Place("broker-a", number) for number in range(self.queues[topic])]

    def refusal(self, sending: Sending) -> str:
        return "too large" if len(sending.body) > 10 else ""

    def send(self, batch: Sequence[tuple[Sending, Place]], origins: Sequence[str]) -> Sequence[Answer]:
        self.batches.append(len(batch))
        answers = []
        for (one, place), origin in zip(batch, origins, strict=True):
            self.attempts[one.uniq_key] += 1
            told = self.behave(one.uniq_key, self.attempts[one.uniq_key])
            if told is None or told.outcome is Outcome.ACKNOWLEDGED:
                self.has.append((one.uniq_key, origin, place))
            answers.append(told or OK)
        return answers

    def find(self, doubts: Sequence[Doubt], ledger_id: str) -> Sequence[Answer]:
        there = {origin for _, origin, _ in self.has}
        return [OK if f"{one.origin}/{ledger_id}" in there else Answer(Outcome.AGAIN) for one in doubts]

    @property
    def keys(self) -> list[str]:
        return [key for key, _, _ in self.has]


def message(number: int, topic: str = "Orders", queue_id: int = 0, body: bytes = b"hello", due_ms: int = 0) -> Sending:
    key, origin = f"{topic}-{number}", f"origin-{number}"
    return Sending(key.encode(), origin, key, topic, (topic, queue_id), body, {}, 0, 0, 0, 0, due_ms)


def messages(count: int) -> list[Sending]:
    return [message(number, queue_id=number % 3) for number in range(count)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PAUSES_S", (0.0, 0.0, 0.0))


def run(
    folder: Path, target: Memory, sendings: Sequence[Sending], **options: bool
) -> tuple[ReplayReport, dict[str, int]]:
    verifies = options.pop("verify", False)
    with Ledger(folder, "store", "target", NOW_MS) as ledger:
        replay = Replay(target, ledger, lambda: NOW_MS, **options)
        if verifies:
            replay.verify()
        report = replay.run(sendings)
        if verifies:
            replay.verify()
        return report, {word: number for word, number in ledger.counts().items() if number}


def test_each_message_is_sent_once_and_a_second_run_sends_none(tmp_path: Path) -> None:
    target = Memory()
    report, counts = run(tmp_path, target, messages(200))
    assert target.keys == [f"Orders-{number}" for number in range(200)]
    assert (report.total("acknowledged"), counts) == (200, {"acknowledged": 200})
    report, counts = run(tmp_path, target, messages(201))
    assert target.keys[200:] == ["Orders-200"]
    assert (report.total("acknowledged"), report.total("already"), counts) == (1, 200, {"acknowledged": 201})


def test_a_message_that_comes_twice_in_a_run_is_sent_once(tmp_path: Path) -> None:
    target = Memory()
    report, _ = run(tmp_path, target, [message(1), message(1), *messages(WINDOW), message(1)])
    assert (sorted(target.keys), report.total("repeated")) == (sorted({one.uniq_key for one in messages(WINDOW)}), 3)


@pytest.mark.parametrize("at", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 150])
@pytest.mark.parametrize("verify", [False, True])
def test_after_a_kill_nothing_is_missing_and_with_verify_nothing_is_there_twice(
    tmp_path: Path, at: int, verify: bool
) -> None:
    target = Memory()
    target.behave = lambda key, attempt: die() if len(target.has) == at else None
    with pytest.raises(Killed):
        run(tmp_path, target, messages(200))
    had = len(target.has)
    target.behave = lambda key, attempt: None
    _, counts = run(tmp_path, target, messages(200), verify=verify)
    in_doubt = at % WINDOW
    assert had == at
    assert len(target.keys) == 200 + (0 if verify else in_doubt)
    assert set(target.keys) == {one.uniq_key for one in messages(200)}
    # Without asking, all of the window may be there twice, as nobody knows how far it came.
    assert counts == {"acknowledged": 200, **({} if verify else {"twice": min(WINDOW, 200 - at + in_doubt)})}


def die() -> Answer:
    raise Killed


def test_what_may_be_there_twice_is_named(tmp_path: Path) -> None:
    target = Memory(behave=lambda key, attempt: Answer(Outcome.DOUBT, "no answer") if attempt == 1 else None)
    run(tmp_path, target, messages(2))
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        rows = [("Orders", f"Orders-{number}", f"origin-{number}", "doubt") for number in (0, 1)]
        assert ledger.uncertain() == rows
        assert [(one.uniq_key, one.broker, one.sent_ms) for one in ledger.doubts()] == [
            ("Orders-0", "broker-a", NOW_MS),
            ("Orders-1", "broker-a", NOW_MS),
        ]
    run(tmp_path, target, messages(2))
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        assert ledger.uncertain() == [(*row[:3], "twice") for row in rows]


OUTCOMES = {
    # What the target says to a message, and by attempt; attempts, states, and whether the run was stopped.
    "busy once": (lambda attempt: Answer(Outcome.AGAIN, "busy") if attempt == 1 else None, 2, "acknowledged", ""),
    "busy twice": (lambda attempt: Answer(Outcome.AGAIN, "busy") if attempt < 3 else None, 3, "acknowledged", ""),
    "busy for ever": (lambda attempt: Answer(Outcome.AGAIN, "busy"), 3, "again", "busy"),
    "refused": (lambda attempt: Answer(Outcome.REFUSED, "no"), 1, "refused", ""),
    "in doubt": (lambda attempt: Answer(Outcome.DOUBT, "lost"), 1, "doubt", ""),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_of_one_message_among_others(tmp_path: Path, name: str) -> None:
    behave, attempts, state, stopped = OUTCOMES[name]
    target = Memory(behave=lambda key, attempt: behave(attempt) if key == "Orders-5" else None)
    report, counts = run(tmp_path, target, messages(100))
    sent = WINDOW if stopped else 100
    assert (target.attempts["Orders-5"], report.stopped_by) == (attempts, stopped)
    others = {"acknowledged": sent} if state == "acknowledged" else {"acknowledged": sent - 1, state: 1}
    assert counts == others
    assert report.counts == {"Orders": {"chosen": sent, "bytes": 5 * sent, "delayed": 0, **others}}
    assert report.refused == ({("Orders", "no"): 1} if state == "refused" else {})
    # What was not taken is sent by the next run, what was is not.
    report, _ = run(tmp_path, target, messages(100))
    # A run in which all are in doubt ends with its window.
    assert report.total("already") == (WINDOW if state == "doubt" else sent) - (state != "acknowledged")
    assert target.attempts["Orders-5"] == attempts + (0 if state == "acknowledged" else 3 if stopped else 1)
    assert max(number for key, number in target.attempts.items() if key != "Orders-5") == 1


def test_a_run_ends_where_no_answers_come(tmp_path: Path) -> None:
    target = Memory(behave=lambda key, attempt: Answer(Outcome.DOUBT, "closed"))
    report, counts = run(tmp_path, target, messages(500))
    assert (report.stopped_by, counts) == ("closed", {"doubt": WINDOW})


def test_what_the_target_would_refuse_is_not_sent_and_counted_by_its_reason(tmp_path: Path) -> None:
    target = Memory()
    wrong = [message(1, "Nope"), message(2, "Nope"), message(3, body=bytes(11)), message(4, body=bytes(10))]
    report, counts = run(tmp_path, target, wrong)
    assert target.keys == ["Orders-4"]
    assert report.refused == {("Nope", "there is no topic Nope"): 2, ("Orders", "too large"): 1}
    assert counts == {"acknowledged": 1, "refused": 3}
    target.queues["Nope"] = 1
    assert run(tmp_path, target, wrong)[1] == {"acknowledged": 3, "refused": 1}


def test_messages_go_to_all_queues_in_turn(tmp_path: Path) -> None:
    target = Memory()
    run(tmp_path, target, messages(8))
    assert [place.queue_id for _, _, place in target.has] == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(("queues", "places"), [(4, [0, 1, 2]), (3, [0, 1, 2]), (2, [0, 1, 0]), (1, [0, 0, 0])])
def test_ordered_keeps_each_queue_in_one_queue_and_in_its_order(tmp_path: Path, queues: int, places: list[int]) -> None:
    target = Memory(queues={"Orders": queues})
    run(tmp_path, target, messages(200), ordered=True)
    by_queue = [
        [(key, place.queue_id) for key, _, place in target.has if int(key[7:]) % 3 == number] for number in range(3)
    ]
    assert by_queue == [
        [(f"Orders-{number}", places[queue]) for number in range(200) if number % 3 == queue] for queue in range(3)
    ]
    assert max(target.batches) == 3


def test_ordered_sends_nothing_behind_a_message_in_doubt(tmp_path: Path) -> None:
    target = Memory(
        behave=lambda key, attempt: Answer(Outcome.DOUBT, "lost") if (key, attempt) == ("Orders-4", 1) else None
    )
    report, counts = run(tmp_path, target, messages(200), ordered=True)
    assert [key for key in target.keys if int(key[7:]) % 3 == 1] == ["Orders-1"]
    held = len([number for number in range(200) if number % 3 == 1]) - 2
    in_window = len([number for number in range(WINDOW) if number % 3 == 1]) - 2
    assert (report.total("held"), counts) == (held, {"acknowledged": 200 - held - 1, "again": in_window, "doubt": 1})
    run(tmp_path, target, messages(200), ordered=True, verify=True)
    assert [key for key in target.keys if int(key[7:]) % 3 == 1] == [f"Orders-{n}" for n in range(200) if n % 3 == 1]


@pytest.mark.parametrize(
    ("rate", "batches", "slept_s"),
    [
        (0.5, [1] * 95, 190.0), (1.0, [1] * 95, 95.0), (2.9, [2] * 47 + [1], 95 / 2.9), (10.0, [10] * 9 + [5], 9.5),
        (64.0, [64, 31], 95 / 64), (65.9, [64, 31], 95 / 65.9),
    ],
)  # fmt: skip
def test_a_rate_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, batches: list[int], slept_s: float
) -> None:
    slept: list[float] = []
    done: list[int] = []
    monkeypatch.setattr(room, "time", SimpleNamespace(sleep=slept.append, monotonic=lambda: 100.0 + sum(slept)))
    target = Memory()
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        Replay(target, ledger, lambda: NOW_MS, rate=rate, on_progress=done.append).run(messages(95))
    assert (target.batches, done, sum(slept)) == (batches, list(accumulate(batches)), pytest.approx(slept_s))


def test_a_run_that_is_behind_its_rate_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    times = iter([100.0, 101.5, 101.5, 103.25])
    monkeypatch.setattr(room, "time", SimpleNamespace(sleep=slept.append, monotonic=partial(next, times)))
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        Replay(Memory(), ledger, lambda: NOW_MS, rate=1.0).run(messages(3))
    assert slept == [0.0, 0.0, 0.0, 0.5, 0.0, 0.0]


def test_pauses_grow_before_each_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.undo()
    monkeypatch.setattr(room, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    target = Memory(behave=lambda key, attempt: Answer(Outcome.AGAIN, "busy"))
    run(tmp_path, target, messages(1))
    assert slept == [0.0, 0.2, 0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("count", [WINDOW, WINDOW + 1])
def test_a_run_sends_64_at_once_and_counts_what_it_chose(tmp_path: Path, count: int) -> None:
    target, done = Memory(), list[int]()
    late = [message(900, due_ms=NOW_MS), message(901, due_ms=NOW_MS + 1)]
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        report = Replay(target, ledger, lambda: NOW_MS, on_progress=done.append).run([*late, *messages(count - 2)])
    rest = [1] if count > 64 else []
    assert (target.batches, done) == ([64, *rest], [64, *(64 + one for one in rest)])
    assert report.counts == {"Orders": {"chosen": count, "bytes": 5 * count, "delayed": 1, "acknowledged": count}}


def test_a_dry_run_counts_as_the_run_would_and_sends_nothing(tmp_path: Path) -> None:
    target = Memory()
    run(tmp_path, target, messages(3))
    chosen = [*messages(5), message(1), message(6, "Nope"), message(7, body=bytes(11)), message(8, due_ms=NOW_MS + 1)]
    report = plan_replay(target, chosen, NOW_MS, lambda keys: acknowledged_in(tmp_path, keys))
    orders = {"chosen": 7, "bytes": 41, "delayed": 1, "already": 3, "repeated": 1, "refused": 1}
    assert report.counts == {"Orders": orders, "Nope": {"chosen": 1, "bytes": 5, "delayed": 0, "refused": 1}}
    assert report.refused == {("Nope", "there is no topic Nope"): 1, ("Orders", "too large"): 1}
    assert len(target.has) == 3
    assert acknowledged_in(tmp_path / "none", [b"Orders-1"]) == set()


def test_a_ledger_is_of_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path, "store", "target", NOW_MS),
        pytest.raises(StoreLocked, match="another replay uses the ledger"),
    ):
        Ledger(tmp_path, "store", "target", NOW_MS)
    with Ledger(tmp_path, "store", "target", NOW_MS) as again:
        assert again.run == 2


def test_a_ledger_has_a_random_id_and_a_number_of_its_form(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path, "store", "target", NOW_MS) as first,
        Ledger(tmp_path / "b", "store", "target", NOW_MS) as other,
    ):
        assert (len(bytes.fromhex(first.id)), first.id == other.id) == (4, False)
    with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as db:
        assert db.execute("pragma user_version").fetchone() == (1,)
        db.execute("pragma user_version = 2")
    with pytest.raises(BadRequest, match="a ledger of form 2, and 1 is known"):
        Ledger(tmp_path, "store", "target", NOW_MS)


def test_messages_in_doubt_are_looked_up_and_counted_by_outcome(tmp_path: Path) -> None:
    """The target has half of them, though no answer came."""
    target = Memory(behave=lambda key, attempt: Answer(Outcome.DOUBT, "lost"))
    run(tmp_path, target, messages(6))
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        target.has = [(one.uniq_key, f"{one.origin}/{ledger.id}", Place("broker-a", 0)) for one in messages(4)]
        replay = Replay(target, ledger, lambda: NOW_MS)
        assert replay.verify() == {Outcome.ACKNOWLEDGED: 4, Outcome.AGAIN: 2}
        assert ledger.counts() == {"acknowledged": 4, "refused": 0, "again": 2, "doubt": 0, "twice": 0}


def test_another_file_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"these are no pages of a database" * 200)
    with pytest.raises(BadRequest, match="not a ledger"):
        Ledger(tmp_path, "store", "target", NOW_MS)


def test_messages_are_in_the_ledger_before_they_are_sent(tmp_path: Path) -> None:
    known: list[int] = []

    def look(key: str, attempt: int) -> None:
        known.append(len(ledger.doubts()))

    target = Memory(behave=look)
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        Replay(target, ledger, lambda: NOW_MS).run(messages(WINDOW + 1))
    assert known == [WINDOW] * WINDOW + [1]


def test_nothing_is_read_of_the_source_before_its_turn(tmp_path: Path) -> None:
    read: list[int] = []

    def source() -> Iterator[Sending]:
        for number in range(3 * WINDOW):
            read.append(number)
            yield message(number)

    target = Memory(behave=lambda key, attempt: Answer(Outcome.AGAIN, "busy"))
    with Ledger(tmp_path, "store", "target", NOW_MS) as ledger:
        Replay(target, ledger, lambda: NOW_MS).run(source())
    assert len(read) == WINDOW


def test_a_ledger_makes_its_folder_and_those_around_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "runs" / "today", "store", "target", NOW_MS):
        assert (tmp_path / "runs/today" / NAME).is_file()
