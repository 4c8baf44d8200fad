"""A store with a broker's services beside it: what each does while it is open, and what is left at its end."""

from __future__ import annotations

import errno
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

from store import Message, MessageColumns, ServedStore, WritableStore, open_store
from store.engine.live import service as service_module
from store.engine.live.running_flags import RunningFlag
from store.engine.services.runtime_info import describe_bytes, read_runtime_info
from store.engine.services.schedule import ScheduleMessageService
from store.engine.stats.broker_stats import RINGS
from store.errors import BadRequest, DamagedFile, StoreIOError
from store.formats.topics import HALF_TOPIC
from store.structures.commitlog.put_result import PutResult, PutStatus
from store.structures.index import index_service as index_module
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.stores import SMALL, Clock, text_message
from tests.support.threads import eventually

ALL = ("schedule", "transactions", "cleaning", "statistics")


def served(root: Path, *services: str, **options: object) -> ServedStore:
    return open_store(root, read_only=False, services=services, **{"settings": SMALL, **options})


def test_a_delayed_message_is_delivered_while_the_store_is_open(tmp_path: Path) -> None:
    with served(tmp_path / "store", "schedule", settings={**SMALL, "messageDelayLevel": "1s 5s"}) as store:
        store.put(Message.of("T", "later", delay_level=1))
        assert eventually(lambda: store.max_offset("T", 0) == 1)
        group = "QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER"
        counted = store.broker_statistics
        # The get is counted beside the delivery.
        assert eventually(lambda: [item.value for *key, item in counted.items() if tuple(key) == group] == [1])
    assert (tmp_path / "store" / "config" / "delayOffset.json").read_text() == '{\n\t"offsetTable":{1:1\n\t}\n}'


def half_of(store: ServedStore, key: str) -> PutResult:
    message = Message.of("Pay", f"body of {key}", uniq_key=key, born_timestamp_ms=store.opened.clock())
    half = store.transactions.prepare(message, "PG")
    store.catch_up()
    return half


@pytest.mark.parametrize(("line", "interval_ms"), [("4.9", 60_000), ("5.3", 30_000)])
def test_an_open_half_that_nobody_answers_for_is_put_back_at_the_brokers_interval(
    line: str, interval_ms: int, tmp_path: Path
) -> None:
    clock = Clock()
    with served(tmp_path / "store", "transactions", clock=clock, compat=line) as store:
        half_of(store, "A")
        clock.now_ms += interval_ms - 1
        store.transactions.work()
        store.catch_up()
        assert store.max_offset(HALF_TOPIC, 0) == 1
        clock.now_ms += 1
        assert eventually(lambda: store.max_offset(HALF_TOPIC, 0) == 2)
        half, copy = store.messages(HALF_TOPIC, 0)
        assert (copy.body, copy.properties["TRANSACTION_CHECK_TIMES"]) == (half.body, "1")
        assert store.max_offset("Pay", 0) == 0


