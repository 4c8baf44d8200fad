"""get: the queues and offsets that it begins at, what it refuses, and what it notes of unknown names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from rmqctl.commands import get
from rmqctl.messages import MessageRows
from store import BadRequest, DamagedRecord, Message, StoreClosed, open_store
from tests.cli.running import rmqctl
from tests.support.sessions import give, said, session
from tests.support.stores import make_store

QUEUES = {2: (10, 30), 5: (0, 4)}
"""The extents of two queues of T."""


def first_message(topic: str, queue: int, offset: int, *, must_exist: bool, max_count: int) -> Iterator[Any]:
    assert (must_exist, max_count) == (False, 1)
    yield SimpleNamespace(store_timestamp_ms=1000 * offset)


def opened(queues: dict[int, tuple[int, int]] = QUEUES) -> Any:
    known = {"T": queues} if queues else {}
    return SimpleNamespace(
        topics=lambda: list(known),
        queue_ids=lambda topic: list(known.get(topic, {})),
        min_offset=lambda topic, queue: known.get(topic, {}).get(queue, (0, 0))[0],
        max_offset=lambda topic, queue: known.get(topic, {}).get(queue, (0, 0))[1],
        messages=first_message,
    )


class Rows(MessageRows):
    """Rows that note the messages and the warning of damage."""

    def __init__(self, one: Any) -> None:
        super().__init__(None, one.format, warn=one.warn)
        self.warned = 0

    def row(self, message: Any) -> dict[str, Any]:
        return {"log_offset": message.log_offset}

    def warn_of_damage(self) -> None:
        self.warned += 1


@pytest.mark.parametrize(
    ("topic", "offset", "to", "queue"),
    [("T", None, None, None), ("T", 3, None, 2), ("T", None, 3, 2), ("T", 0, 0, 2), ("U", 3, None, 0)],
)
def test_limits_that_are_queue_offsets_are_of_the_first_queue(
    topic: str, offset: int | None, to: int | None, queue: int | None
) -> None:
    assert get._one_queue(opened(), topic, offset, to) == queue


@pytest.mark.parametrize(
    ("asked", "offset", "since_ms", "last", "places"),
    [
        (("T", None), None, None, None, {2: 10, 5: 0}),
        (("T", 2), None, None, None, {2: 10}),
        (("T", 0), None, None, None, {0: 0}),
        (("U", None), None, None, None, {0: 0}),
        (("T", 2), 12, None, None, {2: 12}),
        (("T", 2), 0, None, None, {2: 0}),
        (("T", None), None, None, 5, {2: 25, 5: 0}),
        (("T", None), None, None, 20, {2: 10, 5: 0}),
        (("T", 2), None, 12_000, None, {2: 12}),
        (("T", 2), None, 12_001, None, {2: 13}),
        (("T", 2), None, 12_000, 5, {2: 25}),
        (("T", 2), None, 28_000, 5, {2: 28}),
    ],
)
def test_each_queue_is_read_from_its_first_offset_the_time_or_the_last_messages(
    asked: tuple[str, int | None], offset: int | None, since_ms: int | None, last: int | None, places: dict[int, int]
) -> None:
    assert get._places(opened(), asked, offset, since_ms, last) == places


@pytest.mark.parametrize("modified", [0, 4_000_000_000])
@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--since", 1_800_000_015_000), range(15, 47)),
        (("--since", 1_800_000_015_001), range(16, 48)),
        (("--since", 1_800_000_045_000, "--until", 1_800_000_047_000), range(45, 48)),
        (("--until", 1_800_000_015_000, "--last", 4), range(12, 16)),
        (("--last", 4), range(46, 50)),
    ],
)
def test_messages_are_chosen_by_their_own_times_not_by_those_of_queue_files(
    options: tuple[str | int, ...], offsets: range, modified: int, tmp_path: Path
) -> None:
    settings = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 400}
    with open_store(tmp_path, read_only=False, settings=settings) as store:
        for number in range(50):
            store.put_replayed(Message.of("T", f"{number}"), store_timestamp_ms=1_800_000_000_000 + 1000 * number)
    for file in (tmp_path / "consumequeue" / "T" / "0").iterdir():
        os.utime(file, (modified, modified))
    run = rmqctl("-f", "jsonl", "get", "T", "--queue", 0, *options, store=tmp_path)
    assert [row["queue_offset"] for row in run.rows] == list(offsets)


@pytest.mark.parametrize(
    ("offset", "to", "end"),
    [(None, None, None), (5, None, None), (None, 5, 6), (5, 5, 6), (0, 0, 1), (6, 5, "refused")],
)
def test_the_end_is_behind_the_last_offset(offset: int | None, to: int | None, end: int | str | None) -> None:
    if end == "refused":
        with pytest.raises(typer.BadParameter, match="--to is less than --from"):
            get._end(offset, to)
    else:
        assert get._end(offset, to) == end


@pytest.mark.parametrize(
    ("topic", "queue", "note"),
    [
        ("T", None, ""),
        ("T", 5, ""),
        ("T", 0, "T has no queue 0; it has 2, 5\n"),
        ("t", None, "no topic is called 't'; did you mean 'T'?\n"),
        ("other", 0, "no topic is called 'other'\n"),
    ],
)
def test_an_unknown_topic_or_queue_is_noted_with_what_is_there(topic: str, queue: int | None, note: str) -> None:
    one = session(stderr=False)
    get._tell_of_queues(one, opened(), topic, queue)
    assert said(one) == note


@pytest.mark.parametrize(
    ("uri", "terminal", "follow", "raw", "refusal"),
    [
        (None, True, True, False, None),
        ("s3://b/s", True, False, False, None),
        ("s3://b/s", False, True, False, "--follow needs a store in a folder"),
        (None, False, False, True, None),
        (None, True, False, True, "--raw writes bytes that can drive a terminal"),
    ],
)
def test_a_remote_store_is_not_followed_and_no_terminal_gets_raw_bytes(
    uri: str | None, terminal: bool, follow: bool, raw: bool, refusal: str | None
) -> None:
    one = session(stdout=terminal)
    one.options = one.options._replace(uri=uri)
    if refusal:
        with pytest.raises(typer.BadParameter, match=refusal):
            get._check_surroundings(one, follow=follow, raw=raw)
    else:
        get._check_surroundings(one, follow=follow, raw=raw)


@pytest.mark.parametrize(
    ("found", "start", "is_blank", "error"),
    [
        ("message", None, False, None),
        (None, None, False, None),
        (None, None, True, None),
        (None, 40, False, BadRequest),
        (DamagedRecord("bad"), None, False, DamagedRecord),
        (DamagedRecord("bad"), None, True, None),
        (DamagedRecord("bad"), 40, False, BadRequest),
    ],
)
def test_a_log_offset_inside_of_a_record_is_refused_before_damage(
    found: Any, start: int | None, is_blank: bool, error: type[Exception] | None
) -> None:
    def lookup(log_offset: int) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    files = SimpleNamespace(record_start=lambda log_offset: start, is_in_blank=lambda log_offset: is_blank)
    one: Any = SimpleNamespace(store=SimpleNamespace(open_for_reading=lambda: files))
    store: Any = SimpleNamespace(lookup=lookup)
    if error is not None:
        with pytest.raises(error, match="bad" if start is None else "^log offset 50 is inside of the record .* 40$"):
            get._lookup(one, store, 50)
    else:
        assert get._lookup(one, store, 50) == (None if is_blank else found)


@pytest.mark.parametrize(
    ("is_there", "is_right", "only_sound", "code", "status", "note"),
    [
        (True, True, False, 0, "FOUND", ""),
        (True, True, True, 0, "FOUND", ""),
        (True, False, False, 1, "FOUND", ""),
        (True, False, True, 1, "NOT_FOUND", "the message's body does not have the record's CRC\n"),
        (False, True, False, 1, "NOT_FOUND", ""),
    ],
)
def test_one_message_is_found_unless_it_is_damaged_and_only_sound_ones_are_asked_for(
    is_there: bool, is_right: bool, only_sound: bool, code: int, status: str, note: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    one = session()
    give(one, store=str(tmp_path))
    message = SimpleNamespace(is_crc_right=is_right, log_offset=50) if is_there else None
    monkeypatch.setattr(get, "_open", lambda session, from_files: None)
    monkeypatch.setattr(get, "_lookup", lambda session, opened, log_offset: message)
    rows: Any = Rows(one)
    result: Any = get._get_one(one, 50, rows, False, only_sound)
    verdict = "1 message found" if status == "FOUND" else "no message at log offset 50"
    assert (result.final_exit_code(), result.read_facts(), result.read_verdict()) == (code, {"status": status}, verdict)
    assert [list(table.rows) for table in result.tables] == [[{"log_offset": 50}] if status == "FOUND" else []]
    assert (said(one), rows.warned) == (note, 1)


@pytest.mark.parametrize(
    ("from_files", "served", "found"),
    [(False, "served", "served"), (False, None, "files"), (True, "served", "files"), (True, None, "files")],
)
def test_the_process_that_serves_the_store_is_asked_unless_its_files_are_wanted(
    from_files: bool, served: str | None, found: str
) -> None:
    one: Any = SimpleNamespace(store=SimpleNamespace(find_served=lambda: served, open_for_reading=lambda: "files"))
    assert get._open(one, from_files=from_files) == found


@pytest.mark.parametrize(
    ("tags", "sql", "key", "kind"),
    [
        (None, None, None, "NoneType"),
        ("a", None, None, "TagExpression"),
        (None, "a > 1", None, "SqlFilter"),
        (None, None, "k", "KeyExpression"),
    ],
)
def test_messages_are_chosen_by_tags_sql_or_a_key(
    tags: str | None, sql: str | None, key: str | None, kind: str
) -> None:
    assert type(get._filter(tags, sql, key)).__name__ == kind


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["SCHEDULE_TOPIC_XXXX", "--tags", "A"], 2, "hold delivery times in place of tags"),
        (["SCHEDULE_TOPIC_XXXX", "--tags", "A", "--queue", "0", "--one-call"], 1, ""),
        (["Orders", "--tags", "A"], 1, ""),
    ],
)
def test_tags_choose_no_delayed_messages_as_their_queues_have_none(
    tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    make_store(tmp_path / "store", 1)
    run = rmqctl("--store", tmp_path / "store", "get", *options)
    assert (run.code, says in run.err) == (code, True)


def test_a_message_is_at_the_offset_of_its_id_or_the_given_one() -> None:
    assert get._place_of("7F00000100002A9F0000000000000245", None) == 0x245
    assert get._place_of(None, 7) == 7


def test_the_files_are_watched_after_the_process_that_served_the_store_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = session()
    monkeypatch.setattr(one.store, "open_for_reading", lambda: "files")

    def closed(raw: bool, message_filter: object) -> int:
        raise StoreClosed("ended")

    first: Any = SimpleNamespace(follow=closed, places={2: 5})
    again: Any = SimpleNamespace(follow=lambda raw, message_filter: (raw, message_filter))
    asked = list[object]()

    def read(*given: object) -> Any:
        asked.append(given)
        return again

    assert get._follow(one, first, read, True, "filter") == (True, "filter")
    assert asked == [("files", {2: 5})]
    assert said(one) == "note: the process that served the store has ended; its files are watched\n"
    assert get._follow(one, again, read, False, None) == (False, None)
    assert len(asked) == 1


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("offsets", "damaged", "unsound", "code"),
    [
        ([], (), (), 1),
        ([30, 10, 20], (), (), 0),
        ([30, 10], (7,), (), 1),
        ([30, 10, 20], (), (10,), 1),
        ([], (7,), (), 1),
    ],
)
def test_messages_with_a_key_are_in_the_order_of_the_log_and_damage_is_a_finding(
    raw: bool, offsets: list[int], damaged: tuple[int, ...], unsound: tuple[int, ...], code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    one, written = session(), list[int]()
    rows: Any = Rows(one)
    found = [SimpleNamespace(log_offset=at, is_crc_right=at not in unsound) for at in offsets]
    asked: Any = SimpleNamespace(max_count=get.MOST, topic="T", what="key k")
    monkeypatch.setattr(get, "_open", lambda session, from_files: f"from files: {from_files}")
    answer = SimpleNamespace(damaged=damaged, is_limited=False)
    monkeypatch.setattr(get, "find_by_key", lambda *given: (found, answer))
    monkeypatch.setattr(get, "_write_all", lambda session, opened, some: written.extend(x.log_offset for x in some))
    result: Any = get._get_by_key(one, asked, rows, raw)
    if raw:
        assert (result, written, rows.warned) == (code, sorted(offsets), 0)
        return
    status = "FOUND" if offsets else "NOT_FOUND"
    assert (result.final_exit_code(), result.read_facts()) == (code, {"status": status, "is_limited": False})
    assert [row["log_offset"] for row in result.tables[0].rows] == sorted(offsets)
    count = "1 message" if len(offsets) == 1 else f"{len(offsets)} messages"
    assert (result.read_verdict(), rows.warned, written) == (f"{count} of T with the key k", 1, [])


def test_a_query_by_key_gives_no_more_messages_than_a_broker() -> None:
    one = session()
    asked: Any = SimpleNamespace(max_count=get.MOST + 1)
    with pytest.raises(typer.BadParameter, match=f"a query by key gives at most {get.MOST} messages"):
        get._get_by_key(one, asked, MessageRows(None, one.format, warn=one.warn), False)


def test_a_message_is_written_raw_from_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, written = session(), list[tuple[int, int]]()
    message = SimpleNamespace(is_crc_right=True, log_offset=50, size=91)

    class Writer(SimpleNamespace):
        def __enter__(self) -> Writer:
            return self

        def __exit__(self, *error: object) -> None:
            written.append((-1, -1))

        def write(self, log_offset: int, size: int) -> None:
            written.append((log_offset, size))

    monkeypatch.setattr(get, "_open", lambda session, from_files: f"from files: {from_files}")
    monkeypatch.setattr(get, "_lookup", lambda session, opened, log_offset: message)
    monkeypatch.setattr(get, "RecordWriter", lambda opened, stdout: Writer(opened=opened, stdout=stdout))
    assert get._get_one(one, 50, MessageRows(None, one.format, warn=one.warn), True, False) == 0
    assert written == [(50, 91), (-1, -1)]
