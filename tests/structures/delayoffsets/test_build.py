"""The queue offset at which a broker goes on with a level."""

from __future__ import annotations

import pytest

from store.structures.delayoffsets.build import _next_offset
from store.structures.delayoffsets.review import DelayedMessage, DelayLevel, DelayState

D, P = DelayState.DELIVERED, DelayState.PENDING


@pytest.mark.parametrize(
    ("states", "following"),
    [
        ({}, 2),
        ({1: P}, 2),
        ({2: D}, 3),
        ({2: D, 3: D}, 4),
        ({2: P, 3: D}, 2),
        ({2: D, 3: P, 4: P}, 3),
        ({2: DelayState.ASSUMED, 3: DelayState.DUPLICATE, 4: DelayState.LOST}, 5),
        ({2: DelayState.DUE}, 2),
        ({2: D, 3: DelayState.BLOCKED}, 3),
    ],
)
def test_a_level_goes_on_at_its_first_message_that_waits(states: dict[int, DelayState], following: int) -> None:
    level = DelayLevel(3, 100, 0, 9, 2)
    messages = [DelayedMessage(state, 3, offset) for offset, state in states.items()]
    others = [DelayedMessage(P, 2, 2), DelayedMessage(D, 4, 8)]
    assert _next_offset(level, [*messages, *others]) == following
