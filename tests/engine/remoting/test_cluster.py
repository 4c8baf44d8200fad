"""The client against a fake broker: routes, what is refused ahead, delays, lost answers, and what is in doubt."""

from __future__ import annotations

import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.remoting import cluster as live
from store.engine.remoting import settling
from store.engine.remoting.cluster import CLOCKS_MS, ORIGIN, Cluster
from store.errors import BadRequest, LinkLost, StoreError
from store.formats.properties import encode_properties
from store.formats.remoting import Frame
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Answer, Doubt, Outcome, Place
from tests.support.fake_broker import NAME, Behaviour, FakeBroker, Taken
from tests.support.refstore import free_port

NOW_MS = 1_800_000_000_000
PLACE = Place(NAME, 1)


def message(key: str = "K", body: bytes = b"hello", **fields: Any) -> Sending:
    properties = {"UNIQ_KEY": key, "TAGS": "a", **fields.pop("properties", {})}
    values = {"flag": 7, "sys_flag": 2, "born_timestamp_ms": 5, "reconsume_times": 3} | fields
    return Sending(key.encode(), f"origin-{key}", key, "Orders", ("Orders", 1), body, properties, **values)


def cluster(broker: FakeBroker, timeout_s: float = 5.0) -> Any:
    return closing(Cluster(broker.address, lambda: NOW_MS, timeout_s))


@pytest.mark.parametrize("is_name_server", [True, False])
def test_a_topic_has_the_queues_that_a_name_server_or_a_broker_says(is_name_server: bool) -> None:
    topics = {"Orders": 2, "Closed": 2}
    with FakeBroker(topics, {"Closed": 4}, is_name_server=is_name_server) as broker, cluster(broker) as target:
        name = NAME if is_name_server else broker.address
        assert target.places("Orders") == [Place(name, 0), Place(name, 1)]
        for topic, reason in {
            "Nope": "there is no topic Nope",
            "Closed": "the topic Closed takes no messages: its permission is not to write",
            "SCHEDULE_TOPIC_XXXX": "the topic SCHEDULE_TOPIC_XXXX is the broker's own",
            "a b": "the topic a b has characters other than ASCII letters, digits and % | _ -",
        }.items():
            with pytest.raises(BadRequest) as refused:
                target.places(topic)
            assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("setting", "size", "limit"), [("100", 100, 0), ("100", 101, 100), ("", 4 << 20, 0), ("", (4 << 20) + 1, 4 << 20)]
)
def test_a_body_is_as_large_as_the_broker_takes(setting: str, size: int, limit: int) -> None:
    settings = {"maxMessageSize": setting} if setting else {}
    with FakeBroker({"Orders": 1}, settings=settings) as broker, cluster(broker) as target:
        target.places("Orders")
        reason = f"the body is larger than maxMessageSize, {limit} bytes" if limit else ""
        assert target.refusal(message(body=bytes(size))) == reason


def test_properties_leave_room_for_the_origin() -> None:
    with FakeBroker({"Orders": 1}) as broker, cluster(broker) as target:
        target.places("Orders")
        rest = 32_767 - 88 - len(encode_properties({"UNIQ_KEY": "K", "TAGS": "a", "x": ""}))
        assert target.refusal(message(properties={"x": "y" * rest})) == ""
        refused = target.refusal(message(properties={"x": "y" * (rest + 1)}))
        assert refused == "the properties and RMQCTL_ORIGIN have more than 32767 bytes"


def test_a_message_is_sent_with_all_that_it_had() -> None:
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        (answer,) = target.send([(message(), PLACE)], ["origin-K/1"])
        (taken,) = broker.taken
    fields = {name: value for name, value in taken.fields.items() if name != "i"}
    assert fields == {
        "a": "rmqctl_replay", "b": "Orders", "c": "Orders", "d": "4", "e": "1", "f": "2", "g": "5", "h": "7", "j": "3",
        "k": "false", "m": "false",
    }  # fmt: skip
    assert taken.properties == {"UNIQ_KEY": "K", "TAGS": "a", "RMQCTL_ORIGIN": "origin-K/1"}
    assert (taken.body, answer.outcome, answer.queue_offset) == (b"hello", Outcome.ACKNOWLEDGED, 0)


