"""Lines that become columns: the message of each is what the exact parser makes of it, or the line is left."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.message_input import StoredLine, parse_stored
from store import Message, open_store
from store.reading import MessageLines
from tests.cli.running import rmqctl
from tests.support.stores import SMALL

NOW_MS = 1_800_000_000_000
SHOWN: dict[str, Any] = {
    "topic": "T", "queue_id": 3, "queue_offset": 7, "log_offset": 4096, "size": 300, "msg_id": "7F000001",
    "uniq_key": "U", "keys": ["a", "b"], "tags": "t", "flag": -5, "sys_flag": 8, "born_timestamp_ms": -1,
    "born_host": "10.0.0.1:5",
    "store_timestamp_ms": 1234, "store_host": "[::1]:10911", "reconsume_times": 2, "prepared_transaction_offset": 9,
    "body_crc": 77, "crc_ok": True, "compression": None, "body_state": "plain", "body": "aGVsbG8=",
    "body_encoding": "base64", "properties": {"UNIQ_KEY": "U", "KEYS": "a b", "TAGS": "t", "x": "é"},
}  # fmt: skip
"""The message object as `get` shows it."""


def read(*lines: bytes, topic: str | None = None) -> list[StoredLine | None]:
    """What each line becomes without the exact parser; None where it is left."""
    batch = MessageLines(topic, NOW_MS, lambda topic: False).read(b"\n".join(lines))
    left = set(batch.left)
    found = batch.columns()
    sound = iter(range(len(found)))
    times = found.times()
    rows = [None if row in left else next(sound) for row in range(len(lines))]
    damaged = found.damaged_count and len(lines) == 1
    return [None if row is None else StoredLine(found.messages.message(row), times[row], not damaged) for row in rows]


def line(**names: Any) -> bytes:
    """A line with other values than the shown one's; without a name where the value is ...."""
    given = {name: value for name, value in (SHOWN | names).items() if value is not ...}
    return json.dumps(given, ensure_ascii=False).encode()


def assert_exact(text: bytes) -> bool:
    """Whether the line became columns, which then say what the exact parser says."""
    (found,) = read(text, topic="D")
    if found is None:
        return False
    assert found == parse_stored(text, "D", NOW_MS), text
    return True


@pytest.mark.parametrize(
    "names",
    [
        {},
        {name: ... for name in SHOWN if name != "body"},
        {"topic": ""},
        {"topic": "订单"},
        {"keys": [], "properties": {"UNIQ_KEY": "U", "TAGS": "t"}},
        {"keys": None, "tags": None, "uniq_key": None},
        {"properties": {}},
        {"properties": ...},
        {"keys": ["a b"]},
        {"keys": [""], "properties": {"KEYS": "x"}, "tags": "", "uniq_key": ""},
        {"store_timestamp_ms": None},
        {
            "store_timestamp_ms": -(1 << 63),
            "born_timestamp_ms": (1 << 63) - 1,
            "prepared_transaction_offset": -(1 << 63),
        },
        {"flag": -(1 << 31), "sys_flag": (1 << 31) - 1, "queue_id": -(1 << 31)},
        {"crc_ok": False},
        {"crc_ok": None},
        {"born_host": None, "store_host": ""},
        {"body": "", "body_state": "stored", "compression": "zlib", "sys_flag": 1},
        {"body": "", "compression": "zlib", "sys_flag": 0x30D},
        {"body": "QQ=="},
        {"body": "QUI="},
        {"body": "text é \u2028", "body_encoding": "utf8"},
        {"body": ..., "body_text": "text"},
        {"property_bytes": base64.b64encode("UNIQ_KEY\1U\2KEYS\1a b\2TAGS\1t\2x\1é".encode()).decode()},
        {"property_bytes": base64.b64encode("UNIQ_KEY\1U\2KEYS\1a b\2TAGS\1t\2x\1é\2".encode()).decode()},
        {"property_bytes": "", "properties": {}, "keys": [], "tags": None, "uniq_key": None},
        {"property_bytes": "Ag==", "properties": {}, "keys": ..., "tags": ..., "uniq_key": ...},
        {"properties": {"KEYS": "a b"}, "tags": ..., "uniq_key": ...},
        {"properties": {"TAGS": "t"}, "keys": ..., "uniq_key": ...},
        {"properties": ..., "keys": ..., "tags": "t", "uniq_key": ...},
        {"properties": ..., "keys": ..., "tags": ..., "uniq_key": "u"},
        {"properties": ..., "keys": ["k"], "tags": ..., "uniq_key": ...},
        {"properties": {"x": "y"}, "keys": [], "tags": None, "uniq_key": None},
        {"properties": {f"p{number}": "v" for number in range(64)}, "keys": ..., "tags": ..., "uniq_key": ...},
        {"schema": "s", "status": "PUT_OK", "outer_queue_offset": 5},
    ],
    ids=str,
)
def test_a_line_without_doubt_becomes_columns(names: dict[str, Any]) -> None:
    assert assert_exact(line(**names))


