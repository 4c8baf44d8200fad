"""Whole answers of commands over small stores whose every number the test knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.changing import ChangeOptions
from rmqctl.commands import bundle, transaction
from store import Message, open_store
from store.formats.topics import OP_TOPIC
from tests.cli.running import rmqctl
from tests.engine.services.stores import Builder, build
from tests.support.sessions import give, said, session
from tests.support.stores import SMALL, Clock, text_message

START_MS = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Five messages of topic T, in the queues 0 and 2: a second, two hours and minus a minute after one another."""
    clock = Clock(START_MS)
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock) as opened:
        for number, step_ms in enumerate((0, 1000, 7_200_000, -60_000, 500)):
            clock.now_ms += step_ms
            opened.put(text_message(number, queue_id=number % 2 * 2))
    return tmp_path / "store"


@pytest.mark.leaves_damage
def test_a_timeline_has_each_bucket_and_each_jump(store: Path) -> None:
    with open_store(store) as opened:
        places = sorted((one.log_offset, one.size) for queue in (0, 2) for one in opened.messages("T", queue))
    size = places[0][1]
    later, end_ms = START_MS + 7_201_000, START_MS + 7_141_500
    found = rmqctl("-f", "json", "timeline", "--by", "hour", "--gap", "3600", store=store).json
    hour = START_MS // 3_600_000 * 3_600_000
    assert found["buckets"] == [
        {"start_ms": hour, "message_count": 2, "size_bytes": 2 * size, "share": "█" * 13},
        {"start_ms": hour + 7_200_000, "message_count": 3, "size_bytes": 3 * size, "share": "█" * 20},
    ]
    assert found["jumps"] == [
        {"kind": "pause", "log_offset": places[2][0], "before_ms": START_MS + 1000, "after_ms": later,
         "jump_seconds": 7200.0},
        {"kind": "clock-back", "log_offset": places[3][0], "before_ms": later, "after_ms": later - 60_000,
         "jump_seconds": -60.0},
    ]  # fmt: skip
    facts = ("message_count", "size_bytes", "first_ms", "last_ms", "jump_count")
    assert [found[name] for name in facts] == [5, 5 * size, START_MS, later, 2]
    assert end_ms // 1000 * 1000 in [row["start_ms"] for row in found["last_seconds"]]
    run = rmqctl("-f", "json", "timeline", "--topic", "t", store=store)
    assert [run.json[name] for name in facts] == [0, 0, None, None, 2]
    assert "no message of topic 't' was counted" in run.err


def test_info_has_when_the_first_and_the_last_message_came_and_whether_the_store_was_closed(tmp_path: Path) -> None:
    clock = Clock(START_MS)
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock) as opened:
        opened.put(text_message(0))
        clock.now_ms += 5000
        end = opened.put(text_message(1))
    root = tmp_path / "store"
    names = ("is_closed", "abort_ms", "first_ms", "last_ms", "segment_count", "min_log_offset", "log_end")
    closed = rmqctl("-f", "json", "info", store=root).json
    facts = [START_MS, START_MS + 5000, 1, 0, end.log_offset + end.size]
    assert [closed[name] for name in names] == [True, None, *facts]
    (root / "abort").touch()
    os.utime(root / "abort", ns=(0, 7_123_456_789))
    killed = rmqctl("-f", "json", "info", store=root).json
    assert [killed[name] for name in names] == [False, 7123, *facts]


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("T", "--queue", "1"), "T has no queue 1; it has 0, 2"),
        (("T", "--queue", "3"), "T has no queue 3; it has 0, 2"),
        (("T", "--queue", "2"), ""),
        (("U",), "no topic is called 'U'"),
    ],
)
def test_a_queue_that_is_not_there_is_said_with_those_that_are(words: tuple[str, ...], note: str, store: Path) -> None:
    run = rmqctl("get", *words, store=store)
    assert note in run.err
    assert ("has no queue" in run.err) is ("has no queue" in note)


