"""The walk's verdicts, interpreted and compiled, against the naive twin."""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.columns import DamageReason, ScanOutcome
from store.kernels.scan import FIXED_SIZE
from tests.support import naive
from tests.support.golden import ALL, golden
from tests.support.guarded import GuardedBuffer, survive
from tests.support.logs import END_OF_FILE, SCHEDULE, log_of, mutations, record, segments
from tests.support.twice import COLUMN_COUNT, agrees_with_twin, both, scan


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("accept_v2", [False, True])
@pytest.mark.parametrize("check_crc", [False, True])
def test_both_modes_and_the_twin_agree_on_every_golden_store(name: str, accept_v2: bool, check_crc: bool) -> None:
    for data in golden(name).log.values():
        agrees_with_twin(data, accept_v2=accept_v2, check_crc=check_crc)


@given(segments(), st.booleans(), st.booleans())
def test_a_healthy_segment_is_walked_to_its_end(data: bytes, accept_v2: bool, check_crc: bool) -> None:
    agrees_with_twin(data, accept_v2=accept_v2, check_crc=check_crc)


@given(segments(), st.lists(mutations(), min_size=1, max_size=3), st.booleans(), st.booleans())
def test_a_damaged_segment_gets_the_twins_verdict(data, damages, accept_v2, check_crc) -> None:  # type: ignore[no-untyped-def]
    for damage in damages:
        data = damage(data)
    agrees_with_twin(data, accept_v2=accept_v2, check_crc=check_crc)


@given(st.binary(max_size=300), st.integers(-5, 310), st.integers(-5, 310))
def test_any_bytes_and_any_places_are_survived(data: bytes, position: int, limit: int) -> None:
    scan(b"\0\0\0\x7b\xda\xa3\x20\xa7" + data, position, limit)


@given(segments(), st.lists(mutations(), max_size=3))
def test_compiled_kernels_read_no_byte_behind_the_buffer(data, damages) -> None:  # type: ignore[no-untyped-def]
    for damage in damages:
        data = damage(data)
    # A byte behind these lies in a page that may not be touched: reading it ends the process.
    survive(GuardedBuffer(1 << 16).place(data))


def test_a_full_matrix_stops_the_walk_where_it_can_go_on() -> None:
    data = log_of([{"body": bytes([n])} for n in range(5)])
    first = scan(data, capacity=2)
    assert (first.outcome, len(first.rows)) == (ScanOutcome.FULL, 2)
    rest = scan(data, first.next_position, capacity=10)
    assert (rest.outcome, len(rest.rows)) == (ScanOutcome.LIMIT, 3)


