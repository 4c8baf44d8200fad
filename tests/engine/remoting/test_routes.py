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
from store.formats.remoting import GET_CLUSTER_INFO, Frame
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
