"""What stands in place of bodies: the record around one is as it was, and as right or wrong as it was."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.store_reader import StoreReader
from store.formats.disguise import disguise
from store.formats.java import crc32
from store.formats.message import HEADER_V4
from store.formats.property_crc import PLACEHOLDER, has_own_crc, with_crc
from store.verbs.bundle import bodies
from store.verbs.bundle.bodies import BodyMask, _fields_of
from store.verbs.bundle.names import NameMask
from tests.support.logs import record

BODY_AT, CRC_AT = HEADER_V4.size, 8
PATH = "commitlog/00000000000000000000"


def masked(
    data: bytes, tmp_path: Path, salt: bytes = b"salt", *, hides: bool = False, names: NameMask | None = None
) -> bytes:
    """A segment with other bodies."""
    (tmp_path / "commitlog").mkdir(exist_ok=True)
    (tmp_path / PATH).write_bytes(data)
    reader = StoreReader(str(tmp_path))
    [file] = reader.segments()
    found = b"".join(BodyMask(salt, hides, names).file(reader, file))
    assert len(found) == len(data)
    return found


def crc_of(found: bytes) -> int:
    return int.from_bytes(found[CRC_AT : CRC_AT + 4], "big")


def with_wrong_crc(data: bytes) -> bytes:
    return data[:CRC_AT] + bytes([data[CRC_AT] ^ 1]) + data[CRC_AT + 1 :]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000])
def test_a_record_is_as_it_was_but_for_its_body_and_the_crc_of_that(size: int, tmp_path: Path) -> None:
    data = record(body=bytes(range(1, 11)) * (size // 10) + b"z" * (size % 10), properties=b"KEYS\1k\2")
    found, end = masked(data, tmp_path), BODY_AT + size
    assert (found[:CRC_AT], found[CRC_AT + 4 : BODY_AT], found[end:]) == (
        data[:CRC_AT],
        data[CRC_AT + 4 : BODY_AT],
        data[end:],
    )
    body = found[BODY_AT:end]
    assert (body, crc_of(found)) == ((body[:16] * size)[:size], crc32(body))
    assert set(body) <= set(b"0123456789abcdef")


@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("v2", [False, True])
def test_hosts_and_topics_of_every_size_stay(sys_flag: int, v2: bool, tmp_path: Path) -> None:
    data = record(body=b"SECRET", sys_flag=sys_flag, v2=v2)
    at = data.index(b"SECRET")
    found = masked(data, tmp_path)
    assert (found[12:at], found[at + 6 :]) == (data[12:at], data[at + 6 :])
    assert found[at : at + 6] != b"SECRET"


def test_an_empty_body_changes_nothing(tmp_path: Path) -> None:
    data = record(body=b"")
    assert masked(data, tmp_path) == data


def test_equal_bodies_have_equal_digits_and_another_salt_makes_others(tmp_path: Path) -> None:
    found = []
    for salt, body in ((b"a", b"one body"), (b"a", b"one body"), (b"a", b"two body"), (b"b", b"one body")):
        found.append(masked(record(body=body), tmp_path, salt)[BODY_AT : BODY_AT + 8])
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_a_wrong_crc_stays_wrong_and_zeros_of_the_body_stay(tmp_path: Path) -> None:
    found = masked(with_wrong_crc(record(body=b"ab\0\0cd\0")), tmp_path)
    body = found[BODY_AT : BODY_AT + 7]
    assert [bool(one) for one in body] == [True, True, False, False, True, True, False]
    assert crc_of(found) != crc32(body)
    assert not set(body) & set(b"abcd") - set(b"0123456789abcdef")


def test_a_right_crc_keeps_no_zero_of_a_body(tmp_path: Path) -> None:
    assert b"\0" not in masked(record(body=b"ab\0\0cd\0"), tmp_path)[BODY_AT : BODY_AT + 7]


@pytest.mark.parametrize("is_right", [True, False])
def test_the_crc_of_a_whole_record_is_as_right_as_it_was(is_right: bool, tmp_path: Path) -> None:
    data = with_crc(record(body=b"SECRET", properties=b"a\1b\2" + PLACEHOLDER))
    if not is_right:
        data = data[:16] + b"\0\0\0\7" + data[20:]
    assert has_own_crc(data) == is_right
    assert has_own_crc(masked(data, tmp_path)) == is_right


INNER = struct.Struct(">iiiii")


def inner(body: bytes, properties: bytes = b"") -> bytes:
    size = INNER.size + len(body) + 2 + len(properties)
    return INNER.pack(size, 0, 0, 9, len(body)) + body + struct.pack(">h", len(properties)) + properties


INNER_BODIES = {
    inner(b"SECRET", b"k\1v") + inner(b"HIDDEN!"): inner(b"??????", b"k\1v") + inner(b"???????"),
    inner(b"SECRET") + b"rest": inner(b"??????") + b"????",
    inner(b"SECRET") + INNER.pack(9, 0, 0, 0, 99) + b"SECRET": inner(b"??????") + INNER.pack(9, 0, 0, 0, 99) + b"?" * 6,
    inner(b"SECRET")[:-2] + b"\x7f\xffMORE": inner(b"??????")[:-2] + b"\x7f\xff????",
}


@pytest.mark.parametrize("body", INNER_BODIES)
def test_of_a_record_of_several_messages_only_their_bodies_are_replaced(body: bytes, tmp_path: Path) -> None:
    found = masked(record(body=body, sys_flag=0x80), tmp_path)[BODY_AT : BODY_AT + len(body)]
    wanted = INNER_BODIES[body]
    assert bytes(ord("?") if mark == ord("?") else one for one, mark in zip(found, wanted, strict=True)) == wanted
    assert not any(secret in found for secret in (b"SECRET", b"HIDDEN", b"rest", b"MORE"))


SOUND = record(body=b"SECRET", topic=b"T", properties=b"k\1v\2")
TOPIC_AT = BODY_AT + 6


def changed(at: int, data: bytes) -> bytes:
    return SOUND[:at] + data + SOUND[at + len(data) :]


DAMAGED = {
    "the magic": (changed(4, b"\1"), [(0, BODY_AT), (TOPIC_AT, len(SOUND))]),
    "size and magic, by a cut": (changed(0, bytes(8)), [(0, BODY_AT), (TOPIC_AT, len(SOUND))]),
    "size, magic and place": (bytes(8) + changed(28, b"\1" * 8)[8:], []),
    "the size": (changed(0, struct.pack(">i", len(SOUND) - 1)), [(0, BODY_AT), (TOPIC_AT, len(SOUND))]),
    "the size of the body": (changed(BODY_AT - 4, struct.pack(">i", 1 << 20)), [(0, BODY_AT)]),
    "the body's size below 0": (changed(BODY_AT - 4, struct.pack(">i", -1)), [(0, BODY_AT)]),
    "the topic's size": (changed(TOPIC_AT, b"\x7f"), [(0, BODY_AT), (TOPIC_AT, TOPIC_AT + 1)]),
    "the topic's size below 0": (changed(TOPIC_AT, b"\xff"), [(0, BODY_AT), (TOPIC_AT, TOPIC_AT + 1)]),
    "the properties' size": (changed(96, b"\x00\x63"), [(0, BODY_AT), (TOPIC_AT, TOPIC_AT + 1), (96, 98)]),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_of_damage_the_fields_that_tell_the_fault_stay(what: str, tmp_path: Path) -> None:
    data, kept = DAMAGED[what]
    behind = record(body=b"HIDDEN", position=len(data))
    found = masked(data + behind, tmp_path)
    wanted = bytearray(b"?" * len(data))
    for at, one in enumerate(data):
        if not one or any(start <= at < stop for start, stop in kept):
            wanted[at] = one
    assert found[: len(data)] == wanted
    assert found[len(data) + 12 : len(data) + BODY_AT] == behind[12:BODY_AT]


def test_properties_are_hidden_in_records_in_records_of_several_messages_and_in_damage(tmp_path: Path) -> None:
    text = b"KEYS\1order-4711\2UNIQ_KEY\1AC11\2"
    whole = record(body=b"SECRET", properties=text)
    several = record(body=inner(b"SECRET", text), sys_flag=0x80, position=len(whole))
    damaged = record(body=b"SECRET", properties=text, position=len(whole + several))
    damaged = damaged[:4] + b"\1" + damaged[5:]
    hidden = text.replace(b"order-4711", disguise("order-4711", b"salt").encode())
    found = masked(whole + several + damaged, tmp_path, hides=True)
    assert (found.count(hidden), found.count(b"order-4711"), found.count(b"SECRET")) == (3, 0, 0)
    assert masked(whole + several + damaged, tmp_path).count(text) == 3


def test_holes_and_what_is_past_the_end_of_the_log_keep_their_zeros(tmp_path: Path) -> None:
    first = record(body=b"SECRET")
    stale = record(body=b"HIDDEN", position=20_000)
    data = (first.ljust(20_000, b"\0") + stale + b"\0\0SECRET\0TEXT").ljust(40_000, b"\0")
    found = masked(data, tmp_path)
    assert found[len(first) : 20_000] == bytes(20_000 - len(first))
    assert found[20_012 : 20_000 + BODY_AT] == stale[12:BODY_AT]
    assert found[20_000 + len(stale) :] == b"\0\0??????\0????".ljust(20_000 - len(stale), b"\0")


@pytest.mark.turns(2)
@pytest.mark.parametrize("chunk", [7, 64, 4096, 19_999])
def test_what_is_between_records_is_the_same_in_pieces_of_any_size(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole, damage whose fields stay, text between zeros, and a hole up to the end."""
    damaged = bytearray(record(b"T", b"HIDDEN" * 50, b"KEYS\1k", position=20_000))
    damaged[3] += 1
    (tmp_path / "commitlog").mkdir()
    with (tmp_path / PATH).open("wb") as file:
        file.write(record(body=b"SECRET"))
        file.seek(20_000)
        file.write(bytes(damaged) + b"\0\0TEXT\0TEXT")
        file.truncate(60_000)
    reader = StoreReader(str(tmp_path))
    [segment] = reader.segments()
    whole = b"".join(BodyMask(b"salt").file(reader, segment))
    assert (len(whole), whole.count(b"HIDDEN"), whole.count(b"TEXT")) == (60_000, 0, 0)
    assert whole.endswith(b"\0\0????\0????" + bytes(60_000 - 20_000 - len(damaged) - 11))
    monkeypatch.setattr(bodies, "CHUNK_BYTES", chunk)
    pieces = list(BodyMask(b"salt").file(reader, segment))
    assert b"".join(pieces) == whole
    assert max(map(len, pieces[1:])) == chunk


