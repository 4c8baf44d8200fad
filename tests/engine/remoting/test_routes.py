"""Routes of a topic over several brokers, and the bodies that all of these accept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any, cast

import pytest

from store.engine.ha.link import Address
from store.engine.remoting.cluster import Cluster
from store.engine.remoting.routes import Routes
from store.errors import BadRequest, LinkLost
from store.formats.remoting import GET_CLUSTER_INFO, GET_ROUTE_BY_TOPIC, Frame
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Place
from tests.support.fake_broker import NAME, FakeBroker

ADDRESS = Address("127.0.0.1", 9876)


class NameServer:
    """Answers with three brokers, the names not in order, and one without queues to write."""

    def ask(self, code: int, fields: Mapping[str, str] | None = None) -> Frame:
        addresses = {name: {"brokerAddrs": {"0": "127.0.0.1:1"}, "brokerName": name} for name in ("b", "a", "c")}
        if code == GET_CLUSTER_INFO:
            return Frame(0, 1, body=json.dumps({"brokerAddrTable": addresses}).encode())
        queues = [
            {"brokerName": name, "perm": 6, "writeQueueNums": count} for name, count in (("b", 2), ("a", 1), ("c", 0))
        ]
        return Frame(0, 1, body=json.dumps({"brokerDatas": list(addresses.values()), "queueDatas": queues}).encode())


def test_queues_come_by_broker_and_number() -> None:
    routes = Routes(ADDRESS, cast(Any, lambda address: NameServer()))
    assert routes.places("T") == [Place("a", 0), Place("b", 0), Place("b", 1)]


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (("10", "20"), "the body is larger than maxMessageSize, 10 bytes"),
        (("20", "10"), "the body is larger than maxMessageSize, 10 bytes"),
        (("11", "20"), ""),
        (("10", ""), "the body is larger than maxMessageSize, 10 bytes"),
    ],
)
def test_a_body_is_as_large_as_each_broker_of_its_topic_accepts(limits: tuple[str, str], refused: str) -> None:
    with FakeBroker({"Orders": 1}) as broker, closing(Cluster(broker.address, lambda: 0)) as target:
        target._brokers_of["Orders"] = {NAME, "broker-b"}
        target._settings = {
            name: {"maxMessageSize": size} for name, size in zip((NAME, "broker-b"), limits, strict=True)
        }
        sending = Sending(b"K", "origin", "K", "Orders", ("Orders", 0), bytes(11), {}, 0, 0, 0, 0)
        assert target.refusal(sending) == refused


class Server:
    """Answers each code with a frame."""

    def __init__(self, answers: Mapping[int, Frame]) -> None:
        self._answers = answers

    def ask(self, code: int, fields: Mapping[str, str] | None = None) -> Frame:
        return self._answers[code]


def routes_of(answers: Mapping[int, Frame]) -> Routes:
    return Routes(ADDRESS, cast(Any, lambda address: Server(answers)))


def answer(document: object, code: int = 0, remark: str = "") -> Frame:
    return Frame(code, 1, body=json.dumps(document).encode(), remark=remark)


BROKERS = {"brokerAddrTable": {"a": {"brokerName": "a", "brokerAddrs": {"0": "127.0.0.1:1", "1": "127.0.0.1:2"}}}}


@pytest.mark.parametrize(
    ("row", "places"),
    [
        ({"brokerName": "a", "perm": 6, "writeQueueNums": 2}, [Place("a", 0), Place("a", 1)]),
        ({"brokerName": "a", "perm": 2, "writeQueueNums": 1}, [Place("a", 0)]),
        ({"brokerName": "a", "perm": 4, "writeQueueNums": 2}, []),
        ({"brokerName": "a", "perm": 6, "writeQueueNums": 0}, []),
        ({"brokerName": "a", "perm": 6}, []),
        ({"brokerName": "a", "perm": "6", "writeQueueNums": 2}, []),
        ({"brokerName": "slave", "perm": 6, "writeQueueNums": 2}, []),
    ],
)
def test_the_queues_of_masters_that_are_written_to_take_messages(row: object, places: list[Place]) -> None:
    routes = routes_of(
        {GET_CLUSTER_INFO: answer(BROKERS), GET_ROUTE_BY_TOPIC: answer({"brokerDatas": [], "queueDatas": [row]})}
    )
    if places:
        assert routes.places("T") == places
    else:
        with pytest.raises(BadRequest, match="the topic T takes no messages: its permission is not to write"):
            routes.places("T")
    assert routes.master("a") == Address("127.0.0.1", 1)
    with pytest.raises(BadRequest, match=f"no master of b is up, says {ADDRESS}"):
        routes.master("b")


def test_a_refusal_of_a_name_server_is_told_with_two_hundred_characters() -> None:
    with pytest.raises(LinkLost) as lost:
        routes_of({GET_CLUSTER_INFO: answer({}, 13, "x" * 300)})
    assert lost.value.reason == f"{ADDRESS} does not show its cluster: code 13: {'x' * 200}"
    for frame, told in (
        (answer({}, 13, "x" * 300), f"no route to T: code 13: {'x' * 200}"),
        (answer({}, 17, "x"), "there is no topic T"),
    ):
        routes = routes_of({GET_CLUSTER_INFO: answer(BROKERS), GET_ROUTE_BY_TOPIC: frame})
        with pytest.raises(BadRequest) as refused:
            routes.places("T")
        assert refused.value.reason == told
    routes = routes_of({GET_CLUSTER_INFO: answer(BROKERS), GET_ROUTE_BY_TOPIC: Frame(0, 1, body=b"{")})
    with pytest.raises(LinkLost, match="an answer is not JSON"):
        routes.places("T")


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (answer({"topicConfigTable": {"T": {"perm": 6, "writeQueueNums": 1}}}), None),
        (answer({"topicConfigTable": {"T": {"perm": 4, "writeQueueNums": 1}}}),
         "the topic T takes no messages: its permission is not to write"),
        (answer({"topicConfigTable": {}}), "there is no topic T"),
        (answer({}, 13, "x" * 300), f"{ADDRESS} does not show its topics: code 13: {'x' * 200}"),
    ],
)  # fmt: skip
def test_a_broker_that_is_asked_itself_takes_messages_by_its_table(frame: Frame, told: str | None) -> None:
    routes: Any = object.__new__(Routes)
    routes.address, routes.is_broker, routes._connect = ADDRESS, True, lambda address: Server({21: frame})
    if told is None:
        assert routes.places("T") == [Place(str(ADDRESS), 0)]
    else:
        with pytest.raises(BadRequest) as refused:
            routes.places("T")
        assert refused.value.reason == told
