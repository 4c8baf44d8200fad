"""The messages of a queue between two times, from a broker's answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.remoting.queue_reading import messages_between
from store.errors import BadRequest
from store.formats.message import Message, encode_record
from store.formats.remoting import Frame


def record(time_ms: int) -> bytes:
    return encode_record(Message("T", b"x"), topic=b"T", sys_flag=0, queue_offset=time_ms, log_offset=0,
                         store_timestamp_ms=time_ms)  # fmt: skip


def pulled(next_offset: object, *times: int, code: int = 0, remark: str = "") -> Frame:
    fields = {} if next_offset is None else {"nextBeginOffset": str(next_offset)}
    return Frame(code, 1, fields, b"".join(map(record, times)), remark=remark)


@pytest.mark.parametrize(
    ("found", "pulls", "offsets", "times"),
    [
        ({"offset": "5"}, [pulled(7, 10, 11), pulled(7)], [5, 7], [10, 11]),
        ({"offset": "5"}, [pulled(7, 10, 11), pulled(8, 20, 21)], [5, 7], [10, 11, 20]),
        ({"offset": "5"}, [pulled(7, 21)], [5], []),
        ({"offset": "5"}, [pulled(5, 10)], [5], [10]),
        ({"offset": "5"}, [pulled(None, 10)], [5], [10]),
        ({"offset": "5"}, [pulled(6, code=20), pulled(6)], [5, 6], []),
        ({"offset": "5"}, [pulled(9, code=21), pulled(9, 10)], [5, 9], [10]),
        ({"offset": "5"}, [pulled(9, code=19)], [5], []),
        ({"offset": "5"}, [pulled(9, code=17)], [5], []),
        ({"offset": "-1"}, [pulled(0)], [0], []),
        ({"offset": "0"}, [pulled(1), pulled(1)], [0, 1], []),
        ({}, [pulled(0)], [0], []),
    ],
)
def test_a_queue_is_read_until_a_later_message_or_its_end(
    found: dict[str, str], pulls: list[Frame], offsets: list[int], times: list[int]
) -> None:
    asked: list[dict[str, str]] = []
    answers = iter([Frame(0, 1, found), *pulls])
    broker: Any = SimpleNamespace(ask=lambda code, fields: asked.append(fields) or next(answers))
    assert [one.store_timestamp_ms for one in messages_between(broker, "T", 3, 9, 20)] == times
    assert asked[0] == {"topic": "T", "queueId": "3", "timestamp": "9"}
    assert [int(one["queueOffset"]) for one in asked[1:]] == offsets
    assert {(one["maxMsgNums"], one["sysFlag"], one["subscription"]) for one in asked[1:]} == {("32", "4", "*")}


@pytest.mark.parametrize("at", [0, 1])
def test_a_broker_that_refuses_is_named_with_its_words(at: int) -> None:
    refusal = Frame(13, 1, {}, remark="y" * 300)
    answers = iter([Frame(0, 1, {"offset": "5"})] * at + [refusal])
    broker: Any = SimpleNamespace(ask=lambda code, fields: next(answers))
    with pytest.raises(BadRequest) as refused:
        list(messages_between(broker, "T", 3, 9, 20))
    assert refused.value.reason == f"the broker does not search: code 13: {'y' * 200}"
