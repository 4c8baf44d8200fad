"""Messages that arrive: what a listener is told of, and which held gets are woken."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from store import Message, ServedStore, open_store
from store.engine.live.arrivals import Arrival
from store.engine.live.hold import HeldGet
from store.formats.java import tags_code
from store.reading.filter import TagExpression, compile_sql
from tests.support.stores import SMALL, Clock
from tests.support.threads import eventually

WAIT_MS = 60_000


def served(root: Path, **options: object) -> ServedStore:
    return open_store(root, read_only=False, services=(), **{"settings": SMALL, **options})


class Listener:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, int, int]] = []
        self.times: list[int] = []
        self.properties: list[dict[str, str]] = []

    def arriving(self, arrival: Arrival) -> None:
        self.told.append((arrival.topic, arrival.queue_id, arrival.next_offset, arrival.tags_code))
        self.times.append(arrival.store_timestamp_ms)
        self.properties.append(arrival.properties)


def told_of(store: ServedStore, listener: Listener, count: int) -> None:
    assert eventually(lambda: len(listener.told) >= count)


def test_a_listener_is_told_of_each_message_with_the_offset_behind_it(tmp_path: Path) -> None:
    clock, listener = Clock(), Listener()
    with served(tmp_path / "store", clock=clock) as store:
        store.add_listener(listener)
        store.put(Message.of("A", "1", tags="paid"))
        store.put(Message.of("B", "2", queue_id=3, properties={"n": "5"}))
        store.put(Message.of("A", "3"))
        told_of(store, listener, 3)
    assert listener.told == [("A", 0, 1, tags_code("paid")), ("B", 3, 1, 0), ("A", 0, 2, 0)]
    assert listener.times == [clock.now_ms] * 3
    assert listener.properties[1] == {"n": "5"}


def test_a_message_can_be_got_when_its_listener_is_called(tmp_path: Path) -> None:
    found: list[int] = []
    with served(tmp_path / "store") as store:

        class Getting(Listener):
            def arriving(self, arrival: Arrival) -> None:
                found.append(len(store.get("T", 0, arrival.next_offset - 1).messages))
                super().arriving(arrival)

        listener = Getting()
        store.add_listener(listener)
        for number in range(20):
            store.put(Message.of("T", str(number)))
        told_of(store, listener, 20)
    assert len(found) == 20
    assert min(found) >= 1


def test_a_delayed_message_is_told_of_with_its_deliver_time_as_tags_code(tmp_path: Path) -> None:
    clock, listener = Clock(), Listener()
    with served(tmp_path / "store", clock=clock) as store:
        store.add_listener(listener)
        store.put(Message.of("T", "later", delay_level=2, tags="x"))
        told_of(store, listener, 1)
    assert listener.told == [("SCHEDULE_TOPIC_XXXX", 1, 1, clock.now_ms + 5000)]


def test_a_message_of_light_queues_is_told_of_for_each(tmp_path: Path) -> None:
    listener = Listener()
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a,b"}
    settings = {**SMALL, "enableLmq": True, "enableMultiDispatch": True}
    with served(tmp_path / "store", settings=settings) as store:
        store.add_listener(listener)
        store.put(Message.of("T", "m", queue_id=2, properties=names))
        told_of(store, listener, 3)
    assert [one[:3] for one in listener.told] == [("T", 2, 1), ("%LMQ%a", 0, 1), ("b", 2, 1)]


def test_a_failing_listener_does_not_end_the_dispatch(tmp_path: Path) -> None:
    class Failing:
        def arriving(self, arrival: Arrival) -> None:
            raise ValueError("no")

    with served(tmp_path / "store") as store:
        store.add_listener(Failing())
        for _ in range(3):
            assert store.put(Message.of("T")).is_ok
            store.catch_up()
        assert store.max_offset("T", 0) == 3
    assert any("Failing failed" in finding for finding in store.describe_findings())


class Held:
    """A get that is held in a thread of its own."""

    def __init__(self, store: ServedStore, offset: int, timeout_ms: int = WAIT_MS, message_filter=None) -> None:
        self.answer: bool | None = None
        self._thread = threading.Thread(target=self._run, args=(store, offset, timeout_ms, message_filter))
        self._thread.start()

    def _run(self, store, offset, timeout_ms, message_filter) -> None:
        self.answer = store.wait_for_message("T", 0, offset, timeout_ms, message_filter)

    def joined(self, seconds: float = WAIT_MS / 1000) -> bool | None:
        self._thread.join(seconds)
        return self.answer


def wait_until_held(store: ServedStore, count: int) -> None:
    assert eventually(lambda: store._hold.held_count >= count)


def test_a_held_get_is_woken_by_a_message_of_its_queue_only(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        held = Held(store, 0)
        wait_until_held(store, 1)
        store.put(Message.of("T", "other queue", queue_id=1))
        store.put(Message.of("U", "other topic"))
        store.catch_up()
        assert held.joined(0.1) is None
        store.put(Message.of("T", "mine"))
        assert held.joined() is True


def test_a_get_below_the_queues_end_is_not_held(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        store.put(Message.of("T", "there"))
        store.catch_up()
        assert store.wait_for_message("T", 0, 0, WAIT_MS) is True


def test_a_held_get_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        assert store.wait_for_message("T", 0, 0, 20) is False
        assert store._hold.held_count == 0


def test_a_filter_keeps_a_get_held_until_a_message_matches(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        by_tag = Held(store, 0, message_filter=TagExpression("paid"))
        by_sql = Held(store, 0, message_filter=compile_sql("n > 5"))
        wait_until_held(store, 2)
        store.put(Message.of("T", tags="sent", properties={"n": "1"}))
        store.catch_up()
        assert (by_tag.joined(0.05), by_sql.joined(0.05)) == (None, None)
        store.put(Message.of("T", tags="paid", properties={"n": "6"}))
        assert (by_tag.joined(), by_sql.joined()) == (True, True)


def test_the_sweep_wakes_a_get_whose_message_came_unnoticed(tmp_path: Path) -> None:
    with served(tmp_path / "store") as store:
        held = Held(store, 0, message_filter=TagExpression("never"))
        wait_until_held(store, 1)
        store.put(Message.of("T", tags="other"))
        store.catch_up()
        assert held.joined(0.05) is None
        store._hold.work()
        assert held.joined() is True


def test_closing_the_store_ends_held_gets(tmp_path: Path) -> None:
    store = served(tmp_path / "store")
    held = Held(store, 0)
    wait_until_held(store, 1)
    store.close()
    assert held.joined() is False


class Wanted:
    def __init__(self, tags: bool, properties: bool) -> None:
        self.tags, self.properties = tags, properties

    def matches_tags_code(self, tags_code: int) -> bool:
        return self.tags

    def matches_properties(self, properties: object) -> bool:
        return self.properties


@pytest.mark.parametrize(
    ("wanted", "is_woken"),
    [(None, True), (Wanted(True, True), True), (Wanted(True, False), False), (Wanted(False, True), False)],
)
def test_a_held_get_wants_what_both_parts_of_its_filter_let_through(wanted: Wanted | None, is_woken: bool) -> None:
    assert HeldGet(0, wanted).wants(cast(Arrival, SimpleNamespace(tags_code=5, properties={}))) is is_woken
