"""sql, usage, audit and export in this process: what a user types and sees, without Spark."""

from __future__ import annotations

import csv
import json
import sys
from base64 import b64encode
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from rmqctl import querying
from rmqctl.app import main
from rmqctl.backend import Engine, choose_backend, stores_of
from rmqctl.context import Session
from rmqctl.environment import Environment
from rmqctl.exit_codes import FINDINGS, OK, USAGE
from rmqctl.querying import open_tables
from rmqctl.shell import completions
from store.errors import BadRequest
from store.query.spark import session as spark_session
from store.query.tables.schema import TABLES, arrow_schema
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.sessions import give, said, session
from tests.support.spark_stores import records_of
from tests.support.stores import make_store

COUNT = "select topic, count(*) n from messages group by topic order by topic"


@pytest.fixture
def normal() -> Path:
    return golden("normal").store


def test_sql_says_verbosely_which_engine_answered_and_why(normal: Path) -> None:
    assert rmqctl("sql", COUNT, store=normal).err == ""
    said = rmqctl("--verbose", "sql", COUNT, store=normal).err
    assert "engine: this process (the commit log holds 192 KiB, not more than 64.0 GiB)\n" in said
    assert "asked for" in rmqctl("--verbose", "sql", COUNT, "--engine", "local", store=normal).err


def test_sql_says_where_a_large_log_stays_here(normal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.query.spark.why_not_here", lambda: "pyspark is not installed")
    run = rmqctl("sql", COUNT, "--spark-above", "0", store=normal)
    assert run.err == "engine: this process (pyspark is not installed)\n"


def test_a_refused_put_says_its_reason_first(tmp_path: Path) -> None:
    reason = "the topic must have 1 to 127 bytes of UTF-8 in a 4.x store"
    rmqctl("--set", "mappedFileSizeCommitLog=65536", "put", "T", "body", store=tmp_path)
    one = rmqctl("put", "x" * 128, "body", store=tmp_path)
    assert (one.code, one.out.splitlines()[0]) == (1, f"refused: {reason} (MESSAGE_ILLEGAL)")
    lines = f'{{"topic": "T", "body_text": "a"}}\n{{"topic": "{"x" * 128}", "body_text": "b"}}\n'.encode()
    many = rmqctl("put", "--from", "-", store=tmp_path, stdin=lines)
    assert (many.code, many.out.splitlines()[0]) == (1, f"refused: {reason}; 1 of 2 messages stored as new")


def test_spark_refuses_a_log_that_another_setting_puts_elsewhere(normal: Path, tmp_path: Path) -> None:
    elsewhere = ("--set", f"storePathCommitLog={tmp_path}")
    for words in (("sql", COUNT), ("usage",), ("audit",)):
        run = rmqctl(*words, "--engine", "spark", *elsewhere, store=normal)
        assert (run.code, "Spark reads only commitlog in the store" in run.err) == (USAGE, True), words


@pytest.mark.parametrize(
    ("columns", "is_told"),
    [
        ("topic, body", True),
        ("body, body_problem", False),
        ("body, body_state", False),
        ("topic", False),
        ("body_size", False),
    ],
)
def test_bodies_of_an_answer_are_told_to_be_as_stored(columns: str, is_told: bool, normal: Path) -> None:
    told = "note: body is as stored; body_state shows which are compressed, body_problem which cannot be decompressed\n"
    assert rmqctl("sql", f"select {columns} from messages limit 1", "--limit", 2, store=normal).err == told * is_told


def test_an_answer_is_cut_at_the_limit_with_a_note(normal: Path) -> None:
    run = rmqctl("--format", "jsonl", "sql", "select log_offset from messages", "--limit", 3, store=normal)
    assert (run.code, len(run.rows)) == (OK, 3)
    assert "only the first 3 rows" in run.err


@pytest.mark.parametrize(
    ("options", "is_spark", "why"),
    [
        ({}, False, "not more than"),
        ({"log_bytes": 65 << 30}, True, "more than 64.0 GiB"),
        ({"log_bytes": 65 << 30, "engine": Engine.LOCAL}, False, "asked for"),
        ({"engine": Engine.SPARK}, True, "asked for"),
        ({"master": "local[2]"}, True, "address"),
        ({"remote": "sc://head"}, True, "address"),
    ],
)
def test_the_engine_is_chosen_by_options_or_size(
    options: dict[str, object], is_spark: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "why_not_here", lambda: None)
    defaults = {"engine": Engine.AUTO, "log_bytes": 0, "master": None, "remote": None, "spark_above_bytes": 64 << 30}
    backend = choose_backend(**(defaults | options))  # type: ignore[arg-type]
    assert backend.is_spark == is_spark
    assert why in backend.why


def test_size_alone_does_not_ask_for_a_spark_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"master": None, "remote": None, "spark_above_bytes": 0}
    monkeypatch.setattr(spark_session, "is_installed", lambda: True)
    monkeypatch.setattr(spark_session, "java_version", lambda: None)
    assert "no Java" in choose_backend(Engine.AUTO, 1, **large).why  # type: ignore[arg-type]
    monkeypatch.setattr(spark_session, "is_installed", lambda: False)
    assert "PySpark is not installed" in choose_backend(Engine.AUTO, 1, **large).why  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("installed", "version", "why"),
    [
        (False, 17, "PySpark is not installed"),
        (True, None, "no Java 17 was found for Spark"),
        (True, 16, "no Java 17 was found for Spark"),
        (True, 17, None),
    ],
)
def test_spark_can_start_with_a_java_of_17_on(
    installed: bool, version: int | None, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "is_installed", lambda: installed)
    monkeypatch.setattr(spark_session, "java_version", lambda: version)
    assert spark_session.why_not_here() == why


