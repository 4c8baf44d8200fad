"""What an older version does not read of the message database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_5_3, LINE_5_5, BrokerLine
from store.structures.messagedb import upgrade
from store.structures.trap import Trap

OPEN, ENDED, GIVEN_UP = (False, False), (True, False), (False, True)


def noted(
    monkeypatch: pytest.MonkeyPatch, other: BrokerLine, *halves: tuple[bool, bool], writes: bool, indexes: bool
) -> list[Trap]:
    found = [SimpleNamespace(is_ended=ended, is_given_up=given_up) for ended, given_up in halves]
    monkeypatch.setattr(upgrade, "half_messages", lambda opened: found)
    own = SimpleNamespace(config=SimpleNamespace(writes_index_files=writes, message_index_enable=indexes))
    return list(upgrade.notes(cast(Any, own), cast(Any, SimpleNamespace(line=other))))


@pytest.mark.parametrize(
    ("halves", "count"), [([], ""), ([ENDED, GIVEN_UP], ""), ([OPEN, ENDED, OPEN], "2"), ([GIVEN_UP, OPEN], "1")]
)
def test_open_half_messages_are_asked_for_by_no_older_version(
    halves: list[tuple[bool, bool]], count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = noted(monkeypatch, LINE_5_3, *halves, writes=True, indexes=True)
    noun = "half message" if count == "1" else "half messages"
    detail = f"{count} open {noun} of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC: no producer is asked"
    assert traps == ([Trap("half-messages-in-database", detail, (int(count),))] if count else [])
    assert noted(monkeypatch, LINE_5_5, *halves, writes=False, indexes=True) == []


@pytest.mark.parametrize(
    ("writes", "indexes", "is_told"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_keys_are_in_the_database_alone_where_no_index_file_is_written(
    writes: bool, indexes: bool, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = noted(monkeypatch, LINE_5_3, writes=writes, indexes=indexes)
    told = Trap("index-in-database", "keys are in the database alone, and a query finds no message")
    assert traps == ([told] if is_told else [])
