"""Settling: wait until a broker has stored all it received; only then a message is surely missing.

    the oldest request in its send queue is younger than the message in doubt      nothing waits to be written
    the dispatch has passed the log's end of that moment                           all written records are in the index

A lost connection may have left requests in the broker's memory, so the wait takes at least LEAST_S.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from store.engine.remoting.connection import Connection
from store.errors import BadRequest
from store.formats.remoting import GET_BROKER_RUNTIME_INFO, SUCCESS
from store.structures.tables.fastjson import member, members, parse_fastjson

LEAST_S = 2.0
MOST_S = 60.0
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Settling:
    """A broker that has stored all it received. `earliest_ms` is the store time of its oldest message."""

    earliest_ms: int

    @classmethod
    def wait(cls, broker: Connection, sent_ms: int, clock: Callable[[], int]) -> Self | str:
        """Wait until the broker has settled after the newest message in doubt; return the reason if not."""
        deadline = time.monotonic() + MOST_S
        end: int | None = None
        while time.monotonic() < deadline:
            rest_s = LEAST_S - (clock() - sent_ms) / 1000
            if rest_s > 0:
                time.sleep(min(rest_s, LEAST_S))
            facts = _facts(broker)
            waited_ms = clock() - sent_ms - _number(facts, "sendThreadPoolQueueHeadWaitTimeMills")
            log_end = _number(facts, "commitLogMaxOffset")
            if end is None and waited_ms >= 0:
                end = log_end
            if end is not None and log_end - _number(facts, "dispatchBehindBytes") >= end:
                return cls(_number(facts, "earliestMessageTimeStamp"))
            time.sleep(_PAUSE_S)
        return f"the broker has not done in {MOST_S:g} seconds what it had got"

    def unknown(self, sent_ms: int) -> str:
        """Return why a message that is not found may have been there; empty if it was not."""
        return "the broker has deleted messages of that time" if self.earliest_ms > sent_ms else ""


def _facts(broker: Connection) -> Mapping[str, str]:
    answer = broker.ask(GET_BROKER_RUNTIME_INFO)
    if answer.code != SUCCESS:
        raise BadRequest(f"the broker does not show its state: code {answer.code}: {answer.remark[:200]}")
    table = members(member(parse_fastjson(answer.body.decode("utf-8", "replace")), "table"))
    return {name: str(value) for name, value in table.items()}


def _number(facts: Mapping[str, str], name: str) -> int:
    try:
        return int(facts[name])
    except (KeyError, ValueError):
        raise BadRequest(f"the broker's state does not give {name}") from None
