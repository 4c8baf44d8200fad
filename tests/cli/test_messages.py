"""The message object: what is shown reads back into an equal message, and what is damaged says so."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.exit_codes import FINDINGS, USAGE
from rmqctl.message_input import parse_stored
from rmqctl.messages import MessageRows
from rmqctl.output import Format
from rmqctl.show import printable
from store import Message, StoredMessage, open_store
from store.formats.body import encode_body
from store.formats.host import Host
from store.formats.message import decode_record, encode_record, host_flags
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.stores import SMALL

NOW_MS = 1_800_000_000_000
TEXT = "some text that is long enough to be worth it, " * 100


def stored(message: Message) -> StoredMessage:
    """The message as a store would hold it."""
    record = encode_record(
        message,
        topic=message.topic.encode(),
        sys_flag=message.sys_flag | host_flags(message.born_host, message.store_host),
        queue_offset=7,
        log_offset=4096,
        store_timestamp_ms=NOW_MS,
    )
    return decode_record(record)


def to_json_and_back(message: Message, *, stored_body: bool = False) -> Message:
    rows = MessageRows(None, Format.JSONL, stored=stored_body, warn=lambda text: None)
    return parse_stored(json.dumps(rows.row(stored(message))), None, NOW_MS).message


hosts = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535))


@pytest.mark.turns(3)
@given(
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sys_flag=st.sampled_from([0, 0x2, 0x4, 0x8, 0xC, 0x101, 0x1, 0x701]),
    born=hosts,
    holder=hosts,
    stored_body=st.booleans(),
)
def test_any_message_reads_back_from_its_json_whatever_its_bytes(
    body: bytes, properties: bytes, flag: int, sys_flag: int, born: Host, holder: Host, stored_body: bool
) -> None:
    message = Message("T", body, 3, properties, flag, sys_flag, 12345, born, holder, 2, 99)
    before, after = stored(message), stored(to_json_and_back(message, stored_body=stored_body))
    assert after.body == before.body
    assert after.property_text.removesuffix(b"\x02") == before.property_text.removesuffix(b"\x02")
    for name in ("topic", "queue_id", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.reconsume_times, after.prepared_transaction_offset) == (2, 99)


@pytest.mark.parametrize(("compression", "sys_flag"), [("zlib", 0x1), ("lz4", 0x101), ("zstd", 0x201), ("zlib", 0x301)])
def test_a_compressed_body_is_shown_as_text_and_goes_back_compressed(compression: str, sys_flag: int) -> None:
    message = Message("T", encode_body(TEXT.encode(), compression), sys_flag=sys_flag)
    row = MessageRows(None, Format.JSONL, warn=pytest.fail).row(stored(message))
    assert (row["compression"], row["body_state"]) == (compression, "decompressed")
    assert base64.b64decode(row["body"]).decode() == TEXT
    assert (to_json_and_back(message).body, to_json_and_back(message).sys_flag) == (message.body, sys_flag)
    as_stored = MessageRows(None, Format.JSONL, stored=True, warn=pytest.fail).row(stored(message))
    assert (base64.b64decode(as_stored["body"]), as_stored["body_state"]) == (message.body, "stored")


def test_a_body_that_cannot_be_decompressed_is_shown_as_stored_with_a_warning() -> None:
    said: list[str] = []
    rows = MessageRows(None, Format.JSONL, warn=said.append)
    row = rows.row(stored(Message("T", b"no zlib", sys_flag=1)))
    rows.warn_of_damage()
    assert (base64.b64decode(row["body"]), row["body_state"]) == (b"no zlib", "stored")
    assert said == ["log offset 4096: the body is no zlib stream; the body is shown as stored"]


def test_of_a_body_for_people_no_more_is_kept_than_a_cell_shows() -> None:
    message = stored(Message("T", encode_body(bytes(1_000_000), "zlib"), sys_flag=1))
    for_people, for_programs = (
        str(MessageRows(None, form, warn=lambda text: None).row(message)["body"])
        for form in (Format.PLAIN, Format.JSON)
    )
    assert len(for_people) == 4097 < len(for_programs)
    assert printable(for_people) == printable("\0" * 1_000_000)


def test_many_bodies_that_cannot_be_decompressed_are_one_warning() -> None:
    said: list[str] = []
    rows = MessageRows(None, Format.JSONL, warn=said.append)
    for _ in range(3):
        rows.row(stored(Message("T", b"no zlib", sys_flag=1)))
    rows.warn_of_undecoded()
    rows.warn_of_undecoded()
    expected = (
        "log offset 4096: the body is no zlib stream; the body is shown as stored; so are those of 2 other messages"
    )
    assert said == [expected]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A store of three messages: a plain one, one with a wrong CRC, a compressed one."""
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        store.put(Message.of("Orders", "first", keys=["k"], born_timestamp_ms=1))
        store.put(Message.of("Orders", "second", keys=["k"], born_timestamp_ms=2))
        store.put(Message.of("Orders", zlib.compress(TEXT.encode()), sys_flag=1, born_timestamp_ms=3))
    log = root / "commitlog" / f"{0:020}"
    log.write_bytes(log.read_bytes().replace(b"second", b"sexond", 1))
    return root