def test_producer_groups_are_named_in_order_where_none_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        for name in ("zeta", "alpha", "mid"):
            builder.half(name, PGROUP=name)

    run = rmqctl("transaction", "show", "--group", "none", store=build(tmp_path / "store", steps))
    assert "no transaction is of the producer group 'none'; there are alpha, mid, zeta" in run.err


def test_each_delay_level_has_its_seconds_and_offsets(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=Clock(START_MS)) as opened:
        for level in (1, 2, 2, 5):
            opened.put(Message.of("T", b"x", delay_level=level))
    levels = rmqctl("-f", "json", "delay", "show", store=tmp_path / "store").json["levels"]
    names = ("level", "delay_seconds", "min_offset", "max_offset", "saved_offset", "next_offset")
    assert [tuple(row[name] for name in names) for row in levels] == [
        (1, 1, 0, 1, None, 0), (2, 5, 0, 2, None, 0), (5, 60, 0, 1, None, 0),
    ]  # fmt: skip
    assert [row["due"] for row in levels] == [1, 2, 1]


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("gap", "says"),
    [("7199", "5 messages; 2 pauses and clock jumps\n"), ("7200", "5 messages; 1 pause or clock jump\n")],
)
def test_a_pause_is_longer_than_the_gap(gap: str, says: str, store: Path) -> None:
    run = rmqctl("timeline", "--gap", gap, store=store)
    assert run.out.startswith(says)
    seconds = [row["start_ms"] for row in rmqctl("-f", "json", "timeline", store=store).json["last_seconds"]]
    assert seconds == sorted(seconds)


def test_a_timeline_without_a_jump_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=Clock(START_MS)) as opened:
        opened.put(text_message(0))
    assert rmqctl("timeline", store=tmp_path / "store").out.startswith("1 message; no pause or clock jump\n")


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("delay", "show"), "no delayed messages\n"), (("filter", "show"), "no subscription\n"),
        (("transaction", "show"), "no transactions\n"), (("lag",), "no consumer group has an offset\n"),
    ],
)  # fmt: skip
def test_a_report_on_nothing_says_so(words: tuple[str, ...], says: str, store: Path) -> None:
    run = rmqctl(*words, store=store)
    assert (run.code, run.out[: len(says)]) == (0, says)


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "table"),
    [
        (("delay", "show"), "delayOffset.json"), (("filter", "show"), "consumerFilter.json"),
        (("transaction", "show"), "consumerOffset.json"), (("get", "T", "--group", "G"), "consumerFilter.json"),
    ],
)  # fmt: skip
def test_a_table_that_a_broker_would_not_load_is_warned_of(words: tuple[str, ...], table: str, store: Path) -> None:
    says = f"warning: {table} is damaged"
    assert says not in rmqctl(*words, store=store).err
    (store / "config").mkdir()
    (store / "config" / table).write_text("{")
    assert says in rmqctl(*words, store=store).err


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "from config/; every group counts as never consumed"),
        ("consumerOffset.json", ""),
        ("consumerOffset.json.bak", ""),
        ("consumerOffset.json.tmp", "offsets; these are from consumerOffset.json.tmp, which it ignores"),
    ],
)
def test_offsets_that_a_broker_would_not_load_are_warned_of(name: str, says: str, store: Path) -> None:
    (store / "config").mkdir()
    (store / "config" / name).write_text('{"offsetTable": {"T@G": {"0": 1}}}')
    warned = "would load no consumer offsets"
    run = rmqctl("lag", store=store)
    assert [line for line in run.out.splitlines() if line.endswith(":")] == ["groups:"]
    err = run.err
    assert (warned in err, says.removeprefix("offsets; ") in err) == (bool(says), True)