def _with_int(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack(">i", value) + data[at + 4 :]


_SOUND = record(properties=b"K\x01v")
_BODY_SIZE_AT = 84
_TOPIC_AT = _BODY_SIZE_AT + 4 + 4
_PROPERTIES_AT = _TOPIC_AT + 1 + 5


@pytest.mark.parametrize(
    ("data", "reason", "size"),
    [
        (_with_int(_SOUND, 4, 0x12345678), DamageReason.BAD_MAGIC, -1),
        (_with_int(_SOUND, 0, -5), DamageReason.BAD_SIZE, -1),
        (_with_int(_SOUND, 0, 12), DamageReason.BAD_SIZE, 12),
        (_with_int(_SOUND, 0, 5000), DamageReason.SIZE_BEYOND_SEGMENT, 5000),
        (_with_int(_SOUND, 0, 0x7FFFFFFF), DamageReason.SIZE_BEYOND_SEGMENT, 0x7FFFFFFF),
        (_SOUND[:60], DamageReason.SIZE_BEYOND_SEGMENT, -1),
        (_with_int(_SOUND, _BODY_SIZE_AT, 0x7FFFFFFF), DamageReason.BODY_BEYOND, -1),
        (_SOUND[:_TOPIC_AT] + b"\x80" + _SOUND[_TOPIC_AT + 1 :], DamageReason.NEGATIVE_TOPIC, -1),
        (_SOUND[:_TOPIC_AT] + b"\xff" + _SOUND[_TOPIC_AT + 1 :], DamageReason.NEGATIVE_TOPIC, -1),
        (_SOUND[:_TOPIC_AT] + b"\x7f" + _SOUND[_TOPIC_AT + 1 :], DamageReason.TOPIC_BEYOND, -1),
        (_SOUND[:_PROPERTIES_AT] + b"\x7f\xff" + _SOUND[_PROPERTIES_AT + 2 :], DamageReason.PROPERTIES_BEYOND, -1),
        (_with_int(_SOUND, 0, len(_SOUND) + 1) + b"\0", DamageReason.LENGTH_MISMATCH, len(_SOUND) + 1),
        (_with_int(_SOUND, 0, 0), DamageReason.TOPIC_BEYOND, -1),
        (_with_int(record(sys_flag=0x30)[:111], 0, 111), DamageReason.BODY_BEYOND, -1),
        (_with_int(_SOUND[:_TOPIC_AT], 0, _TOPIC_AT), DamageReason.TOPIC_BEYOND, -1),
        (_with_int(_SOUND[: _PROPERTIES_AT + 1], 0, _PROPERTIES_AT + 1), DamageReason.PROPERTIES_BEYOND, -1),
        (record(SCHEDULE, properties=b"DELAY\x01x"), DamageReason.BAD_DELAY_LEVEL, -1),
        (_with_int(_SOUND, 8, 1), DamageReason.BAD_CRC, -1),
    ],
)
def test_damage_is_named_and_has_the_brokers_size(data: bytes, reason: DamageReason, size: int) -> None:
    found = scan(data, accept_v2=False, check_crc=True)
    assert (found.outcome, found.reason, found.size) == (ScanOutcome.DAMAGE, reason, size)
    assert (found.next_position, found.rows) == (0, ())


_LONG = record(b"t" * 100, body=bytes(200), properties=b"p" * 100)
_LONG_TOPIC_AT = _BODY_SIZE_AT + 4 + 200
_LONG_PROPERTIES_AT = _LONG_TOPIC_AT + 1 + 100
_WIDE = record(b"", body=b"", sys_flag=0x30)
"""Its body's size is at 108, after hosts of 16 bytes."""


def _with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "size", "reason"),
    [
        # A part with as many bytes as the log has left, and with one more.
        (_with_int(_LONG, _BODY_SIZE_AT, 403), 491, DamageReason.TOPIC_BEYOND),
        (_with_int(_LONG, _BODY_SIZE_AT, 404), 491, DamageReason.BODY_BEYOND),
        (_with_byte(_LONG[:-50], _LONG_PROPERTIES_AT + 1, 50), 342, DamageReason.LENGTH_MISMATCH),
        (_with_byte(_LONG[:-50], _LONG_PROPERTIES_AT + 1, 51), 342, DamageReason.PROPERTIES_BEYOND),
        (_with_byte(_LONG[:-152], _LONG_TOPIC_AT, 50), 240, DamageReason.PROPERTIES_BEYOND),
        (_with_byte(_LONG[:-152], _LONG_TOPIC_AT, 51), 240, DamageReason.TOPIC_BEYOND),
        (_WIDE[:111], 111, DamageReason.BODY_BEYOND),
        (_WIDE[:112], 112, DamageReason.TOPIC_BEYOND),
        (_WIDE[:113], 113, DamageReason.PROPERTIES_BEYOND),
        (_WIDE[:114], 114, DamageReason.PROPERTIES_BEYOND),
        # A part with as many bytes as the record's size, and with one more.
        (_LONG, 100, DamageReason.BODY_BEYOND),
        (_LONG, 99, DamageReason.TOPIC_BEYOND),
        (_with_byte(_LONG + bytes(9), _LONG_PROPERTIES_AT + 1, 105), 105, DamageReason.BODY_BEYOND),
        (_with_byte(_LONG + bytes(9), _LONG_PROPERTIES_AT + 1, 105), 104, DamageReason.PROPERTIES_BEYOND),
    ],
)
def test_a_part_is_beyond_the_log_or_the_record_by_one_byte(data: bytes, size: int, reason: DamageReason) -> None:
    found = scan(_with_int(data, 0, size), accept_v2=False)
    assert (found.outcome, found.reason) == (ScanOutcome.DAMAGE, reason)