def test_a_producer_that_is_registered_is_asked_and_its_answer_ends_the_half(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", "transactions", clock=clock) as store:
        store.transactions.ask = lambda half: store.transactions.commit(half.log_offset, "PG", is_answer=True)
        half_of(store, "A")
        clock.now_ms += 60_000
        assert eventually(lambda: store.max_offset("Pay", 0) == 1)
        assert store.describe_findings() == []


def test_a_half_that_nobody_ever_answers_for_is_kept_and_told_of(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", *ALL, clock=clock) as store:
        half_of(store, "A")
        for _ in range(16):
            clock.now_ms += 6001
            store.transactions.check()
        counted = {key for name, key, _ in store.broker_statistics.items() if name == "GROUP_GET_NUMS"}
        assert counted == {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS"}
        store.catch_up()
        (given_up,) = store.messages("TRANS_CHECK_MAX_TIME_TOPIC", 0)
        assert (given_up.body, given_up.properties["REAL_TOPIC"]) == (b"body of A", "Pay")
        assert store.max_offset(HALF_TOPIC, 0) == 16
        assert store.state()[3:5] == (0, 1)
    assert store.describe_findings() == []


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_halves_are_in_doubt_until_their_op_record_or_the_last_check(line: str, tmp_path: Path) -> None:
    clock, settings = Clock(), {**SMALL, "transactionCheckInterval": 1 << 30}
    with served(tmp_path / "store", "transactions", clock=clock, compat=line, settings=settings) as store:
        halves, counts = [half_of(store, key) for key in "ABCD"], []

        def count() -> None:
            store.transactions.write_ops()
            counts.append(store.state()[3:5])

        count()
        store.transactions.commit(halves[0].log_offset, "PG")
        count()
        store.transactions.rollback(halves[2].log_offset, "PG")
        count()
        for _ in range(16):
            store.catch_up()
            clock.now_ms += 6001
            store.transactions.check()
            count()
        # A copy with 15 checks that is dispatched while its pass still runs is given up by that pass, as in a broker.
        assert counts[:-2] == [(4, 0), (3, 0), *[(2, 0)] * 15]
        assert counts[-2] in [(2, 0), (1, 1), (0, 2)]
        assert counts[-1] == (0, 2)


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_halves_in_doubt_are_counted_again_at_the_start(line: str, tmp_path: Path) -> None:
    clock = Clock()
    for in_doubt in (2, 4):
        with served(tmp_path / "store", "transactions", clock=clock, compat=line) as store:
            assert store.state().halves_in_doubt == in_doubt - 2
            halves = [half_of(store, key) for key in "ABC"]
            store.transactions.rollback(halves[1].log_offset, "PG")
            store.transactions.check()
            store.transactions.write_ops()
            assert store.state().halves_in_doubt == in_doubt


def test_a_half_that_waits_for_its_own_time_stays_in_doubt(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", "transactions", clock=clock) as store:
        properties = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"}
        message = Message.of("Pay", "x", uniq_key="A", properties=properties, born_timestamp_ms=clock.now_ms)
        store.transactions.prepare(message, "PG")
        store.catch_up()
        clock.now_ms += 50_000
        report = store.transactions.check()
        assert (report.half_offset, len(report.put_back), store.state().halves_in_doubt) == (1, 1, 1)


def test_the_backlog_of_each_level_has_those_whose_time_has_come(tmp_path: Path) -> None:
    clock = Clock()
    settings = {**SMALL, "messageDelayLevel": "1s 5s 10s"}
    with served(tmp_path / "store", clock=clock, settings=settings) as store:
        service = store._schedule = ScheduleMessageService(store, clock)
        rows = []
        for level in (1, 1, 3):
            store.put(Message.of("T", "x", delay_level=level, born_timestamp_ms=clock.now_ms))
            store.catch_up()
            clock.now_ms += 500
        for step_ms in (-501, 1, 1, 499, 8999, 1, 10_000):
            clock.now_ms += step_ms
            rows.append([tuple(row) for row in store.state().delay_levels])
        assert rows == [
            [(1, 1000, 2, 0, 0), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 1, 0), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 1, 1), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 2, 500), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 2, 9499), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 2, 9500), (3, 10_000, 1, 0, 0)],
            [(1, 1000, 2, 2, 19_500), (3, 10_000, 1, 1, 9500)],
        ]
        service.deliver()
        assert [tuple(row) for row in store.state().delay_levels] == [(1, 1000, 0, 0, 0), (3, 10_000, 0, 0, 0)]