NAMES = NameMask(b"s", ["Orders", "Payments"])


@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_hosts_and_topics_are_disguised_where_names_are_hidden(
    sys_flag: int, v2: bool, is_damaged: bool, tmp_path: Path
) -> None:
    """In a second record: the first is not at the start of what is scanned at once."""
    first = record(b"Payments", b"SECRET")
    data = bytearray(record(b"Orders", b"SECRET", b"k\1v\2", sys_flag=sys_flag, v2=v2, position=len(first)))
    born, stored = (16 if sys_flag & flag else 4 for flag in (0x10, 0x20))
    stored_at = 48 + born + 12
    data[48 : 48 + born + 4] = bytes(range(1, born + 5))
    data[stored_at : stored_at + stored + 4] = bytes(range(101, stored + 105))
    if is_damaged:
        data[8:12] = bytes(4)
        data[4 + data.index(b"SECRET") - 8] = 0
        data[0] = 1
    wanted = bytearray(data)
    wanted[48 : 48 + born] = NAMES.host(bytes(data[48 : 48 + born]))
    wanted[stored_at : stored_at + stored] = NAMES.host(bytes(data[stored_at : stored_at + stored]))
    body_at = data.index(b"SECRET")
    topic_at = body_at + 6 + (2 if v2 else 1)
    wanted[topic_at : topic_at + 6] = NAMES.name("Orders").encode()
    found = masked(first + data, tmp_path, names=NAMES)
    assert NAMES.name("Payments").encode() in found[: len(first)]
    record_found = found[len(first) :]
    assert record_found[12:body_at] == wanted[12:body_at]
    assert (b"SECRET" in record_found, record_found[body_at + 6 :]) == (False, wanted[body_at + 6 :])


