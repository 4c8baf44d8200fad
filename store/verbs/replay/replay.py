"""Send stored messages into a live cluster, each once as far as can be known.

For each window of messages:
  1. leave out messages that the ledger has as acknowledged, and repetitions in this run
  2. assign the others to queues; messages that the target would refuse are refused here
  3. write them to the ledger as in doubt, together with the answers of the window before; sync
  4. send them, and wait for the answers; messages with the answer `again` are sent again, after growing pauses

`ordered`: messages of one queue are sent to one queue, one after the other. A queue with a message in doubt, or with
the answer `again` to the last attempt, sends nothing more in this run. A run ends when the target accepts no more, or
gives no answers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TypeVar

from store.errors import BadRequest
from store.verbs.replay.ledger import Ledger
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Answer, Outcome, Place, Target

WINDOW = 64
"""The most messages that are sent at once, and that a kill leaves in doubt."""
PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0)
"""The pause before each attempt to send a message."""
VERIFIED_AT_ONCE = 256
HELD = Answer(Outcome.AGAIN, "held back behind another message of its queue")
Batch = list[tuple[Sending, Place]]
Item = TypeVar("Item")


@dataclass(slots=True)
class ReplayReport:
    """Messages by topic and outcome, with the target's reasons for refusals.

    counts      by topic and word: chosen, bytes, delayed, already (acknowledged before), held, and an Outcome's
    refused     by topic and reason
    stopped_by  why the run ended early; empty if it did not
    """

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    stopped_by: str = ""

    def note(self, one: Sending, word: str) -> None:
        """Count a message under a word."""
        self.counts.setdefault(one.topic, Counter())[word] += 1

    def note_chosen(self, one: Sending, now_ms: int) -> None:
        """Count a message that was chosen."""
        self.note(one, "chosen")
        self.counts[one.topic]["bytes"] += len(one.body)
        self.counts[one.topic]["delayed"] += one.deliver_ms > now_ms

    def total(self, word: str) -> int:
        """Return messages of all topics under a word."""
        return sum(counts[word] for counts in self.counts.values())


@dataclass(slots=True)
class Replay:
    """One run. `rate` is messages per second; `on_progress` gets the number of messages read."""

    target: Target
    ledger: Ledger
    clock: Callable[[], int]
    ordered: bool = False
    rate: float | None = None
    on_progress: Callable[[int], object] = lambda done: None
    report: ReplayReport = field(default_factory=ReplayReport)
    _placer: Placer = field(init=False)
    _answers: list[tuple[bytes, Answer]] = field(default_factory=list)
    _held: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._placer = Placer(self.target, ordered=self.ordered)

    def verify(self) -> Counter[Outcome]:
        """Look up all messages in doubt in the target, and return counts by outcome."""
        found: Counter[Outcome] = Counter()
        doubts = self.ledger.doubts()
        for chunk in _windows(doubts, VERIFIED_AT_ONCE):
            answers = self.target.find(chunk, self.ledger.id)
            with self.ledger.writing():
                self.ledger.note_answers([(one.key, answer) for one, answer in zip(chunk, answers, strict=True)])
            found.update(answer.outcome for answer in answers)
        return found

    def run(self, messages: Iterable[Sending]) -> ReplayReport:
        """Run steps 1 to 4 for all messages."""
        began, sent, done = time.monotonic(), 0, 0
        size = WINDOW if self.rate is None else max(1, min(WINDOW, int(self.rate)))
        try:
            for window in _windows(messages, size):
                batch = self._placed(self._fresh(window))
                self._send_noted(batch)
                sent, done = sent + len(batch), done + len(window)
                self.on_progress(done)
                if self.report.stopped_by:
                    break
                if self.rate is not None:
                    time.sleep(max(0.0, began + sent / self.rate - time.monotonic()))
        finally:
            with self.ledger.writing():
                self._flush()
        return self.report

    def _fresh(self, window: Sequence[Sending]) -> list[Sending]:
        """Run step 1."""
        known, now_ms = self.ledger.states([one.key for one in window]), self.clock()
        fresh: dict[bytes, Sending] = {}
        for one in window:
            state, run = known.get(one.key, (None, None))
            if run == self.ledger.run or one.key in fresh:
                self.report.note(one, "repeated")
                continue
            self.report.note_chosen(one, now_ms)
            if state == Outcome.ACKNOWLEDGED:
                self.report.note(one, "already")
            elif one.queue in self._held:
                self.report.note(one, "held")
            else:
                fresh[one.key] = one
        return list(fresh.values())

    def _placed(self, fresh: Sequence[Sending]) -> Batch:
        """Run step 2, and write the refused messages to the ledger."""
        batch, refused = self._placer.place(fresh)
        for one, reason in refused:
            self._refuse(one, reason)
        if refused:
            with self.ledger.writing():
                self.ledger.note_refused(refused, self.clock())
        return batch

    def _send_noted(self, batch: Batch) -> None:
        """Run steps 3 and 4."""
        if not batch:
            return
        with self.ledger.writing():
            self._flush()
            self.ledger.note_sent(batch, self.clock())
        for round_of in _rounds(batch) if self.ordered else [batch]:
            allowed = [pair for pair in round_of if pair[0].queue not in self._held and not self.report.stopped_by]
            waits = [pair for pair in round_of if pair not in allowed]
            self._answers += [(one.key, HELD) for one, _ in waits]
            for one, _ in waits:
                self.report.note(one, "held")
            if allowed:
                self._take(allowed, self._send(allowed))

    def _send(self, batch: Batch) -> list[Answer]:
        """Run step 4, and return an answer for each message, in the order of the batch."""
        found: dict[bytes, Answer] = {}
        left = batch
        for pause in PAUSES_S:
            time.sleep(pause)
            answers = self.target.send(left, [f"{one.origin}/{self.ledger.id}" for one, _ in left])
            found |= {one.key: answer for (one, _), answer in zip(left, answers, strict=True)}
            left = [(one, place) for one, place in left if found[one.key].outcome is Outcome.AGAIN]
            if not left:
                break
        return [found[one.key] for one, _ in batch]

    def _take(self, batch: Batch, answers: Sequence[Answer]) -> None:
        for (one, _), answer in zip(batch, answers, strict=True):
            self._answers.append((one.key, answer))
            if answer.outcome is Outcome.REFUSED:
                self._refuse(one, answer.reason)
                continue
            self.report.note(one, answer.outcome)
            if self.ordered and answer.outcome is not Outcome.ACKNOWLEDGED:
                self._held.add(one.queue)
        outcomes = {answer.outcome for answer in answers}
        if Outcome.AGAIN in outcomes or outcomes == {Outcome.DOUBT}:
            troubles = (one.reason for one in answers if one.outcome in (Outcome.AGAIN, Outcome.DOUBT))
            self.report.stopped_by = next(troubles)

    def _refuse(self, one: Sending, reason: str) -> None:
        self.report.note(one, Outcome.REFUSED)
        self.report.refused[one.topic, reason] += 1

    def _flush(self) -> None:
        self.ledger.note_answers(self._answers)
        self._answers = []


class Placer:
    """The assignment of messages to queues of the target: in turn; with `ordered`, by source queue."""

    def __init__(self, target: Target, *, ordered: bool) -> None:
        self._target = target
        self._ordered = ordered
        self._places: dict[str, Sequence[Place] | str] = {}
        self._turns = count()

    def place(self, messages: Iterable[Sending]) -> tuple[Batch, list[tuple[Sending, str]]]:
        """Return the messages with their queues, and the messages to refuse, with the target's reasons."""
        batch: Batch = []
        refused: list[tuple[Sending, str]] = []
        for one in messages:
            places = self._places_of(one.topic)
            reason = places if isinstance(places, str) else self._target.refusal(one)
            if reason or isinstance(places, str):
                refused.append((one, reason))
            else:
                number = one.queue[1] if self._ordered else next(self._turns)
                batch.append((one, places[number % len(places)]))
        return batch, refused

    def _places_of(self, topic: str) -> Sequence[Place] | str:
        if topic not in self._places:
            try:
                self._places[topic] = self._target.places(topic)
            except BadRequest as error:
                self._places[topic] = error.reason
        return self._places[topic]


