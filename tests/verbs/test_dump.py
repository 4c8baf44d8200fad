"""Every field of every entry of a file, held against what the store's own readers say."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from rmqctl.commands.dump import Kind
from rmqctl.dumping import NewEntries
from store import open_store
from store.formats.dledger import DLEDGER_HEADER
from store.formats.fields import fields_of, spans_of
from store.formats.message import Message, encode_record
from store.formats.queue_unit import EXT_UNIT, PRE_BLANK
from store.formats.timer import TIMER_CHECK, TIMER_UNIT, WHEEL_SIZE, WHEEL_SLOT
from store.structures.entry import Entry
from store.structures.registry import STRUCTURES
from tests.cli.running import Run, rmqctl
from tests.conftest import CopyOf
from tests.support.five_stores import fivefive
from tests.support.golden import WITH_ANSWERS, golden
from tests.support.processes import command_line, next_line, running
from tests.support.stores import SMALL, make_store, text_message


def dump(*arguments: object, store: Path | None = None, code: int = 0) -> Run:
    run = rmqctl("--format", "json", "dump", *arguments, store=store)
    assert run.code == code, run.err
    return run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("dump") / "store", 100)


def test_spans_are_measured_from_the_struct() -> None:
    assert spans_of(">hq8si") == ((0, 2), (2, 8), (10, 8), (18, 4))
    (one, two) = fields_of(struct.Struct(">hi"), ("a", "b"), b"\0\1\0\0\0\2")
    assert (one.value, two.start, two.value) == (1, 2, 2)


TORN, BAD_BODY = 131_600, 66_765
"""Log offsets of the damaged record in the stores torn and corrupt-mid: the first is no record any more."""


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_log_of_a_real_store_is_all_there(name: str) -> None:
    damaged = {"torn": [TORN], "corrupt-mid": [BAD_BODY]}.get(name, [])
    run = dump("commitlog", "--body", "none", store=golden(name).store, code=1 if damaged else 0)
    rows = run.json["entries"]
    found = {row["log_offset"] for row in rows if row["kind"] == "record"}
    wrote = {put.answer["wroteOffset"] for put in golden(name).puts() if put.records}
    assert wrote - found == ({TORN} if name == "torn" else set())
    assert [row["log_offset"] for row in rows if row["kind"] == "damage"] == damaged


def test_a_segment_is_dumped_without_a_store_and_without_its_name(store: Path, tmp_path: Path) -> None:
    source = store / "commitlog/00000000000000016384"
    lost = tmp_path / "lost+found-7"
    shutil.copy(source, lost)
    by_name = dump("commitlog", source).json["entries"]
    without = dump("commitlog", lost).json["entries"]
    assert [row["log_offset"] for row in without] == [row["log_offset"] for row in by_name]
    assert by_name[0]["log_offset"] == 16384


def test_damage_is_an_entry_and_the_walk_goes_on_behind_it(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 20)
    segment = root / "commitlog/00000000000000000000"
    data = bytearray(segment.read_bytes())
    at = int.from_bytes(data[:4], "big")
    data[at + 4 : at + 8] = b"\0\0\0\1"
    segment.write_bytes(data)
    run = dump("commitlog", store=root, code=1)
    kinds = [row["kind"] for row in run.json["entries"]]
    assert (kinds[:3], kinds.count("record"), run.json["fault_count"]) == (["record", "damage", "record"], 19, 1)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--topic", "T"), 100),
        (("--topic", "U"), 0),
        (("--key", "k7"), 1),
        (("--key", "U7"), 1),
        (("--tags", "tag1 || tag2"), 66),
        (("T/1",), 33),
        (("--where", "kind = 'record' and queue_id = 0 and queue_offset >= 30"), 4),
        (("--where", "properties['KEYS'] = 'k7 all'"), 1),
        (("--where", "array_contains(keys, 'k7')"), 1),
        (("--from", "16384", "--topic", "T", "--limit", "5"), 5),
        (("--topic", "T", "--to", "0"), 1),
        (("--from", "1700000095000", "--to", "1700000095000"), 0),
        (("--from", "2023-11-14T22:14:55Z"), 6),
    ],
)
def test_filters_leave_what_they_say(store: Path, options: tuple[str, ...], count: int) -> None:
    assert len(dump("commitlog", *options, store=store).json["entries"]) == count


def test_units_of_a_queue_have_their_places(store: Path) -> None:
    rows = dump("consumequeue", "T/1", store=store).json["entries"]
    assert [row["queue_offset"] for row in rows] == list(range(33))
    assert rows[21]["position"] == 20
    assert rows[21]["file"].endswith("/00000000000000000400")
    records = dump("commitlog", "T/1", store=store).json["entries"]
    assert [row["log_offset"] for row in rows] == [row["log_offset"] for row in records]


def test_pre_blank_units_are_told(copy_of: CopyOf) -> None:
    _, root = copy_of("preblank")
    rows = dump("consumequeue", "--where", "kind = 'pre-blank'", store=root).json["entries"]
    assert rows
    assert {row["size"] for row in rows} == {PRE_BLANK.size}


def test_index_entries_lead_to_their_records(store: Path) -> None:
    rows = dump("index", store=store).json["entries"]
    assert rows[0]["kind"] == "header"
    entries = [row for row in rows if row["kind"] == "entry"]
    assert len(entries) == 300
    assert {row["log_offset"] for row in entries} <= {
        row["log_offset"] for row in dump("commitlog", store=store).json["entries"]
    }


def test_hex_names_every_byte_of_a_unit(store: Path) -> None:
    run = dump("consumequeue", "T/0", "--limit", "2", "--hex", store=store)
    rows = run.json["fields"]
    assert [(row["position"], row["size"], row["field"]) for row in rows[:4]] == [
        (0, 8, "log_offset"),
        (8, 4, "size"),
        (12, 8, "tags_code"),
        (20, 8, "log_offset"),
    ]
    assert len(rows[0]["hex"]) == 16
    assert (
        max(map(len, rmqctl("dump", "commitlog", "--hex", "--limit", "1", store=store, terminal=True).out.splitlines()))
        <= 80
    )


def test_hex_for_people_says_where_bytes_are_left_out_and_wide_shows_them(store: Path) -> None:
    run = ("dump", "commitlog", "--limit", "1", "--hex")
    properties = next(
        row["hex"]
        for row in rmqctl(*run, "--format", "json", store=store).json["fields"]
        if row["field"] == "properties"
    )
    assert f"{bytes.fromhex(properties)[:8].hex(' ', 4)}…" in rmqctl(*run, store=store).out
    assert properties in rmqctl(*run, "--wide", store=store).out.replace(" ", "")


def test_the_checkpoint_shows_its_fields_and_what_is_behind_them(tmp_path: Path) -> None:
    page = tmp_path / "checkpoint"
    page.write_bytes((struct.pack(">qqqqqq", 1, 2, 3, 4, 5, 0) + b"new").ljust(4096, b"\0"))
    known, rest = dump("checkpoint", page).json["entries"]
    assert (known["physic_ms"], known["confirm_log_offset"], rest["rest"]) == (1, 5, b"new".hex())
    assert "logics_log_offset" not in known


@pytest.mark.parametrize(
    ("size", "row"),
    [
        (0, {"detail": "the file is empty"}),
        (1, {"detail": "the file has 1 byte of 4096"}),
        (23, {"physic_ms": 1, "logics_ms": 2, "detail": "the file has 23 bytes of 4096"}),
    ],
)
def test_a_short_checkpoint_shows_the_times_that_it_holds_and_its_size(
    size: int, row: dict[str, object], tmp_path: Path
) -> None:
    page = tmp_path / "checkpoint"
    page.write_bytes(struct.pack(">qqq", 1, 2, 3)[:size])
    entries = dump("checkpoint", page, code=1).json["entries"]
    assert entries == [{"kind": "checkpoint", "file": "checkpoint", "position": 0, **row}]


def test_the_checkpoint_of_5_5_has_a_sixth_field(tmp_path: Path) -> None:
    page = tmp_path / "checkpoint"
    page.write_bytes(struct.pack(">qqqqqq", 1, 2, 3, 4, 5, 6).ljust(4096, b"\0"))
    [known] = dump("checkpoint", page).json["entries"]
    assert known["logics_log_offset"] == 6


def test_extension_units_have_the_address_that_a_queue_names(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000001000"
    file.write_bytes((EXT_UNIT.pack(23, 7, 99, 3) + b"\1\2\3" + b"\xff\xff").ljust(100, b"\0"))
    unit, end = dump("ext", file).json["entries"]
    assert (unit["tags_code"], unit["bit_map"], unit["ext_address"]) == (7, "010203", 1000 - (1 << 63))
    assert end["kind"] == "end"


def test_delay_offsets_are_read_as_fastjson_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "delayOffset.json"
    file.write_text('{\n\t"offsetTable":{1:5,3:12\n\t}\n}')
    rows = dump("delay", file).json["entries"]
    assert [(row["level"], row["saved_offset"]) for row in rows] == [(1, 5), (3, 12)]
    file.write_text('{"offsetTable":{1:5,')
    assert rmqctl("dump", "delay", file).code == 4


def test_the_bytes_of_delay_offsets_are_shown_at_their_places(tmp_path: Path) -> None:
    file = tmp_path / "delayOffset.json"
    file.write_text('{"other":{"3":12},"offsetTable":{1:5,"3" : "12"}}')
    rows = dump("delay", file, "--hex").json["fields"]
    data = file.read_bytes()
    assert [(row["field"], row["value"]) for row in rows] == [
        ("level", 1),
        ("saved_offset", 5),
        ("level", 3),
        ("saved_offset", 12),
    ]
    for row in rows:
        spelled = data[row["position"] :][: row["size"]]
        assert (int(spelled), row["position"] > data.find(b"offsetTable")) == (row["value"], True)
        assert bytes.fromhex(row["hex"]) == spelled


def test_text_has_no_fields_with_places(store: Path) -> None:
    assert rmqctl("dump", "state", "--hex", store=store).code == 2


def test_the_three_files_of_the_timer(tmp_path: Path) -> None:
    wheel, log, check = tmp_path / "timerwheel", tmp_path / ("0" * 20), tmp_path / "timercheck"
    with wheel.open("wb") as stream:
        stream.truncate(WHEEL_SIZE)
        stream.seek(32 * 5)
        stream.write(WHEEL_SLOT.pack(1_700_000_000, 0, 52, 2, 0))
    units = [TIMER_UNIT.pack(52, -1, 1, 1000, 500, 77, 200, 3, 0), TIMER_UNIT.pack(52, 0, 1, 1000, 500, 99, 200, 3, 0)]
    log.write_bytes(b"".join(units).ljust(500, b"\0"))
    check.write_bytes(TIMER_CHECK.pack(1, 2, 3, 4, 5, 6, 7).ljust(4096, b"\0"))
    (slot,) = dump("timer", wheel).json["entries"]
    assert (slot["position"], slot["slot_time"], slot["last_position"]) == (160, 1_700_000_000, 52)
    rows = dump("timer", log).json["entries"]
    assert [(row["log_offset"], row["deliver_timestamp_ms"]) for row in rows] == [(77, 1500), (99, 1500)]
    assert dump("timer", check).json["entries"][0]["timer_queue_offset"] == 3
    wheel.write_bytes(b"short")
    assert rmqctl("dump", "timer", wheel).code == 4


def test_records_in_a_dledger_log_are_shown_with_their_entries(tmp_path: Path) -> None:
    message = Message.of("T", "body")
    raw = encode_record(message, topic=b"T", sys_flag=0, queue_offset=0, log_offset=48, store_timestamp_ms=9)
    entry = DLEDGER_HEADER.pack(1, 48 + len(raw), 0, 1, 0, 0, 0, 0, len(raw)) + raw
    (tmp_path / ("0" * 20)).write_bytes(entry.ljust(4096, b"\0"))
    run = dump("commitlog", tmp_path / ("0" * 20))
    assert [row["kind"] for row in run.json["entries"]] == ["dledger", "record", "end"]
    assert (run.code, run.json["entries"][0]["entry_offset"]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("commitlog", "/nowhere/at/all"), 4),
        (("consumequeue", "Gone/0"), 4),
        (("index", "--topic", "T"), 2),
        (("checkpoint", "--follow"), 2),
        (("consumequeue", "--follow"), 2),
        (("index", "--from", "-15m"), 2),
        (("commitlog", "--where", "size >"), 2),
    ],
)
def test_a_wrong_question_is_answered_in_one_line(store: Path, arguments: tuple[str, ...], code: int) -> None:
    run = rmqctl("dump", *arguments, store=store)
    assert (run.code, len(run.err.splitlines())) == (code, 1), run.err


def test_people_see_a_hundred_entries_and_are_told(store: Path) -> None:
    run = rmqctl("dump", "commitlog", store=store)
    assert "--limit 0" in run.err
    lines = rmqctl("--format", "jsonl", "dump", "commitlog", "--limit", "3", store=store).out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["record"] * 3


@pytest.mark.parametrize(("limit", "verdict"), [("1", "1 entry of commitlog"), ("2", "2 entries of commitlog")])
def test_a_dump_counts_what_it_shows(store: Path, limit: str, verdict: str) -> None:
    assert rmqctl("dump", "commitlog", "--limit", limit, store=store).out.splitlines()[0] == verdict


def test_follow_prints_what_is_added(tmp_path: Path) -> None:
    settings = {**SMALL, "mappedFileSizeCommitLog": 4096}
    with open_store(tmp_path / "store", settings=settings, read_only=False) as opened:
        opened.put(text_message(0))
        opened.catch_up()
        words = command_line(tmp_path / "store", "--format", "jsonl", "dump", "commitlog", "--follow")
        with running(words) as process:
            seen = [json.loads(next_line(process))["uniq_key"]]
            # More than a segment holds, so that the walk goes on in the next one.
            for number in range(1, 30):
                opened.put(text_message(number))
            seen += [json.loads(next_line(process))["uniq_key"] for _ in range(29)]
    assert seen == [f"U{number}" for number in range(30)]


def record(log_offset: int) -> Entry:
    return Entry("record", "log", log_offset, log_offset, bytes(100))


def damage(log_offset: int) -> Entry:
    return Entry("damage", "log", log_offset, log_offset, is_fault=True)


BLANK_AT_200, END_AT_200 = (Entry(kind, "log", 200, 200) for kind in ("blank", "end"))


@pytest.mark.parametrize(
    ("looks", "shown"),
    [
        pytest.param([[record(0), damage(100)], [record(100)]], [0, 100], id="half-written"),
        pytest.param(
            [[damage(0)], [damage(0), record(300)], [damage(0), record(300)]], [0, 300], id="damage-that-stays"
        ),
        pytest.param([[record(0), damage(100), damage(200)]] * 3, [0, 100, 200], id="two-damages"),
        pytest.param([[record(0), record(100), BLANK_AT_200, record(400)]], [0, 100, 400], id="blank"),
        pytest.param([[record(0), END_AT_200, record(400)], [record(100), record(400)]], [0, 100], id="writer-went-on"),
        pytest.param([[record(100), END_AT_200, record(400)]] * 2, [100, 400], id="end-that-stays"),
    ],
)
def test_following_shows_each_entry_once_when_it_is_whole(looks: list[list[Entry]], shown: list[int]) -> None:
    new = NewEntries(of_log=True)
    found = [
        entry.number
        for look in looks
        for entry in new.settled([one for one in look if new.after is None or one.number >= new.after])
    ]
    assert found == shown


def test_nothing_is_said_of_bodies_that_where_leaves_out() -> None:
    root = golden("normal").store
    assert "no zlib stream" in rmqctl("dump", "commitlog", store=root).err
    run = rmqctl("dump", "commitlog", "--where", "log_offset = 0", store=root)
    assert (run.code, run.err) == (0, "")


def test_a_segment_of_0_bytes_is_one_damage(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000065536"
    segment.touch()
    run = dump("commitlog", segment, code=1)
    found = [(entry["kind"], entry["log_offset"], entry["detail"]) for entry in run.json["entries"]]
    detail = "a segment of 0 bytes; a 4.9 broker does not start with it, a 5.3 one deletes it"
    assert (run.json["fault_count"], found) == (1, [("damage", 65536, detail)])


def test_each_kind_of_rows_comes_from_a_room() -> None:
    dumped = {one.dumped_as: one.furniture("rows") for one in STRUCTURES if one.dumped_as is not None}
    assert set(dumped) == set(Kind)
    assert [kind for kind, room in dumped.items() if room is None] == []


@pytest.mark.parametrize("file", ["store/verbs/dump.py", "store/structures/entry.py"])
def test_the_verb_names_no_structure(file: str) -> None:
    text = Path(file).read_text()
    assert [one.room for one in STRUCTURES if one.room and f"structures.{one.room}" in text] == []


def test_the_message_database_is_dumped_by_its_keys() -> None:
    pytest.importorskip("rocksdict")
    known = [json.loads(line) for line in (fivefive("index") / "keys.jsonl").read_text("utf-8").splitlines()][1:]
    rows = rmqctl("--format", "jsonl", "dump", "messages", store=fivefive("index") / "store").rows
    assert [row["kind"] for row in rows if row["kind"] != "key"] == ["long", "long"]
    keys = [row for row in rows if row["kind"] == "key"]
    wanted = [(one["offset"], one["storeTime"]) for one in known if "offset" in one]
    assert sorted((row["log_offset"], row["store_timestamp_ms"]) for row in keys) == sorted(wanted)
    first = {"topic": "T@", "index_type": "K", "text": "K@1", "uniq_key": "7F0000010012345600000000ABCD001D"}
    assert first.items() <= keys[0].items()


@pytest.mark.parametrize(("name", "kind", "count"), [("timer", "timer", 10), ("trans", "half", 5)])
def test_timers_and_half_messages_are_dumped(name: str, kind: str, count: int) -> None:
    pytest.importorskip("rocksdict")
    rows = rmqctl("--format", "jsonl", "dump", "messages", store=fivefive(name) / "store").rows
    assert sum(row["kind"] == kind for row in rows) == count
