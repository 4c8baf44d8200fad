"""Lines of many records are those of each record alone, whichever of them the kernel writes."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rmqctl.messages import message_line
from store import Host, Message, open_store
from store.formats.body import encode_body
from store.formats.message import encode_record, host_flags
from store.query.embedded import open_engine, read_records
from store.reading import RecordLines, record_lines
from tests.cli.running import rmqctl
from tests.support.golden import ALL, golden
from tests.support.quickly import one_of


def stored(message: Message, crc: int | None = None) -> bytes:
    record = encode_record(
        message,
        topic=message.topic.encode(),
        sys_flag=message.sys_flag | host_flags(message.born_host, message.store_host),
        queue_offset=(1 << 63) - 1,
        log_offset=4096,
        store_timestamp_ms=-(1 << 63),
    )
    return record if crc is None else record[:8] + crc.to_bytes(4, "big") + record[12:]


def by_kernel(records: list[bytes], *, with_body: bool = True) -> tuple[str, list[int]]:
    """The lines, and the numbers of the records that were left to the other writer."""
    left = []

    def to_line(record: bytes) -> str:
        left.append(records.index(record))
        return message_line(record, with_body=with_body)

    ends = np.cumsum([0, *map(len, records)], dtype=np.int64)
    texts = RecordLines(to_line, with_body=with_body).texts(memoryview(b"".join(records)), ends[:-1], np.diff(ends))
    return "".join(texts), left


HOST = Host.parse("255.0.10.1:-5")
WHOLE = b"UNIQ_KEY\1U\2KEYS\1a b\2TAGS\1t"
PLAIN = [
    Message("T", b"hello", 3, WHOLE, -7, 8, -1, HOST, HOST, 2, -(1 << 63)),
    Message("", b"", 0, b""),
    Message("t" * 127, b"12345", properties=b"a\1b"),
    Message('quo"te\\', b"1", 1 << 30, b'n"\1v\\"\2KEYS\1 a   b ', born_timestamp_ms=0),
    Message("T", b"12", -(1 << 31), WHOLE + b"\2", born_timestamp_ms=10),
    Message("T", bytes(range(256)) * 3, properties=b"KEYS\1k", born_timestamp_ms=9),
    Message("x" * 200, b"V2", properties=b"a\1b\2c\1 ", born_timestamp_ms=(1 << 63) - 1),
    Message("T", bytes(1000), sys_flag=0x2 | 0xC, properties=b"\2".join(b"p%d\1v" % number for number in range(64))),
]
LEFT = [
    Message("订单", b"x"), Message("a\x7f", b"x"), Message("a\n", b"x"), Message("T", b"x", sys_flag=1),
    Message("T", b"x", born_host=Host.parse("[::1]:1")), Message("T", b"x", store_host=Host.parse("[::1]:1")),
    Message("T", b"x", properties="n\1é".encode()), Message("T", b"x", properties=b"n\1\xff"),
    Message("T", b"x", properties="é\1v".encode()), Message("T", b"x", properties=b"n\1v\2\xff\1v\2"),
    Message("T", b"x", properties=b"n\1v\2n\1w"), Message("T", b"x", properties=b"n\1"),
    Message("T", b"x", properties=b"\1v"), Message("T", b"x", properties=b"n"), Message("T", b"x", properties=b"\2"),
    Message("T", b"x", properties=b"n\1v\2\2"),
    Message("T", b"x", properties=b"n\1v\1w"), Message("T", b"x", properties=b"KEYS\1\x02"),
    Message("T", b"x", properties=b"\2".join(b"p%d\1v" % number for number in range(65))),
]  # fmt: skip


@pytest.mark.parametrize("with_body", [True, False])
@pytest.mark.parametrize("message", PLAIN, ids=lambda one: one.topic)
def test_a_plain_record_is_written_by_the_kernel(message: Message, with_body: bool) -> None:
    record = stored(message)
    assert by_kernel([record], with_body=with_body) == (message_line(record, with_body=with_body) + "\n", [])


@pytest.mark.parametrize("message", LEFT, ids=repr)
def test_a_record_with_more_in_it_is_left(message: Message) -> None:
    record = stored(message)
    assert by_kernel([record]) == (message_line(record) + "\n", [0])


@pytest.mark.parametrize("crc", [0, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("body", [b"", b"hello"])
def test_a_wrong_crc_is_named(crc: int, body: bytes) -> None:
    record = stored(Message("T", body), crc)
    assert by_kernel([record]) == (message_line(record) + "\n", [])


def test_lines_keep_the_order_of_their_records_over_pieces_and_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_lines, "_TARGET_SIZE", 20_000)
    source = random.Random(1)
    messages = [source.choice(PLAIN + LEFT) for _ in range(200)]
    messages[50] = messages[199] = Message("T", bytes(4000))
    records = [stored(message) for message in messages]
    assert by_kernel(records)[0] == "".join(message_line(record) + "\n" for record in records)


def test_no_line_is_given_of_pages_that_were_lost_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    lost: Any = SimpleNamespace(count=lambda: 7, require_none_since=seen.append)
    monkeypatch.setattr(record_lines, "lost_pages", lost)
    assert by_kernel([stored(PLAIN[0])])[1] == []
    assert seen == [7]


V1, V2 = stored(PLAIN[0]), stored(PLAIN[6])
TOPIC_AT, TOPIC_SIZE_AT_OF_V2 = 88 + 5, 88 + 2
BROKEN = {
    "shorter than it says": V1[:-1],
    "longer than it says": V1 + b"x",
    "a size of one more": (len(V1) + 1).to_bytes(4, "big") + V1[4:],
    "no room for the fixed fields": V1[:90],
    "another magic": V1[:4] + bytes(4) + V1[8:],
    "a negative body": V1[:84] + b"\xff" * 4 + V1[88:],
    "a body up to the end": V1[:84] + (len(V1) - 88).to_bytes(4, "big") + V1[88:],
    "a body that leaves a byte too few": V1[:84] + (len(V1) - 88 - 2).to_bytes(4, "big") + V1[88:],
    "a topic of 128": V1[:TOPIC_AT] + b"\x80" + V1[TOPIC_AT + 1 :],
    "a topic up to the end": V1[:TOPIC_AT] + bytes([len(V1) - TOPIC_AT - 1]) + V1[TOPIC_AT + 1 :],
    "a negative topic": V2[:TOPIC_SIZE_AT_OF_V2] + b"\xff\xff" + V2[TOPIC_SIZE_AT_OF_V2 + 2 :],
    "properties of one less": V1[: TOPIC_AT + 3] + (len(WHOLE) - 1).to_bytes(1, "big") + V1[TOPIC_AT + 4 :],
    "properties of one more": V1[: TOPIC_AT + 3] + (len(WHOLE) + 1).to_bytes(1, "big") + V1[TOPIC_AT + 4 :],
}


@pytest.mark.parametrize("name", BROKEN)
def test_bytes_that_are_no_whole_record_are_left_between_others(name: str) -> None:
    records = [V1, BROKEN[name], V2]
    ends = np.cumsum([0, *map(len, records)], dtype=np.int64)
    assert BROKEN[name] not in (V1, V2)
    texts = RecordLines(lambda record: "left").texts(memoryview(b"".join(records)), ends[:-1], np.diff(ends))
    assert "".join(texts) == f"{message_line(V1)}\nleft\n{message_line(V2)}\n"


@pytest.mark.parametrize(("size", "is_left"), [(126, False), (127, False), (128, True), (200, True), (255, True)])
def test_a_topic_whose_size_is_negative_as_a_byte_is_left(size: int, is_left: bool) -> None:
    whole = stored(Message("t" * 100, b"x", properties=b"a\1b"))
    at = whole.index(b"t" * 100) - 1
    record = whole[:at] + bytes([size]) + b"t" * (size - 100) + whole[at + 1 :]
    record = len(record).to_bytes(4, "big") + record[4:]
    left: list[bytes] = []

    def to_line(one: bytes) -> str:
        left.append(bytes(one))
        return "{}\n"

    lines = RecordLines(to_line, with_body=True).texts(memoryview(record), np.array([0]), np.array([len(record)]))
    assert ("t" * size in "".join(lines), left) == (not is_left, [record] if is_left else [])


@pytest.mark.turns(3)
def test_no_mutated_record_gets_another_line() -> None:
    source = random.Random(2)
    seeds = [stored(message) for message in PLAIN[:7]]
    taken = 0
    for _ in range(3000):
        data = bytearray(source.choice(seeds))
        for _ in range(source.choice((1, 1, 3))):
            data[source.randrange(len(data))] = source.choice((0, 1, 2, 32, 34, 65, 92, 127, 128, 255))
        try:
            wanted = message_line(bytes(data)) + "\n"
        except Exception:  # What no record is, the reader of the log does not hand on.
            continue
        text, left = by_kernel([bytes(data)])
        assert text == wanted
        taken += not left
    assert taken > 500


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ALL)
def test_an_export_of_a_real_store_has_the_line_of_each_record(name: str) -> None:
    root = golden(name).store
    with open_engine([str(root)]) as engine:
        wanted = "".join(message_line(record) + "\n" for record in read_records(engine, None))
    assert rmqctl("export", "--to", "-", "--as", "jsonl", store=root).out == wanted


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One queue with bodies of all kinds; the one of message 50 is not what was put."""
    root = tmp_path_factory.mktemp("mixed") / "store"
    with open_store(root, read_only=False) as store:
        for number in range(60):
            body, text = b"body %d" % number, f"KEYS\1k\2n\1{'é' if number % 7 == 3 else 'e'}".encode()
            is_small = number % 9 == 4
            message = Message("T", encode_body(body, "zlib") if is_small else body, 0, text, sys_flag=int(is_small))
            assert store.put(message).is_ok
    log = root / "commitlog" / f"{0:020}"
    log.write_bytes(log.read_bytes().replace(b"body 50", b"bodi 50"))
    return root


@pytest.mark.parametrize(
    ("form", "options"),
    one_of(
        13,
        ["jsonl", "json", "csv"],
        [(), ("--body", "none"), ("--stored-body",), ("--body", "hex"), ("--only-sound",)],
    ),
)
def test_get_shows_of_many_messages_what_it_shows_of_few(mixed: Path, form: str, options: tuple[str, ...]) -> None:
    def get(*words: str) -> str:
        return rmqctl("-f", form, "get", "T", "--queue", "0", *options, *words, store=mixed).out

    def rows(text: str) -> list[str]:
        if form == "json":
            return [line.removesuffix(",") for line in text.splitlines() if line.startswith("    {")]
        return text.splitlines()[form == "csv" :]

    # So few are read by a broker's call; where --only-sound leaves one out, the next one counts.
    few = [row for number in range(0, 60, 20) for row in rows(get("--offset", str(number), "--limit", "20"))]
    assert rows(get("--limit", "1000")) == list(dict.fromkeys(few))
    assert len(set(few)) == 59 + ("--only-sound" not in options)
