"""A store with a broker's services beside it: what each does while it is open, and what is left at its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Message, MessageColumns, ServedStore, WritableStore, open_store
from store.errors import BadRequest
from tests.support.stores import SMALL, Clock, text_message

ALL = ("schedule", "cleaning", "statistics")


def eventually(condition: Callable[[], object], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def served(root: Path, *services: str, **options: object) -> ServedStore:
    return open_store(root, read_only=False, services=services, **{"settings": SMALL, **options})


def test_a_delayed_message_is_delivered_while_the_store_is_open(tmp_path: Path) -> None:
    with served(tmp_path / "store", "schedule", settings={**SMALL, "messageDelayLevel": "1s 5s"}) as store:
        store.put(Message.of("T", "later", delay_level=1))
        assert eventually(lambda: store.max_offset("T", 0) == 1)
        group = "QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER"
        assert [item.value for *key, item in store.broker_statistics.items() if tuple(key) == group] == [1]
    assert (tmp_path / "store" / "config" / "delayOffset.json").read_text() == '{\n\t"offsetTable":{1:1\n\t}\n}'


def test_a_slave_delivers_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "store", *ALL, settings={**SMALL, "brokerRole": "SLAVE"}) as store:
        assert not [one for one in store._running if type(one).__name__ == "ScheduleMessageService"]


def test_without_services_a_store_does_nothing_by_itself(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as store:
        assert type(store) is WritableStore


def test_an_unknown_service_is_refused_and_leaves_the_store_free(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="services are schedule, cleaning, statistics, not timer"):
        served(tmp_path / "store", "timer")
    with served(tmp_path / "store") as store:
        assert store.put(text_message(1)).is_ok


def test_services_need_a_store_that_is_written_to(tmp_path: Path) -> None:
    with served(tmp_path / "store"):
        pass
    with pytest.raises(BadRequest, match="opened for writing"):
        open_store(tmp_path / "store", services=ALL)


def test_puts_and_gets_are_counted_with_their_topics_and_groups(tmp_path: Path) -> None:
    with served(tmp_path / "store", *ALL) as store:
        sizes = [store.put(text_message(number)).size for number in range(3)]
        store.put_batch([text_message(number, topic="B") for number in range(2)])
        many = store.put_many(MessageColumns.of([text_message(number, topic="M") for number in range(4)]))
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
