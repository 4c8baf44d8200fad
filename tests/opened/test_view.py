"""A replaced store is closed once, when its last reader has left, and never under a reader."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, cast

import pytest

from store.errors import ForeignFile, StoreError, WrongFileSize
from store.opened.opened_store import OpenedStore, foreign_only
from store.opened.view import CurrentView


class Opened:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def opened() -> Any:
    return cast(OpenedStore, Opened())


def test_a_store_without_readers_is_closed_where_it_is_replaced_or_the_view_is_closed() -> None:
    first, second = opened(), opened()
    view = CurrentView(first)
    with view.reading() as shown:
        assert shown is first
    assert first.closed == 0
    view.replace(second)
    assert (view.opened, first.closed, second.closed) == (second, 1, 0)
    view.close()
    assert (first.closed, second.closed) == (1, 1)
    view.close()
    assert second.closed == 1


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("by", ["replace", "close"])
def test_a_reader_keeps_its_store_and_the_last_one_closes_it(readers: int, by: str) -> None:
    first, second = opened(), opened()
    view = CurrentView(first)
    stack = [ExitStack() for _ in range(readers)]
    for one in stack:
        assert one.enter_context(view.reading()) is first
    if by == "replace":
        view.replace(second)
    else:
        view.close()
        view.close()
    for one in stack:
        assert first.closed == 0
        one.close()
    assert (first.closed, second.closed) == (1, 0)


def test_a_reader_that_leaves_the_current_store_leaves_it_open() -> None:
    first = opened()
    view = CurrentView(first)
    with view.reading(), view.reading():
        pass
    assert first.closed == 0


def test_a_store_that_replaces_one_of_a_closed_view_is_closed_itself() -> None:
    first, second = opened(), opened()
    view = CurrentView(first)
    view.close()
    view.replace(second)
    assert (view.opened, first.closed, second.closed) == (first, 1, 1)


def test_foreign_names_alone_are_left_out() -> None:
    refused: list[StoreError] = []
    take = foreign_only(refused.append)
    foreign = ForeignFile("a pipe")
    take(foreign)
    assert refused == [foreign]
    with pytest.raises(WrongFileSize):
        take(WrongFileSize.of(0, 1, "f"))
    assert refused == [foreign]