@pytest.mark.parametrize(("sys_flag", "hosts"), [(0, 0), (0x10, 12), (0x20, 12), (0x30, 24)])
def test_a_size_that_the_parts_do_not_add_up_to_is_below_the_least_below_the_bodys_or_another(
    sys_flag: int, hosts: int
) -> None:
    data = record(body=bytes(200), sys_flag=sys_flag)
    reasons = {
        FIXED_SIZE + hosts - 1: DamageReason.BAD_SIZE,
        FIXED_SIZE + hosts: DamageReason.BODY_BEYOND,
        199: DamageReason.BODY_BEYOND,
        200: DamageReason.LENGTH_MISMATCH,
        len(data) - 1: DamageReason.LENGTH_MISMATCH,
    }
    found = {size: scan(_with_int(data, 0, size), accept_v2=False) for size in reasons}
    assert {size: one.reason for size, one in found.items()} == reasons
    assert [one.size for one in found.values()] == list(reasons)


@pytest.mark.parametrize(
    ("tail", "outcome"),
    [
        (b"", ScanOutcome.LIMIT),
        (b"\0", ScanOutcome.END),
        (b"\0" * 7, ScanOutcome.END),
        (b"\0" * 100, ScanOutcome.END),
        (END_OF_FILE, ScanOutcome.BLANK),
        (b"\0\0\0\0\0\0\0\1", ScanOutcome.DAMAGE),
    ],
)
def test_what_follows_the_last_record_decides_the_outcome(tail: bytes, outcome: ScanOutcome) -> None:
    found = scan(_SOUND + tail)
    assert (found.outcome, found.next_position, len(found.rows)) == (outcome, len(_SOUND), 1)


def test_a_long_topic_is_a_record_to_5x_and_damage_to_4x() -> None:
    data = record(b"t" * 200)
    assert scan(data, accept_v2=True).outcome == ScanOutcome.LIMIT
    assert scan(data, accept_v2=False).reason == DamageReason.BAD_MAGIC


@pytest.mark.parametrize(
    ("level", "is_number"),
    [
        *((level, True) for level in (b"1", b"+7", b"-7", b"007", b"-2147483648", b"2147483647")),
        *((level, False) for level in (b"2147483648", b"-2147483649", b"+", b"-", b"1 ", b"9" * 30)),
    ],
)
def test_a_delay_level_is_a_number_where_java_takes_it_for_one(level: bytes, is_number: bool) -> None:
    delayed = scan(record(SCHEDULE, properties=b"DELAY\x01" + level))
    assert (delayed.outcome == ScanOutcome.LIMIT) == is_number
    assert scan(record(b"Other", properties=b"DELAY\x01" + level)).outcome == ScanOutcome.LIMIT


@pytest.mark.parametrize("properties", [b"", b"K\x01v", b"DELAY", b"DELAY\x01"])
def test_a_delayed_message_without_a_level_is_sound(properties: bytes) -> None:
    assert scan(record(SCHEDULE, properties=properties)).outcome == ScanOutcome.LIMIT


@pytest.mark.parametrize("at", range(len(SCHEDULE)))
def test_the_level_counts_in_the_topic_with_all_its_bytes_alone(at: int) -> None:
    topic = SCHEDULE[:at] + bytes([SCHEDULE[at] ^ 1]) + SCHEDULE[at + 1 :]
    assert scan(record(topic, properties=b"DELAY\x01x")).outcome == ScanOutcome.LIMIT
    assert scan(record(SCHEDULE + b"X", properties=b"DELAY\x01x")).outcome == ScanOutcome.LIMIT


@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("v2", [False, True])
def test_each_column_is_its_field(sys_flag: int, v2: bool) -> None:
    given = {"queue_id": -3, "queue_offset": (1 << 40) + 1, "store_timestamp_ms": (1 << 41) + 3, "sys_flag": sys_flag}
    data = record(b"Topic", b"body", b"K\x01v", position=(1 << 42) + 2, v2=v2, **given)  # type: ignore[arg-type]
    body_at = 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
    topic_at = body_at + 4 + (2 if v2 else 1)
    crc = zlib.crc32(b"body") & 0x7FFFFFFF
    (row,) = scan(data, check_crc=True).rows
    assert row == (
        0, len(data), body_at, 4, topic_at, 5, topic_at + 7, 3, -3, (1 << 40) + 1, (1 << 42) + 2, sys_flag,
        (1 << 41) + 3, crc,
    )  # fmt: skip