def plan_replay(
    target: Target,
    messages: Iterable[Sending],
    now_ms: int,
    acknowledged: Callable[[Sequence[bytes]], set[bytes]],
) -> ReplayReport:
    """Report the messages that a run would send and the target would refuse; send and write nothing."""
    report, placer, seen = ReplayReport(), Placer(target, ordered=False), set[bytes]()
    for window in _windows(messages, WINDOW):
        known = acknowledged([one.key for one in window])
        for one in window:
            if one.key in seen:
                report.note(one, "repeated")
                continue
            seen.add(one.key)
            report.note_chosen(one, now_ms)
            _, refused = placer.place([one]) if one.key not in known else ([], [])
            if one.key in known:
                report.note(one, "already")
            for _, reason in refused:
                report.note(one, Outcome.REFUSED)
                report.refused[one.topic, reason] += 1
    return report


def _windows(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    waiting = iter(items)
    while window := list(islice(waiting, size)):
        yield window


def _rounds(batch: Batch) -> list[Batch]:
    """Split the batch into rounds with at most one message of each queue, in its order."""
    rounds: list[Batch] = []
    depth: Counter[tuple[str, int]] = Counter()
    for one, place in batch:
        if depth[one.queue] == len(rounds):
            rounds.append([])
        rounds[depth[one.queue]].append((one, place))
        depth[one.queue] += 1
    return rounds
