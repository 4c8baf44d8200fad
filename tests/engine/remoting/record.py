"""Record what real servers answer to the requests of this client.

    RMQCTL_REFBROKER=… RMQCTL_REFBROKER55=… python -m tests.engine.remoting.record

Writes recorded/4.9.json and recorded/5.5.json beside this module: each request with the header and the body of its
answer. Of settings, state and topics only those are kept that this client or the tests read; ports become 10911.
"""

from __future__ import annotations

import json
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from store.formats.remoting import LENGTH, Frame, encode_frame, frame_length
from tests.support.refbroker import broker_port, cluster

RECORDED = Path(__file__).with_name("recorded")
KEPT = re.compile(rb"^(?:maxMessageSize|messageDelayLevel|messageIndexEnable|timerWheelEnable)=.*$", re.MULTILINE)
FACTS = (
    "sendThreadPoolQueueHeadWaitTimeMills",
    "commitLogMaxOffset",
    "dispatchBehindBytes",
    "earliestMessageTimeStamp",
)
SEND = {
    "a": "rmqctl_replay", "b": "Orders", "c": "Orders", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "7",
    "i": "KEYS\x01order-1\x02UNIQ_KEY\x01AA00\x02RMQCTL_ORIGIN\x01x/1", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
QUERY = {"topic": "Orders", "key": "AA00", "maxNum": "32", "indexType": "U", "_UNIQUE_KEY_QUERY": "true"}
NAME_SERVER = [(106, {}, b""), (105, {"topic": "Orders"}, b""), (105, {"topic": "Nope"}, b"")]


def of_broker(now_ms: int) -> list[tuple[int, dict[str, str], bytes]]:
    """Requests to a broker."""
    times = {"beginTimestamp": str(now_ms - 86_400_000), "endTimestamp": str(now_ms + 86_400_000)}
    return [
        (106, {}, b""),
        (105, {"topic": "Orders"}, b""),
        (21, {}, b""),
        (26, {}, b""),
        (310, SEND, b"hello"),
        (310, {**SEND, "b": "Nope", "c": "Nope"}, b"hello"),
        (310, {**SEND, "b": "SCHEDULE_TOPIC_XXXX"}, b"hello"),
        (310, {**SEND, "e": "77"}, b"hello"),
        (310, SEND, b"h" * ((4 << 20) + 1)),
        (28, {}, b""),
        (12, {**QUERY, **times}, b""),
        (12, {**QUERY, **times, "key": "AA01"}, b""),
    ]


def ask(port: int, code: int, fields: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the body of an answer."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(encode_frame(Frame(code, 7, fields, body)))
        stream = connection.makefile("rb")
        data = stream.read(frame_length(stream.read(LENGTH.size)))
    size = int.from_bytes(data[1:4], "big")
    return json.loads(data[4 : 4 + size]), data[4 + size :]


def kept(code: int, body: bytes) -> bytes:
    """The part of a body that tests read."""
    if code == 26:
        return b"".join(line + b"\n" for line in KEPT.findall(body))
    if code == 28:
        table = json.loads(body)["table"]
        return json.dumps({"table": {name: table[name] for name in FACTS}}).encode()
    if code == 21:
        document = json.loads(body)
        table = document["topicConfigTable"]
        return json.dumps({**document, "topicConfigTable": {"Orders": table["Orders"]}}).encode()
    return body


def record(line: str, folder: Path) -> list[dict[str, Any]]:
    """All exchanges with a name server and a broker of a line."""
    with cluster(folder / "home", line) as real, real.broker(folder / "store", port=(port := broker_port())):
        real.make_topic("Orders")
        time.sleep(1)
        rows = []
        for server, at, requests in (
            ("name server", real.port, NAME_SERVER),
            ("broker", port, of_broker(int(time.time() * 1000))),
        ):
            for code, fields, body in requests:
                if code == 28:
                    time.sleep(2)
                header, answer = ask(at, code, fields, body)
                text = kept(code, answer).decode("latin-1").replace(f":{port}", ":10911")
                one = {"server": server, "code": code, "fields": fields, "body_size": len(body)}
                remark = {k: v[:120] if k == "remark" else v for k, v in header.items()}
                rows.append({**one, "header": remark, "answer": text})
    return rows


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    for line in ("4.9", "5.5"):
        with tempfile.TemporaryDirectory() as folder:
            rows = record(line, Path(folder))
        (RECORDED / f"{line}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"{line}: {len(rows)} answers")


if __name__ == "__main__":
    main()