@pytest.mark.leaves_damage
def test_a_salvage_without_a_target_says_that_nothing_was_written(store: Path, tmp_path: Path) -> None:
    note = "nothing was written; --to NEWSTORE, FILE.jsonl or FILE.parquet saves the records"
    (tmp_path / "none" / "commitlog").mkdir(parents=True)
    (tmp_path / "none" / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    assert note in rmqctl("salvage", store=store).err
    assert note not in rmqctl("salvage", "--to", tmp_path / "saved.jsonl", store=store).err
    assert note not in rmqctl("salvage", store=tmp_path / "none").err


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "what"),
    [(("--topic", "U"), "U"), (("--topic", "T", "--queue", "1"), "T, queue 1"), (("--topic", "T"), None), ((), None)],
)
def test_a_rebuild_of_what_the_log_does_not_hold_is_warned_of(
    words: tuple[str, ...], what: str | None, store: Path
) -> None:
    for folder in ("U/0", "T/1"):
        (store / "consumequeue" / folder).mkdir(parents=True)
    run = rmqctl("rebuild", "--dry-run", *words, store=store)
    assert run.code == 0
    assert ("the log holds nothing of" in run.err, f"the log holds nothing of {what}\n" in run.err) == (
        what is not None, what is not None,
    )  # fmt: skip


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "what"),
    [(("--topic", "U"), "topic 'U'"), (("--topic", "T", "--queue", "1"), "queue_id 1 of topic 'T'")],
)
def test_a_rebuild_of_an_unknown_queue_is_refused(words: tuple[str, ...], what: str, store: Path) -> None:
    run = rmqctl("rebuild", "--dry-run", *words, store=store)
    assert (run.code, run.err.splitlines()) == (2, [f"rmqctl: {what} is in neither the log nor the queues"])


@pytest.mark.leaves_damage
@pytest.mark.parametrize("kind", ["batchconsumequeue", "consumequeue", "consumequeue_rocksdb"])
def test_queues_without_a_digest_are_warned_of(kind: str, store: Path) -> None:
    assert "have no digest" not in rmqctl("fingerprint", store=store).err
    (store / kind).mkdir(exist_ok=True)
    (store / kind / "CURRENT").touch()
    of = "batch consume queues" if kind.startswith("batch") else "consume queues in a RocksDB"
    assert f"warning: {of} have no digest, only their messages in the log" in rmqctl("fingerprint", store=store).err


@pytest.mark.leaves_damage
def test_the_last_messages_with_a_tag_are_those_of_all_that_have_it(store: Path) -> None:
    rows = rmqctl("-f", "jsonl", "get", "T", "--tags", "tag0", "--last", "2", store=store).rows
    assert [row["uniq_key"] for row in rows] == ["U0", "U3"]


def test_transactions_with_warnings_have_all_columns_and_these() -> None:
    assert (*transaction.COLUMNS[:2], "warnings", *transaction.COLUMNS[2:]) == transaction.COLUMNS_OF_WARNED


class Served:
    """A process that serves a store, and answers with these log offsets."""

    process_id = 7

    def __init__(self, commit_offset: int, ops: list[Message]) -> None:
        self.calls: list[object] = []
        self.transactions, self._offset, self._ops = self, commit_offset, ops

    def max_offset(self, topic: str, queue_id: int) -> int:
        return 5

    def commit(self, log_offset: int, group: str, *, is_answer: bool) -> object:
        self.calls.append(("commit", log_offset, group, is_answer))
        status = SimpleNamespace(value="OS_PAGE_CACHE_BUSY")
        return SimpleNamespace(log_offset=self._offset, status=status, reason="busy", size=91)

    def rollback(self, log_offset: int, group: str, *, is_answer: bool) -> None:
        self.calls.append(("rollback", log_offset, group, is_answer))

    def wait_for_message(self, topic: str, queue_id: int, offset: int, timeout_ms: int) -> bool:
        self.calls.append((topic, queue_id, offset))
        return bool(self._ops)

    def messages(self, topic: str, queue_id: int, start: int) -> Iterator[object]:
        assert (topic, queue_id) == (OP_TOPIC, 0)
        while self._ops:
            body = self._ops.pop(0).body
            yield SimpleNamespace(topic=OP_TOPIC, queue_offset=start, log_offset=900 + start, size=90, body=body)
            start += 1


