"""Small rules of the command line, by their values: sizes, rates, warnings."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from rmqctl import deprecated
from rmqctl.backend import _size
from rmqctl.commands import ALIASES, backup, replicate_pull, transaction
from rmqctl.commands.get import _first_since
from rmqctl.commands.replicate_pull import _with_rate
from rmqctl.commands.salvage import WorstGrade, _refuse_contradictions, _Target, _verdict, _warn
from rmqctl.commands.served import _messages
from rmqctl.commands.stale import _row
from rmqctl.environment import Environment
from rmqctl.given_store import GivenStore
from rmqctl.interrupts import Interrupts, _numbers
from rmqctl.key_query import _inside
from rmqctl.options import Compat
from rmqctl.put_rows import _place
from rmqctl.report.contents import _cell
from rmqctl.shell import _answer
from store import Message, reading
from store.engine.services.transactions import Half, Transaction, TransactionState
from store.verbs.stale import StaleRecord
from tests.cli.running import rmqctl


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [
        (0, "0 KiB"),
        (1023, "0 KiB"),
        (1024, "1 KiB"),
        ((1 << 30) - 1, "1048575 KiB"),
        (1 << 30, "1.0 GiB"),
        (3 << 29, "1.5 GiB"),
    ],
)
def test_a_size_has_kibibytes_below_a_gibibyte(byte_count: int, text: str) -> None:
    assert _size(byte_count) == text


def test_the_rate_is_said_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said, updates = [100.0], list[str](), list[int]()
    monkeypatch.setattr(replicate_pull, "time", SimpleNamespace(monotonic=lambda: now[0]))
    session = cast(Any, SimpleNamespace(note=said.append))
    update = _with_rate(session, updates.append)
    interval = replicate_pull.RATE_INTERVAL_S
    for at, received in ((interval / 2, 1_000_000), (interval, 3_000_000), (1.5 * interval, 4_000_000),
                         (3 * interval, 9_000_000)):  # fmt: skip
        now[0] = 100.0 + at
        update(received)
    assert updates == [1_000_000, 3_000_000, 4_000_000, 9_000_000]
    assert said == [
        f"{3 / interval:.1f} MB/s, 3000000 bytes received",
        f"{3 / interval:.1f} MB/s, 9000000 bytes received",
    ]


def test_a_salvage_warns_of_each_queue_whose_end_is_unknown_and_of_tables_that_it_could_not_read() -> None:
    warned: list[str] = []
    ends = [
        SimpleNamespace(topic=None, queue_id=0, fault="torn"),
        SimpleNamespace(topic="T", queue_id=2, fault="no entry"),
    ]
    report = SimpleNamespace(unknown_ends=ends, new_store=None, unread_offsets="torn", lost_ops=None)
    session = SimpleNamespace(warn=warned.append, note=warned.append)
    _warn(cast(Any, session), cast(Any, report))
    assert warned == [
        "queues without a record start at 0: torn",
        "T/2: the offset of its next message is unknown: no entry",
        "nothing is counted as unconsumed: torn",
    ]


@pytest.mark.parametrize(("handler", "ends"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_a_lost_terminal_ends_a_run_that_nohup_did_not_start(handler: Any, ends: bool) -> None:
    before = signal.signal(signal.SIGHUP, handler)
    try:
        found = _numbers()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found == [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if ends else [])]


@pytest.mark.parametrize(
    ("level", "place"),
    [
        (0, ("T", 3)),
        (1, ("SCHEDULE_TOPIC_XXXX", 0)),
        (2, ("SCHEDULE_TOPIC_XXXX", 1)),
        (18, ("SCHEDULE_TOPIC_XXXX", 17)),
        (19, ("SCHEDULE_TOPIC_XXXX", 17)),
    ],
)
def test_a_delayed_message_waits_in_the_queue_of_its_level(level: int, place: tuple[str, int]) -> None:
    message = Message.of("T", b"x", queue_id=3, properties={"DELAY": str(level)})
    assert _place(message, 18) == place


@pytest.mark.parametrize(
    ("damages", "named"),
    [
        ([], []),
        ([{("b", 9): "torn"}], ["b, offset 9: torn"]),
        ([{("b", 9): "torn", ("b", 2): "zeros"}], ["b, offset 2: zeros, and at 1 other place"]),
        ([{("b", 9): "torn"}, {("a", 5): "x", ("a", 7): "y"}], ["b, offset 9: torn, and at 2 other places"]),
    ],
)
def test_the_first_damage_passed_over_is_named_and_the_others_counted(
    damages: list[dict[tuple[str, int], str]], named: list[str]
) -> None:
    warned: list[str] = []
    given = cast(Any, object.__new__(GivenStore))
    given._session = SimpleNamespace(warn=warned.append, met_findings=False)
    given.warn_of_damage([SimpleNamespace(damage=damage) for damage in damages])
    assert warned == [f"{one}; messages there are left out, `rmqctl check` shows more" for one in named]
    assert given._session.met_findings == bool(named)


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_stands_for_its_words(alias: str) -> None:
    run, wanted = (rmqctl(*words.split(), "--help") for words in (alias, ALIASES[alias]))
    assert (run.code, run.out) == (0, wanted.out)


@pytest.mark.parametrize(
    ("stdin", "stderr", "can_ask"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_question_wants_two_terminals(stdin: bool, stderr: bool, can_ask: bool) -> None:
    environment = cast(Any, object.__new__(Environment))
    streams = {"stdin": stdin, "stderr": stderr}
    for name, is_terminal in streams.items():
        object.__setattr__(environment, name, SimpleNamespace(isatty=lambda is_terminal=is_terminal: is_terminal))
    assert environment.can_ask is can_ask


@pytest.mark.parametrize(("count", "notes"), [(2, []), (3, ["only the first 3 rows; see --limit"])])
def test_an_answer_as_long_as_its_limit_may_be_cut(count: int, notes: list[str]) -> None:
    said: list[str] = []
    tables = SimpleNamespace(query=lambda text, limit: (["n"], [{"n": number} for number in range(count)]))
    answer = _answer(cast(Any, SimpleNamespace(note=said.append)), cast(Any, tables), "select n", 3)
    assert (said, answer.facts) == (notes, {"row_count": count})


@pytest.mark.parametrize(("total", "byte_count", "messages"), [("1", "0", 0), ("1", "9", 1), ("2", "9", 2)])
def test_a_served_store_without_a_byte_has_taken_no_message(total: str, byte_count: str, messages: int) -> None:
    assert _messages({"putMessageTimesTotal": total, "putMessageSizeTotal": byte_count}) == messages


@pytest.mark.parametrize(("log_offset", "shown"), [(-1, None), (0, 0), (1, 1)])
def test_a_stale_message_names_its_live_one_also_at_the_start_of_the_log(log_offset: int, shown: int | None) -> None:
    session = cast(Any, SimpleNamespace(store=SimpleNamespace(reached=[Path("/s")])))
    one = StaleRecord(Path("/s/f"), 9, 9, 9, "T", 0, 0, 0, 0, None, 0, live_log_offset=log_offset)
    assert _row(session, one)["live_log_offset"] == shown


@pytest.mark.parametrize(("value", "exact"), [(None, ""), (0, "0"), ("a", "a"), (1234567, "1234567")])
def test_a_cell_keeps_the_exact_value_and_nothing_of_none(value: object, exact: str) -> None:
    assert _cell("name", value).key == exact


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ({}, 5),
        ({5: 99, 6: 99, 7: 99}, 8),
        ({5: 99, 6: 100, 7: 101}, 6),
        ({5: 99, 6: 99, 7: 100}, 7),
        ({5: 100, 6: 100, 7: 100}, 5),
        ({5: 99, 7: 100}, 6),
    ],
)
def test_messages_since_a_time_begin_at_the_first_of_it(times: dict[int, int], first: int) -> None:
    """Check queues whose offsets go from 5 to 7; one that holds no message counts as the next one."""

    def messages(topic: str, queue_id: int, begin: int, **options: Any) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(store_timestamp_ms=time_ms) for offset, time_ms in times.items() if offset >= begin)

    opened = SimpleNamespace(
        min_offset=lambda *queue: 5, max_offset=lambda *queue: 8 if times else 5, messages=messages
    )
    assert _first_since(cast(Any, opened), "T", 0, 100) == first


@pytest.mark.parametrize(
    ("files", "gaps", "verdict"),
    [
        (0, 0, "no file that can hold records was found"),
        (1, 0, "3 certain records, 1,004 doubtful, 2 torn; nothing is missing between them"),
        (1, 2, "3 certain records, 1,004 doubtful, 2 torn; 9 bytes lost in 2 gaps"),
    ],
)
def test_a_salvage_ends_with_what_is_certain_and_what_is_lost(files: int, gaps: int, verdict: str) -> None:
    records = Counter({"certain": 3, "probable": 4, "doubtful": 1000})
    report = SimpleNamespace(files=files, records=records, torn=[1, 2], gaps=[1] * gaps, gap_bytes=9)
    assert _verdict(cast(Any, report)) == verdict


@pytest.mark.parametrize(
    ("to", "options", "refused"),
    [
        (None, {}, None),
        ("new", {"keep_offsets": True, "move_list": Path("m")}, None),
        ("new", {"stored_body": True}, "--stored-body"),
        (None, {"stored_body": True}, "--stored-body"),
        ("x.jsonl", {"stored_body": True}, None),
        ("x.parquet", {"stored_body": True}, None),
        ("x.parquet", {"keep_offsets": True}, "--keep-offsets"),
        ("x.jsonl", {"move_list": Path("m")}, "--map"),
        (None, {"keep_offsets": True}, "--keep-offsets"),
        (None, {"move_list": Path("m")}, "--map"),
        ("new", {"compat": Compat.V5_3}, None),
        ("x.jsonl", {"compat": Compat.V5_3}, "--compat"),
        (None, {"compat": Compat.V5_3}, "--compat"),
    ],
)
def test_options_of_a_salvage_fit_its_target(to: str | None, options: dict[str, Any], refused: str | None) -> None:
    given = {"move_list": None, "keep_offsets": False, "stored_body": False, "compat": None, **options}
    target = _Target(None if to is None else Path(to), WorstGrade.PARTIAL, **given)
    with nullcontext() if refused is None else pytest.raises(typer.BadParameter, match=refused):
        _refuse_contradictions(target)


def test_a_backup_counts_each_stored_file_that_is_new_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        SimpleNamespace(stored=name, stored_size=size) for name, size in (("a", 1), ("b", 20), ("b", 20), ("c", 300))
    ]
    monkeypatch.setattr(backup, "_facts", lambda made: {"id": made.id})
    monkeypatch.setattr(backup, "_file_row", lambda one: one.stored)
    made = SimpleNamespace(files=files, id="B1", size=5, log_end=7, notes=[])
    found = backup._created(cast(Any, made), {"a"})
    assert (found.facts, found.exit_code) == ({"id": "B1", "new_bytes": 320}, 0)
    assert found.verdict == "backup B1: 5 B, 320 B of it new; the log ends at 7"
    assert backup._created(cast(Any, SimpleNamespace(**{**vars(made), "notes": ["x"]})), set()).exit_code == 1


@pytest.mark.parametrize(
    ("key", "uniq_key", "keys", "is_found"),
    [("a", "a", [], True), ("a", "b", ["c", "a"], True), ("a", "a", ["a"], True), ("a", "b", ["c"], False)],
)
def test_a_message_has_a_key_as_its_unique_key_or_among_its_keys(
    key: str, uniq_key: str, keys: list[str], is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "messages_inside", lambda record, wants: [record] if wants(record) else [])
    record = cast(Any, SimpleNamespace(uniq_key=uniq_key, keys=keys))
    assert _inside(record, key) == ([record] if is_found else [])


@pytest.mark.parametrize(
    ("checks", "count"), [([None], 0), ([0], 0), ([3], 3), ([3, None], 0), ([3, 5], 5), ([5, 3, 4], 4)]
)
def test_a_transaction_has_the_checks_of_its_last_half_message(checks: list[int | None], count: int) -> None:
    halves = [Half(number, 100 * number, times, has_op=False) for number, times in enumerate(checks)]
    one = Transaction(TransactionState.IN_DOUBT, "K", "T", "3", "g", 1, halves)
    row = transaction._row(one)
    assert (row["half_count"], row["check_times"], row["queue_id"]) == (len(checks), count, 3)
    assert (row["committed_log_offset"], row["discarded_log_offset"], row["state"]) == (None, None, "in-doubt")


def test_a_signal_interrupts_where_it_is_allowed_inside_of_a_deferred_block() -> None:
    interrupts = Interrupts()
    with interrupts.deferred():
        interrupts._handle(2, None)
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pass
    other = Interrupts()
    with other.deferred():
        with pytest.raises(KeyboardInterrupt), other.allowed():
            other._handle(2, None)
        assert other._depth == 1


@pytest.mark.parametrize(
    ("key", "said"),
    [("command get --max", "--max is deprecated since 1.1, and removed by the next minor version: use --limit"),
     ("command get --limit", None)],
)  # fmt: skip
def test_a_deprecated_name_is_warned_of_with_its_successor(
    key: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(deprecated, "DEPRECATED", {"command get --max": ("1.1", "--limit")})
    deprecated.warn_of(cast(Any, SimpleNamespace(obj=SimpleNamespace(warn=warnings.append))), key, "--max")
    assert warnings == ([said] if said else [])