def test_a_check_leaves_a_half_where_it_is_while_puts_are_refused(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", "transactions", clock=clock) as store:
        half_of(store, "A")
        clock.now_ms += 6001
        store.flags.set(RunningFlag.DISK_FULL)
        assert store.transactions.check().half_offset == 0
        store.flags.clear(RunningFlag.DISK_FULL)
        report = store.transactions.check()
        assert (report.half_offset, len(report.checked)) == (1, 1)


def test_5_3_loses_no_end_of_a_transaction_at_the_close(tmp_path: Path) -> None:
    with served(tmp_path / "store", "transactions", clock=Clock(), compat="5.3") as store:
        store.transactions.rollback(half_of(store, "A").log_offset, "PG")
    with open_store(tmp_path / "store") as closed:
        assert [one.body for one in closed.messages("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)] == [b"0,"]


def test_a_service_that_fails_is_told_of_behind_the_close_too(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", "transactions", clock=clock) as store:
        half_of(store, "A")
        store.flags.set(RunningFlag.NOT_READABLE)
        clock.now_ms += 60_000
        assert eventually(store.describe_findings)
        store.flags.clear(RunningFlag.NOT_READABLE)
    said = f"TransactionalMessageService failed: {tmp_path / 'store'}: the store's flag NOT_READABLE is set"
    assert said in store.describe_findings()


@pytest.mark.turns(6)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("refused", ["fdatasync", "msync", "flush", "publish", "create_file", "open_new", "open_write"])
def test_a_store_outlives_a_moment_without_descriptors(
    refused: str, flush: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "RETRY_S", 0.01)
    monkeypatch.setattr(index_module, "FLUSH_PAUSES_S", (0.01,) * 100)
    is_short = threading.Event()
    fs = FaultyFilesystem(errno_code=errno.EMFILE, when=lambda name, path: name == refused and is_short.is_set())
    settings = {**SMALL, "flushDiskType": flush, "syncFlushTimeout": 60_000}
    with served(tmp_path / "store", "statistics", settings=settings, fs=fs) as store:
        assert store.put(text_message(0)).is_ok
        is_short.set()
        threading.Timer(0.2, is_short.clear).start()
        put = [store.put(text_message(number)).status for number in range(1, 60)]
        assert eventually(lambda: not is_short.is_set())
        assert eventually(lambda: store.describe_findings() == [])
        assert store.put(text_message(99)).is_ok
        kept = 2 + sum(status is PutStatus.PUT_OK for status in put)
    with open_store(tmp_path / "store") as store:
        assert store.max_offset("T", 0) >= kept


@pytest.mark.leaves_damage
def test_each_put_that_a_failed_service_refuses_raises_the_same_short_traceback(tmp_path: Path) -> None:
    """An error keeps the frames of its traceback: one that grew with each put would take the memory."""
    store = served(tmp_path / "store")
    reput = store._services._reput
    reput.failure = StoreIOError("the disk is gone")
    reput.on_failure()
    for _ in range(20):
        with pytest.raises(StoreIOError, match="the disk is gone") as raised:
            store.put(text_message(0))
    assert len(traceback.extract_tb(raised.value.__traceback__)) < 10
    with pytest.raises(StoreIOError):
        store.close()


def test_a_slave_delivers_and_checks_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "store", *ALL, settings={**SMALL, "brokerRole": "SLAVE"}) as store:
        with pytest.raises(BadRequest, match="no SLAVE"):
            _ = store.transactions
        assert not [one for one in store._running if type(one).__name__ == "ScheduleMessageService"]


def test_without_services_a_store_does_nothing_by_itself(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as store:
        assert type(store) is WritableStore


def test_an_unknown_service_is_refused_and_leaves_the_store_free(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="services are schedule, transactions, cleaning, statistics, not timer"):
        served(tmp_path / "store", "timer")
    with served(tmp_path / "store") as store:
        assert store.put(text_message(1)).is_ok


def test_services_need_a_store_that_is_written_to(tmp_path: Path) -> None:
    with served(tmp_path / "store"):
        pass
    with pytest.raises(TypeError, match=r"'services' is an option of open_store.* for writing"):
        open_store(tmp_path / "store", services=ALL)


def test_puts_and_gets_are_counted_with_their_topics_and_groups(tmp_path: Path) -> None:
    with served(tmp_path / "store", *ALL) as store:
        sizes = [store.put(text_message(number)).size for number in range(3)]
        store.put_batch([text_message(number, topic="B") for number in range(2)])
        many = store.put_many([text_message(number, topic="M") for number in range(4)])
        store.put(Message.of("T", b"x" * 100_000))
        store.catch_up()
        store.get("T", 0, 0, group="G")
        store.get("T", 0, 3)
        counts = {(name, key): item.value for name, key, item in store.broker_statistics.items()}
        stats = store.statistics
        assert dict(stats.topic_messages) == {"T": 3, "B": 2, "M": 4}
        assert stats.topic_bytes["M"] == int(many.sizes.sum())
        assert (stats.failed_puts, stats.found_gets, stats.missed_gets, stats.transferred_messages) == (1, 1, 1, 3)
        assert counts["GROUP_GET_NUMS", "T@G"] == 3
        assert counts["GROUP_GET_SIZE", "T@G"] == counts["TOPIC_PUT_SIZE", "T"] == sum(sizes)
        assert counts["BROKER_PUT_NUMS", "DefaultCluster"] == 9


def test_a_group_is_behind_by_the_bytes_after_its_last_message_and_by_its_age(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", clock=clock) as store:
        sizes = []
        for number in range(3):
            sizes.append(store.put(text_message(number)).size)
            clock.now_ms += 1000
        store.catch_up()
        fallen = []
        for count in (1, 2, 3):
            store.get("T", 0, 0, count, group="G")
            counts = {(name, key): value for (name, key), value in store.broker_statistics._moments.items()}
            fallen.append((counts["GROUP_GET_FALL_SIZE", "0@T@G"], counts["GROUP_GET_FALL_TIME", "0@T@G"]))
        assert fallen == [(sizes[1] + sizes[2], 3000), (sizes[2], 2000), (0, 0)]


def test_a_record_that_is_put_again_is_counted(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        assert store.put_replayed(text_message(1)).is_ok
        assert dict(store.statistics.topic_messages) == {"T": 1}


@pytest.mark.parametrize(
    ("line", "name"), [("4.9", "getTransferedTps"), ("5.3", "getTransferredTps"), ("5.5", "getTransferredTps")]
)
def test_the_rate_of_transfers_has_the_name_of_the_brokers_version(line: str, name: str, tmp_path: Path) -> None:
    with served(tmp_path / "store", compat=line) as store:
        assert [one for one in store.runtime_info() if one.startswith("getTransfer")] == [name]


def test_the_runtime_report_has_the_brokers_names(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", *ALL, clock=clock) as store:
        store.put(text_message(1))
        store.catch_up()
        info = store.runtime_info()
        log = tmp_path / "store" / "commitlog"
        assert float(info[f"commitLogDiskRatio_{log}"]) == float(info["commitLogDiskRatio"])
        assert info["commitLogMinOffset"] == "0"
        assert info["commitLogMaxOffset"] == str(store.max_log_offset)
        assert (info["dispatchBehindBytes"], info["earliestMessageTimeStamp"]) == ("0", str(clock.now_ms))
        assert info["commitLogDirCapacity"].startswith("Total : ")
        assert all(isinstance(value, str) for value in info.values())


def test_the_runtime_report_has_the_offset_and_the_end_of_each_level_that_delivered(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", clock=clock) as store:
        for level in (3, 3, 1):
            store.put(Message.of("T", b"x", delay_level=level))
        store.catch_up()
        info = read_runtime_info(store.opened, store._services, {3: 1, 1: 0, 2: 7})
        offsets = [(name, text) for name, text in info.items() if name.startswith("scheduleMessageOffset_")]
        assert offsets == [
            (f"scheduleMessageOffset_{level}", text) for level, text in ((1, "0,1"), (2, "7,0"), (3, "1,2"))
        ]
        assert info["pageCacheLockTimeMills"] == "0"


def test_puts_and_gets_take_the_time_of_the_clock_and_deliveries_are_no_gets_of_the_broker(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", "schedule", clock=clock, compat="5.3") as store:
        ticks = iter(range(1000))
        store.put(Message.of("T", b"x", delay_level=1))
        store.catch_up()
        clock.now_ms += 1000
        assert eventually(lambda: store.max_offset("T", 0) == 1)
        got = ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER")
        assert eventually(lambda: got in ((name, key) for name, key, _ in store.broker_statistics.items()))
        counts = {(name, key): item.value for name, key, item in store.broker_statistics.items()}
        assert counts[got] == 1
        assert not [name for name, _ in counts if name == "BROKER_GET_NUMS"]
        store._clock = lambda: clock.now_ms + 7 * next(ticks)
        store.put_many(MessageColumns.of([text_message(1, topic="M"), text_message(2, topic="M")]))
        store.get("T", 0, 0, group="G")
        counts = {(name, key): item.value for name, key, item in store.broker_statistics.items()}
        assert (counts["TOPIC_PUT_LATENCY", "0@M"], counts["GROUP_GET_LATENCY", "0@T@G"]) == (7, 7)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (2047, "2.0 KiB"), (2048, "2.0 KiB"),
        ((1 << 20) - 1, "1024.0 KiB"), (1 << 20, "1.0 MiB"), (1 << 30, "1.0 GiB"), (1 << 40, "1.0 TiB"),
        (1 << 50, "1.0 PiB"), (1 << 60, "1.0 EiB"), (1 << 70, "1024.0 EiB"),
    ],
)  # fmt: skip
def test_bytes_are_told_in_the_largest_unit_below_them(count: int, text: str) -> None:
    assert describe_bytes(count) == text


def test_the_statistics_are_sampled_every_second_of_the_clock(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", *ALL, clock=clock) as store:
        for _ in range(11):
            before = len(store.statistics._samples)
            store.put(text_message(1))
            clock.now_ms += 1000
            assert eventually(lambda before=before: len(store.statistics._samples) > before)
        assert store.statistics.rate("put", 10) == pytest.approx(1.0, rel=0.2)


def test_a_store_of_line_5_writes_its_checkpoint_every_second(tmp_path: Path) -> None:
    clock = Clock()
    with served(tmp_path / "store", clock=clock, compat="5.3") as store:
        store.put(text_message(1))
        store.catch_up()
        clock.now_ms += 1000
        checkpoint = tmp_path / "store" / "checkpoint"
        assert eventually(
            lambda: (
                checkpoint.exists()
                and int.from_bytes(checkpoint.read_bytes()[8:16], "big") == store.checkpoint.logics_ms > 0
            )
        )


def test_a_served_store_is_clean_after_its_close(tmp_path: Path) -> None:
    with served(tmp_path / "store", *ALL) as store:
        store.put(text_message(1))
        assert (tmp_path / "store" / "abort").exists()
    assert not (tmp_path / "store" / "abort").exists()
    with open_store(tmp_path / "store") as store:
        assert store.max_offset("T", 0) == 1


def test_a_table_that_is_damaged_with_its_copy_keeps_the_services_from_delivering_all_of_it_again(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    with served(root, *ALL) as store:
        store.put(text_message(1))
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (root / "config" / name).write_text("{")
    with pytest.raises(DamagedFile, match="a broker does not start"):
        served(root, *ALL)
    (root / "config" / "delayOffset.json.bak").unlink()
    with served(root, *ALL) as store:
        assert "a broker starts with an empty table" in store.notes[0]


CLEANING = ["cleaning the commit log", "correcting the queues' starts", "cleaning the queues"]


@pytest.mark.parametrize("line", ["4.9", "5.3"])
@pytest.mark.parametrize("services", [(), ("cleaning",), ("statistics",), ("cleaning", "statistics")])
def test_the_tasks_of_a_store_are_those_of_its_services_and_version(
    services: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    with served(tmp_path / "store", *services, compat=line) as store:
        cleaning, statistics, always = (
            [(task.name, task.first_ms, task.period_ms) for task in tasks] for tasks in store._tasks()
        )
    assert [name for name, *_ in cleaning] == (CLEANING if "cleaning" in services else [])
    assert statistics == (
        [
            ("sampling", 0, 1000),
            ("latencies", 60_000, 60_000),
            *((f"statistics of the {ring}", step_ms, step_ms) for ring, (step_ms, _) in RINGS.items()),
        ]
        if "statistics" in services
        else []
    )
    assert always[0] == ("writing the consumer filters", 10_000, 10_000)
    assert always[2:] == [("writing the checkpoint", 1000, 1000)] * (line == "5.3")


def test_held_gets_are_told_of_puts_and_at_the_close_cleaning_ends_first(tmp_path: Path) -> None:
    calls: list[str] = []
    with served(tmp_path / "store") as store:
        store._hold.arriving = lambda arrival: calls.append(arrival.topic)  # type: ignore[method-assign]
        assert store.put(text_message(1)).is_ok
        store.catch_up()
        assert eventually(lambda: calls == ["T"])
        for owner, name in ((store.cleaning, "stop"), (store.filters, "persist"), (store._hold, "stop")):
            kept, told = getattr(owner, name), f"{type(owner).__name__}.{name}"
            setattr(owner, name, lambda kept=kept, told=told: calls.append(told) or kept())
    assert calls[1:] == ["StoreCleaning.stop", "PullRequestHoldService.stop", "ConsumerFilterManager.persist"]


@pytest.mark.leaves_damage
@pytest.mark.parametrize("is_served", [False, True])
def test_a_served_store_that_refuses_puts_is_not_shut_down_cleanly(is_served: bool, tmp_path: Path) -> None:
    options = {"services": ()} if is_served else {}
    with open_store(tmp_path / "store", read_only=False, settings=SMALL, **options) as store:
        store.flags.set(RunningFlag.WRITE_INDEX_FILE_ERROR)
    assert (tmp_path / "store/abort").exists() == is_served


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        (PutStatus.PUT_OK, "put"),
        (PutStatus.FLUSH_DISK_TIMEOUT, "put"),
        (PutStatus.FLUSH_SLAVE_TIMEOUT, "put"),
        (PutStatus.SLAVE_NOT_AVAILABLE, "put"),
        (PutStatus.MESSAGE_ILLEGAL, "failed"),
        (PutStatus.SERVICE_NOT_AVAILABLE, None),
        (PutStatus.OS_PAGECACHE_BUSY, None),
    ],
)
def test_a_put_is_counted_by_its_status(status: PutStatus, counted: str | None) -> None:
    calls: list[tuple[object, ...]] = []
    store = SimpleNamespace(
        _clock=lambda: 170,
        statistics=SimpleNamespace(
            note_put=lambda *given: calls.append(("put", *given)),
            note_failed_put=lambda *given: calls.append(("failed", *given)),
        ),
        broker_statistics=SimpleNamespace(note_put=lambda *given: calls.append(("broker", *given))),
    )
    result = SimpleNamespace(status=status, message=Message("T", queue_id=3), message_count=4, size=50)
    ServedStore._note_put(store, result, 100)  # type: ignore[arg-type]
    told: dict[str | None, list[tuple[object, ...]]] = {
        "put": [("put", "T", 4, 50, 70), ("broker", "T", 3, 4, 50, 70)], "failed": [("failed", 70)], None: [],
    }  # fmt: skip
    assert calls == told[counted]