@pytest.mark.parametrize("place", ["body", "properties"])
def test_a_negative_size_of_body_or_properties_counts_as_none(place: str) -> None:
    data = record(b"Topic", b"", b"")
    at = _BODY_SIZE_AT if place == "body" else len(data) - 2
    data = data[:at] + b"\xff" * (4 if place == "body" else 2) + data[at + (4 if place == "body" else 2) :]
    found = scan(data)
    assert (found.outcome, found.rows[0][3], found.rows[0][7]) == (ScanOutcome.LIMIT, 0, 0)


def _find(data: bytes, position: int, file_start: int = 0, limit: int | None = None, *, accept_v2: bool = True) -> int:
    def ask(kernels: ModuleType) -> int:
        columns = np.zeros((COLUMN_COUNT, 1), np.int64)
        end = len(data) if limit is None else limit
        return int(kernels.find_record_start(data, position, end, file_start, accept_v2, columns))

    found: int = both(ask)
    return found


@given(segments(), st.lists(mutations(), max_size=2), st.integers(0, 300))
def test_the_next_record_start_is_the_twins(data, damages, position) -> None:  # type: ignore[no-untyped-def]
    for damage in damages:
        data = damage(data)
    assert _find(data, position) == naive.find_record_start(data, position, len(data), 0, True)


@pytest.mark.parametrize(("magic", "found"), [(0xDAA320A7, (0, 0)), (0xDAA320AB, (-1, -1)), (0xDAA320A8, (-1, -1))])
def test_a_record_starts_at_a_known_magic_alone(magic: int, found: tuple[int, int]) -> None:
    data = _SOUND[:4] + magic.to_bytes(4, "big") + _SOUND[8:]
    assert (_find(data, 0, accept_v2=False), _find(data, 0)) == found


@pytest.mark.parametrize(("accept_v2", "place"), [(False, -1), (True, 9)])
def test_a_record_of_a_long_topic_starts_for_5x(accept_v2: bool, place: int) -> None:
    data = bytes(9) + record(b"t" * 200, position=9)
    assert [_find(data, position, accept_v2=accept_v2) for position in (-5, 0, 9, 10)] == [place, place, place, -1]
    assert _find(data, 0, 100, accept_v2=accept_v2) == -1


def test_a_copy_of_a_record_inside_a_body_is_not_taken_for_a_record() -> None:
    first = record(body=record(position=0))
    data = first + record(position=len(first))
    assert _find(data, 1) == len(first)


@pytest.mark.parametrize(
    ("second", "count"),
    [
        (_SOUND, 3),
        (_with_int(_SOUND, 8, 1), 1),
        (_with_int(_SOUND, 4, 0x12345678), 1),
        (_with_int(_SOUND, 0, len(_SOUND) - 1), 1),
        (_with_int(_SOUND, 0, len(_SOUND) + 1), 1),
        (_with_int(_SOUND, 4, 0xCBD43194 - (1 << 32)), 1),
    ],
)
def test_records_of_given_places_are_read_up_to_one_that_is_not_sound(second: bytes, count: int) -> None:
    data, size = _SOUND + second + _SOUND, len(_SOUND)

    def ask(kernels: ModuleType) -> tuple[int, list[list[int]]]:
        columns = np.zeros((COLUMN_COUNT, 3), np.int64)
        found = kernels.read_records(data, np.arange(3) * size, np.full(3, size), columns)
        return int(found), columns[:, :found].T.tolist()

    rows = [list(row) for row in scan(data).rows][:count] if count == 3 else [list(scan(_SOUND).rows[0])]
    assert both(ask) == (count, rows)


def test_a_magic_at_the_very_end_is_no_record() -> None:
    for cut in range(len(_SOUND)):
        assert _find(_SOUND[:cut], 0) == -1
    assert _find(_SOUND, 0) == 0
    assert _find(_SOUND, 0, limit=len(_SOUND) - 1) == -1


