"""The confirm offset of controller mode: when there is one, where it lies, and which records it lets through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.verbs.recover.confirm import confirm_offset, describe_unconfirmed, keep_confirm_offset, up_to_confirmed


def opened(confirm: int, *, line: BrokerLine = LINE_5_3, has_epochs: bool = True, start: int = 0) -> Any:
    return SimpleNamespace(
        line=line,
        fs=SimpleNamespace(exists=lambda path: has_epochs and path == "epochs"),
        layout=SimpleNamespace(controller_state="epochs"),
        checkpoint=SimpleNamespace(confirm_log_offset=confirm),
        log=SimpleNamespace(start=start),
    )


@pytest.mark.parametrize(
    ("store", "offset"),
    [
        (opened(5), 5),
        (opened(0), 0),
        (opened(5, line=LINE_4_9), None),
        (opened(5, has_epochs=False), None),
    ],
)
def test_a_5_x_store_with_epochs_has_a_confirm_offset(store: Any, offset: int | None) -> None:
    assert confirm_offset(store) == offset


@pytest.mark.parametrize(
    ("confirm", "start", "kept", "behind"),
    [
        (50, 0, 50, 50),
        (100, 0, 100, 0),
        (101, 0, 100, 0),
        (99, 0, 99, 1),
        (0, 0, 0, 0),
        (5, 20, 20, 95),
        (-5, 0, 0, 0),
    ],
)
def test_the_confirm_offset_is_kept_inside_of_the_log(confirm: int, start: int, kept: int, behind: int) -> None:
    store = opened(confirm, start=start)
    said = keep_confirm_offset(store, 100, only_confirmed=False)
    assert store.checkpoint.confirm_log_offset == kept
    text = f"{behind} bytes past the confirm offset {confirm} may lack on slaves: a new master may cut them"
    assert said == ([text] if behind else [])
    assert describe_unconfirmed(confirm, 100, only_confirmed=True) == [
        f"{one}. They get no new entries here, only from a broker whose slaves have them" for one in said
    ]


def test_outside_of_controller_mode_nothing_is_kept() -> None:
    store = opened(500, line=LINE_4_9)
    assert keep_confirm_offset(store, 100, only_confirmed=True) == []
    assert store.checkpoint.confirm_log_offset == 500


@pytest.mark.parametrize(
    ("confirm", "as_broker", "limits"), [(5, False, True), (0, False, False), (0, True, True), (5, True, True)]
)
def test_a_confirm_offset_limits_handlers_and_0_those_of_a_broker_alone(
    confirm: int, as_broker: bool, limits: bool
) -> None:
    handlers: list[Any] = []
    found = up_to_confirmed(opened(confirm), handlers, as_broker=as_broker)
    assert (found is not handlers) == limits
    assert up_to_confirmed(opened(5, has_epochs=False), handlers, as_broker=True) is handlers
