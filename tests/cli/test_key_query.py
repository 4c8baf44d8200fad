"""Messages by key: what is left out, what stands for a record, and what is noted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.key_query import KeyQuery, find_by_key
from store import Message, open_store
from store.errors import DamagedRecord
from tests.cli.running import rmqctl
from tests.support.sessions import said, session
from tests.support.stores import SMALL

SOUND, WRONG = (
    SimpleNamespace(name=name, is_crc_right=name == "sound", store_timestamp_ms=2500) for name in ("sound", "wrong")
)


def found_by(
    asked: KeyQuery, monkeypatch: pytest.MonkeyPatch, messages: tuple[Any, ...] = (SOUND, WRONG), **answer: Any
) -> tuple[list[str], str]:
    """The names of the messages, and what is said."""
    one, given = session(), list[Any]()
    monkeypatch.setattr("rmqctl.key_query._inside", lambda record, key: [SimpleNamespace(name=f"{record.name}/{key}")])

    def query(*places: Any, **options: Any) -> Any:
        given.append((places, options))
        return SimpleNamespace(messages=messages, **{"damaged": (), "is_limited": False, **answer})

    opened: Any = SimpleNamespace(query=query, topics=lambda: ["Orders"])
    found, _ = find_by_key(one, asked, opened)
    options = {"verify": asked.verify, "by_tags": asked.by_tags, "in_database": asked.in_database}
    since = 2000 if asked.in_database or not asked.verify else 1001
    assert given == [((asked.topic, "k", 5, since, 3000), options)]
    return [message.name for message in found], said(one)


ASKED = KeyQuery("Orders", "k", 5, 2000, 3000)


@pytest.mark.parametrize(
    ("changed", "names", "what"),
    [
        ({}, ["sound/k", "wrong/k"], "key k"),
        ({"only_sound": True}, ["sound/k"], "key k"),
        ({"outer": True}, ["sound", "wrong"], "key k"),
        ({"by_tags": True}, ["sound", "wrong"], "tags k"),
        ({"outer": True, "only_sound": True}, ["sound"], "key k"),
        ({"verify": False, "in_database": True}, ["sound/k", "wrong/k"], "key k"),
    ],
)
def test_records_stand_for_the_messages_inside_unless_they_are_wanted_whole(
    changed: dict[str, bool], names: list[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ASKED._replace(**changed)
    assert (found_by(asked, monkeypatch), asked.what) == ((names, ""), what)


@pytest.mark.parametrize(
    ("topic", "messages", "note"),
    [
        ("Orders", (), ""),
        ("orders", (), "no topic is called 'orders'; did you mean 'Orders'?\n"),
        ("orders", (SOUND,), ""),
    ],
)
def test_an_unknown_topic_is_noted_where_nothing_is_found(
    topic: str, messages: tuple[Any, ...], note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_by(ASKED._replace(topic=topic), monkeypatch, messages)[1] == note


@pytest.mark.parametrize(("time_ms", "is_in"), [(1999, False), (2000, True), (3000, True), (3001, False)])
def test_a_message_is_within_the_times_though_an_index_entry_has_whole_seconds(
    time_ms: int, is_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = SimpleNamespace(name="one", is_crc_right=True, store_timestamp_ms=time_ms)
    assert found_by(ASKED, monkeypatch, (message,))[0] == (["one/k"] if is_in else [])
    assert found_by(ASKED._replace(verify=False), monkeypatch, (message,))[0] == ["one/k"]


def test_each_damaged_record_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = [DamagedRecord("bad", file="f", offset=at) for at in (1, 2)]
    lines = "warning: f, offset 1: bad\nwarning: f, offset 2: bad\n"
    assert found_by(ASKED, monkeypatch, damaged=damaged) == (["sound/k", "wrong/k"], lines)


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_search_that_ended_at_its_limit_is_noted(is_limited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    note = "note: the search ended at its limit; other messages may have the key\n" if is_limited else ""
    assert found_by(ASKED, monkeypatch, is_limited=is_limited)[1] == note


@pytest.mark.parametrize("command", [["index-query", "T", "k"], ["get", "T", "--key", "k"]])
@pytest.mark.parametrize(("most", "is_limited"), [(2, True), (4, False)])
def test_the_document_says_whether_the_limit_ended_the_search(
    command: list[str], most: int, is_limited: bool, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        for _ in range(3):
            store.put(Message.of("T", "x", keys=["k"]))
    run = rmqctl("-f", "json", *command, "--limit", most, store=tmp_path / "s")
    assert (run.json["is_limited"], len(run.json["messages"])) == (is_limited, min(3, most))
