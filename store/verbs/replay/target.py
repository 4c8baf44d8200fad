"""The target of a replay: the requests to a live cluster, and its answers.

ACKNOWLEDGED   it has the message, also where its disk or its slave was late
REFUSED        it has not, and takes it no better the next time
AGAIN          it has not; the next time it may
DOUBT          unknown: no answer came, or one that a broker also gives of a message it has
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from store.verbs.replay.sending import Sending


class Outcome(StrEnum):
    """The outcome of a message that was sent; its word in a ledger."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    AGAIN = "again"
    DOUBT = "doubt"


class Place(NamedTuple):
    """A queue of the cluster."""

    broker: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one message. `reason` has the broker's words, `msg_id` its id."""

    outcome: Outcome
    reason: str = ""
    msg_id: str = ""
    queue_offset: int = -1


@dataclass(frozen=True, slots=True)
class Doubt:
    """A message that a broker may or may not have."""

    key: bytes
    uniq_key: str
    topic: str
    origin: str
    broker: str
    sent_ms: int


class Target(Protocol):
    """A live cluster."""

    def places(self, topic: str) -> Sequence[Place]:
        """Return the queues that take messages of a topic; BadRequest gives the reason for none."""

    def refusal(self, sending: Sending) -> str:
        """Return why a broker will refuse a message, empty where it takes it."""

    def send(self, batch: Sequence[tuple[Sending, Place]], origins: Sequence[str]) -> Sequence[Answer]:
        """Send all, and wait for the answers; `origins` are the values of the property ORIGIN."""

    def find(self, doubts: Sequence[Doubt], ledger_id: str) -> Sequence[Answer]:
        """Ask for messages that may be there; an Answer each, DOUBT where the broker cannot say."""