def test_a_record_is_disguised_alike_after_damage_and_in_a_later_segment(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    key = disguise("order-4711", b"salt").encode()
    data, starts = b"\x7f" * 50, []
    for _ in range(2):
        starts.append(len(data))
        properties = b"KEYS\1order-4711\2" + PLACEHOLDER
        data += with_crc(record(b"Orders", b"SECRET", properties, position=1000 + len(data)))
    stop = len(data)
    data += b"\0" * 8 + b"rest"
    (tmp_path / "commitlog" / f"{1000:020d}").write_bytes(data)
    reader = StoreReader(str(tmp_path))
    [segment] = reader.segments()
    found = b"".join(BodyMask(b"salt", True, NAMES).file(reader, segment))
    assert (len(found), found[:50], found[stop:]) == (len(data), b"?" * 50, bytes(8) + b"????")
    for start, end in ((starts[0], starts[1]), (starts[1], stop)):
        one, old = found[start:end], data[start:end]
        body_at, properties_at = old.index(b"SECRET"), old.index(b"KEYS")
        assert has_own_crc(one)
        assert one[body_at + 6 : properties_at - 2] == b"\6" + NAMES.name("Orders").encode()
        assert one[properties_at:].startswith(b"KEYS\1" + key + b"\2__CRC32#")
        assert (one[:8], one[12:48], b"SECRET" in one) == (old[:8], old[12:48], False)


@pytest.mark.parametrize(("size", "sizes"), [(4096, [4096]), (4097, [4096, 1]), (8192, [4096, 4096]), (10, [10])])
def test_a_hole_is_zeros_in_pieces(size: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "CHUNK_BYTES", 4096)
    hole: Any = SimpleNamespace(
        next_written=lambda start: 1 << 40, readable_end=lambda start, stop: stop, size=size, buffer=b"", file_start=0
    )
    pieces = [bytes(piece) for piece in BodyMask(b"salt")._gap(hole, 100, 100 + size)]
    assert pieces == [bytes(one) for one in sizes]


HEAD = (0, 88)
V2 = record(b"T", b"SECRET", b"k\1v\2", v2=True)
LONG = record(b"T", b"SECRET", b"k\1" + b"v" * 400 + b"\2")


def sized(at: int, value: int, width: int = 4, data: bytes = SOUND) -> bytes:
    return data[:at] + value.to_bytes(width, "big", signed=True) + data[at + width :]


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (SOUND, [HEAD, (94, 102)]),
        (SOUND + b"behind", [HEAD, (94, 102)]),
        (sized(0, 0), [HEAD, (94, 102)]),
        (sized(0, 0) + b"x", [HEAD, (94, 95), (96, 98)]),
        (sized(0, 101), [HEAD, (94, 102)]),
        (sized(0, 101) + b"x", [HEAD, (94, 95), (96, 98)]),
        (SOUND[:101], [HEAD, (94, 95), (96, 98)]),
        (SOUND[:98], [HEAD, (94, 95), (96, 98)]),
        (SOUND[:97], [HEAD, (94, 95)]),
        (SOUND[:95], [HEAD, (94, 95)]),
        (SOUND[:94], [HEAD]),
        (sized(84, 13), [HEAD, (101, 102)]),
        (sized(84, 14), [HEAD]),
        (sized(84, 0), [HEAD, (88, 89)]),
        (sized(84, -1), [HEAD]),
        (sized(94, -1, 1), [HEAD, (94, 95)]),
        (sized(94, -1, 1, LONG), [HEAD, (94, 95)]),
        (sized(94, 0, 1), [HEAD, (94, 95), (95, 97)]),
        (sized(94, 5, 1), [HEAD, (94, 95), (100, 102)]),
        (sized(94, 6, 1), [HEAD, (94, 95)]),
        (sized(96, 3, 2), [HEAD, (94, 95), (96, 98)]),
        (sized(0, 101, data=sized(96, 3, 2)), [HEAD, (94, 101)]),
        (sized(0, 97, data=sized(96, -1, 2)), [HEAD, (94, 95)]),
        (sized(96, -1, 2), [HEAD, (94, 95), (96, 98)]),
        (sized(0, 98 + 0x9000, data=SOUND[:96] + b"\x90\0" + bytes(0x9000)), [HEAD, (94, 95), (96, 98)]),
        (V2, [HEAD, (94, 103)]),
        (sized(94, 6, 2, V2), [HEAD, (94, 96)]),
        (record(b"T", b"SECRET", sys_flag=0x10), [(0, 100), (106, 110)]),
        (record(b"T", b"SECRET", sys_flag=0x20), [(0, 100), (106, 110)]),
        (record(b"T", b"SECRET", sys_flag=0x30), [(0, 112), (118, 122)]),
    ],
)
def test_the_fields_of_a_damaged_record_are_read_as_far_as_they_fit(data: bytes, kept: list[tuple[int, int]]) -> None:
    assert _fields_of(memoryview(data)) == kept