@pytest.mark.parametrize(
    ("master", "remote", "is_noted"),
    [
        (None, None, False),
        ("local", None, False),
        ("local[2]", None, False),
        ("spark://head:7077", None, True),
        (None, "sc://head", True),
    ],
)
def test_damage_that_executors_of_other_machines_meet_is_noted_to_be_reported_in_a_shared_folder_alone(
    master: str | None, remote: str | None, is_noted: bool, normal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqctl.querying.spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("store.query.spark.damage_noted", lambda *_: nullcontext())
    one = session()
    give(one, store=str(normal))
    with open_tables(one, None, Engine.SPARK, master, remote, 64) as tables:
        assert tables.stores == [str(normal)]
    note = "damage is reported only if executors share the scratch folder; else run `rmqctl check`\n"
    assert said(one) == note * is_noted


def test_an_engine_that_contradicts_an_address_is_refused(normal: Path) -> None:
    run = rmqctl("sql", COUNT, "--engine", "local", "--master", "local[2]", store=normal)
    assert run.code == USAGE
    assert run.err.startswith("rmqctl: --engine local and --master do not go together")


@pytest.mark.parametrize("words", [("sql", COUNT), ("usage",), ("audit",), ("export", "--to", "x")])
def test_without_pyspark_a_command_that_needs_it_names_the_line_that_installs_it(
    normal: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(spark_session, "is_installed", lambda: False)
    run = rmqctl(*words, "--engine", "spark", store=normal)
    assert (run.code, run.err) == (USAGE, "rmqctl: PySpark is not installed; install it: pip install 'rmqctl[spark]'\n")


@pytest.mark.turns(3)
def test_nothing_of_spark_is_imported_for_an_answer_of_this_process(normal: Path) -> None:
    import subprocess

    code = "import sys; from rmqctl.app import main; main(); print(sorted({'pyspark', 'pandas'} & set(sys.modules)))"
    words = [sys.executable, "-c", code, "--store", str(normal), "-q", "sql", "select 1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.splitlines()[-1] == "[]"


def test_pandas_alone_is_hidden_while_pyarrow_makes_its_first_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[tuple[str, bool]]()

    def array(values: list[object]) -> None:
        assert values == []
        for name in ("pandas", "no_pandas"):
            with suppress(ImportError):
                import_module(name)
            tried.append((name, name in sys.modules))

    for name in ("pandas", "no_pandas"):
        (tmp_path / f"{name}.py").touch()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("pyarrow.array", array)
    before = list(sys.meta_path)
    querying._spare_pandas()
    assert (tried, sys.meta_path) == ([("pandas", False), ("no_pandas", True)], before)
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    querying._spare_pandas()
    assert len(tried) == 2
    monkeypatch.delitem(sys.modules, "no_pandas")


@pytest.mark.parametrize("is_own", [False, True])
def test_pandas_is_hidden_from_the_process_that_prints_the_result_alone(
    is_own: bool, normal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = list[bool]()
    monkeypatch.setattr(querying, "_spare_pandas", lambda: called.append(True))
    one = session()
    give(one, store=str(normal))
    if is_own:
        monkeypatch.setattr(sys, "stdout", one.environment.stdout)
    with open_tables(one, None, Engine.LOCAL, None, None, 64) as tables:
        assert (tables.stores, called) == ([str(normal)], [True] * is_own)


def test_a_fleet_is_a_list_a_glob_or_a_file(normal: Path, tmp_path: Path) -> None:
    stores = [copy_store(normal, tmp_path / name / "store") for name in ("a", "b")]
    (tmp_path / "lost+found").mkdir()
    names = [str(store) for store in stores]
    (tmp_path / "fleet.txt").write_text(f"# brokers\n{names[0]}\n\n{tmp_path}/b*/store\n")
    session = Session(Environment.real(), main)
    assert stores_of(session, names) == names
    assert stores_of(session, [f"{tmp_path}/*/store"]) == names
    assert stores_of(session, [f"@{tmp_path}/fleet.txt"]) == names
    with pytest.raises(BadRequest, match="no store is found"):
        stores_of(session, [f"{tmp_path}/*/none"])
    query = "select store, count(*) n from messages group by store order by store"
    for words in (("sql", query, "--store"), ("--store",)):
        run = rmqctl("--format", "jsonl", *words, f"{tmp_path}/*/store", *(() if words[0] == "sql" else ("sql", query)))
        assert run.rows == [{"store": name, "n": 500} for name in names]


def test_a_folder_named_twice_is_one_store_of_a_fleet(normal: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(normal)
    names = [str(normal), str(tmp_path / "current"), f"{normal.parent}/../{normal.parent.name}/{normal.name}"]
    assert stores_of(Session(Environment.real(), main), names) == names[:1]


def test_a_fleet_that_names_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fleet.txt").write_text("# nothing yet\n")
    for given, says in ((f"@{tmp_path}/fleet.txt", "no store is named in it"), ("s3://b/*/store", "name each URI")):
        run = rmqctl("sql", "select 1", "--store", given)
        assert (run.code, run.out) == (USAGE, "")
        assert says in run.err


@pytest.mark.parametrize("words", [("info",), ("get", "TopicA"), ("checkpoint", "show"), ("sql", "select 1")])
def test_a_second_store_is_refused_where_one_is_taken(normal: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    lines = [("--store", tmp_path, "--store", normal, *words)]
    lines += [(*words, "--store", tmp_path, "--store", normal)] if words[0] != "sql" else []
    for line in lines:
        run = rmqctl(*line)
        assert (run.code, run.out) == (USAGE, "")
        assert "given twice" in run.err


def test_usage_adds_up_to_the_log(normal: Path) -> None:
    records = [message for _, message in records_of(str(normal))]
    run = rmqctl("--format", "json", "usage", "--by", "topic,queue", store=normal)
    assert (run.json["message_count"], run.json["size_bytes"]) == (500, sum(message.size for message in records))
    rows = {(row["topic"], row["queue_id"]): row for row in run.json["usage"]}
    of_queue = [message for message in records if (message.topic, message.queue_id) == ("TopicA", 0)]
    assert rows["TopicA", 0]["message_count"] == len(of_queue)
    assert rows["TopicA", 0]["first_ms"] == min(message.store_timestamp_ms for message in of_queue)
    assert rows["TopicA", 0]["last_ms"] == max(message.store_timestamp_ms for message in of_queue)
    assert sum(row["share_percent"] for row in rows.values()) == pytest.approx(100, abs=0.2)
    sizes = [row["size_bytes"] for row in run.json["usage"]]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("by", "names_one"), [("topic", False), ("topic,queue", True)])
def test_usage_names_the_largest_group_if_there_are_several(by: str, names_one: bool, tmp_path: Path) -> None:
    run = rmqctl("usage", "--by", by, store=make_store(tmp_path / "store", 7))
    assert (run.code, "; the most in " in run.out) == (OK, names_one)


def test_usage_of_an_unknown_group_is_refused(normal: Path) -> None:
    run = rmqctl("usage", "--by", "colour", store=normal / "none")
    assert (run.code, "topic, queue, tag, day" in run.err) == (USAGE, True)


def test_audit_finds_what_check_finds() -> None:
    store = golden("corrupt-mid").store
    audited = rmqctl("--format", "json", "audit", store=store)
    checked = rmqctl("--format", "json", "check", store=store)
    assert audited.code == checked.code == FINDINGS
    by_place = {(row["kind"], row["file"], row["offset"]) for row in checked.json["findings"]}
    assert {(row["kind"], row["file"], row["offset"]) for row in audited.json["findings"]} == by_place


def test_a_parquet_export_has_the_columns_of_the_table(normal: Path, tmp_path: Path) -> None:
    run = rmqctl("export", "--to", tmp_path / "out", store=normal)
    assert run.code == OK, run.err
    (path,) = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(path)
    wanted = arrow_schema(TABLES["messages"])
    assert table.schema.names == wanted.names
    for field, stored in zip(wanted, table.schema, strict=True):
        assert str(stored.type).replace("Etc/UTC", "UTC").replace("element", "item") == str(field.type) or (
            field.name in ("keys", "properties")
        )
    assert sorted(table.column("log_offset").to_pylist()) == [offset for offset, _ in records_of(str(normal))]


def test_a_csv_export_reads_back_as_what_the_records_hold(normal: Path, tmp_path: Path) -> None:
    assert rmqctl("export", "--to", tmp_path / "out", "--as", "csv", store=normal).code == OK
    with min((tmp_path / "out").glob("*.csv")).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = dict(records_of(str(normal)))
    assert len(rows) == len(wanted)
    for row in rows:
        message = wanted[int(row["log_offset"])]
        assert (row["topic"], row["body"]) == (message.topic, b64encode(bytes(message.body)).decode())
        assert json.loads(row["properties"]) == message.properties
        assert (row["tags"], json.loads(row["keys"])) == (message.tags or "", message.keys)


def test_json_lines_hold_the_message_object_of_get(normal: Path, tmp_path: Path) -> None:
    assert rmqctl("export", "--to", tmp_path / "out", "--as", "jsonl", store=normal).code == OK
    lines = min((tmp_path / "out").glob("*.jsonl")).read_text(encoding="utf-8").splitlines()
    by_offset = {row["log_offset"]: row for row in map(json.loads, lines)}
    got = rmqctl("--format", "jsonl", "get", "TopicA", "--queue", 0, "--offset", 0, "--max", 100, store=normal).rows
    assert got
    assert [by_offset[row["log_offset"]] for row in got] == got


def test_an_export_is_divided_into_the_folders_that_spark_would_make(normal: Path, tmp_path: Path) -> None:
    words = ("--as", "jsonl", "--partition-by", "topic,tags", "--where", "day > '2001-01-01' and queue_id = 1")
    assert rmqctl("export", "--to", tmp_path / "out", *words, store=normal).code == OK
    found = {}
    for path in (tmp_path / "out").rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            found[json.loads(line)["log_offset"]] = str(path.parent.relative_to(tmp_path / "out"))
    wanted = {
        offset: f"topic={message.topic}/tags={message.tags or '__HIVE_DEFAULT_PARTITION__'}"
        for offset, message in records_of(str(normal))
        if message.queue_id == 1
    }
    assert found == wanted


def test_an_export_that_fails_leaves_no_folder(normal: Path, tmp_path: Path) -> None:
    run = rmqctl("export", "--to", tmp_path / "out", "--where", "nothing = 1", store=normal)
    assert (run.code, "nothing" in run.err) == (USAGE, True)
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_nothing_is_a_file_without_rows(normal: Path, tmp_path: Path) -> None:
    for kind in ("parquet", "csv", "jsonl"):
        assert rmqctl("export", "--to", tmp_path / kind, "--as", kind, "--where", "false", store=normal).code == OK
        (path,) = (tmp_path / kind).iterdir()
        assert len(path.read_bytes().splitlines()) <= 1 or kind == "parquet"


def test_the_shell_answers_what_is_piped_into_it(normal: Path) -> None:
    text = b"select count(*) n\nfrom messages;\nselect nothing;\n.schema index\n.tables\n.quit\nselect 1 one;\n"
    run = rmqctl("--format", "jsonl", "sql", store=normal, stdin=text)
    assert run.code == USAGE, "a script learns that one of its queries failed"
    assert run.rows[0] == {"n": 500}
    assert [row["column"] for row in run.rows[1:7]] == list(TABLES["index"])
    assert [row["table"] for row in run.rows[7:]] == list(TABLES)
    assert "nothing" in run.err


def test_the_shell_completes_tables_columns_and_words() -> None:
    assert completions("mess") == ["messages"]
    assert completions("STORE_T") == ["store_timestamp"]
    assert completions(".s") == [".schema"]
    assert "select" in completions("se")


def test_one_segment_is_not_read_on_spark(normal: Path) -> None:
    segment = min((normal / "commitlog").iterdir())
    run = rmqctl("sql", "select 1 from messages", "--engine", "spark", store=segment)
    told = "one segment file is not read on Spark; give --engine local"
    assert (run.code, run.err) == (USAGE, f"rmqctl: {segment}: {told}\n")