def test_each_of_two_lines_may_have_its_properties_as_bytes() -> None:
    texts = [
        line(
            properties={"a": text},
            property_bytes=base64.b64encode(f"a\1{text}{end}".encode()).decode(),
            keys=[],
            tags=None,
            uniq_key=None,
        )
        for text, end in (("b", ""), ("cd", "\2"), ("e", ""))
    ]
    assert read(*texts) == [parse_stored(text, None, NOW_MS) for text in texts]


def test_blanks_and_the_order_of_names_make_no_doubt() -> None:
    assert assert_exact(
        b' {\t"body_text" : "x" ,"topic":"T" , "keys" : [ "a" , "b" ], "properties": { "p" : "q" } } \r'
    )
    assert assert_exact(json.dumps(dict(reversed(SHOWN.items())), separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize(
    "text",
    [
        b" ", b"{}", b"[]", b"7", b'{"topic"', b'{"topic": "T",}', b'{"topic": "T"} x', b'{"topic": "T"}}', b'"topic"',
        b'{"topic": "T" "flag": 1}', b'{"topic": "T", "topic": "T"}', b'{"topic": "T", "new": 1}',
        b'\xef\xbb\xbf{"flag": 1}', b'{"flag": 01}', b'{"flag": -0}', b'{"flag": -}', b'{"flag": +1}', b'{"flag": 1e2}',
        b'{"flag": 1.5}', b'{"flag": nul}', b'{"flag": 99999999999999999999}', b'{"topic": "\xff"}',
        b'{"topic": "\x1f"}',
        b'{"crc_ok": truee}', b'{"tags": NaN}', b'{"keys": ["a",]}', b'{"keys": [,"a"]}', b'{"keys": ["a" "b"]}',
        b'{"keys": ["a"', b'{"keys": [}', b'{"properties": {"a": "1", "a": "2"}}', b'{"properties": {"a": "1",}}',
        b'{"properties": {"a"}}', b'{"topic": "a\\u0062"}',
        line(topic=None), line(topic=7), line(topic="a\nb"), line(flag=1.0), line(flag="1"), line(flag=True),
        line(flag=1 << 31), line(sys_flag=-(1 << 31) - 1), line(queue_id=None), line(born_timestamp_ms=1 << 63),
        line(store_timestamp_ms=-(1 << 63) - 1), line(store_timestamp_ms="1"), line(reconsume_times=[]),
        line(born_host="nowhere"), line(born_host="1.2.3.4:99999999999"), line(store_host=7), line(keys="a b"),
        line(keys=["b", "a"]), line(keys=["a", 7]), line(keys=[["a"]]), line(tags="u"), line(tags=7),
        line(uniq_key="V"), line(properties=None), line(properties={"a": 1}), line(properties={"": "v"}),
        line(properties={"n": ""}), line(properties=[]), line(properties={f"p{number}": "v" for number in range(65)}),
        line(body="aGVsbG8"), line(body="aGVs\u00e9G8="), line(body="a==="), line(body="QR=="), line(body="QUJ="),
        line(body="aG=sbG8="), line(body="===="), line(body="aGVs bG8="), line(body=7), line(body_encoding="hex"),
        line(body_encoding=None), line(body_state="decompressed"), line(body_state=None), line(body_text="also"),
        line(compression=5), line(compression="zlib"), line(compression="zstd", sys_flag=1),
        line(compression="zlib", sys_flag=0x101), line(compression="zstd", sys_flag=0x201),
        line(body=..., body_text=7), line(property_bytes=None), line(property_bytes="?"),
        line(property_bytes="YQFiAg=="), line(property_bytes="YQFi", properties=...), line(delay_level=3),
        line(properties={"a": "b"}, property_bytes="YQFi", keys=[]), line(properties={}, property_bytes="", keys=[""]),
        line(properties={"KEYS": "a b"}, property_bytes=base64.b64encode(b"KEYS\1a b").decode(), keys=["a b"]),
        line(properties={"KEYS": "a b"}, property_bytes=base64.b64encode(b"KEYS\1a b").decode(), keys=[], tags=None,
             uniq_key=None),
        line(properties={"a": "b"}, property_bytes="YQFi", keys=[], tags="t", uniq_key=None), line(transaction="none"),
        line(properties={"a": "b"}, property_bytes="YQFiWA==", keys=[], tags=None, uniq_key=None),
        line(properties={"a": "b"}, property_bytes="YQFiAgI=", keys=[], tags=None, uniq_key=None),
        line(properties={"a": "b"}, property_bytes="YQE=", keys=[], tags=None, uniq_key=None),
    ],
    ids=lambda value: value[:60].decode(errors="replace"),
)  # fmt: skip
def test_a_line_with_a_doubt_is_left(text: bytes) -> None:
    assert read(text) == [None]


SOUND_PROPERTIES = [b"{}", b"{ }", b'{"a":"1"}', b'{ "a" : "1" , "b"\t:\t"2" }', b'{"a":"1","ab":"1","b":"a"}']
SOUND_KEYS = [b"[]", b"[ ]", b'["a"]', b'[ "a" , "b" ]', b'["a","a"]']


@pytest.mark.parametrize("text", SOUND_PROPERTIES)
def test_properties_of_texts_are_read_and_cut_ones_are_left(text: bytes) -> None:
    start = b'{"topic":"T","body_text":"x","properties":'
    assert assert_exact(start + text + b"}")
    assert [one for one in range(len(text)) if read(start + text[:one]) != [None]] == []
    assert [one for one in range(len(text)) if read(start + text[:one], start + text + b"}")[0] is not None] == []


@pytest.mark.parametrize(
    "text",
    [
        b'{"":"1"}', b'{"a":""}', b'{"a":"1","b":""}', b'{"a":"1","":"2"}', b'{"a":"1","a":"2"}', b'{"a" "1"}',
        b'{"a";"1"}', b'{"a":"1";"b":"2"}', b'{"a":"1" "b":"2"}', b'{"a":"1",}', b'{"a":1}', b'{"a":"1"]',
        b'{,"a":"1"}', b'{"b":"1","a":"2","b":"3"}',
    ],
)  # fmt: skip
def test_properties_that_are_not_pairs_of_texts_by_name_are_left(text: bytes) -> None:
    assert read(b'{"topic":"T","body_text":"x","properties":%b}' % text) == [None]


@pytest.mark.parametrize("text", SOUND_KEYS)
def test_keys_are_a_list_of_texts_and_cut_ones_are_left(text: bytes) -> None:
    start = b'{"topic":"T","body_text":"x","keys":'
    assert assert_exact(start + text + b"}")
    assert [one for one in range(len(text)) if read(start + text[:one]) != [None]] == []


@pytest.mark.parametrize(
    "text", [b'["a",]', b"[,]", b'[,"a"]', b'["a" "b"]', b'["a";"b"]', b"[1]", b'["a"}', b'["a",1]']
)
def test_keys_that_are_no_list_of_texts_are_left(text: bytes) -> None:
    assert read(b'{"topic":"T","body_text":"x","keys":%b}' % text) == [None]


@pytest.mark.parametrize("size", range(40))
def test_a_text_is_simple_up_to_its_quote_wherever_that_is(size: int) -> None:
    for end, is_simple in ((b"", True), (b"\x7f", True), ("é".encode(), True), (b"\x1f", False), (b"\\n", False)):
        given = b'{"topic": "T", "body_text": "%b%b%b"}' % (b"x" * size, end, b"y" * (40 - size))
        assert assert_exact(given) == is_simple, given
    assert not assert_exact(b'{"topic": "T", "body_text": "%b\xff"}' % (b"x" * size))


def mutations(source: random.Random, text: bytes) -> Iterator[bytes]:
    """The line with some bytes gone, doubled, or others."""
    other = b'{}[]",:\\ \t0123456789012345678901234567890123456789-+.eENaUtrufalsn=/\x01\x02\x00\x7f\xc3\xa9\xff'
    for _ in range(1000):
        data = bytearray(text)
        for _ in range(source.choice((1, 1, 1, 2))):
            at = source.randrange(len(data))
            kind = source.randrange(4)
            if kind == 0:
                del data[at : at + source.choice((1, 1, 3, 9))]
            elif kind == 1:
                data[at:at] = data[at : at + source.choice((1, 8, 30))]
            elif kind == 2:
                data[at] = source.choice(other)
            else:
                data.insert(at, source.choice(other))
        yield bytes(data).replace(b"\n", b" ")


@pytest.mark.turns(3)
def test_no_mutated_line_becomes_another_message_than_the_exact_parser_makes_of_it() -> None:
    source = random.Random(25)
    whole = {"property_bytes": base64.b64encode(b"UNIQ_KEY\1U\2KEYS\1a b\2TAGS\1t\2").decode()}
    whole["properties"] = {"UNIQ_KEY": "U", "KEYS": "a b", "TAGS": "t"}  # type: ignore[assignment]
    seeds = [
        line(),
        line(**whole),
        line(properties={}),
        b'{"topic": "T", "tags": "a", "keys": ["k"], "body_text": "x"}',
    ]
    texts = [text for seed in seeds for text in mutations(source, seed)]
    taken = [assert_exact(text) for text in texts]
    assert 20 < sum(taken) < len(taken) - 20, "both kinds are met"


def test_lines_that_are_left_keep_their_place_between_the_others() -> None:
    texts = [
        line(topic=f"T{number % 3}", body_text=f"b{number}", body=..., tags=..., flag=number) for number in range(9)
    ]
    batch = MessageLines(None, NOW_MS, lambda topic: topic == "T1").read(b"\n".join(texts) + b"\n")
    assert (batch.left, [batch.line(row) for row in batch.left]) == (
        [1, 4, 7],
        [texts[row] + b"\n" for row in (1, 4, 7)],
    )
    batch.add(1, parse_stored(batch.line(1), None, NOW_MS).message, 5, is_damaged=True)
    batch.add(7, parse_stored(batch.line(7), None, NOW_MS).message, None)
    found = batch.columns()
    kept = [0, 1, 2, 3, 5, 6, 7, 8]
    messages = [found.messages.message(row) for row in range(len(found))]
    assert messages == [parse_stored(texts[number], None, NOW_MS).message for number in kept]
    assert found.times() == [1234, 5, 1234, 1234, 1234, 1234, None, 1234]
    assert found.damaged_count == 1
    assert found.uniq_keys() == [b"U", None, b"U", b"U", b"U", b"U", None, b"U"]


def test_a_block_without_lines_has_no_messages() -> None:
    batch = MessageLines("T", NOW_MS, lambda topic: False).read(b"")
    assert (len(batch), batch.left, len(batch.columns()), batch.columns().uniq_keys()) == (0, [], 0, [])


@pytest.mark.parametrize("added", [(), (1,), (4,), (1, 4)])
def test_each_line_keeps_its_body_whichever_of_the_left_are_added(added: tuple[int, ...]) -> None:
    texts = [line(topic=f"T{number % 3}", body_text="b" * number, body=..., flag=number) for number in range(6)]
    batch = MessageLines(None, NOW_MS, lambda topic: topic == "T1").read(b"\n".join(texts))
    for row in added:
        batch.add(row, parse_stored(texts[row], None, NOW_MS).message, None)
    found = batch.columns().messages
    kept = [text for row, text in enumerate(texts) if row % 3 != 1 or row in added]
    assert [found.message(row) for row in range(len(found))] == [
        parse_stored(text, None, NOW_MS).message for text in kept
    ]


@pytest.mark.parametrize(("port", "left"), [
    (-(1 << 31) - 1, [0]), (-(1 << 31), []), ((1 << 31) - 1, []), (1 << 31, [0]),
])  # fmt: skip
@pytest.mark.parametrize("name", ["born_host", "store_host"])
def test_a_host_whose_port_has_no_32_bits_is_left(name: str, port: int, left: list[int]) -> None:
    text = line(**{name: f"10.0.0.1:{port}"})
    assert MessageLines(None, NOW_MS, lambda topic: False).read(text).left == left


@pytest.mark.parametrize(("leaves_copies", "left"), [(True, [1, 3]), (False, [])])
def test_a_copy_of_another_topics_message_is_left_where_copies_are(leaves_copies: bool, left: list[int]) -> None:
    plain = {"sys_flag": 0, "keys": ..., "tags": ...}
    texts = [line(properties={"UNIQ_KEY": "U"}, **plain), line(properties={"REAL_TOPIC": "T"}, uniq_key=..., **plain),
             line(sys_flag=4), line(sys_flag=8)]  # fmt: skip
    lines = MessageLines(None, NOW_MS, lambda topic: False, leaves_copies=leaves_copies)
    assert lines.read(b"\n".join(texts)).left == left


@pytest.mark.parametrize(("end", "kept"), [(0, []), (1, [0]), (4, [0, 2, 3]), (5, [0, 2, 3])])
def test_lines_behind_the_end_are_left_out(end: int, kept: list[int]) -> None:
    texts = [line(topic=f"T{number % 3}", flag=number) for number in range(6)]
    batch = MessageLines(None, NOW_MS, lambda topic: topic == "T1").read(b"\n".join(texts))
    batch.end_before(end)
    assert batch.columns().messages.numbers["flag"].tolist() == kept


def test_a_topic_is_one_however_many_others_are_between_its_messages() -> None:
    count = 3000
    texts = [
        b'{"topic": "T%d", "born_host": "1.2.3.4:%d"}' % (number % count, number % 7) for number in range(2 * count)
    ]
    messages = MessageLines(None, NOW_MS, lambda topic: False).read(b"\n".join(texts)).columns().messages
    assert len(messages.topics) == count
    assert [messages.topics[place] for place in messages.topic_of.tolist()] == [
        f"T{n % count}" for n in range(2 * count)
    ]
    assert [messages.message(row).born_host.port for row in range(20)] == [number % 7 for number in range(20)]


def test_the_line_that_is_wrong_is_named_in_a_later_block_too(tmp_path: Path) -> None:
    texts = [line(body_text="x" * 1000, body=..., flag=number) for number in range(3000)]
    texts[2345] = line(flag="x")
    (tmp_path / "lines.jsonl").write_bytes(b"\n".join(texts))
    run = rmqctl("-f", "jsonl", "put", "--input", str(tmp_path / "lines.jsonl"), store=tmp_path / "store")
    assert (run.code, len(run.out.splitlines())) == (2, 2345)
    assert "line 2346: flag is not a whole number" in " ".join(run.err.split())


@pytest.mark.parametrize(
    ("level", "exported", "form", "says"),
    [
        (5, (), ("--as-stored",), ""),
        (6, (), ("--as-stored",), "1 compressed body got other bytes than stored"),
        (6, (), (), ""),
        (6, ("--stored-body",), ("--as-stored",), ""),
    ],
)
def test_a_body_that_was_compressed_anew_with_other_bytes_is_said(
    level: int, exported: tuple[str, ...], form: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    """Producers compress with level 5."""
    with open_store(tmp_path / "from", settings=SMALL, read_only=False) as store:
        for body, sys_flag in ((b"plain", 0), (zlib.compress(b"ok" * 100, level), 1), (b"no zlib", 1)):
            assert store.put(Message("T", body, sys_flag=sys_flag)).is_ok
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", *exported, store=tmp_path / "from").out
    run = rmqctl("put", "--input", "-", "--keep-times", *form, store=tmp_path / "to", stdin=lines.encode())
    assert run.code == 0, run.err
    assert [line for line in run.err.splitlines() if "compressed" in line] == [
        f"warning: {says}: an export with --stored-body keeps them"
    ] * bool(says)


PUT = ("--set", "mappedFileSizeCommitLog=1048576", "put")


@pytest.mark.parametrize(("wrong", "said", "status"), [
    ({"compression": 5}, "line 2: compression is not text", None),
    ({"compression": "zstd"}, "line 2: compression is 'zstd', and sys_flag 0 marks none", None),
    ({"property_bytes": "!!"}, "line 2: property_bytes is not base64", None),
    ({"born_host": "1.2.3.4"}, "line 2: '1.2.3.4' is not a host", None),
    ({"born_host": "1.2.3.4:99999"}, "the port of born_host is not 0 to 65535: 99999", "MESSAGE_ILLEGAL"),
    ({"store_host": "1.2.3.4:-1"}, "the port of store_host is not 0 to 65535: -1", "MESSAGE_ILLEGAL"),
])  # fmt: skip
def test_each_wrong_value_of_a_line_ends_with_the_code_of_a_usage_error(
    wrong: dict[str, Any], said: str, status: str | None, tmp_path: Path
) -> None:
    lines = [{"topic": "T", "body_text": "x", **given} for given in ({}, wrong, {})]
    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
    run = rmqctl(*PUT, "--input", "-", store=tmp_path / "store", stdin=text)
    assert (run.code, said in " ".join((run.out + run.err).split())) == (2, True), run.out + run.err
    with open_store(tmp_path / "store") as store:
        assert store.max_offset("T", 0) == (1 if status is None else 2)
    kept = rmqctl(*PUT, "--input", "-", "--as-stored", store=tmp_path / "kept", stdin=text)
    assert kept.code == (2 if status is None else 0)


@pytest.mark.parametrize(("port", "code"), [(-1, 2), (0, 0), (65535, 0), (65536, 2)])
def test_a_store_host_has_a_port_that_a_client_decodes(port: int, code: int, tmp_path: Path) -> None:
    run = rmqctl(
        *PUT,
        "T",
        "x",
        "--store-host",
        f"1.2.3.4:{port}",
        store=tmp_path / "store",
    )
    assert (run.code, (tmp_path / "store").exists()) == (code, code == 0)
