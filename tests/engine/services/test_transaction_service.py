"""Transactions of an open store: half, commit, rollback, op records of both lines, and the check pass by a clock."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message
from store.broker_line import broker_line
from store.engine.live.running_flags import RunningFlag
from store.engine.services import transaction_service
from store.engine.services.transaction_check import CheckReport, CheckRules
from store.engine.services.transaction_messages import CHECK_IMMUNITY
from store.engine.services.transaction_service import TransactionalMessageService
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.structures.commitlog.put_result import PutStatus
from store.structures.tables.config_file import read_config_file
from store.structures.tables.consumer_offsets import encode_consumer_offsets, read_consumer_offsets
from tests.cli.running import rmqctl
from tests.engine.services.stores import NAMES, unpack
from tests.support.stores import Clock
from tests.support.transactions import HALF_TOPIC, OP_TOPIC, SECOND, TIMEOUT, transactions

LINES = pytest.mark.parametrize("line", ["4.9", "5.3"])


@LINES
def test_a_committed_message_is_in_its_place_and_names_its_half(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        half = made.prepare("A")
        commit = made.service.commit(half.log_offset, "PG")
        made.service.write_ops()
        made.store.catch_up()
        (message,) = made.store.messages("Pay", 0)
        assert commit.status is PutStatus.PUT_OK
        assert (message.body, message.flag, message.sys_flag) == (b"body of A", 7, 0x8)
        assert message.prepared_transaction_offset == half.log_offset
        assert made.states() == {"A": "committed"}


@LINES
def test_a_message_that_is_rolled_back_or_open_is_not_in_its_place(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        made.service.rollback(made.prepare("A").log_offset, "PG")
        made.prepare("B")
        made.service.write_ops()
        assert made.states() == {"A": "rolled-back", "B": "in-doubt"}
        assert made.store.max_offset("Pay", 0) == 0


def test_4_9_writes_an_op_record_for_each_end_and_5_3_gathers_them(tmp_path: Path) -> None:
    for line, bodies in ("4.9", [b"0", b"1"]), ("5.3", [b"0,1,"]):
        with transactions(tmp_path / line, line) as made:
            for key in "AB":
                made.service.rollback(made.prepare(key).log_offset, "PG")
            made.service.write_ops()
            assert made.ops() == bodies


def test_5_3_writes_gathered_ends_after_three_seconds_or_4096_characters(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3") as made:
        half = made.prepare("A").log_offset
        made.service.rollback(half, "PG")
        made.clock.now_ms += 2999
        made.service.work()
        assert made.ops() == []
        made.clock.now_ms += 1
        made.service.work()
        assert made.ops() == [b"0,"]
        for _ in range(2049):
            made.service.rollback(half, "PG")
        assert [len(body) for body in made.ops()] == [2, 4096]


def test_5_3_loses_no_gathered_end_at_a_clean_stop(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3") as made:
        made.service.rollback(made.prepare("A").log_offset, "PG")
        made.service.start()
        made.service.stop()
        assert made.ops() == [b"0,"]


def test_another_group_and_another_record_are_refused(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        half = made.prepare("A")
        with pytest.raises(BadRequest, match="producer group PG, not Other"):
            made.service.commit(half.log_offset, "Other")
        commit = made.service.commit(half.log_offset, "PG")
        with pytest.raises(BadRequest, match="there is no half message"):
            made.service.rollback(commit.log_offset, "PG")


def test_5_3_takes_a_late_end_of_an_immune_half_only_as_an_answer(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3") as made:
        half = made.prepare("A", CHECK_IMMUNITY_TIME_IN_SECONDS="10").log_offset
        made.clock.now_ms += 10 * SECOND + 1
        with pytest.raises(BadRequest, match="immunity is over"):
            made.service.commit(half, "PG")
        assert made.service.commit(half, "PG", is_answer=True).is_ok


@pytest.mark.parametrize(
    ("immunity", "age_ms", "is_refused"),
    [
        (None, 99_999, False),
        ("10", 10_000, False),
        ("10", 10_001, True),
        ("5", 6000, False),
        ("5", 6001, True),
        ("x", 6000, False),
        ("x", 6001, True),
    ],
)
def test_an_end_is_refused_behind_the_longer_of_immunity_and_timeout(
    immunity: str | None, age_ms: int, is_refused: bool
) -> None:
    service: Any = SimpleNamespace(_clock=lambda: 100_000, _rules=CheckRules())
    properties = {} if immunity is None else {CHECK_IMMUNITY: immunity}
    half: Any = SimpleNamespace(properties=properties, born_timestamp_ms=100_000 - age_ms, log_offset=5)
    with pytest.raises(BadRequest, match="immunity is over") if is_refused else nullcontext():
        TransactionalMessageService._refuse_late_end(service, half)


# The check pass.


@LINES
def test_a_half_younger_than_the_timeout_ends_the_pass(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        made.prepare("A")
        assert made.check(TIMEOUT - 1).checked == []
        assert made.check(0).half_offset == 0
        assert made.offsets() == (None, None)


@LINES
def test_an_old_half_is_put_back_with_one_check_more_and_its_producer_asked(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        first = made.prepare("A")
        report = made.check()
        (copy,) = made.asked
        assert report.checked == [copy]
        assert (copy.queue_offset, copy.flag, copy.properties["TRANSACTION_CHECK_TIMES"]) == (1, 0, "1")
        assert (copy.body, copy.born_timestamp_ms) == (b"body of A", Clock().now_ms)
        assert copy.log_offset > first.log_offset
        assert made.offsets() == (1, 0)
        made.check()
        assert made.asked[1].properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert made.states() == {"A": "in-doubt"}


@LINES
def test_the_answer_to_a_check_ends_the_copy(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        made.prepare("A")
        made.check()
        made.service.commit(made.asked[0].log_offset, "PG", is_answer=True)
        made.service.write_ops()
        report = made.check()
        assert (report.checked, made.states()) == ([], {"A": "committed"})
        assert made.offsets() == (2, 1)


@LINES
def test_ended_halves_are_passed_and_their_op_records_too(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        for key in "ABC":
            made.service.rollback(made.prepare(key).log_offset, "PG")
        made.service.write_ops()
        report = made.check()
        assert (report.checked, report.half_offset) == ([], 3)
        assert report.op_offset == len(made.ops())


def test_op_records_are_passed_only_as_far_as_all_before_them_are_done(tmp_path: Path) -> None:
    """B ends first; A, before it, is young and ends the pass at once."""
    with transactions(tmp_path / "s") as made:
        made.prepare("A")
        made.service.rollback(made.prepare("B").log_offset, "PG")
        report = made.check(0)
        assert (report.half_offset, report.op_offset) == (0, 0)


@LINES
def test_more_op_records_than_one_pull_takes_are_read(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        halves = [made.prepare(f"K{number}").log_offset for number in range(40)]
        for half in reversed(halves):
            made.service.rollback(half, "PG")
            made.service.write_ops()
        report = made.check()
        assert (report.checked, report.half_offset, report.op_offset) == ([], 40, 40)


@LINES
def test_a_half_checked_often_enough_is_given_up(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line, transactionCheckMax=2) as made:
        made.prepare("A")
        # As in a broker, the second pass gives up its own copy where that is dispatched before the pass ends.
        reports = [made.check() for _ in range(3)]
        (record,) = [made.store.lookup(place) for report in reports for place in report.discarded]
        assert record is not None
        assert (record.topic, record.properties["TRANSACTION_CHECK_TIMES"]) == ("TRANS_CHECK_MAX_TIME_TOPIC", "2")
        assert made.states() == {"A": "discarded"}


def test_a_half_older_than_the_logs_retention_is_given_up(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", fileReservedTime=1) as made:
        made.prepare("A")
        assert len(made.check(3_600_001).discarded) == 1


@LINES
def test_an_immune_half_is_put_back_unasked_until_its_time_is_over(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        made.prepare("A", CHECK_IMMUNITY_TIME_IN_SECONDS="20")
        report = made.check(10 * SECOND)
        (copy,) = [made.store.lookup(place) for place in report.put_back]
        assert copy is not None
        assert copy.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
        assert (copy.properties["WAIT"], report.checked) == ("false", [])
        assert len(made.check(11 * SECOND).checked) == 1


@LINES
def test_the_end_of_an_immune_halfs_first_place_ends_its_copy(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        first = made.prepare("A", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        made.check(10 * SECOND)
        made.prepare("B")
        # The first place is below H, so that its end names a half that only the copy remembers.
        made.service.rollback(first.log_offset, "PG", is_answer=True)
        made.service.write_ops()
        assert made.states()["A"] == "rolled-back"


@pytest.mark.parametrize("immunity", ["-1", "soon"])
def test_an_immunity_that_is_no_number_is_the_timeout(immunity: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        made.prepare("A", CHECK_IMMUNITY_TIME_IN_SECONDS=immunity)
        assert len(made.check(TIMEOUT + 1).checked) == 1


def test_a_half_born_in_the_future_is_checked(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        made.clock.now_ms += 5
        made.prepare("A")
        made.store.catch_up()
        made.clock.now_ms -= 5
        assert made.service.check().checked == []  # stored since the pass began
        made.clock.now_ms += 4
        assert made.service.check().checked == []
    with transactions(tmp_path / "t") as made:
        message = Message.of("Pay", "x", uniq_key="A", born_timestamp_ms=made.clock.now_ms + 60 * SECOND)
        made.service.prepare(message, "PG")
        assert len(made.check(1).checked) == 1


@LINES
def test_a_half_exactly_as_old_as_the_timeout_waits_for_the_next_pass(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        made.prepare("A")
        assert made.check(TIMEOUT).checked == []
        assert len(made.check(1).checked) == 1


def test_a_store_without_transactions_has_nothing_to_check(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        assert made.check() == CheckReport(0, 0)


def test_the_thread_checks_by_its_interval(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3") as made:
        made.prepare("A")
        made.store.catch_up()
        made.clock.now_ms += 29_999
        made.service.work()
        assert made.asked == []
        made.clock.now_ms += 1
        made.service.work()
        assert len(made.asked) == 1


def test_the_settings_say_when_a_pass_comes_whom_it_asks_and_when_it_gives_up(tmp_path: Path) -> None:
    settings = {"transactionCheckInterval": 1000, "transactionTimeOut": 500, "transactionCheckMax": 2}
    with transactions(tmp_path / "s", **settings) as made:
        made.prepare("A")
        for asked in (1, 2, 2):
            made.store.catch_up()
            made.clock.now_ms += 1000
            made.service.work()
            assert len(made.asked) == asked
        assert made.states() == {"A": "discarded"}


def test_an_op_record_of_5_3_is_put_by_the_settings_of_its_interval_and_size(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3", transactionOpBatchInterval=100, transactionOpMsgMaxSize=3) as made:
        halves = [made.prepare(key).log_offset for key in "ABC"]
        made.service.rollback(halves[0], "PG")
        made.clock.now_ms += 100
        made.service.work()
        assert made.ops() == [b"0,"]
        made.service.rollback(halves[1], "PG")
        made.service.rollback(halves[2], "PG")
        assert made.ops() == [b"0,", b"1,2,"]


@pytest.mark.parametrize(("size", "bodies"), [(3, [b"0,1,"]), (4, []), (5, [])])
def test_gathered_ends_are_put_when_they_are_more_than_the_size(size: int, bodies: list[bytes], tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3", transactionOpMsgMaxSize=size) as made:
        for key in "AB":
            made.service.rollback(made.prepare(key).log_offset, "PG")
        assert made.ops() == bodies


@LINES
def test_an_op_record_that_the_store_refuses_is_told_and_its_half_stays_in_doubt(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        half = made.prepare("A").log_offset
        made.store.flags.set(RunningFlag.NOT_WRITEABLE)
        made.service.rollback(half, "PG")
        made.service.write_ops()
        body = "0," if line == "5.3" else "0"
        refusal = "SERVICE_NOT_AVAILABLE the store's flag NOT_WRITEABLE is set"
        assert made.service.findings == [f"the op record {body} was refused: {refusal}"]
        assert (made.service.in_doubt_count, made.service.given_up_count) == (1, 0)
        made.store.flags.clear(RunningFlag.NOT_WRITEABLE)


def test_5_3_counts_open_halves_by_topic_and_goes_on_counting_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "s" / "config" / "transactionMetrics"
    with transactions(tmp_path / "s", "5.3", transactionCheckMax=2) as made:
        first, second, _ = (made.prepare(key).log_offset for key in "ABC")
        made.service.commit(first, "PG")
        made.clock.now_ms += 3000
        made.service.work()
        now_ms = made.clock.now_ms
        counts = f'"transactionCount":{{"Pay":{{"count":2,"timeStamp":{now_ms - 3000}}}}}'
        version = f'"dataVersion":{{"counter":4,"stateVersion":0,"timestamp":{now_ms - 3000}}}'
        assert path.read_text() == f"{{{version},{counts}}}"
        made.service.last_work()
    with transactions(tmp_path / "s", "5.3", transactionCheckMax=2) as made:
        assert made.service.metrics is not None
        made.clock.now_ms = now_ms
        made.service.rollback(second, "PG")
        made.service.write_ops()
        made.check()
        assert made.service.metrics._counts["Pay"][0] == 1
        # The copy of a last check is given up by the same pass where it is dispatched in time, else by the next one.
        made.check()
        made.check()
        assert made.service.metrics._counts["Pay"][0] == 0, "the half that was given up counts no more"


def test_4_9_keeps_no_metrics_of_transactions(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        made.prepare("A")
        made.service.last_work()
    assert not (tmp_path / "s" / "config" / "transactionMetrics").exists()


def test_in_4_9_a_list_of_5_3_is_no_end_of_a_half(tmp_path: Path) -> None:
    """A downgraded broker takes the list for one number, fails, and asks again."""
    with transactions(tmp_path / "s", "5.3") as made:
        made.service.rollback(made.prepare("A").log_offset, "PG")
        made.service.write_ops()
    with transactions(tmp_path / "s", "4.9") as made:
        made.clock.now_ms += TIMEOUT
        assert len(made.check().checked) == 1


# The saved offsets.


@pytest.mark.parametrize("name", NAMES)
def test_consumer_offsets_are_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    path = root / "config" / "consumerOffset.json"
    copy = read_config_file(path.parent, path.name, Filesystem()).loaded
    assert copy is not None
    line = broker_line("5.3" if "services5" in name else "4.9")
    assert encode_consumer_offsets(copy.document, {}, line, 0) == path.read_bytes()


def test_a_pass_leaves_the_offsets_of_consumers_alone(tmp_path: Path) -> None:
    (tmp_path / "s" / "config").mkdir(parents=True)
    path = tmp_path / "s" / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@G":{0:7}}}')
    (tmp_path / "s" / "commitlog").mkdir()
    with transactions(tmp_path / "s") as made:
        made.prepare("A")
        made.check()
    found = read_consumer_offsets(path.parent, Filesystem())
    assert found["T", "G"] == {0: 7}
    assert found[HALF_TOPIC, "CID_RMQ_SYS_TRANS"] == {0: 1}


@LINES
def test_a_half_without_a_unique_key_gets_one_by_which_its_copy_is_known(line: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", line) as made:
        for _ in range(2):
            assert made.service.prepare(Message.of("Pay", "x", born_timestamp_ms=made.clock.now_ms), "PG").is_ok
        made.check()
        states = made.states()
    assert list(states.values()) == ["in-doubt", "in-doubt"]
    assert all(key is not None and re.fullmatch("7F000001[0-9A-F]{24}", key) for key in states)


def test_topics_of_transactions_need_no_entry_in_topics_json(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        made.service.rollback(made.prepare("A").log_offset, "PG")
    (tmp_path / "s/config").mkdir(exist_ok=True)
    (tmp_path / "s/config/topics.json").write_text('{"dataVersion":{},"topicConfigTable":{}}')
    assert rmqctl("config", "check", store=tmp_path / "s").code == 0


def test_5_3_writes_no_counts_that_did_not_change(tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "5.3") as made:
        assert made.service.metrics is not None
        made.service.metrics.persist()
    assert not (tmp_path / "s" / "config" / "transactionMetrics").exists()


def bare(**fields: Any) -> Any:
    """A service without a store, with these fields alone."""
    service: Any = object.__new__(TransactionalMessageService)
    vars(service).update(fields)
    return service


@pytest.mark.parametrize(
    ("now_ms", "done"),
    [
        (1029, []),
        (1030, ["ops"]),
        (1049, ["ops"]),
        (1050, ["ops", "check"]),
        (1069, ["ops", "check"]),
        (1070, ["ops", "check", "metrics"]),
    ],
)
def test_each_part_of_the_work_is_done_after_its_interval(now_ms: int, done: list[str]) -> None:
    calls: list[str] = []
    service = bare(
        _clock=lambda: now_ms, _wrote_ops_at=1000, _checked_at=1000, _wrote_metrics_at=1000, _op_interval_ms=30,
        _check_interval_ms=50, _metrics_interval_ms=70, write_ops=lambda: calls.append("ops"),
        check=lambda: calls.append("check"), _write_metrics=lambda: calls.append("metrics"),
    )  # fmt: skip
    service.work()
    assert calls == done


@pytest.mark.parametrize(
    ("immunity", "age_ms", "is_late"),
    [
        (None, 1 << 40, False),
        ("7", 7000, False),
        ("7", 7001, True),
        ("5", 6000, False),
        ("5", 6001, True),
        ("x", 6000, False),
        ("x", 6001, True),
    ],
)
@pytest.mark.parametrize("is_answer", [None, False, True])
@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_5_3_refuses_a_late_end_that_is_no_answer(
    line: str,
    is_answer: bool | None,
    immunity: str | None,
    age_ms: int,
    is_late: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = {"PGROUP": "PG", "REAL_TOPIC": "Pay"} | ({CHECK_IMMUNITY: immunity} if immunity is not None else {})
    half = SimpleNamespace(
        topic=HALF_TOPIC, properties=properties, born_timestamp_ms=100, log_offset=70, queue_offset=3
    )
    ended, put = list[Any](), list[Any]()
    result = SimpleNamespace(status=PutStatus.PUT_OK)
    store = SimpleNamespace(
        lookup=lambda at: half if at == 70 else None,
        put_replayed=lambda message, **named: put.append((message, named)) or result,
    )
    monkeypatch.setattr(transaction_service, "commit_message", lambda half, line: "committed")
    service = bare(
        _store=store, _opened=SimpleNamespace(line=line), _gathers_ops=line == "5.3",
        _rules=SimpleNamespace(timeout_ms=6000), _clock=lambda: 100 + age_ms, _end=ended.append,
    )  # fmt: skip
    given = {} if is_answer is None else {"is_answer": is_answer}
    if is_late and line == "5.3" and not is_answer:
        with pytest.raises(BadRequest, match="the half's immunity is over") as refused:
            service.rollback(70, "PG", **given)
        with pytest.raises(BadRequest, match="the half's immunity is over"):
            service.commit(70, "PG", **given)
        assert (refused.value.offset, ended) == (70, [])
    else:
        service.rollback(70, "PG", **given)
        assert (ended, put) == ([half], [])
        assert service.commit(70, "PG", **given) is result
        assert (ended, put) == ([half, half], [("committed", {"as_stored": False, "waits": False})])
    with pytest.raises(BadRequest, match="the half is of the producer group PG, not Other"):
        service.rollback(70, "Other", **given)
    with pytest.raises(BadRequest, match="there is no half message"):
        service.rollback(71, "PG", **given)


@pytest.mark.parametrize(
    ("half_from", "ops", "in_doubt"),
    [
        (0, [], {2, 3, 4, 5}),
        (4, [], {4, 5}),
        (0, [b"2,4,", None, b"9"], {3, 5}),
        (0, [b"2,3,4,5"], set()),
        (6, [b"2"], set()),
    ],
)
def test_halves_without_an_op_record_are_in_doubt(
    half_from: int, ops: list[bytes | None], in_doubt: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = {(HALF_TOPIC, 0): SimpleNamespace(min_offset=2, max_offset=6), (OP_TOPIC, 0): "ops"}
    rows = [(0, None, SimpleNamespace(body=body) if body is not None else None) for body in ops]
    read: list[tuple[Any, ...]] = []
    monkeypatch.setattr(transaction_service, "queue_records", lambda *given: read.append(given) or rows)
    for has_ops in (True, False):
        known = queues if has_ops else {}
        known = {**known, (HALF_TOPIC, 0): queues[HALF_TOPIC, 0]}
        opened = SimpleNamespace(queues=SimpleNamespace(find=lambda *key, known=known: known.get(key)), log="log")
        found = bare(_opened=opened, _offsets=lambda: (half_from, 8))._find_in_doubt()
        assert found == (in_doubt if has_ops else set(range(max(half_from, 2), 6)))
    assert read == ([("log", "ops", 8)] if half_from < 6 else [])


def test_the_check_goes_on_from_what_it_saved_or_the_first_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    group, first = "CID_RMQ_SYS_TRANS", {(HALF_TOPIC, 0): 2, (OP_TOPIC, 0): 3}
    opened = SimpleNamespace(layout=SimpleNamespace(config="config"), fs="fs")
    service = bare(_opened=opened, _store=SimpleNamespace(min_offset=lambda *key: first.get(key, 77)))
    for saved, expected in (
        ({(HALF_TOPIC, group): {0: 9, 1: 90}, (OP_TOPIC, group): {0: 8, 1: 80}}, (9, 8)),
        ({(HALF_TOPIC, group): {1: 90}}, (2, 3)),
        ({}, (2, 3)),
    ):
        monkeypatch.setattr(transaction_service, "read_consumer_offsets", lambda *given, saved=saved: saved)
        assert service._offsets() == expected


@pytest.mark.parametrize(
    ("topic", "group", "says"),
    [
        ("Pay", "", "producer_group is empty"),
        ("Pay", "g\2UNIQ_KEY\1evil", "producer_group holds the byte 1 or 2, which separate properties"),
        ("Pay", "g\ud800", "producer_group"),
        ("a\ud800", "PG", "topic"),
        ("a\1b", "PG", "topic holds the byte 1 or 2, which separate properties"),
    ],
)
def test_a_half_that_no_property_can_hold_is_refused(topic: str, group: str, says: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "4.9") as made:
        with pytest.raises(BadRequest, match=says):
            made.service.prepare(Message(topic, b"x", 0), group)
        assert made.store.max_log_offset == 0


@pytest.mark.parametrize("topic", ["", "..", "a/b", "x" * 128])
def test_a_half_into_a_topic_that_takes_no_message_is_refused(topic: str, tmp_path: Path) -> None:
    with transactions(tmp_path / "s", "4.9") as made:
        assert made.service.prepare(Message(topic, b"x", 0), "PG").status is PutStatus.MESSAGE_ILLEGAL
        assert made.store.max_log_offset == 0
