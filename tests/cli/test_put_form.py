"""export | put: the messages of one store in another, as they were, as a producer sends them, or somewhere else."""

from __future__ import annotations

import base64
import csv
import json
import zlib
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmqctl.exit_codes import OK, USAGE
from store import Message, open_store
from tests.bench.round_trip import digest, messages
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, five
from tests.support.golden import golden, stored_properties
from tests.support.random_damage import records

# The size, because a property string may end with a separator or without.
SHORT = {"mappedFileSizeCommitLog": "1048576"}
SHORT_LOG = ("--set", "mappedFileSizeCommitLog=1048576")
"""A commit log whose segments do not take a second to look through."""
OF_THE_PLACE = ("log_offset", "msg_id", "store_timestamp_ms", "size")


def exported(store: Path, *words: object) -> list[dict[str, Any]]:
    run = rmqctl("export", "--to", "-", "--as", "jsonl", *words, store=store)
    assert run.code == OK, run.err
    return run.rows


def replayed(rows: list[dict[str, Any]], store: Path, *words: object) -> list[dict[str, Any]]:
    """The messages of a new store after `rows` were put there."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    run = rmqctl(*SHORT_LOG, "put", "--from", "-", *words, store=store, stdin=lines.encode())
    assert run.code == OK, run.err
    return exported(store)


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["normal", "normal5", "ipv6", "batch", "many"])
def test_what_was_stored_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    # A new store is one of the 4.x line, which takes no longer topics.
    rows = exported(golden(name).store, "--where", "length(topic) < 128")
    found = replayed(rows, tmp_path / "store", "--as-stored")
    assert [without(row, *OF_THE_PLACE) for row in found] == [without(row, *OF_THE_PLACE) for row in rows]


def test_messages_inside_records_of_several_come_back_from_get(tmp_path: Path) -> None:
    rows = rmqctl("-f", "jsonl", "get", "BatchA", "--limit", 1000, store=five("bcq") / "store").rows
    assert sum("outer_queue_offset" in row for row in rows) > 100
    found = replayed(rows, tmp_path / "store")
    assert [row["uniq_key"] for row in found] == [row["uniq_key"] for row in rows]


def test_store_times_are_kept_when_that_is_asked_for(tmp_path: Path) -> None:
    rows = exported(golden("normal").store)
    found = replayed(rows, tmp_path / "store", "--as-stored", "--keep-times")
    assert [row["store_timestamp_ms"] for row in found] == [row["store_timestamp_ms"] for row in rows]


@pytest.mark.timeout(60)
@pytest.mark.leaves_damage  # store times that go back
def test_store_times_before_1970_and_at_the_ends_of_a_long_are_kept(tmp_path: Path) -> None:
    times = [-1, -(1 << 63), (1 << 63) - 1, 0]
    rows = [{"topic": "T", "body_text": "x", "keys": ["k"], "store_timestamp_ms": time} for time in times]
    found = replayed(rows, tmp_path / "first", "--keep-times")
    assert [row["store_timestamp_ms"] for row in found] == times
    assert replayed(found, tmp_path / "second", "--as-stored", "--keep-times") == found
    with open_store(tmp_path / "second", read_only=False, settings=SHORT) as store:
        assert store.put(Message.of("T", "a put after them")).is_ok


@pytest.mark.parametrize("times", [(), ("--keep-times",)])
def test_as_new_a_delayed_message_is_sent_to_its_topic_and_delayed_again(tmp_path: Path, times: tuple[str]) -> None:
    rows = exported(golden("normal").store, "--where", "topic = 'SCHEDULE_TOPIC_XXXX'")
    found = replayed(rows, tmp_path / "store", *times)
    names = ("topic", "queue_id", "body", "properties", "tags")
    assert [{name: row[name] for name in names} for row in found] == [
        {name: row[name] for name in names} for row in rows
    ]
    assert {row["topic"] for row in found} == {"SCHEDULE_TOPIC_XXXX"}
    assert {row["properties"].get("REAL_TOPIC") for row in found} == {"TopicA", "TopicB", "topic_C-3"}


def test_topics_and_queues_are_mapped(tmp_path: Path) -> None:
    rows = exported(golden("normal").store, "--where", "topic in ('TopicA', 'TopicB')")
    words = ("--topic-map", "TopicA=Copy", "--queue-map", "1=7", "--queue-map", "TopicB:1=8")
    found = replayed(rows, tmp_path / "store", *words)
    wanted = {("TopicA", 1): ("Copy", 7), ("TopicB", 1): ("TopicB", 8)}
    for before, after in zip(rows, found, strict=True):
        place = before["topic"], before["queue_id"]
        other = {"TopicA": "Copy"}.get(place[0], place[0]), place[1]
        assert (after["topic"], after["queue_id"]) == wanted.get(place, other)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--topic-map", "A"), "OLD=NEW"),
        (("--queue-map", "a=b"), "queue ids"),
        (("--queue-map", "1"), "OLD=NEW"),
        (("--queue-map", "²=1"), "queue ids"),
        (("--queue-map", f"1={'9' * 5000}"), "queue ids"),
    ],
)
def test_a_map_that_is_none_is_refused_before_the_store_is_created(
    tmp_path: Path, words: tuple[str, ...], word: str
) -> None:
    run = rmqctl(*SHORT_LOG, "put", "--from", "-", *words, store=tmp_path / "store")
    assert (run.code, word in run.err) == (USAGE, True)
    assert not (tmp_path / "store").exists()


def test_the_options_of_a_replay_are_for_many_messages(tmp_path: Path) -> None:
    assert rmqctl("put", "T", "x", "--as-stored", store=tmp_path / "store").code == USAGE


def test_lines_for_a_stream_that_is_no_utf_8_are_ascii() -> None:
    from rmqctl.messages import message_line
    from tests.support.spark_stores import records_of

    lines = [message_line(message.raw, encoding="latin-1") for _, message in records_of(str(golden("normal").store))]
    assert all(line.isascii() for line in lines)
    assert any("\\u" in line for line in lines)


def test_only_lines_go_to_stdout() -> None:
    run = rmqctl("export", "--to", "-", "--as", "parquet", store=golden("normal").store)
    said = "only JSON lines go to stdout, undivided; give --as jsonl, without --partition-by"
    assert (run.code, said in " ".join(run.err.split())) == (USAGE, True), run.err


@pytest.mark.slow
def test_messages_of_random_bytes_come_back_byte_for_byte(tmp_path: Path) -> None:
    with open_store(tmp_path / "before", read_only=False, settings=SHORT) as store:
        assert {store.put(message).status.value for message in messages(300, seed=1)} == {"PUT_OK"}
    replayed(exported(tmp_path / "before"), tmp_path / "after", "--as-stored")
    assert digest(tmp_path / "after") == digest(tmp_path / "before")


def test_bodies_that_were_damaged_are_named_when_they_are_put(tmp_path: Path) -> None:
    lines = [json.dumps({"topic": "T", "body_text": "b", "crc_ok": is_sound}) for is_sound in (True, False, False)]
    (tmp_path / "lines").write_text("\n".join(lines))
    run = rmqctl(*SHORT_LOG, "put", "--from", tmp_path / "lines", store=tmp_path / "store")
    assert (run.code, "2 lines of --input with crc_ok false" in run.err) == (OK, True), run.err


def counted(store: Path, lines: str, *words: object) -> dict[str, int]:
    """What `put --from` says was left out."""
    run = rmqctl(*SHORT_LOG, "--format", "json", "put", "--from", "-", *words, store=store, stdin=lines.encode())
    assert run.code == OK, run.err
    assert ("left out" in run.err) == bool(run.json["left_out"])
    left_out: dict[str, int] = run.json["left_out"]
    return left_out


def line(topic: str, body: str, **names: Any) -> str:
    properties = {name: str(value) for name, value in names.pop("properties", {}).items()}
    return json.dumps({"topic": topic, "body_text": body, "properties": properties, **names}) + "\n"


WAITING = {"DELAY": 3, "REAL_TOPIC": "T", "REAL_QID": 1}


def test_a_delayed_message_is_put_once_and_not_delayed_again_where_it_was_delivered(tmp_path: Path) -> None:
    text = line("SCHEDULE_TOPIC_XXXX", "a", properties=WAITING | {"UNIQ_KEY": "A"})
    text += line("SCHEDULE_TOPIC_XXXX", "b", properties=WAITING | {"UNIQ_KEY": "B"})
    text += line("T", "a", properties=WAITING | {"UNIQ_KEY": "A"})
    assert counted(tmp_path / "store", text) == {"delayed": 1}
    found = {row["uniq_key"]: row for row in exported(tmp_path / "store")}
    assert {key: row["topic"] for key, row in found.items()} == {"A": "T", "B": "SCHEDULE_TOPIC_XXXX"}
    assert found["A"]["properties"] == {"UNIQ_KEY": "A"}


def test_without_unique_keys_a_delayed_message_is_known_by_what_its_producer_said(tmp_path: Path) -> None:
    text = line("SCHEDULE_TOPIC_XXXX", "a", properties=WAITING, born_timestamp_ms=5)
    text += line("SCHEDULE_TOPIC_XXXX", "other", properties=WAITING, born_timestamp_ms=5)
    text += line("T", "a", properties=WAITING, born_timestamp_ms=5)
    assert counted(tmp_path / "store", text) == {"delayed": 1}
    assert len(exported(tmp_path / "store")) == 2


def test_of_a_transaction_only_the_committed_message_is_put_as_an_ordinary_one(tmp_path: Path) -> None:
    half = {"TRAN_MSG": "true", "REAL_TOPIC": "T", "REAL_QID": 0}
    text = "".join(line("RMQ_SYS_TRANS_HALF_TOPIC", key, properties=half | {"UNIQ_KEY": key}) for key in "ABC")
    text += line("T", "A", properties=half | {"UNIQ_KEY": "A"}, sys_flag=8, prepared_transaction_offset=99)
    text += line("RMQ_SYS_TRANS_OP_HALF_TOPIC", "1", tags="d") + line("TRANS_CHECK_MAX_TIME_TOPIC", "C")
    assert counted(tmp_path / "store", text) == {"discarded": 1, "half": 3, "op": 1}
    (row,) = exported(tmp_path / "store")
    assert (row["topic"], row["sys_flag"], row["prepared_transaction_offset"]) == ("T", 0, 0)
    assert row["properties"] == {"UNIQ_KEY": "A"}


def test_a_copy_for_a_retry_is_put_only_where_nothing_else_has_its_message(tmp_path: Path) -> None:
    retry = {"RETRY_TOPIC": "T", "DELAY": 3, "REAL_TOPIC": "%RETRY%g", "REAL_QID": 0}
    text = line("T", "a", properties={"UNIQ_KEY": "A"})
    for key in "AB":
        text += line("SCHEDULE_TOPIC_XXXX", key, properties=retry | {"UNIQ_KEY": key})
        text += line("%RETRY%g", key, properties=retry | {"UNIQ_KEY": key})
    assert counted(tmp_path / "store", text) == {"retried": 3}
    assert sorted(row["uniq_key"] for row in exported(tmp_path / "store")) == ["A", "B"]


def test_as_stored_leaves_nothing_out(tmp_path: Path) -> None:
    rows = exported(golden("normal").store)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert counted(tmp_path / "stored", lines, "--as-stored") == {}
    assert len(exported(tmp_path / "stored")) == len(rows)
    left_out = sum(counted(tmp_path / "new", lines).values())
    assert len(exported(tmp_path / "new")) == len(rows) - left_out


def test_a_bad_line_ends_a_replay_behind_the_messages_that_waited(tmp_path: Path) -> None:
    text = line("SCHEDULE_TOPIC_XXXX", "a", properties=WAITING) + "no json\n"
    run = rmqctl(*SHORT_LOG, "put", "--from", "-", store=tmp_path / "store", stdin=text.encode())
    assert (run.code, "line 2" in run.err) == (USAGE, True)
    assert len(exported(tmp_path / "store")) == 1


def test_a_topic_that_is_too_long_for_4_says_which_line_takes_it(tmp_path: Path) -> None:
    text = line("t" * 200, "a")
    run = rmqctl(*SHORT_LOG, "put", "--from", "-", "--as-stored", store=tmp_path / "old", stdin=text.encode())
    assert (run.code, "--compat 5.3" in run.err) == (1, True)
    counted(tmp_path / "new", text, "--as-stored", "--compat", "5.3")
    assert [row["topic"] for row in exported(tmp_path / "new")] == ["t" * 200]


def test_people_read_how_many_were_put_before_a_wrong_line(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"topic": "T"}\n{"topic": "T"}\n{"topic": 7}\n{"topic": "T"}\n')
    run = rmqctl(*SHORT_LOG, "put", "--from", lines, store=tmp_path / "store")
    told = "warning: 2 messages are stored all the same; put only what follows them, or they are stored twice"
    assert (run.code, told in run.err, "line 3: topic is not text" in run.err) == (USAGE, True, True), run.err
    lines.write_text('{"topic": 7}\n')
    run = rmqctl(*SHORT_LOG, "put", "--from", lines, store=tmp_path / "store")
    assert (run.code, "stored all the same" in run.err) == (USAGE, False)


def test_what_was_put_before_a_wrong_line_is_listed(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"topic": "T", "body_text": "a"}\n{"topic": "T", "body_text": "b"}\nno message\n')
    run = rmqctl(*SHORT_LOG, "--format", "jsonl", "put", "--from", lines, store=tmp_path / "store")
    assert (run.code, [row["queue_offset"] for row in run.rows]) == (USAGE, [0, 1])
    assert "line 3" in run.err
    assert len(exported(tmp_path / "store")) == 2


SETTINGS = {"mappedFileSizeCommitLog": "65536", "maxHashSlotNum": "500", "maxIndexNum": "1000"}


def fingerprint(store: Path) -> str:
    return str(rmqctl("-f", "json", "fingerprint", store=store).json["sha256"])


def copied_by(kind: str, source: Path, folder: Path, *words: object, compat: str = "4.9") -> Path:
    """A store of what `source` exports, each file as it is stored."""
    exported = rmqctl("export", "--to", folder / "out", "--as", kind, *words, store=source)
    assert exported.code == OK, exported.err
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    compat = "5.3" if source == golden("normal5").store else compat
    options = ("--from", folder / "out", "--as-stored", "--keep-times", "--compat", compat)
    run = rmqctl(*settings, "put", *options, store=folder / "new")
    assert (run.code, run.err) == (OK, "")
    return folder / "new"


@pytest.mark.turns(4)
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("name", ["normal", "normal5", "ipv6", "random bytes"])
def test_a_table_of_messages_comes_back_byte_for_byte(kind: str, name: str, tmp_path: Path) -> None:
    source = tmp_path / "before" if name == "random bytes" else golden(name).store
    if name == "random bytes":
        with open_store(source, read_only=False, settings=SETTINGS) as store:
            for message in messages(300, seed=1):
                store.put(message)
    assert fingerprint(copied_by(kind, source, tmp_path)) == fingerprint(source)


# Copied timers have no timer wheel.
@pytest.mark.turns(3)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("name", ["compaction", "lmq", "timer", "timer-roll"])
def test_property_strings_of_a_real_5_3_store_come_back_byte_for_byte(kind: str, name: str, tmp_path: Path) -> None:
    """Most of them end in a separator."""
    source = copy_of_five(name, tmp_path)
    found, expected = (
        [stored_properties(path.read_bytes()[at : at + size]) for path, at, size in records(root)]
        for root in (copied_by(kind, source, tmp_path, compat="5.3"), source)
    )
    assert expected
    assert found == expected


@pytest.fixture
def with_bad_bodies(tmp_path: Path) -> Path:
    """A store with a body that decompresses, one that does not, one of an unknown compression and an odd property."""
    bodies = ((b"plain", 0), (zlib.compress(b"whole"), 1), (b"no stream", 1), (b"x", 0x501))
    with open_store(tmp_path / "bad", read_only=False, settings={"mappedFileSizeCommitLog": "65536"}) as store:
        for body, sys_flag in bodies:
            properties = b"a\x01b" if body != b"plain" else b"a\x01b\x02empty\x01"
            store.put(Message("T", body, sys_flag=sys_flag, properties=properties, born_timestamp_ms=1))
    return tmp_path / "bad"


def test_a_table_says_which_bodies_cannot_be_decompressed_and_which_properties_a_map_cannot_hold(
    with_bad_bodies: Path, tmp_path: Path
) -> None:
    names = "compression, body_state, body_problem, property_bytes"
    run = rmqctl("-f", "jsonl", "sql", f"select {names} from messages order by log_offset", store=with_bad_bodies)
    wanted = [
        (None, "plain", None, base64.b64encode(b"a\x01b\x02empty\x01").decode()),
        ("zlib", "stored", None, None),
        ("zlib", "stored", "the body is no zlib stream", None),
        ("type 5", "stored", "compression type 5 is not defined", None),
    ]
    assert [tuple(row.values()) for row in run.rows] == wanted
    for kind in ("parquet", "csv"):
        rmqctl("export", "--to", tmp_path / kind, "--as", kind, store=with_bad_bodies)
        (path,) = (tmp_path / kind).iterdir()
        rows = duckdb.connect().sql(f"select {names} from '{path}' order by log_offset").fetchall()
        assert [
            (*row[:3], row[3] and base64.b64encode(row[3]).decode() if kind == "parquet" else row[3]) for row in rows
        ] == wanted


@pytest.mark.turns(2)
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_an_export_in_folders_comes_back_with_the_columns_that_name_them(
    kind: str, with_bad_bodies: Path, tmp_path: Path
) -> None:
    found = copied_by(kind, with_bad_bodies, tmp_path, "--stored-body", "--partition-by", "topic,queue_id,tags,day")
    names = ("log_offset", "msg_id", "size")
    assert [without(row, *names) for row in exported(found)] == [
        without(row, *names) for row in exported(with_bad_bodies)
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.parquet", b"no parquet", "x.parquet, Parquet magic bytes"),
        ("x.csv", b"topic,body\nT,eA==\n", "x.csv, row 1: no column born_host, which export writes"),
        ("x.csv", b"topic,body\nT\n", "x.csv, not as many cells as the heading has"),
        ("x.csv", b"\xff\xfe\n", "x.csv, 'utf-8' codec"),
    ],
)
def test_a_file_that_is_no_export_is_wrong_usage(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    run = rmqctl(*SHORT_LOG, "put", "--from", tmp_path / name, store=tmp_path / "store")
    assert (run.code, says in run.err, run.err.count("\n")) == (USAGE, True, 1), run.err


def changed_table(store: Path, folder: Path, kind: str, changed: dict[str, Any]) -> Path:
    """An export of the store as a table, with other values in its second row."""
    rmqctl("export", "--to", folder / "out", "--as", kind, store=store)
    (path,) = (folder / "out").iterdir()
    if kind == "parquet":
        table = pq.read_table(path)
        rows = [row | {"delay_level": None} for row in table.to_pylist()]
        rows[1] |= changed
        pq.write_table(pa.Table.from_pylist(rows, table.schema.append(pa.field("delay_level", pa.int32()))), path)
        return path
    rows = [row | {"delay_level": ""} for row in csv.DictReader(path.read_text().splitlines())]
    rows[1] |= {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else
        json.dumps(value) if isinstance(value, list) else value
        for name, value in changed.items()
    }  # fmt: skip
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


OF_BYTES = "{0} and property_bytes differ; leave property_bytes out to put what {0} says"
OF_PROPERTIES = "{} and the property {} differ; leave one of them out"


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tags": "u"}, OF_PROPERTIES.format("tags", "TAGS")),
        ({"uniq_key": "u"}, OF_PROPERTIES.format("uniq_key", "UNIQ_KEY")),
        ({"keys": ["a", "c"]}, OF_PROPERTIES.format("keys", "KEYS")),
        ({"delay_level": 4}, OF_PROPERTIES.format("delay_level", "DELAY")),
        ({"property_bytes": b"TAGS\1t"}, OF_BYTES.format("properties")),
        ({"tags": "t", "uniq_key": "x", "keys": ["a", "b"], "delay_level": 3}, None),
    ],
)
def test_two_values_of_one_property_in_a_table_are_refused_with_column_and_row(
    changed: dict[str, Any], problem: str | None, kind: str, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        first = Message.of("T", "x")
        second = Message.of("T", "x", tags="t", keys=["a", "", "b"], uniq_key="x", delay_level=3)
        for message in (first, second):
            store.put_replayed(message)
    path = changed_table(tmp_path / "s", tmp_path, kind, changed)
    run = rmqctl(*SHORT_LOG, "put", "--input", path, "--as-stored", store=tmp_path / "new")
    if problem is not None:
        refusal = f"rmqctl: Invalid value for --input: row 2: {problem} (see rmqctl put --help)"
        assert (run.code, run.err.splitlines()[-1]) == (USAGE, refusal)
        return
    assert run.code == OK, run.err
    with open_store(tmp_path / "new") as store:
        assert [one.property_text for one in store.messages("T", 0)] == [first.properties, second.properties]


def test_an_export_without_bodies_is_not_put_as_messages_without_one(with_bad_bodies: Path, tmp_path: Path) -> None:
    rmqctl("export", "--to", tmp_path / "out", "--no-body", store=with_bad_bodies)
    run = rmqctl(*SHORT_LOG, "put", "--from", tmp_path / "out", store=tmp_path / "new")
    assert (run.code, "row 1: no column body, which export writes without --no-body" in run.err) == (
        USAGE,
        True,
    )


def test_a_folder_without_an_export_is_refused_before_the_store_is_created(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    run = rmqctl(*SHORT_LOG, "put", "--from", tmp_path / "out", store=tmp_path / "new")
    assert (run.code, "ends with .parquet, .csv, .jsonl" in run.err, (tmp_path / "new").exists()) == (
        USAGE,
        True,
        False,
    )


@pytest.mark.turns(2)
@pytest.mark.parametrize("born_ms", [-(1 << 63), -1, (1 << 63) // 1000 - 1, (1 << 63) // 1000, (1 << 63) - 1])
def test_a_time_that_no_table_holds_is_null_in_one_and_refused_when_it_is_put(born_ms: int, tmp_path: Path) -> None:
    with open_store(tmp_path / "old", read_only=False, settings={"mappedFileSizeCommitLog": "65536"}) as store:
        store.put(Message("T", b"x", born_timestamp_ms=born_ms))
    is_held = abs(born_ms) < (1 << 63) // 1000
    run = rmqctl("export", "--to", tmp_path / "out", store=tmp_path / "old")
    assert run.code == OK, run.err
    run = rmqctl(*SHORT_LOG, "put", "--from", tmp_path / "out", "--as-stored", store=tmp_path / "new")
    assert (run.code, "no born_timestamp" in run.err) == ((OK, False) if is_held else (USAGE, True))
    if is_held:
        assert [row["born_timestamp_ms"] for row in exported(tmp_path / "new")] == [born_ms]
