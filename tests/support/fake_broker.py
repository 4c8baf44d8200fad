"""A name server and a broker that speak the remoting protocol, in one thread each connection, at one port.

It takes messages as a 4.9.8 broker answers them; `behave` changes that by message:

    broker = FakeBroker({"Orders": 4})
    broker.behave = lambda message, tries: "close" if tries == 1 else None

    a number        the answer's code; with a text the remark: (1, "UNKNOWN_ERROR")
    "silent"        the message is taken, and no answer is sent
    "lost"          neither
    "close"         the message is taken, the connection closed
    None            taken and answered

tests/engine/remoting/test_recorded.py holds its answers against recorded ones of real brokers.
"""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from store.formats.host import Host
from store.formats.message import Message, encode_record
from store.formats.properties import decode_properties
from store.formats.remoting import LENGTH, SUCCESS, Frame, decode_frame, frame_length

SETTINGS = {
    "maxMessageSize": "4194304",
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "messageIndexEnable": "true",
}
NAME = "broker-a"
Behaviour = int | tuple[int, str] | str | None


@dataclass(frozen=True)
class Taken:
    """A message that the broker has."""

    fields: Mapping[str, str]
    body: bytes
    log_offset: int
    queue_offset: int

    @property
    def topic(self) -> str:
        return self.fields["b"]

    @property
    def queue_id(self) -> int:
        return int(self.fields["e"])

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.fields["i"].encode())

    @property
    def uniq_key(self) -> str:
        return self.properties["UNIQ_KEY"]

    def record(self, host: Host) -> bytes:
        """Return the stored record, as in the answer to a query."""
        message = Message(
            self.topic,
            self.body,
            self.queue_id,
            self.fields["i"].encode(),
            int(self.fields["h"]),
            int(self.fields["f"]),
            int(self.fields["g"]),
            store_host=host,
        )
        return encode_record(
            message,
            topic=self.topic.encode(),
            sys_flag=message.sys_flag,
            queue_offset=self.queue_offset,
            log_offset=self.log_offset,
            store_timestamp_ms=int(time.time() * 1000),
        )


