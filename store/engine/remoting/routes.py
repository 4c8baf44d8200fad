"""Routes: the queues of each broker, from a name server or one broker.

A server without support for route requests is a broker: its topics are read, and it is the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from store.engine.ha.link import Address
from store.engine.remoting.connection import Connection
from store.errors import BadRequest, LinkLost
from store.formats.remoting import (
    GET_ALL_TOPIC_CONFIG,
    GET_CLUSTER_INFO,
    GET_ROUTE_BY_TOPIC,
    NOT_SUPPORTED,
    SUCCESS,
    TOPIC_NOT_EXIST,
    Frame,
)
from store.structures.tables.fastjson import Json, member, members, parse_fastjson
from store.verbs.replay.target import Place

WRITABLE = 0x2
"""The bit of a topic's perm (PermName.PERM_WRITE)."""
_MASTER = "0"


class Routes:
    """The topics and brokers behind `address`, a name server or a broker."""

    def __init__(self, address: Address, connect: Callable[[Address], Connection]) -> None:
        self.address = address
        self._connect = connect
        self._masters: dict[str, Address] = {}
        answer = self._ask(GET_CLUSTER_INFO)
        self.is_broker = answer.code == NOT_SUPPORTED
        if not self.is_broker and answer.code != SUCCESS:
            raise LinkLost(f"{address} does not show its cluster: code {answer.code}: {answer.remark[:200]}")
        if self.is_broker:
            self._masters[str(address)] = address
        else:
            self._note_masters(members(member(_document(answer), "brokerAddrTable")).values())

    def master(self, broker: str) -> Address:
        """Return the address of a broker; BadRequest if no master of that name is up."""
        if broker not in self._masters:
            raise BadRequest(f"no master of {broker} is up, says {self.address}")
        return self._masters[broker]

    def places(self, topic: str) -> Sequence[Place]:
        """Return the queues that accept messages, by broker; BadRequest with the reason if none does."""
        queues = self._of_broker(topic) if self.is_broker else self._of_name_server(topic)
        places = [Place(broker, number) for broker, count in sorted(queues.items()) for number in range(count)]
        if not places:
            raise BadRequest(f"the topic {topic} takes no messages: its permission is not to write")
        return places

    def _of_name_server(self, topic: str) -> dict[str, int]:
        answer = self._ask(GET_ROUTE_BY_TOPIC, {"topic": topic})
        if answer.code == TOPIC_NOT_EXIST:
            raise BadRequest(f"there is no topic {topic}")
        if answer.code != SUCCESS:
            raise BadRequest(f"no route to {topic}: code {answer.code}: {answer.remark[:200]}")
        route = _document(answer)
        self._note_masters(_list(member(route, "brokerDatas")))
        rows = [(str(member(row, "brokerName")), _writable(row)) for row in _list(member(route, "queueDatas"))]
        return {broker: count for broker, count in rows if broker in self._masters and count}

    def _of_broker(self, topic: str) -> dict[str, int]:
        answer = self._ask(GET_ALL_TOPIC_CONFIG)
        if answer.code != SUCCESS:
            raise BadRequest(f"{self.address} does not show its topics: code {answer.code}: {answer.remark[:200]}")
        entry = members(member(_document(answer), "topicConfigTable")).get(topic)
        if entry is None:
            raise BadRequest(f"there is no topic {topic}")
        count = _writable(entry)
        return {str(self.address): count} if count else {}

    def _ask(self, code: int, fields: Mapping[str, str] | None = None) -> Frame:
        return self._connect(self.address).ask(code, fields)

    def _note_masters(self, rows: Iterable[Json]) -> None:
        for row in rows:
            address = members(member(row, "brokerAddrs")).get(_MASTER)
            if isinstance(address, str):
                self._masters[str(member(row, "brokerName"))] = Address.parse(address)


def _writable(row: Json) -> int:
    """Return the number of a topic's queues that accept messages."""
    perm, count = member(row, "perm"), member(row, "writeQueueNums")
    return count if isinstance(perm, int) and perm & WRITABLE and isinstance(count, int) else 0


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _document(answer: Frame) -> Json:
    try:
        return parse_fastjson(answer.body.decode("utf-8", "replace"))
    except ValueError as error:
        raise LinkLost(f"an answer is not JSON: {error}") from error