@pytest.mark.parametrize(
    ("rest_ms", "timers", "wanted"),
    [
        (0, False, {}),
        (1, False, {"DELAY": "1"}),
        (1_000, False, {"DELAY": "1"}),
        (1_001, False, {"DELAY": "2"}),
        (7_200_000, False, {"DELAY": "18"}),
        (7_200_001, False, {"DELAY": "18"}),
        (0, True, {}),
        (1, True, {"TIMER_DELIVER_MS": str(NOW_MS + 1)}),
    ],
)
def test_the_rest_of_a_delay_is_kept(rest_ms: int, timers: bool, wanted: dict[str, str]) -> None:
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        broker.settings["timerWheelEnable"] = str(timers).lower()
        target.send([(message(deliver_ms=NOW_MS + rest_ms), PLACE)], ["o"])
        found = broker.taken[0].properties
    assert {name: found[name] for name in ("DELAY", "TIMER_DELIVER_MS") if name in found} == wanted


LOST = {
    # What the broker does with the second of three messages; the outcomes, and whether it has the second one.
    "a busy broker": ((2, "[TIMEOUT_CLEAN_QUEUE]"), ["acknowledged", "again", "acknowledged"], False),
    "a refusal": (13, ["acknowledged", "refused", "acknowledged"], False),
    "a late slave": (12, ["acknowledged", "acknowledged", "acknowledged"], True),
    "no answer": ("silent", ["acknowledged", "doubt", "acknowledged"], True),
    "neither": ("lost", ["acknowledged", "doubt", "acknowledged"], False),
    "the connection closed": ("close", ["acknowledged", "doubt", "doubt"], True),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", LOST)
def test_each_answer_is_of_its_message(name: str) -> None:
    told, outcomes, has = LOST[name]

    def behave(message: Taken, tries: int) -> Behaviour:
        return told if message.uniq_key == "1" else None

    with FakeBroker({"Orders": 4}, behave=behave) as broker, cluster(broker, 0.5) as target:
        batch = [(message(str(number)), PLACE) for number in range(3)]
        answers = target.send(batch, ["o"] * 3)
        assert [answer.outcome for answer in answers] == outcomes
        assert ("1" in broker.keys) == has
        # The client is of use afterwards.
        assert target.send([(message("4"), PLACE)], ["o"])[0].outcome is Outcome.ACKNOWLEDGED


def test_a_broker_that_is_down_is_tried_again() -> None:
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        target.places("Orders")
        broker.__exit__()
        target.close()
        assert [one.outcome for one in target.send([(message(), PLACE)], ["o"])] == [Outcome.AGAIN]
        broker.__enter__()


def test_a_connection_that_the_broker_closed_while_it_was_idle_is_made_anew() -> None:
    with (
        FakeBroker({"Orders": 4}, behave=lambda _, tries: "close" if tries == 1 else None) as broker,
        cluster(broker) as target,
    ):
        outcomes = [target.send([(message(), PLACE)], ["o"])[0].outcome for _ in range(2)]
    assert outcomes == [Outcome.DOUBT, Outcome.ACKNOWLEDGED]


def doubt(key: str = "K", sent_ms: int = NOW_MS - 60_000, broker: str = NAME) -> Doubt:
    return Doubt(key.encode(), key, "Orders", f"origin-{key}", broker, PLACE.queue_id, sent_ms)


def test_what_is_in_doubt_is_found_by_its_key_and_origin() -> None:
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        target.send([(message("1"), PLACE), (message("2"), PLACE)], ["origin-1/L", "origin-2/OTHER"])
        found = target.find([doubt("1"), doubt("2"), doubt("3")], "L")
    assert [(one.outcome, one.reason) for one in found] == [
        (Outcome.ACKNOWLEDGED, "found"),
        (Outcome.AGAIN, "it is not there"),
        (Outcome.AGAIN, "it is not there"),
    ]
    asked = [one.fields for one in broker.requests if one.code == 12][-3:]
    day_ms, sent_ms = 86_400_000, doubt().sent_ms
    assert asked == [
        {
            "topic": topic, "key": "3", "maxNum": "32", "indexType": "U", "_UNIQUE_KEY_QUERY": "true",
            "beginTimestamp": str(sent_ms - day_ms), "endTimestamp": str(sent_ms + day_ms),
        }
        for topic in ("Orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
    ]  # fmt: skip


@pytest.mark.parametrize("answer", [b"x" * 40, (40).to_bytes(4, "big") + bytes(36)])
def test_bytes_that_are_no_record_leave_the_answer_to_the_queues(answer: bytes) -> None:
    """A stale entry of the index leads anywhere."""
    broker = FakeBroker({"Orders": 4}, index_answer=answer)
    with broker, closing(Cluster(broker.address, lambda: int(time.time() * 1000) + 60_000)) as target:
        target.send([(message("1"), PLACE)], ["origin-1/L"])
        now_ms = int(time.time() * 1000)
        found = target.find([doubt("1", now_ms), doubt("2", now_ms)], "L")
    assert [(one.outcome.value, one.queue_offset) for one in found] == [("acknowledged", 0), ("again", -1)]


@pytest.mark.turns(2)
@pytest.mark.parametrize("pulled_at_once", [1, 2, 32])
@pytest.mark.parametrize("indexed_from", [0, 1, 3])
def test_what_the_index_lacks_is_found_in_its_queue(indexed_from: int, pulled_at_once: int) -> None:
    """A broker that cut its log enters none of the next messages into its index."""
    broker = FakeBroker({"Orders": 4}, indexed_from=indexed_from, pulled_at_once=pulled_at_once)
    with broker, closing(Cluster(broker.address, lambda: int(time.time() * 1000) + 60_000)) as target:
        batch = [(message(key), PLACE) for key in ("1", "2", "3")]
        target.send(batch, ["origin-1/L", "origin-2/OTHER", "origin-3/L"])
        now_ms = int(time.time() * 1000)
        found = target.find([doubt(key, now_ms) for key in ("1", "2", "3")], "L")
    wanted = [("acknowledged", 0), ("again", -1), ("acknowledged", 2)]
    assert [(one.outcome.value, one.queue_offset) for one in found] == wanted


def test_a_queue_is_read_within_the_clocks_difference() -> None:
    with FakeBroker({"Orders": 4}, indexed_from=9) as broker, cluster(broker) as target:
        target.send([(message("1"), PLACE)], ["origin-1/L"])
        stored_ms = int(time.time() * 1000)
        outcomes = [
            target.find([doubt("1", sent_ms=stored_ms + after_ms)], "L")[0].outcome.value
            for after_ms in (-CLOCKS_MS - 5_000, -CLOCKS_MS + 5_000, CLOCKS_MS)
        ]
        searched = {int(one.fields["timestamp"]) - stored_ms for one in broker.requests if one.code == 29}
    assert outcomes == ["again", "acknowledged", "acknowledged"]
    assert sorted(searched) == [-2 * CLOCKS_MS - 5_000, -2 * CLOCKS_MS + 5_000, 0]


def expired(broker: FakeBroker) -> None:
    broker.earliest_ms = NOW_MS


def closed(broker: FakeBroker) -> None:
    broker.perm["Orders"] = 2


UNKNOWN = {
    "a broker that deleted that time": (expired, doubt(), "the broker has deleted messages of that time"),
    "a topic that gives no messages": (
        closed, doubt(), "the broker does not search: code 16: the topic[Orders] pulling message is forbidden"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_message_that_is_not_found_stays_in_doubt_with(name: str) -> None:
    change, asked, reason = UNKNOWN[name]
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        change(broker)
        assert target.find([asked], "L") == [Answer(Outcome.DOUBT, reason)]


def test_a_message_of_a_broker_that_is_gone_stays_in_doubt() -> None:
    with FakeBroker({"Orders": 4}) as broker, cluster(broker) as target:
        (answer,) = target.find([doubt(broker="broker-b")], "L")
        assert answer == Answer(Outcome.DOUBT, f"no master of broker-b is up, says {broker.address}")


def test_the_broker_gets_time_for_what_it_had_got(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(settling, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    with FakeBroker({"Orders": 4}) as broker, closing(Cluster(broker.address, lambda: NOW_MS + 100)) as target:
        target.find([doubt(sent_ms=NOW_MS)], "L")
    assert slept == [settling.LEAST_S - 0.1]


def test_the_first_address_that_answers_is_taken() -> None:
    with FakeBroker({"Orders": 4}) as broker:
        target = Cluster(f"127.0.0.1:{free_port()}; {broker.address}", lambda: NOW_MS)
        assert len(target.places("Orders")) == 4
        target.close()


@pytest.mark.parametrize(
    ("address", "error", "text"),
    [("PORT", LinkLost, "connection refused"), ("nohost", BadRequest, "an address is HOST:PORT, not 'nohost'")],
)
def test_a_wrong_address_is_an_error(address: str, error: type[StoreError], text: str) -> None:
    with pytest.raises(error, match=text):
        Cluster(address.replace("PORT", f"127.0.0.1:{free_port()}"), lambda: int(time.time() * 1000))


def test_doubts_are_looked_for_in_their_queues_in_order_and_where_delayed_messages_wait() -> None:
    def doubt(topic: str, queue_id: int) -> Any:
        return SimpleNamespace(topic=topic, queue_id=queue_id)

    waiting = [*(("SCHEDULE_TOPIC_XXXX", number) for number in range(18)), ("rmq_sys_wheel_timer", 0)]
    doubts = [doubt("U", 0), doubt("T", 2), doubt("T", 1), doubt("T", 2)]
    assert live._queues_of(doubts) == [("T", 1), ("T", 2), ("U", 0), *waiting]
    assert live._queues_of([]) == []


def open_doubt(key: bytes, sent_ms: int, topic: str = "T", queue_id: int = 0, broker: str = "b") -> Doubt:
    return Doubt(key, f"U{key.decode()}", topic, f"o{key.decode()}", broker, queue_id, sent_ms)


@pytest.mark.parametrize("unknown", ["", "deleted"])
def test_doubts_are_looked_for_in_the_index_and_then_in_the_queues_around_their_times(
    unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    known = SimpleNamespace(msg_id="M1", queue_offset=5)
    queued = SimpleNamespace(msg_id="M2", queue_offset=6, properties={ORIGIN: "oc/L"})
    other = SimpleNamespace(msg_id="M3", queue_offset=7, properties={ORIGIN: "oc/other"})
    it: Any = object.__new__(Cluster)
    it._clock, it._connection = "clock", lambda address: f"to {address}"
    it.routes = SimpleNamespace(master=lambda broker: f"master of {broker}")

    def look_up(one: Doubt, origin: str) -> Any:
        asked.append(("index", one.key, origin))
        return known if one.key == b"a" else None

    it._look_up = look_up
    settled = SimpleNamespace(unknown=lambda sent_ms: unknown if sent_ms == 700_000 else "")
    wait = lambda *given: asked.append(("wait", *given)) or settled  # noqa: E731
    monkeypatch.setattr(live, "Settling", SimpleNamespace(wait=wait))

    def between(connection: str, topic: str, queue_id: int, *span: int) -> list[Any]:
        asked.append((connection, topic, queue_id, *span))
        return [other, queued] if topic == "T" else []

    monkeypatch.setattr(live, "messages_between", between)
    monkeypatch.setattr(live, "_queues_of", lambda doubts: sorted({(one.topic, one.queue_id) for one in doubts}))
    doubts = [
        open_doubt(b"a", 5_000_000),
        open_doubt(b"b", 700_000, "S", 3),
        open_doubt(b"c", 900_000),
        open_doubt(b"d", 800_000),
    ]
    assert it._find_in("b", doubts, "L") == {
        b"a": Answer(Outcome.ACKNOWLEDGED, "found", "M1", 5),
        b"b": Answer(Outcome.DOUBT if unknown else Outcome.AGAIN, unknown or "it is not there"),
        b"c": Answer(Outcome.ACKNOWLEDGED, "found", "M2", 6),
        b"d": Answer(Outcome.AGAIN, "it is not there"),
    }
    to = "to master of b"
    assert asked == [
        ("wait", to, 5_000_000, "clock"),
        *(("index", key, f"o{key.decode()}/L") for key in (b"a", b"b", b"c", b"d")),
        (to, "S", 3, 100_000, 1_500_000),
        (to, "T", 0, 100_000, 1_500_000),
    ]


def test_of_a_broker_that_has_not_settled_all_that_is_not_found_stays_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    it: Any = object.__new__(Cluster)
    it._clock, it._connection, it._look_up = None, lambda address: None, lambda one, origin: None
    it.routes = SimpleNamespace(master=lambda broker: broker)
    monkeypatch.setattr(live, "Settling", SimpleNamespace(wait=lambda *given: "still busy"))
    monkeypatch.setattr(live, "messages_between", lambda *given: [])
    found = it.find([open_doubt(b"a", 5), open_doubt(b"b", 6, broker="c")], "L")
    assert found == [Answer(Outcome.DOUBT, "still busy")] * 2


@pytest.mark.parametrize(
    ("rest_ms", "settings", "wanted"),
    [
        (0, {}, {}),
        (-1, {}, {}),
        (1, {"timerWheelEnable": "true"}, {"TIMER_DELIVER_MS": "1001"}),
        (1, {"messageDelayLevel": "1s 5s 10s"}, {"DELAY": "1"}),
        (1000, {"messageDelayLevel": "1s 5s 10s"}, {"DELAY": "1"}),
        (1001, {"messageDelayLevel": "1s 5s 10s"}, {"DELAY": "2"}),
        (10_000, {"messageDelayLevel": "1s 5s 10s"}, {"DELAY": "3"}),
        (10_001, {"messageDelayLevel": "1s 5s 10s", "timerWheelEnable": "false"}, {"DELAY": "3"}),
    ],
)
def test_a_rest_of_a_delay_waits_in_the_first_level_that_is_as_long(
    rest_ms: int, settings: dict[str, str], wanted: dict[str, str]
) -> None:
    it: Any = object.__new__(Cluster)
    it._clock, it.settings = lambda: 1000, lambda broker: {"b": settings}[broker]
    assert it._delay(SimpleNamespace(deliver_ms=1000 + rest_ms), "b") == wanted


class Written:
    """A connection that writes some requests, answers them but the last, and has a problem with that."""

    def __init__(self, written: int, problems: list[str]) -> None:
        self.written, self.problems, self.opaque = written, problems, 0

    def request(self, code: int, fields: Any, body: bytes) -> Frame:
        self.opaque += 1
        return Frame(code, self.opaque, fields, body)

    def write(self, requests: Any) -> int:
        return self.written

    def read(self, requests: Any, problems: list[str]) -> dict[int, Frame]:
        problems += self.problems
        return {one.opaque: Frame(0, one.opaque, {"msgId": one.body.decode()}) for one in requests[:-1]}


@pytest.mark.parametrize(("problems", "reason"), [([], "the connection was lost"), (["closed", "late"], "closed")])
def test_of_a_batch_what_was_not_written_is_sent_again_and_what_has_no_answer_is_in_doubt(
    problems: list[str], reason: str
) -> None:
    it: Any = object.__new__(Cluster)
    it.routes = SimpleNamespace(master=lambda broker: broker)
    connections = {"a": Written(2, problems)}

    def connect(broker: str) -> Written:
        if broker not in connections:
            raise LinkLost(f"{broker} is down")
        return connections[broker]

    it._connection, it._fields = connect, lambda one, place, origin: {"origin": origin}
    batch = [(SimpleNamespace(body=f"m{number}".encode()), Place(name, 0)) for number, name in enumerate("abaa")]
    assert it.send(batch, ["o"] * 4) == [
        Answer(Outcome.ACKNOWLEDGED, "", "m0"),
        Answer(Outcome.AGAIN, "b is down"),
        Answer(Outcome.DOUBT, reason),
        Answer(Outcome.AGAIN, reason),
    ]


def test_settings_of_a_broker_are_asked_for_once_and_a_search_that_is_refused_names_why() -> None:
    asked: list[int] = []
    answers = {"config": Frame(0, 1, {}, b"a=b=c\nno\nd=\n"), "none": Frame(1, 1, {}, b"a=b"),
               "refuses": Frame(13, 1, {}, remark="x" * 300)}  # fmt: skip
    it: Any = object.__new__(Cluster)
    it._settings, it.routes = {}, SimpleNamespace(master=lambda broker: broker)
    it._connection = lambda broker: SimpleNamespace(ask=lambda code, *fields: asked.append(code) or answers[broker])
    assert [it.settings("config") for _ in range(2)] == [{"a": "b=c", "d": ""}] * 2
    assert (it.settings("none"), len(asked)) == ({}, 2)
    with pytest.raises(BadRequest) as refused:
        it._look_up(open_doubt(b"a", 5, broker="refuses"), "o/L")
    assert refused.value.reason == f"the broker does not search: code 13: {'x' * 200}"


def test_where_no_address_answers_the_first_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(address: str, connect: object) -> str:
        if address == "up":
            return "routes"
        raise LinkLost(f"{address} is down")

    monkeypatch.setattr(live, "Routes", reach)
    it: Any = object.__new__(Cluster)
    assert it._reach(["a", "up"]) == "routes"
    with pytest.raises(LinkLost, match=r"^a is down"):
        it._reach(["a", "b"])
