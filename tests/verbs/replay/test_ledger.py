"""The ledger of a replay: rows of messages over several runs, and files that are no ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from store.errors import BadRequest, StoreIOError, StoreLocked
from store.verbs.replay.ledger import NAME, Ledger, acknowledged_in
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Answer, Doubt, Outcome, Place

PLACE = Place("b", 2)


def ledger(folder: Path, now_ms: int = 50) -> Ledger:
    return Ledger(folder, "source", "target", now_ms)


def sending(key: bytes, topic: str = "T") -> Sending:
    name = key.decode()
    return Sending(key, f"origin-{name}", f"U{name}", topic, (topic, 0), b"body", {}, 0, 0, 0, 0)


def send(made: Ledger, *keys: bytes, now_ms: int = 60) -> None:
    with made.writing():
        made.note_sent([(sending(key), PLACE) for key in keys], now_ms)


def answer(made: Ledger, key: bytes, outcome: Outcome, *rest: object) -> None:
    with made.writing():
        made.note_answers([(key, Answer(outcome, *rest))])  # type: ignore[arg-type]


def rows(folder: Path) -> list[tuple[object, ...]]:
    db = sqlite3.connect(folder / NAME)
    try:
        return db.execute("select * from messages order by key").fetchall()
    finally:
        db.close()


def test_each_run_has_a_number_and_a_ledger_keeps_its_id(tmp_path: Path) -> None:
    ids = []
    for number in (1, 2):
        with ledger(tmp_path / "a/b", 50 + number) as made:
            assert (made.run, made.path) == (number, tmp_path / "a/b" / NAME)
            ids.append(made.id)
    assert (ids[0], len(ids[0])) == (ids[1], 8)
    db = sqlite3.connect(tmp_path / "a/b" / NAME)
    assert db.execute("select * from runs").fetchall() == [(1, 51, "source", "target"), (2, 52, "source", "target")]
    db.close()


def test_a_message_is_in_doubt_from_before_it_is_sent_until_its_answer(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        send(made, b"a", b"b", b"c")
        assert made.doubts() == [
            Doubt(key, f"U{key.decode()}", "T", f"origin-{key.decode()}", "b", 2, 60) for key in (b"a", b"b", b"c")
        ]
        answer(made, b"a", Outcome.ACKNOWLEDGED, "", "M1", 7)
        answer(made, b"b", Outcome.REFUSED, "full")
        assert made.states([b"a", b"b", b"c", b"d"]) == {
            b"a": ("acknowledged", 1), b"b": ("refused", 1), b"c": ("doubt", 1)
        }  # fmt: skip
        assert made.uncertain() == [("T", "Uc", "origin-c", "doubt")]
        assert made.counts() == {"acknowledged": 1, "refused": 1, "again": 0, "doubt": 1, "twice": 0}
    assert rows(tmp_path) == [
        (b"a", "acknowledged", 1, 0, 1, "origin-a", "Ua", "T", "b", 2, 7, "M1", 60, ""),
        (b"b", "refused", 1, 0, 1, "origin-b", "Ub", "T", "b", 2, -1, "", 60, "full"),
        (b"c", "doubt", 1, 0, 1, "origin-c", "Uc", "T", "b", 2, -1, "", 60, ""),
    ]
    assert acknowledged_in(tmp_path, [b"a", b"b", b"x"]) == {b"a"}


@pytest.mark.parametrize(
    ("outcome", "twice"),
    [(None, 1), (Outcome.DOUBT, 1), (Outcome.REFUSED, 0), (Outcome.AGAIN, 0)],
)
def test_a_message_that_a_later_run_sends_in_doubt_may_be_there_twice(
    outcome: Outcome | None, twice: int, tmp_path: Path
) -> None:
    with ledger(tmp_path) as made:
        send(made, b"a")
        if outcome is not None:
            answer(made, b"a", outcome, "why")
        send(made, b"b")
        send(made, b"b")
    with ledger(tmp_path) as made:
        send(made, b"a", now_ms=70)
        answer(made, b"a", Outcome.ACKNOWLEDGED, "", "M", 5)
        assert made.counts()["twice"] == twice
        assert made.uncertain() == [
            *[("T", "Ua", "origin-a", "twice")] * twice, ("T", "Ub", "origin-b", "doubt"),
        ]  # fmt: skip
    assert rows(tmp_path) == [
        (b"a", "acknowledged", 2, twice, 2, "origin-a", "Ua", "T", "b", 2, 5, "M", 70, ""),
        (b"b", "doubt", 1, 0, 2, "origin-b", "Ub", "T", "b", 2, -1, "", 60, ""),
    ]


def test_a_message_that_is_refused_without_being_sent_stays_in_doubt_if_it_was(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        send(made, b"a")
        with made.writing():
            made.note_refused([(sending(key), "too large") for key in (b"a", b"b")], 80)
    assert rows(tmp_path) == [
        (b"a", "doubt", 1, 0, 1, "origin-a", "Ua", "T", "b", 2, -1, "", 60, "too large"),
        (b"b", "refused", 1, 0, 0, "origin-b", "Ub", "T", "", -1, -1, "", 80, "too large"),
    ]


def test_rows_come_by_topic_and_origin(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        with made.writing():
            batch = [(sending(key, topic), PLACE) for key, topic in ((b"c", "A"), (b"a", "B"), (b"b", "A"))]
            made.note_sent(batch, 60)
        assert [(one.topic, one.key) for one in made.doubts()] == [("A", b"b"), ("A", b"c"), ("B", b"a")]


def test_what_a_killed_run_began_is_not_there(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        with suppress(ZeroDivisionError), made.writing():
            made.note_sent([(sending(b"a"), PLACE)], 60)
            raise ZeroDivisionError
        assert made.path.with_name(f"{NAME}-wal").exists()
    assert rows(tmp_path) == []


def test_a_second_replay_and_files_that_are_no_ledger_are_refused(tmp_path: Path) -> None:
    with ledger(tmp_path), pytest.raises(StoreLocked, match="another replay uses the ledger"):
        ledger(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / NAME).write_text("no database, and long enough to have a head" * 20)
    for look in (lambda: ledger(tmp_path / "text"), lambda: acknowledged_in(tmp_path / "text", [b"a"])):
        with pytest.raises(BadRequest, match="not a ledger") as refused:
            look()
        assert (refused.value.file, refused.value.hint) == (tmp_path / "text" / NAME, "name another folder")
    (tmp_path / "newer").mkdir()
    db = sqlite3.connect(tmp_path / "newer" / NAME)
    db.execute("pragma user_version = 2")
    db.close()
    with pytest.raises(BadRequest, match="a ledger of form 2, and 1 is known"):
        ledger(tmp_path / "newer")
    (tmp_path / "file").touch()
    with pytest.raises(StoreIOError) as failed:
        ledger(tmp_path / "file")
    assert failed.value.file == tmp_path / "file"


@pytest.mark.parametrize("form", [0, 1])
def test_another_database_is_no_ledger_and_stays_as_it_is(form: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / NAME)) as db:
        db.executescript(f"create table x (a); pragma user_version = {form}")
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(BadRequest, match="not a ledger, but another database"):
        ledger(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {NAME: before}


def test_without_a_ledger_nothing_is_acknowledged(tmp_path: Path) -> None:
    assert acknowledged_in(None, [b"a"]) == acknowledged_in(tmp_path, [b"a"]) == set()
    sqlite3.connect(tmp_path / NAME).close()
    assert acknowledged_in(tmp_path, []) == set()


@pytest.mark.parametrize(
    ("former", "target", "is_taken"),
    [
        ((), "b:1", True),
        (("a:1",), "a:1", True),
        (("a:1;b:1",), "b:1 ; c:1", True),
        (("a:1", "b:1;a:1"), "b:1", True),
        (("a:1",), "a:2", False),
        (("a:1", "b:1;a:1"), "c:1", False),
    ],
)
def test_a_ledger_is_of_one_cluster(former: tuple[str, ...], target: str, is_taken: bool, tmp_path: Path) -> None:
    for one in former:
        with Ledger(tmp_path, "source", one, 50) as made:
            send(made, b"a")
            answer(made, b"a", Outcome.ACKNOWLEDGED)
    assert acknowledged_in(tmp_path, [b"a"]) == ({b"a"} if former else set())
    looks = (lambda: Ledger(tmp_path, "source", target, 60), lambda: acknowledged_in(tmp_path, [b"a"], target))
    for look in reversed(looks):
        if is_taken:
            found = look()
            if isinstance(found, Ledger):
                found.__exit__()
            continue
        with pytest.raises(BadRequest, match=f"sent to {former[-1]}, and none to {target}") as refused:
            look()
        assert str(refused.value.hint).endswith(f"give both: {target};{former[-1]}")


def test_a_ledger_that_can_not_be_opened_is_no_defect(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(StoreIOError, match="the ledger cannot be used: unable to open database file"):
        ledger(tmp_path)
