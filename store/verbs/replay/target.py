"""The target of a replay: the requests to a live cluster, and its answers.

ACKNOWLEDGED   the broker has the message, even if its disk or its slave was late
REFUSED        the broker does not have it, and will refuse it again
AGAIN          the broker does not have it; another attempt may succeed
DOUBT          unknown: no answer came, or an answer that a broker also gives for a stored message
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from store.verbs.replay.sending import Sending


class Outcome(StrEnum):
    """The outcome of a sent message; the value is its state in a ledger."""

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
    """The outcome of one message. `reason` has the broker's words, `msg_id` the message's new id."""

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
    queue_id: int
    sent_ms: int


class Target(Protocol):
    """A live cluster."""

    def places(self, topic: str) -> Sequence[Place]:
        """Return the queues that accept messages of a topic; BadRequest with the reason if none does."""

    def refusal(self, sending: Sending) -> str:
        """Return why a broker will refuse a message; empty if it will accept it."""

    def send(self, batch: Sequence[tuple[Sending, Place]], origins: Sequence[str]) -> Sequence[Answer]:
        """Send all messages, and wait for the answers; `origins` are the values of the property ORIGIN."""

    def find(self, doubts: Sequence[Doubt], ledger_id: str) -> Sequence[Answer]:
        """Look up messages that may be there; return an Answer each, DOUBT if the broker cannot tell."""
