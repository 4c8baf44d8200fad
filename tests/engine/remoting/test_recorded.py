"""Answers of real brokers of 4.9.8 and 5.5.0: this client reads them, and the fake broker gives the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from store.formats.message import decode_record
from store.formats.remoting import Frame, decode_frame
from store.structures.tables.fastjson import members, parse_fastjson
from tests.support.fake_broker import FakeBroker, encode

RECORDED = Path(__file__).with_name("recorded")
LINES = ("4.9", "5.5")
VALUES = {"msgId", "queueOffset", "version", "indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"}


def rows(line: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / f"{line}.json").read_text("utf-8"))
    return found


def request(row: dict[str, Any]) -> Frame:
    body = b"h" * row["body_size"] if row["body_size"] > 5 else b"hello"[: row["body_size"]]
    return Frame(row["code"], 7, row["fields"], body)


def shape(row: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """The code, and the arguments without the values that are another each time."""
    fields = row["header"].get("extFields") or {}
    return row["header"]["code"], {name: "" if name in VALUES else value for name, value in fields.items()}


@pytest.mark.parametrize("line", LINES)
def test_every_answer_is_read(line: str) -> None:
    for row in rows(line):
        data = encode(7, {"code": row["header"]["code"], **row["header"]}, row["answer"].encode("latin-1"))
        frame = decode_frame(data[4:])
        assert (frame.code, frame.opaque, frame.is_answer) == (row["header"]["code"], 7, True)
        assert (frame.body, frame.remark) == (row["answer"].encode("latin-1"), row["header"].get("remark", ""))


@pytest.mark.parametrize("server", ["name server", "broker"])
def test_the_fake_broker_answers_as_the_real_one_of_4_9(server: str) -> None:
    with FakeBroker({"Orders": 4}, is_name_server=server == "name server") as broker:
        # What a real broker refuses by itself, before it looks at the queue.
        refusals = iter(
            row["header"] for row in rows("4.9") if row["code"] == 310 and row["header"]["code"] in (1, 13, 16)
        )
        for row in (row for row in rows("4.9") if row["server"] == server):
            if row["code"] == 310 and row["header"]["code"] in (1, 13, 16):
                told = next(refusals)
                broker.behave = lambda message, tries, told=told: (told["code"], told["remark"])
                broker.topics[row["fields"]["b"]] = 4
            else:
                broker.behave = lambda message, tries: None
                broker.topics.pop("SCHEDULE_TOPIC_XXXX", None)
            answer = broker.answer(request(row))
            assert isinstance(answer, tuple)
            assert answer
            header, body = answer
            mine = {"header": {"code": 0, **header}}
            assert shape(mine) == shape(row), row
            assert form(row["code"], body) == form(row["code"], row["answer"].encode("latin-1")), row


def form(code: int, body: bytes) -> Any:
    """What clients read of a body."""
    if not body:
        return None
    if code == 12:
        message = decode_record(body)
        properties = {name: value for name, value in message.properties.items() if name != "CLUSTER"}
        return message.topic, message.body, message.flag, properties
    if code == 26:
        return dict(line.split("=", 1) for line in body.decode().splitlines() if "timerWheel" not in line)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", body.decode())
    document = members(parse_fastjson(text))
    if code == 28:
        return set(members(document["table"]))
    if code == 21:
        read = ("perm", "readQueueNums", "topicName", "writeQueueNums")
        topic = members(members(document["topicConfigTable"])["Orders"])
        return {name: topic[name] for name in read}
    return document


@pytest.mark.parametrize("line", LINES)
def test_a_cluster_has_integer_keys_without_quotes_a_route_for_this_version_has_not(line: str) -> None:
    answers = {
        row["code"]: row["answer"] for row in reversed(rows(line)) if row["code"] in (105, 106) and row["answer"]
    }
    found = {code: re.findall(r'"brokerAddrs":\{("?0)', text) for code, text in answers.items()}
    assert found == {105: ['"0'], 106: ["0"]}