def test_a_message_with_a_wrong_crc_is_served_and_marked(mixed: Path) -> None:
    run = rmqctl("get", "Orders", "--format", "json", "--body", "utf8", store=mixed)
    assert [(row["body"][:6], row["crc_ok"]) for row in run.json["messages"]] == [
        ("first", True),
        ("sexond", False),
        (TEXT[:6], True),
    ]
    assert (run.code, run.json["status"], run.json["unsound_count"]) == (1, "FOUND", 1)
    assert "one body does not have the record's CRC" in run.err
    for form in ("table", "plain"):
        people = rmqctl("get", "Orders", "--format", form, store=mixed, width=100)
        assert people.out.startswith("3 messages found, 1 with a body that is not what was put")
        assert people.out.count("bad CRC") == 1


def test_only_sound_leaves_it_out(mixed: Path) -> None:
    run = rmqctl("get", "Orders", "--only-sound", "--format", "jsonl", "--body", "utf8", store=mixed)
    assert [row["body"][:5] for row in run.rows] == ["first", TEXT[:5]]
    found = rmqctl("index-query", "Orders", "k", "--only-sound", "--format", "json", store=mixed)
    assert len(found.json["messages"]) == 1
    assert len(rmqctl("index-query", "Orders", "k", "--format", "json", store=mixed).json["messages"]) == 2
    people = rmqctl("get", "Orders", "--only-sound", store=mixed)
    assert (people.code, people.out.splitlines()[0]) == (1, "2 messages found, 1 left out for its body")


@pytest.mark.turns(2)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_export_marks_a_message_with_a_wrong_crc_or_leaves_it_out(kind: str, mixed: Path, tmp_path: Path) -> None:
    for folder, options in {
        "all": [],
        "sound": ["--only-sound"],
        "some": ["--only-sound", "--where", "1=1 -- all"],
    }.items():
        assert rmqctl("export", "--as", kind, "--to", str(tmp_path / folder), *options, store=mixed).code == 0
    with duckdb.connect() as reader:
        rows = {
            folder: reader.sql(f"select queue_offset, crc_ok from '{tmp_path}/{folder}/*.{kind}' order by 1").fetchall()
            for folder in ("all", "sound", "some")
        }
    assert rows == {
        "all": [(0, True), (1, False), (2, True)],
        "sound": (sound := [(0, True), (2, True)]),
        "some": sound,
    }


def test_one_message_is_found_by_its_offset_with_its_damage(mixed: Path) -> None:
    rows = rmqctl("get", "Orders", "--format", "jsonl", store=mixed).rows
    run = rmqctl("get", "--log-offset", rows[1]["log_offset"], "--format", "json", store=mixed)
    assert (run.code, run.json["messages"][0]["crc_ok"]) == (1, False)
    assert rmqctl("get", "--msg-id", rows[0]["msg_id"], store=mixed).code == 0