@dataclass
class FakeBroker:
    """The server, from `with` on. `taken` are its messages in the order in which they came."""

    topics: dict[str, int] = field(default_factory=dict)
    perm: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=lambda: dict(SETTINGS))
    is_name_server: bool = True
    behave: Callable[[Taken, int], Behaviour] = lambda message, tries: None
    taken: list[Taken] = field(default_factory=list)
    requests: list[Frame] = field(default_factory=list)
    earliest_ms: int = -1
    indexed_from: int = 0
    """The first of `taken` that the index has."""
    index_answer: bytes = b""
    """What a query answers in place of records."""
    pulled_at_once: int = 32
    tries: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> FakeBroker:
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker.serve(self.request)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def keys(self) -> list[str]:
        return [one.uniq_key for one in self.taken]

    def serve(self, connection: socket.socket) -> None:
        """Answer requests until the other end closes."""
        stream = connection.makefile("rb")
        while len(head := stream.read(LENGTH.size)) == LENGTH.size:
            request = decode_frame(stream.read(frame_length(head)))
            answer = self.answer(request)
            if answer is None:
                return
            if answer:
                connection.sendall(encode(request.opaque, *answer))

    def answer(self, request: Frame) -> tuple[dict[str, Any], bytes] | tuple[()] | None:
        """Return the members of the answer's header, and its body; () for no answer, None to close."""
        with self.lock:
            self.requests.append(request)
            if request.code in (105, 106) and not self.is_name_server:
                return {"code": 3, "remark": f" request type {request.code} not supported"}, b""
            return {
                105: self._route,
                106: self._cluster,
                21: self._topics,
                26: self._config,
                28: self._runtime,
                11: self._pull,
                12: self._query,
                29: self._search,
                310: self._send,
            }[request.code](request)

    def _route(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        topic = request.fields["topic"]
        if topic not in self.topics:
            return {"code": 17, "remark": f"No topic route info in name server for the topic: {topic}"}, b""
        count, perm = self.topics[topic], self.perm.get(topic, 6)
        queues = {"brokerName": NAME, "perm": perm, "readQueueNums": count, "topicSysFlag": 0, "writeQueueNums": count}
        text = json.dumps({"filterServerTable": {}, "queueDatas": [queues]})
        return {}, f'{{"brokerDatas":[{self._broker_data()}],{text[1:]}'.encode()

    def _cluster(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        table = f'{{"{NAME}":{self._broker_data()}}}'
        return {}, f'{{"brokerAddrTable":{table},"clusterAddrTable":{{"RefCluster":["{NAME}"]}}}}'.encode()

    def _broker_data(self) -> str:
        return f'{{"brokerAddrs":{{0:"{self.address}"}},"brokerName":"{NAME}","cluster":"RefCluster"}}'

    def _topics(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        table = {
            name: {"perm": self.perm.get(name, 6), "readQueueNums": count, "topicName": name, "writeQueueNums": count}
            for name, count in self.topics.items()
        }
        return {"extFields": {}}, json.dumps({"dataVersion": {}, "topicConfigTable": table}).encode()

    def _config(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        lines = (f"{name}={value}\n" for name, value in self.settings.items())
        return {"extFields": {"version": "{}"}}, "".join(lines).encode()

    def _runtime(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        facts = {
            "sendThreadPoolQueueHeadWaitTimeMills": 0,
            "commitLogMaxOffset": 1000 * len(self.taken),
            "dispatchBehindBytes": 0,
            "earliestMessageTimeStamp": self.earliest_ms,
        }
        return {}, json.dumps({"table": {name: str(value) for name, value in facts.items()}}).encode()

    def _query(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        host = Host.parse(self.address)
        topic, key = request.fields["topic"], request.fields["key"]
        found = b"".join(
            one.record(host) for one in self.taken[self.indexed_from :] if (one.topic, one.uniq_key) == (topic, key)
        )
        found = self.index_answer or found
        fields = {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}
        if found:
            return {"extFields": fields}, found
        return {"code": 22, "extFields": fields, "remark": "can not find message, maybe time range not correct"}, b""

    def _search(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        return {"extFields": {"offset": "0"}}, b""

    def _pull(self, request: Frame) -> tuple[dict[str, Any], bytes]:
        topic, queue_id, offset = (request.fields[name] for name in ("topic", "queueId", "queueOffset"))
        if not self.perm.get(topic, 6) & 4:
            return {"code": 16, "remark": f"the topic[{topic}] pulling message is forbidden"}, b""
        if topic not in self.topics:
            return {"code": 17, "remark": f"topic[{topic}] not exist, apply first please!"}, b""
        queue = [one for one in self.taken if (one.topic, one.queue_id) == (topic, int(queue_id))]
        chosen = queue[int(offset) :][: self.pulled_at_once]
        fields = {"maxOffset": str(len(queue)), "minOffset": "0", "nextBeginOffset": str(int(offset) + len(chosen))}
        body = b"".join(one.record(Host.parse(self.address)) for one in chosen)
        return ({"extFields": fields}, body) if chosen else ({"code": 19, "extFields": fields}, b"")

    def _send(self, request: Frame) -> tuple[dict[str, Any], bytes] | tuple[()] | None:
        trace = {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
        topic = request.fields["b"]
        if topic not in self.topics:
            return {"code": 17, "extFields": trace, "remark": f"topic[{topic}] not exist, apply first please!"}, b""
        queue_offset = sum(one.fields["b"] == topic and one.fields["e"] == request.fields["e"] for one in self.taken)
        message = Taken(request.fields, request.body, 1000 * len(self.taken), queue_offset)
        self.tries[message.uniq_key] += 1
        told = self.behave(message, self.tries[message.uniq_key])
        if told == "lost":
            return ()
        if isinstance(told, int | tuple) and (told if isinstance(told, int) else told[0]) not in (10, 11, 12):
            code, remark = told if isinstance(told, tuple) else (told, "no")
            return {"code": code, "extFields": trace, "remark": remark}, b""
        self.taken.append(message)
        if told in ("silent", "close"):
            return () if told == "silent" else None
        msg_id = f"7F000001{self.port:08X}{message.log_offset:016X}"
        fields = {"queueId": request.fields["e"], **trace, "msgId": msg_id, "queueOffset": str(queue_offset)}
        return {"code": told if isinstance(told, int) else SUCCESS, "extFields": fields}, b""


def encode(opaque: int, members: Mapping[str, Any], body: bytes) -> bytes:
    """Return an answer's bytes, as Fastjson writes them."""
    header = {"code": 0, **members, "flag": 1, "language": "JAVA", "opaque": opaque}
    text = json.dumps({**header, "serializeTypeCurrentRPC": "JSON", "version": 409}, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(text) + len(body), len(text)) + text + body
