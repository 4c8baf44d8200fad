"""Queue units, index pages, the checkpoint page and hosts against golden bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRequest
from store.formats import index_page
from store.formats.checkpoint_page import CHECKPOINT_SIZE, FIELD_NAMES, YEAR_10000_MS, CheckpointPage, decode_checkpoint
from store.formats.host import Host
from store.formats.index_page import (
    IndexHeader,
    decode_entry,
    decode_header,
    decode_slot,
    index_file_size,
    index_key,
    time_diff_seconds,
)
from store.formats.java import key_hash, tags_code
from store.formats.message import decode_record
from store.formats.properties import TAGS, decode_properties
from store.formats.queue_unit import (
    EXT_UNIT,
    PRE_BLANK,
    SIZE_AT,
    TAGS_AT,
    UNIT_SIZE,
    ExtUnit,
    QueueUnit,
    decode_ext_unit,
    decode_unit,
    encode_ext_address,
    is_ext_address,
)
from tests.support.golden import WITH_ANSWERS, Golden, golden, stored_properties


@pytest.mark.parametrize("name", [name for name in WITH_ANSWERS if name != "no-derived"])
def test_units_say_where_the_message_is_and_what_its_tags_hash_to(name: str) -> None:
    archive = golden(name)
    for file in (archive.store / "consumequeue" / "TopicA").rglob("000*"):
        data = file.read_bytes()
        for position in range(0, len(data), 20):
            unit = decode_unit(data, position)
            if unit.is_written:
                raw = archive.record(unit.log_offset)
                tags = decode_properties(stored_properties(raw)).get(TAGS, "")
                assert (unit.size, unit.tags_code) == (len(raw), tags_code(tags))
                assert unit.encode() == data[position : position + 20]


def test_pre_blank_units_fill_the_front_of_a_queue_that_lost_its_beginning() -> None:
    files = (golden("preblank").store / "consumequeue").rglob("000*")
    first = [decode_unit(file.read_bytes()) for file in files]
    assert PRE_BLANK in first
    assert all(unit.is_pre_blank == (unit == PRE_BLANK) for unit in first)


@given(st.integers(0, 1 << 62))
def test_no_hash_and_no_time_is_taken_for_an_extension_address(position: int) -> None:
    address = encode_ext_address(position)
    assert is_ext_address(address)
    assert QueueUnit(0, 1, address).ext_address == position
    assert not is_ext_address(-(1 << 31))
    assert QueueUnit(0, 1, -(1 << 31)).ext_address is None


@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 1 << 62),
    st.binary(max_size=200),
    st.binary(max_size=40),
)
def test_extension_units_are_read_back_among_other_bytes(code: int, time_ms: int, bits: bytes, other: bytes) -> None:
    unit = ExtUnit(code, time_ms, bits)
    assert decode_ext_unit(other + unit.encode() + other, len(other)) == unit


@pytest.mark.parametrize("data", [b"", b"\xff\xff" + bytes(30), bytes(40), b"\x7f\xff" + bytes(40)])
def test_no_extension_unit_is_found_at_an_end_mark_or_in_zeros(data: bytes) -> None:
    assert decode_ext_unit(data, 0) is None


@pytest.mark.parametrize("name", [name for name in WITH_ANSWERS if name != "torn"])
def test_index_entries_hold_the_hash_of_topic_and_key(name: str) -> None:
    archive = golden(name)
    for file in (archive.store / "index").glob("*"):
        data = file.read_bytes()
        header = decode_header(data)
        assert len(data) == index_file_size(500, 1000)
        assert header.encode() == data[:40]
        for number in range(1, header.index_count):
            entry = decode_entry(data, 500, number)
            message = decode_record(archive.record(entry.log_offset))
            hashes = {key_hash(index_key(message.topic, key)) for key in [*message.keys, message.uniq_key or ""]}
            assert entry.key_hash in hashes
            assert entry.time_diff_seconds == time_diff_seconds(message.store_timestamp_ms, header.begin_timestamp_ms)


def test_a_slot_leads_to_the_newest_entry_of_its_chain() -> None:
    file = min((golden("normal").store / "index").iterdir())
    data = file.read_bytes()
    for number in range(1, decode_header(data).index_count):
        slot = decode_entry(data, 500, number).key_hash % 500
        newest = decode_slot(data, slot)
        while newest > number:
            newest = decode_entry(data, 500, newest).previous
        assert newest == number


def test_an_index_count_of_zero_reads_as_one() -> None:
    assert decode_header(bytes(40)) == IndexHeader()


@pytest.mark.parametrize(
    ("stored", "begin", "seconds"),
    [(5999, 1000, 4), (500, 1000, 0), (5000, 0, 0), (1 << 60, 1, (1 << 31) - 1)],
)
def test_seconds_since_the_begin_time_are_cut_to_an_int(stored: int, begin: int, seconds: int) -> None:
    assert time_diff_seconds(stored, begin) == seconds


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_checkpoint_page_says_what_the_broker_read_from_it(name: str) -> None:
    archive: Golden = golden(name)
    data = (archive.store / "checkpoint").read_bytes()
    page = decode_checkpoint(data)
    before = archive.loaded()["checkpointFileBefore"]
    assert page.physic_ms == before["physicMsgTimestamp"]
    assert page.logics_ms == before["logicsMsgTimestamp"]
    assert page.index_ms == before["indexMsgTimestamp"]
    assert page.confirm_log_offset == before["confirmPhyOffset"]
    assert page.encode() == data


def test_a_short_checkpoint_reads_as_if_zeros_followed_and_foreign_bytes_are_kept() -> None:
    assert decode_checkpoint(b"") == CheckpointPage()
    data = bytes(range(256)) * (CHECKPOINT_SIZE // 256)
    assert decode_checkpoint(data).encode() == data


def test_what_may_be_trusted_is_three_seconds_older_than_the_older_time() -> None:
    page = CheckpointPage(physic_ms=10_000, logics_ms=9_000, index_ms=5_000)
    assert (page.min_timestamp_ms, page.min_timestamp_index_ms) == (6_000, 5_000)
    assert CheckpointPage(physic_ms=0, logics_ms=9_000).min_timestamp_ms == 0


@pytest.mark.parametrize("text", ["127.0.0.1:10911", "[::1]:10911", "[fe80::1:2]:10911"])
def test_hosts_are_written_as_they_were_read(text: str) -> None:
    host = Host.parse(text)
    assert str(host) == text
    assert Host.decode(host.encode()) == host


@pytest.mark.parametrize("text", ["", "nowhere", "1.2.3:1", "1.2.3.4:port"])
def test_text_that_is_no_host_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        Host.parse(text)


# The times asked for, and whether an index file of the milliseconds 10 to 20 may hold messages of then.
TIMES = [
    (8, 9, False),
    (9, 10, True),
    (9, 20, True),
    (9, 21, True),
    (10, 10, True),
    (10, 21, True),
    (20, 20, True),
    (20, 21, True),
    (21, 22, False),
]


@pytest.mark.parametrize(("begin_ms", "end_ms", "matches"), TIMES)
def test_an_index_file_matches_times_that_touch_its_own(begin_ms: int, end_ms: int, matches: bool) -> None:
    assert IndexHeader(10, 20).matches_time(begin_ms, end_ms) is matches


# A unit's log offset and size, and whether it is written.
UNITS = [(-1, 1, False), (0, 0, False), (0, 1, True), (1, -1, False)]


@pytest.mark.parametrize(("log_offset", "size", "is_written"), UNITS)
def test_a_unit_is_written_that_has_a_place_and_a_size(log_offset: int, size: int, is_written: bool) -> None:
    assert QueueUnit(log_offset, size, 0).is_written is is_written


@pytest.mark.parametrize(("tags_code", "is_address"), [(-(1 << 31), False), (-(1 << 31) - 1, True), (-(1 << 63), True)])
def test_a_tags_code_below_all_ints_is_an_extension_address(tags_code: int, is_address: bool) -> None:
    assert is_ext_address(tags_code) is is_address


# An extension unit's size and that of its bit map in a buffer of 30 bytes behind two others, and whether it is one.
SIZES = [(19, -1, False), (20, 0, True), (20, 1, False), (21, 0, False), (30, 10, True), (31, 11, False)]


@pytest.mark.parametrize(("size", "bit_map_size", "is_unit"), SIZES)
def test_an_extension_unit_is_as_long_as_it_says_and_ends_in_the_buffer(
    size: int, bit_map_size: int, is_unit: bool
) -> None:
    data = b"xx" + EXT_UNIT.pack(size, 5, 6, bit_map_size) + b"0123456789"
    expected = ExtUnit(5, 6, b"0123456789"[:bit_map_size]) if is_unit else None
    assert decode_ext_unit(data, 2) == expected


# Times of log, queues and index; what is trusted without and with the index.
TRUSTED = [
    (2_999, 9_000, 9_000, 0, 0),
    (3_000, 9_000, 9_000, 0, 0),
    (3_001, 9_000, 9_000, 1, 1),
    (9_000, 3_001, 9_000, 1, 1),
    (9_000, 9_000, 5_999, 6_000, 5_999),
    (9_000, 9_000, 6_001, 6_000, 6_000),
]


@pytest.mark.parametrize(("physic_ms", "logics_ms", "index_ms", "without", "with_index"), TRUSTED)
def test_the_oldest_time_of_a_checkpoint_counts(
    physic_ms: int, logics_ms: int, index_ms: int, without: int, with_index: int
) -> None:
    page = CheckpointPage(physic_ms, logics_ms, index_ms)
    assert (page.min_timestamp_ms, page.min_timestamp_index_ms) == (without, with_index)


@pytest.mark.parametrize("field", FIELD_NAMES)
@pytest.mark.parametrize(
    ("number", "is_possible", "mended"),
    [(-1, False, 0), (0, True, 0), (1, True, 1), (YEAR_10000_MS - 1, True, YEAR_10000_MS - 1)],
)
def test_a_checkpoint_has_no_negative_number(field: str, number: int, is_possible: bool, mended: int) -> None:
    page = CheckpointPage(1, 2, 3, 4, 5, 6, b"rest")._replace(**{field: number})
    assert page.is_possible is is_possible
    assert decode_checkpoint(page.encode_mended()) == page._replace(**{field: mended})


@pytest.mark.parametrize("field", FIELD_NAMES)
def test_a_time_of_a_checkpoint_is_before_the_year_10000_and_an_offset_may_be_any(field: str) -> None:
    page = CheckpointPage()._replace(**{field: YEAR_10000_MS})
    assert page.is_possible is field.endswith("offset")


def test_the_places_of_fields_are_those_where_they_are_written() -> None:
    header, unit = IndexHeader(*range(1, 7)).encode(), QueueUnit(1, 2, 3).encode()
    names = ("BEGIN_TIME_AT", "END_TIME_AT", "BEGIN_OFFSET_AT", "END_OFFSET_AT", "SLOT_COUNT_AT", "INDEX_COUNT_AT")
    sizes = (8, 8, 8, 8, 4, 4)
    places = [getattr(index_page, name) for name in names]
    found = [int.from_bytes(header[at : at + size], "big") for at, size in zip(places, sizes, strict=True)]
    assert found == [1, 2, 3, 4, 5, 6]
    assert [int.from_bytes(unit[at:end], "big") for at, end in ((SIZE_AT, TAGS_AT), (TAGS_AT, UNIT_SIZE))] == [2, 3]