@pytest.mark.parametrize(
    ("offset", "how", "ops", "verdict", "appended"),
    [
        (-1, "commit", [], "nothing was changed", []),
        (0, "commit", [], "committed", [("Pay", 0)]),
        (700, "commit", [b"9,x", b"3,0,"], "committed", [("Pay", 700), (OP_TOPIC, 906)]),
        (700, "rollback", [b"0,"], "rolled back", [(OP_TOPIC, 905)]),
        (700, "rollback", [b"10,"], "rolled back", []),
    ],
)
def test_a_served_store_ends_a_transaction(
    offset: int, how: str, ops: list[bytes], verdict: str, appended: list[tuple[str, int]], tmp_path: Path
) -> None:
    def steps(builder: Builder) -> None:
        builder.half("order", PGROUP="g")

    root = build(tmp_path / "store", steps)
    served, one = Served(offset, [Message(OP_TOPIC, body) for body in ops]), session()
    give(one, store=str(root))
    consent = ChangeOptions(yes=True)
    run = transaction._resolve_served(one, cast(Any, served), "order", consent, commit=how == "commit")
    is_found = OP_TOPIC in dict(appended)
    waited = [] if offset < 0 else [(OP_TOPIC, 0, 5)] if is_found or not ops else [(OP_TOPIC, 0, 5), (OP_TOPIC, 0, 6)]
    assert served.calls == [(how, 0, "g", True), *waited]
    tables = {table.name: list(table.rows) for table in run.tables}
    assert [(row["topic"], row["log_offset"]) for row in tables["appended"]] == appended
    told, is_applied = said(one), offset >= 0
    assert run.verdict == (f"process 7 has {verdict} the half at log offset 0" if is_applied else verdict)
    assert (run.exit_code, run.read_facts()["applied"]) == (0 if is_applied else 1, is_applied)
    assert ("the served store refused the message: OS_PAGE_CACHE_BUSY busy\n" in told) is not is_applied
    assert ("writes the op record later" in told) is (is_applied and not is_found)


def test_a_half_is_shown_where_it_is_put(tmp_path: Path) -> None:
    words = ("-f", "jsonl", "put", "Pay", "x", "--queue", "3", "--half", "g", "--key", "k")
    (row,) = rmqctl(*words, store=tmp_path / "store").rows
    assert (row["topic"], row["queue_id"], row["queue_offset"]) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0)


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("words", "numbers"),
    [((), [0, 1, 2, 3, 4]), (("--only-sound",), [0, 1, 3, 4]), (("--where", "queue_id = 0"), [0, 2, 4]),
     (("--where", "queue_id = 0", "--only-sound"), [0, 4])],
)  # fmt: skip
def test_only_sound_messages_of_a_condition_are_exported(
    words: tuple[str, ...], numbers: list[int], store: Path
) -> None:
    segment = store / "commitlog" / f"{0:020}"
    segment.write_bytes(segment.read_bytes().replace(b"message 2 ", b"massage 2 "))
    rows = rmqctl("export", "--to", "-", "--as", "jsonl", *words, store=store).out.splitlines()
    assert [json.loads(row)["uniq_key"] for row in rows] == [f"U{number}" for number in numbers]


@pytest.mark.leaves_damage
def test_a_bundle_that_is_not_written_is_a_plan_of_a_file_outside_of_the_store(store: Path, tmp_path: Path) -> None:
    plan = rmqctl("bundle", tmp_path / "case.tar.zst", "--dry-run", store=store)
    assert (plan.code, plan.out.index("content") < plan.out.index("target")) == (0, True)
    inside = rmqctl("bundle", store / "case.tar.zst", "--dry-run", store=store)
    assert (inside.code, inside.out) == (2, "")


@pytest.mark.leaves_damage
def test_a_salt_has_64_bytes_at_most(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.verbs.write_bundle", lambda *given: given)
    one = session()
    give(one, store=str(store))
    hides: dict[str, bool] = {"hides_names": False}
    given = cast(Any, bundle._write(one, Path("case"), cast(Any, (1, 2, 3)), "é" * 40, **hides))
    assert (given[:3], given[4].salt) == ((1, 2, 3), "é".encode() * 32)