@pytest.mark.parametrize("record", [0, 2])
def test_a_log_offset_inside_of_a_record_is_refused_with_its_begin(record: int, mixed: Path) -> None:
    rows = rmqctl("get", "Orders", "--format", "jsonl", store=mixed).rows
    start, size = rows[record]["log_offset"], rows[record]["size"]
    for offset in (start + 1, start + 5, start + size - 1):
        run = rmqctl("get", "--log-offset", offset, store=mixed)
        says = f"rmqctl: log offset {offset} is inside of the record that begins at log offset {start}\n"
        assert (run.code, run.out, run.err) == (2, "", says)
    assert rmqctl("get", "--log-offset", start, store=mixed).code == 0


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        (65267, 65038),
        *((offset, None) for offset in (65268, 65270, 65300, 65528, 65535)),
        (131601, 131600),
        (132122, 131600),
        (132123, None),
        (196607, None),
        (262144, None),
    ],
)
def test_in_a_blank_and_past_the_end_of_a_later_segment_is_no_record(offset: int, start: int | None) -> None:
    run = rmqctl("-q", "get", "--log-offset", offset, store=golden("normal").store)
    says = f"rmqctl: log offset {offset} is inside of the record that begins at log offset {start}\n"
    assert (run.code, run.err) == ((FINDINGS, "") if start is None else (USAGE, says))


def test_tags_that_nothing_has_are_no_overflow(mixed: Path) -> None:
    run = rmqctl("get", "Orders", "--tags", "none", "--format", "json", store=mixed)
    assert (run.code, run.json["status"], run.json["next_offset"]) == (1, "NO_MATCHED_MESSAGE", 3)


@pytest.mark.parametrize("command", [["get", "orders"], ["get", "Ordres"], ["index-query", "Oders", "k"]])
def test_an_unknown_topic_suggests_the_nearest(mixed: Path, command: Sequence[str]) -> None:
    run = rmqctl(*command, store=mixed)
    assert (run.code, "did you mean 'Orders'?" in run.err) == (1, True)
    assert "did you mean" not in rmqctl("get", "Entirely-different", store=mixed).err


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"[" * 100_000, "not JSON|brackets inside brackets"),
        (b'{"topic": "T", "transaction": "maybe"}', "none of none, prepared, commit, rollback"),
        (b'{"topic": "T", "transaction": []}', "none of none, prepared, commit, rollback"),
        (b'{"topic": "\\ud800"}', "lone surrogate"),
        (b'{"topic": "T", "body_text": "\\ud800"}', "lone surrogate"),
        (b'{"topic": "T", "properties": {"a": "\\udfff"}}', "lone surrogate"),
        (b'{"topic": "T", "tags": "\\ud800"}', "lone surrogate"),
        (b'{"topic": "T", "\\ud800": 1}', "unknown name"),
        (b'{"topic": "T", "keys": 7}', "keys is not a list"),
        (b'{"topic": "T", "tags": 7}', "tags is not text"),
        (b'{"topic": "T", "flag": 1e400}', "flag is not a whole number"),
        (b'{"topic": "T", "born_host": "nowhere"}', "is not a host"),
        (b'{"topic": "T", "born_host": 7}', "born_host is not text"),
        (b'{"topic": "T", "body": "x", "body_encoding": ["a"]}', "none of base64"),
        (b'{"topic": "T", "body_state": "decompressed"}', "no compression is called"),
        (b'{"topic": "T", "property_bytes": "?"}', "property_bytes is not base64"),
        (b'{"topic": "T", "property_bytes": "YQFiAg==", "properties": {"a": "c"}}', "properties and property_bytes"),
        (b'{"topic": "T", "property_bytes": "YQFiAg==", "properties": {}}', "properties and property_bytes differ"),
        (b'{"topic": "T", "property_bytes": "YQFiAg==", "tags": "b"}', "tags and property_bytes differ"),
        (b'{"topic": "T", "property_bytes": "YQFiAg==", "keys": ["b"]}', "keys and property_bytes differ"),
        (b'{"topic": "T", "property_bytes": "YQFiAg==", "uniq_key": "b"}', "uniq_key and property_bytes differ"),
        (b'{"topic": "T", "properties": {"a": {}}}', "property 'a' is not text"),
        (b'{"topic": "T", "properties": {"a": null}}', "property 'a' is not text: None"),
        (b'{"topic": "T", "properties": {"a": true}}', "property 'a' is not text: True"),
        (b'{"topic": "T", "properties": {"a": 1}}', "property 'a' is not text: 1"),
        (b'{"topic": "T", "properties": {"a": NaN}}', "property 'a' is not text: nan"),
        (b'{"topic": "T", "properties": {"a": "1", "a": "2"}}', "'a' is given twice"),
        (b'{"topic": "T", "properties": null}', "properties is not an object"),
        (b'{"topic": "T", "properties": 0}', "properties is not an object"),
        (b'{"topic": "T", "topic": "U"}', "'topic' is given twice"),
        (b"\xff\xfe{", "not UTF-8|not JSON"),
        (b'{"topic": "T", "queue_id": ' + b"9" * 5000 + b"}", "not JSON|does not fit"),
    ],
    ids=lambda value: value[:40].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_a_hostile_line_is_wrong_usage_and_not_echoed_whole(line: bytes, says: str, tmp_path: Path) -> None:
    run = rmqctl(
        "--set", "mappedFileSizeCommitLog=65536", "put", "--from", "-", store=tmp_path / "s", stdin=line + b"\n"
    )
    assert run.code == 2, run.err
    assert any(part in run.err for part in says.split("|")), run.err
    assert len(run.err) < 400


