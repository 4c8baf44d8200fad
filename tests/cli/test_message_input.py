"""One line of JSON as the message that is put: each name, its limits, and what is refused with which words."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import pytest

from rmqctl.message_input import StoredLine, parse_stored
from store import Message
from store.formats.properties import decode_properties

NOW_MS = 1_800_000_000_000


def parsed(**row: Any) -> StoredLine:
    return parse_stored(json.dumps({"topic": "T", **row}).encode(), None, NOW_MS)


@pytest.mark.parametrize("name", ["flag", "sys_flag", "queue_id", "reconsume_times"])
@pytest.mark.parametrize(("value", "fits"), [(0, True), (2**31 - 1, True), (2**31, False)])
def test_a_number_of_32_bits_fits_or_is_refused(name: str, value: int, fits: bool) -> None:
    assert_fits(name, value, 32, fits)


@pytest.mark.parametrize("name", ["born_timestamp_ms", "prepared_transaction_offset"])
@pytest.mark.parametrize(("value", "fits"), [(0, True), (2**63 - 1, True), (2**63, False)])
def test_a_number_of_64_bits_fits_or_is_refused(name: str, value: int, fits: bool) -> None:
    assert_fits(name, value, 64, fits)


def assert_fits(name: str, value: int, bits: int, fits: bool) -> None:
    if fits:
        assert getattr(parsed(**{name: value}).message, name) == value
    else:
        with pytest.raises(ValueError, match=f"^{name} does not fit in {bits} bits$"):
            parsed(**{name: value})


@pytest.mark.parametrize("name", ["flag", "reconsume_times"])
@pytest.mark.parametrize(("value", "fits"), [(-(2**31), True), (-(2**31) - 1, False)])
def test_a_number_may_be_as_small_as_an_int(name: str, value: int, fits: bool) -> None:
    assert_fits(name, value, 32, fits)


@pytest.mark.parametrize(("value", "fits"), [(1, True), (2**31 - 1, True), (2**31, False)])
def test_a_delay_level_is_an_int(value: int, fits: bool) -> None:
    if fits:
        assert decode_properties(parsed(delay_level=value).message.properties)["DELAY"] == str(value)
    else:
        with pytest.raises(ValueError, match=r"^delay_level does not fit in 32 bits$"):
            parsed(delay_level=value)


def test_what_is_not_named_is_as_a_producer_has_it() -> None:
    assert parsed() == StoredLine(Message.of("T", b"", born_timestamp_ms=NOW_MS), None, True)
    assert parsed(crc_ok=True).crc_ok
    assert parsed(crc_ok=None).crc_ok
    assert not parsed(crc_ok=False).crc_ok
    assert [parsed(store_timestamp_ms=ms).store_timestamp_ms for ms in (None, 0, 5)] == [None, 0, 5]
    assert parse_stored("{}", "Given", NOW_MS).message.topic == "Given"


@pytest.mark.parametrize(
    ("transaction", "sys_flag"),
    [("none", 0b0001), ("prepared", 0b0101), ("commit", 0b1001), ("rollback", 0b1101), (None, 0b1001)],
)
def test_a_transaction_sets_its_two_bits_alone(transaction: str | None, sys_flag: int) -> None:
    assert parsed(sys_flag=0b1001, transaction=transaction).message.sys_flag == sys_flag
    if transaction is not None:
        assert parsed(sys_flag=0b1000, transaction=transaction).message.sys_flag == sys_flag - 1


@pytest.mark.parametrize(
    ("row", "body"),
    [
        ({"body": "aGk="}, b"hi"),
        ({"body": "aGk=", "body_encoding": "base64"}, b"hi"),
        ({"body": "6869", "body_encoding": "hex"}, b"hi"),
        ({"body": "aGk=", "body_encoding": "utf8"}, b"aGk="),
        ({"body_text": "hi"}, b"hi"),
        ({"body_text": "hi", "body": "6869", "body_encoding": "hex"}, b"hi"),
        ({"body_text": "hi", "body_state": "stored", "compression": "zlib", "sys_flag": 1}, b"hi"),
        ({"body": "aGk=", "body_crc": 7}, b"hi"),
        ({"body_text": "hi", "body_crc": 7}, b"hi"),
        ({"body_crc": 0}, b""),
        ({"body_text": '"\\\n\u00e9'}, b'"\\\n\xc3\xa9'),
    ],
)
def test_a_body_is_read_by_its_encoding(row: dict[str, str | int], body: bytes) -> None:
    assert parsed(**row).message.body == body


def test_a_body_that_was_decompressed_is_compressed_again() -> None:
    row = {"body_text": "hi" * 100, "body_state": "decompressed", "sys_flag": 1}
    assert zlib.decompress(parsed(**row, compression="zlib").message.body) == b"hi" * 100
    for compression in ({}, {"compression": None}, {"compression": "x"}):
        with pytest.raises(ValueError, match="compression"):
            parsed(**row, **compression)


@pytest.mark.parametrize(("compression", "sys_flag", "marked"), [
    (None, 0, None), (None, 1, None), ("zlib", 0x1, None), ("zlib", 0x301, None), ("lz4", 0x101, None),
    ("zstd", 0x201, None), ("type 4", 0x401, None), ("zlib", 0x5, None),
    ("zlib", 0, "none"), ("zstd", 0, "none"), ("", 0, "none"), ("zlib", 0x300, "none"), ("zstd", 0x1, "zlib"),
    ("ZLIB", 0x1, "zlib"), ("zlib", 0x101, "lz4"), ("lz4", 0x201, "zstd"), ("type 5", 0x401, "type 4"),
])  # fmt: skip
@pytest.mark.parametrize("state", ["plain", "stored"])
def test_a_compression_is_that_of_the_sys_flag(
    compression: str | None, sys_flag: int, marked: str | None, state: str
) -> None:
    row = {"body_text": "hi", "body_state": state, "compression": compression, "sys_flag": sys_flag}
    if marked is None:
        assert (parsed(**row).message.body, parsed(**row).message.sys_flag) == (b"hi", sys_flag)
        return
    with pytest.raises(ValueError, match=f"^compression is {compression!r}, and sys_flag {sys_flag} marks {marked}$"):
        parsed(**row)


@pytest.mark.parametrize("compression", [5, True, ["zlib"], {"zlib": 1}, 0.5])
def test_a_compression_is_text(compression: object) -> None:
    with pytest.raises(ValueError, match=r"^compression is not text$"):
        parsed(body_text="hi", compression=compression)


@pytest.mark.parametrize(("row", "said"), [
    ({"property_bytes": "!!"}, "property_bytes is not base64"),
    ({"property_bytes": "YQ="}, "property_bytes is not base64"),
    ({"property_bytes": 5}, "property_bytes is not text"),
    ({"body": "!!"}, "body is not base64 (write text as body_text)"),
    ({"body": "0g", "body_encoding": "hex"}, "body is not hex (write text as body_text)"),
    ({"body_text": 5}, "body_text is not text"),
])  # fmt: skip
def test_bytes_that_cannot_be_read_are_refused_by_their_own_name(row: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        parsed(**row)


@pytest.mark.parametrize(
    ("row", "properties"),
    [
        ({"keys": "a b"}, {"KEYS": "a b"}),
        ({"keys": ["a", "b"]}, {"KEYS": "a b"}),
        ({"keys": []}, {}),
        ({"keys": ["a", "b"], "properties": {"KEYS": "a  b"}}, {"KEYS": "a  b"}),
        ({"keys": ["a", "c"], "properties": {"KEYS": ""}}, {"KEYS": "a c"}),
        ({"tags": "", "properties": {"TAGS": "t"}}, {"TAGS": "t"}),
        ({"tags": "t", "properties": {"TAGS": "t"}}, {"TAGS": "t"}),
        ({"delay_level": 3, "properties": {"DELAY": "3"}}, {"DELAY": "3"}),
        ({"tags": "t", "uniq_key": "u", "delay_level": 3}, {"TAGS": "t", "UNIQ_KEY": "u", "DELAY": "3"}),
        ({"delay_level": 0}, {}),
        ({"delay_level": None}, {}),
    ],
)
def test_keys_and_tags_are_properties(row: dict[str, Any], properties: dict[str, str]) -> None:
    stored = decode_properties(parsed(**row).message.properties)
    assert {name: value for name, value in stored.items() if name != "WAIT"} == properties


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"keys": ["a", "c"], "properties": {"KEYS": "a  b"}}, "keys and the property KEYS differ"),
        ({"tags": "t", "properties": {"TAGS": "u"}}, "tags and the property TAGS differ"),
        ({"uniq_key": "t", "properties": {"UNIQ_KEY": "u"}}, "uniq_key and the property UNIQ_KEY differ"),
        ({"delay_level": 3, "properties": {"DELAY": "4"}}, "delay_level and the property DELAY differ"),
    ],
)
def test_a_name_and_its_property_with_another_value_are_refused(row: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}; leave one of them out$"):
        parsed(**row)


BYTES = base64.b64encode(b"KEYS\x01a  b\x02TAGS\x01t\x02").decode()


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        ({}, ""),
        ({"keys": ["a", "b"], "tags": "t", "uniq_key": None, "properties": {"KEYS": "a  b", "TAGS": "t"}}, ""),
        ({"keys": ["a"]}, "keys"),
        ({"tags": "u"}, "tags"),
        ({"uniq_key": "u"}, "uniq_key"),
        ({"delay_level": 0}, ""),
        ({"delay_level": 3}, "delay_level"),
        ({"properties": {"TAGS": "t"}}, "properties"),
    ],
)
def test_property_bytes_are_stored_as_they_are_and_contradicted_by_nothing(row: dict[str, Any], differs: str) -> None:
    if differs:
        with pytest.raises(ValueError, match=f"^{differs} and property_bytes differ; leave property_bytes out to put "):
            parsed(property_bytes=BYTES, **row)
    else:
        assert parsed(property_bytes=BYTES, **row).message.properties == base64.b64decode(BYTES)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[1]", "not a JSON object"),
        ('{"topic":"T"', "not JSON: Expecting ',' delimiter: line 1 column 13 (char 12)"),
        ("{}", "no topic"),
        ('{"topic":null}', "no topic"),
        ('{"topic":7}', "topic is not text"),
        ('{"topic":"T","keys":0}', "keys is not a list of texts"),
        ('{"topic":"T","keys":{}}', "keys is not a list of texts"),
        ('{"topic":"T","born_host":0}', "born_host is not text"),
        ('{"topic":"T","store_host":[]}', "store_host is not text"),
        ('{"topic":"T","delay_level":false}', "delay_level is not a whole number"),
        ('{"topic":"T","delay_level":""}', "delay_level is not a whole number"),
        (
            '{"topic":"T","born_host":"1.2.3.4:1_0"}',
            "'1.2.3.4:1_0' is not a host; write 127.0.0.1:10911 or [::1]:10911",
        ),
        ('{"topic":"T","born_host":"1.2.3.4: 1"}', "'1.2.3.4: 1' is not a host; write 127.0.0.1:10911 or [::1]:10911"),
        ('{"topic":"T","born_host":"[::1%a]:1"}', "'[::1%a]:1' is not a host; write 127.0.0.1:10911 or [::1]:10911"),
        ('{"topic":"T","body_text":7}', "body_text is not text"),
        ('{"topic":"T","b":1,"a":1}', "unknown name 'a'"),
        ('{"topic":"T","topic":"U"}', "not JSON: 'topic' is given twice"),
        ('{"topic":"T","flag":1,"flag":1}', "not JSON: 'flag' is given twice"),
        ('{"topic":"T","properties":{"a":"b","a":"b"}}', "not JSON: 'a' is given twice"),
        ('{"topic":"T","topic":"U","size":[1,2]}', "not JSON: 'topic' is given twice"),
        ('{"topic":"T","topic":"U","size":{"a":1,"b":2}}', "not JSON: 'topic' is given twice"),
        ('{"topic":"T","\\u0074opic":"U"}', "not JSON: 'topic' is given twice"),
        ('{"topic":"T","flag":true}', "flag is not a whole number"),
        ('{"topic":"T","flag":0.5}', "flag is not a whole number"),
        ('{"topic":"T","flag":"1"}', "flag is not a whole number"),
        ('{"topic":"T","store_timestamp_ms":"x"}', "store_timestamp_ms is not a whole number"),
        ('{"topic":"T","body":7}', "body is not text"),
        ('{"topic":"T","body":"?"}', "body is not base64 (write text as body_text)"),
        ('{"topic":"T","body":"6","body_encoding":"hex"}', "body is not hex (write text as body_text)"),
        ('{"topic":"T","body":"","body_encoding":"x"}', "body_encoding 'x' is none of base64, hex, utf8"),
        ('{"topic":"T","body":"aGk=","body_text":"ho"}', "body and body_text differ; leave one of them out"),
        (
            '{"topic":"T","body_crc":7}',
            "no body: it was left out when the line was written, as with --no-body or --body none",
        ),
        ('{"topic":"T","body_text":"\\ud800"}', "a lone surrogate in body_text, which no UTF-8 can hold"),
        ('{"topic":"T","body_state":"x"}', "body_state 'x' is none of plain, stored, decompressed"),
        ('{"topic":"T","transaction":"x"}', "transaction 'x' is none of none, prepared, commit, rollback"),
        ('{"topic":"T","transaction":1}', "transaction 1 is none of none, prepared, commit, rollback"),
        ('{"topic":"T","properties":[]}', "properties is not an object"),
        ('{"topic":"T","properties":{"a":1}}', "property 'a' is not text: 1"),
        ('{"topic":"T","keys":7}', "keys is not a list of texts"),
        ('{"topic":"T","keys":["a",7]}', "keys is not a list of texts"),
        ('{"topic":"T","tags":7}', "tags is not text"),
        ('{"topic":"T","uniq_key":7}', "uniq_key is not text"),
    ],
)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_wrong_line_says_what_is_wrong(line: str, says: str, as_bytes: bool) -> None:
    with pytest.raises(ValueError, match=r"^") as error:
        parse_stored(line.encode() if as_bytes else line, None, NOW_MS)
    assert str(error.value) == says


@pytest.mark.parametrize(("length", "shown"), [(38, f"'{'x' * 38}'"), (39, f"'{'x' * 39}…")])
def test_forty_characters_of_a_value_are_repeated(length: int, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^transaction {shown} is none of none, prepared, commit, rollback$"):
        parsed(transaction="x" * length)


@pytest.mark.parametrize(("time_ms", "is_refused"), [((1 << 63) - 1, False), (1 << 63, True), (-1 << 63, False)])
def test_a_store_time_fits_in_64_bits(time_ms: int, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ValueError, match="store_timestamp_ms does not fit in 64 bits"):
            parsed(store_timestamp_ms=time_ms)
    else:
        assert parsed(store_timestamp_ms=time_ms).store_timestamp_ms == time_ms