def entry(
    body: bytes = b"",
    magic: int = 1,
    *,
    size: int | None = None,
    index: int = 0,
    place: int = 0,
    unused: tuple[int, int, int] = (0, 0, 0),
    body_size: int | None = None,
) -> bytes:
    """An entry of DLedger: magic, size, index, term, place, channel and chain CRC, CRC, size of the body, body."""
    size = 48 + len(body) if size is None else size
    return struct.pack(
        ">iiqqqiiii", magic, size, index, 7, place, *unused, len(body) if body_size is None else body_size
    ) + body  # fmt: skip


_OF_V2 = record(b"t" * 200)
_SMALL = record(b"", b"")
Verdict = tuple[ScanOutcome, DamageReason, int, int, list[int]]


def passes(next_position: int, *positions: int) -> Verdict:
    return ScanOutcome.LIMIT, DamageReason.NONE, 0, next_position, list(positions)


def is_blank(size: int) -> Verdict:
    return ScanOutcome.BLANK, DamageReason.NONE, size, 0, []


def is_damage(reason: DamageReason = DamageReason.BAD_MAGIC, size: int = -1, at: int = 0) -> Verdict:
    return ScanOutcome.DAMAGE, reason, size, at, []


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (entry(_SOUND), passes(48 + len(_SOUND), 48)),
        (entry(_SMALL), passes(48 + 91, 48)),
        (entry(_SMALL, size=48 + 90, body_size=90), is_damage()),
        (entry(_SOUND, 4), is_damage()),
        (entry(_SOUND, body_size=len(_SOUND) - 1), is_damage()),
        (entry(_SOUND, body_size=len(_SOUND) + 1), is_damage()),
        (entry(_SOUND)[:55], is_damage(DamageReason.SIZE_BEYOND_SEGMENT)),
        (entry(_SOUND)[:56], is_damage(DamageReason.SIZE_BEYOND_SEGMENT, at=48)),
        (entry(_OF_V2), passes(48 + len(_OF_V2), 48)),
        (entry(_with_int(_SOUND, 4, 0x12345678)), is_damage()),
        *((entry(b"12", magic) + _SOUND, passes(50 + len(_SOUND), 50)) for magic in (2, 3)),
        (entry(b"", 2), passes(48)),
        (entry(b"", 2, size=47, body_size=-1), is_damage()),
        (entry(b"", 2)[:47], is_damage(DamageReason.SIZE_BEYOND_SEGMENT)),
        (entry(b"12", 2, body_size=1), is_damage()),
        (entry(b"12", 2)[:49], is_damage(DamageReason.SIZE_BEYOND_SEGMENT)),
        (entry(b"", 2, index=-1), is_damage()),
        (entry(b"", 2, place=-1), is_damage()),
        (entry(b"", 2, place=1), passes(48)),
        (entry(b"", 2) + entry(b"", 2, place=48), passes(96)),
        (entry(b"", 2) + entry(b"", 2, place=47), is_damage(at=48)),
        *((entry(b"", 2, unused=one), is_damage()) for one in ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
        *((entry(b"", 2, unused=one), is_damage()) for one in ((1 << 24, 0, 0), (0, 1 << 24, 0), (0, 0, 1 << 24))),
        (struct.pack(">ii", -1, 8), is_blank(8)),
        (struct.pack(">ii", -1, 7), is_damage()),
        (struct.pack(">ii", -1, 99) + b"\1" * 7, is_blank(99)),
        (struct.pack(">ii", -1, 99) + bytes(7) + b"\1", is_damage()),
        (struct.pack(">ii", -1, 99) + bytes(8), is_blank(99)),
        (struct.pack(">ii", -1, 99) + bytes(9), is_blank(99)),
        (
            _SOUND + struct.pack(">ii", -1, 99) + bytes(8),
            (ScanOutcome.BLANK, DamageReason.NONE, 99, len(_SOUND), [0]),
        ),
    ],
)
def test_an_entry_of_dledger_is_a_record_is_passed_over_is_a_blank_or_damage(data: bytes, verdict: Verdict) -> None:
    found = scan(data)
    positions = [row[0] for row in found.rows]
    assert (found.outcome, found.reason, found.size, found.next_position, positions) == verdict


def test_an_entry_of_a_long_topic_is_damage_to_4x() -> None:
    assert scan(entry(_OF_V2), accept_v2=False).reason == DamageReason.BAD_MAGIC