@pytest.mark.turns(4)
def test_a_huge_expression_is_not_echoed_whole(mixed: Path) -> None:
    for words in (
        ["--sql", "a = " * 50_000],
        ["--sql", "(" * 100_000],
        ["--tags", "|| " * 50_000],
        ["--since", "9" * 99_999],
    ):
        run = rmqctl("get", "Orders", *words, store=mixed)
        assert run.code == 2, run.err
        assert len(run.err) < 600


def test_a_terminal_gets_no_raw_records(mixed: Path) -> None:
    run = rmqctl("get", "Orders", "--raw", store=mixed, terminal=True)
    assert (run.code, run.out) == (2, "")
    assert rmqctl("get", "Orders", "--raw", store=mixed).data.count(b"Orders") == 3


def test_one_record_is_written_raw_by_its_log_offset(mixed: Path) -> None:
    with open_store(mixed) as store:
        one = store.get("Orders", 0, 0).messages[0]
    data = b"".join(path.read_bytes() for path in sorted((mixed / "commitlog").iterdir()))
    run = rmqctl("get", "--log-offset", one.log_offset, "--raw", store=mixed)
    assert (run.code, run.data) == (0, data[one.log_offset : one.log_offset + one.size])


@pytest.mark.turns(3)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16-le"])
@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "plain", "table", "markdown"])
def test_a_stdout_that_is_not_utf_8_gets_a_whole_document(form: str, encoding: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        store.put(Message.of("T", "snow ☃ and 雪", tags="☃"))
    words = ["get", "T", "--format", form, "--body", "utf8"]
    run = rmqctl(*words, store=tmp_path / "store", encoding=encoding)
    assert (run.code, run.err) == (0, "")
    if form in ("json", "jsonl"):
        row: Any = run.json["messages"][0] if form == "json" else run.rows[0]
        assert row["body"] == "snow ☃ and 雪"


def test_brackets_inside_brackets_are_refused_before_an_engine_sees_them(mixed: Path, tmp_path: Path) -> None:
    deep = "(" * 20_000
    for words in (["sql", f"select {deep}1"], ["export", "--to", tmp_path / "out", "--where", deep]):
        run = rmqctl(*words, store=mixed)
        assert (run.code, "brackets inside brackets" in run.err) == (2, True), run.err