@pytest.mark.parametrize(
    ("moves_on", "unreadable"),
    [(True, [(10, 17), (17, 20)]), (False, [(at, at + 1) for at in range(10, 20)])],
)
@pytest.mark.parametrize("place", [3, 5, 8, 25])
def test_a_gap_shows_what_tells_its_fault_and_zeros_where_nothing_can_be_read(
    place: int, moves_on: bool, unreadable: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes 10 to 19 of 40 can't be read; the fault's bytes are at `place`."""
    monkeypatch.setattr(bodies, "CHUNK_BYTES", 7)
    monkeypatch.setattr(BodyMask, "_kept", lambda mask, segment, start, stop: [(place, b"XY"), (30, b"Z")])
    segment: Any = SimpleNamespace(
        name="s",
        buffer=memoryview(b"a" * 40),
        next_written=lambda position: position,
        readable_end=lambda start, stop: start if 10 <= start < 20 else min(stop, 10 if start < 10 else 40),
        behind_unreadable=lambda start, stop: min(20, stop) if moves_on else start,
    )
    mask = BodyMask(b"salt", False, None)
    wanted = bytearray(b"?" * 10 + bytes(10) + b"?" * 20)
    wanted[place : place + 2], wanted[30:31] = b"XY", b"Z"
    pieces = [bytes(piece) for piece in mask._gap(segment, 0, 40)]
    assert (b"".join(pieces), mask.unreadable) == (wanted, {"s": unreadable})
    assert max(map(len, pieces)) <= 7
