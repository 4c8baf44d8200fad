"""DuckDB over the tables of a store: columns, filters that reach the scan, fleets, failures."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from rmqctl.exit_codes import INTERRUPTED
from store.errors import BadRequest, NotAStore, StoreIOError
from store.files.store_reader import StoreReader
from store.query.embedded import engine as room
from store.query.embedded.engine import Engine, open_engine
from store.query.tables.schema import RECORD, TABLES
from store.structures.commitlog import message_batch
from store.verbs.check.check import check_files
from tests.support.golden import copy_store, golden
from tests.support.processes import environment, running
from tests.support.spark_stores import records_of

STORES = ("normal", "normal5", "ipv6", "batch", "many")


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = copy_store(golden("normal").store, tmp_path_factory.mktemp("normal") / "store")
    for segment in (root / "commitlog").iterdir():
        # Progress leaves out the hole at the log's end, which a tmpfs fills where a map is read.
        segment.write_bytes(segment.read_bytes())
    with open_engine([str(root)]) as engine:
        yield engine


def asked(engine: Engine, text: str, limit: int = 100_000) -> list[dict[str, Any]]:
    return engine.query(text, limit=limit)[1]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", STORES)
def test_every_column_is_what_the_format_page_decodes(name: str) -> None:
    path = str(golden(name).store)
    with open_engine([path]) as engine:
        batches = list(engine.ask("select * from messages"))
    rows = {row["log_offset"]: row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")}
    wanted = records_of(path)
    assert len(rows) == len(wanted)
    for log_offset, message in wanted:
        row = rows[log_offset]
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == (
            message.topic,
            message.queue_id,
            message.queue_offset,
        )
        assert (row["msg_id"], row["uniq_key"], row["tags"]) == (message.msg_id, message.uniq_key, message.tags)
        assert (row["keys"], row["size"], row["flag"]) == (message.keys, message.size, message.flag)
        assert (row["born_host"], row["store_host"]) == (str(message.born_host), str(message.store_host))
        assert (row["body"], row["properties"]) == (bytes(message.body), message.properties)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_interrupt_ends_the_query_and_is_repeated_until_it_has_ended(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the query begins (0 steps), or while it is waited for."""
    asked, query = list[int](), Future[int]()

    @contextmanager
    def begins() -> Iterator[None]:
        if not steps:
            raise KeyboardInterrupt
        yield

    def interrupt() -> None:
        asked.append(len(asked))
        if len(asked) == steps:
            query.set_result(5)
        raise duckdb.Error("refused")

    def wait(calls: list[Future[int]], timeout: float) -> None:
        if not asked:
            raise KeyboardInterrupt if calls == [query] and len(waits) == 1 else AssertionError
        waits.append(timeout)

    waits = [0.0]
    monkeypatch.setattr(room, "interrupts_wait", begins)
    monkeypatch.setattr(room, "wait", wait)
    engine = cast(Any, object.__new__(Engine))
    engine._worker = SimpleNamespace(submit=lambda call: query)
    engine._watch, engine._connection = SimpleNamespace(is_stopped=False), SimpleNamespace(interrupt=interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine._wait(lambda: 5)
    assert (engine._watch.is_stopped, len(asked), len(waits) - 1) == (True, steps, steps)


CONDITIONS = [
    "topic = 'TopicA'",
    "topic like 'Topic%' and queue_id in (1, 2)",
    "topic <> 'TopicA' or queue_id = 0",
    "log_offset > 65536 and log_offset <= 131072",
    "log_offset between 1000 and 2000 or log_offset > 131072",
    "store_timestamp >= (select max(store_timestamp) from messages) - interval 300 milliseconds",
    "store_timestamp < '2001-01-01'",
    "store_timestamp > '2001-01-01' and queue_offset % 2 = 1",
    "tags is null",
    "tags = 'TagA' and topic = 'TopicB'",
    "properties['KEYS'] is not null and size > 200",
    "size(keys) > 1",
    "body_size >= 7 and hex(body) like '68%'",
    "sys_flag & 12 = 4",
    "log_offset = -1",
    "not (topic = 'TopicA')",
]


@pytest.mark.turns(4)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_in_the_scan_gives_the_rows_that_duckdb_itself_picks(normal: Engine, condition: str) -> None:
    pushed = asked(normal, f"select log_offset from messages where {condition} order by 1")
    whole = "with m as (select * from messages limit 100000)"
    assert pushed == asked(normal, f"{whole} select log_offset from m where {condition} order by 1")


@pytest.mark.parametrize(
    ("condition", "segments"),
    [
        ("true", 3),
        ("log_offset < 65536", 1),
        ("log_offset in (5, 140000)", 2),
        ("log_offset >= 65536 and topic = 'TopicA'", 2),
        ("store_timestamp < '2001-01-01'", 0),
        ("log_offset = 70000 or queue_id = 3", 3),
    ],
)
def test_segments_that_a_filter_rules_out_are_not_read(normal: Engine, condition: str, segments: int) -> None:
    seen: list[tuple[int, int]] = []
    text = f"select count(*) from messages where {condition}"
    normal.query(text, limit=1, on_progress=lambda done, in_all: seen.append((done, in_all)))
    assert seen[-1:] == ([(segments * 65536, segments * 65536)] if segments else [])


def test_a_query_tells_the_bytes_of_log_that_it_read_and_of_all(normal: Engine) -> None:
    seen: list[tuple[int, int]] = []
    normal.query("select sum(size) from messages", limit=1, on_progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in (golden("normal").store / "commitlog").iterdir())
    assert (seen[-1], sorted(seen)) == ((total, total), seen)


def test_reading_without_a_query_and_of_another_table_tells_the_bytes_of_log_too(normal: Engine) -> None:
    seen: list[tuple[int, int]] = []
    list(normal.read_messages([RECORD], lambda done, total: seen.append((done, total))))
    total = sum(path.stat().st_size for path in (golden("normal").store / "commitlog").iterdir())
    assert seen[-1] == (total, total)
    seen.clear()
    normal.query("select count(*) from `index`", limit=1, on_progress=lambda *told: seen.append(told))
    assert set(seen) == {(0, 0)}


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (2, 2), (3, 3), (5, 5), (6, 6), (7, 6)])
def test_an_answer_of_several_batches_has_as_many_rows_as_its_limit(
    limit: int, rows: int, normal: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [pa.RecordBatch.from_pylist([{"n": at}, {"n": at + 1}]) for at in (0, 2, 4)]
    answer = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    monkeypatch.setattr(normal, "ask", lambda *_: answer)
    assert normal.query("select 1", limit=limit) == (["n"], [{"n": number} for number in range(rows)])
    assert len(list(answer)) == (0 if limit > 4 else 1 if limit > 2 else 2)


def test_only_the_queue_that_is_asked_for_is_read(normal: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = StoreReader.queue_files
    monkeypatch.setattr(
        StoreReader, "queue_files", lambda self, topic, queue_id: read.append(topic) or whole(self, topic, queue_id)
    )
    asked(normal, "select count(*) from consumequeue where topic = 'TopicB' and queue_id = 2")
    assert read == ["TopicB"]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("select count(*) from messages", False),
        ("select topic, sum(body_size) from messages group by topic", False),
        ("select body from messages where topic = 'none'", False),
        ("select max(body) from messages", True),
    ],
)
def test_bodies_are_read_only_when_they_are_named(
    normal: Engine, monkeypatch: pytest.MonkeyPatch, text: str, is_read: bool
) -> None:
    built: list[int] = []
    make = message_batch._BUILDERS["body"]
    monkeypatch.setitem(message_batch._BUILDERS, "body", lambda rows: built.append(rows.count) or make(rows))
    asked(normal, text)
    assert bool(built) == is_read


def test_the_other_tables_hold_every_unit_entry_and_segment(normal: Engine) -> None:
    files = StoreReader(str(golden("normal").store))
    counts = {table: asked(normal, f"select count(*) n from {table}")[0]["n"] for table in TABLES}
    assert counts["segments"] == len(files.segments())
    assert counts["index"] == 1001
    assert counts["anomalies"] == len(list(check_files(files))) == 0
    (units,) = asked(normal, "select count(*) n from messages where sys_flag & 12 in (0, 8)")
    assert counts["consumequeue"] == units["n"]


def test_a_fleet_is_one_table_with_the_store_in_front() -> None:
    stores = [str(golden(name).store) for name in ("normal", "batch")]
    with open_engine(stores) as engine:
        rows = asked(engine, "select store, count(*) n from messages group by store")
        assert {row["store"]: row["n"] for row in rows} == {path: len(records_of(path)) for path in stores}
        (one,) = asked(engine, f"select count(*) n from messages where store = '{stores[1]}' and queue_id >= 0")
        assert one["n"] == len(records_of(stores[1]))
        assert next(iter(asked(engine, "select * from segments", limit=1)[0])) == "store"


def test_names_in_backquotes_are_names(normal: Engine) -> None:
    assert asked(normal, "select `offset`, '`' as x from anomalies") == []
    assert asked(normal, "select max(`entry_index`) n from `index` -- `") == [{"n": 999}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("select nothing from messages", "nothing"),
        ("select 1 from", "syntax error"),
        ("select * from read_csv('/etc/passwd')", "does not take the function read_csv"),
        ("select * from '/etc/passwd'", "passwd"),
        ("copy messages to '/tmp/x.csv'", "queries only"),
        ("attach '/tmp/x.db'", "queries only"),
        ("select 1; copy messages to '/tmp/x.csv'", "does not take the sign ';'"),
        ("select * from golden", "golden"),
    ],
)
def test_what_is_no_query_of_the_tables_is_refused_in_one_sentence(normal: Engine, text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as caught:
        asked(normal, text)
    assert "\n" not in str(caught.value)


def test_what_fails_while_a_segment_is_read_is_the_error_itself(
    normal: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: StoreReader, path: str, *_: Any) -> Any:
        raise StoreIOError("cannot read: input/output error", file=self.name_of(path))

    with monkeypatch.context() as changed:
        changed.setattr(StoreReader, "map", fail)
        with pytest.raises(StoreIOError, match=r"/commitlog/0{20}: cannot read"):
            asked(normal, "select count(*) from messages")
    assert asked(normal, "select count(*) n from messages") == [{"n": 500}]


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore), open_engine([str(tmp_path)]):
        pass


@pytest.mark.turns(2)
@pytest.mark.parametrize("is_given", [False, True])
def test_what_does_not_fit_in_memory_goes_to_a_scratch_folder_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_given: bool
) -> None:
    given = tmp_path if is_given else None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none" if is_given else tmp_path))
    spilled = []
    with open_engine([str(golden("normal").store)], memory_bytes=160 << 20, scratch=given) as engine:
        text = "select i, repeat('x', 100) t from range(2000000) r(i) order by hash(i)"
        for number, batch in enumerate(engine.ask_duckdb(text)):
            spilled += [path for path in tmp_path.rglob("*") if path.is_file()] if number == 0 else []
            assert batch.num_rows
    assert spilled
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pages", "memory_bytes"), [(0, 0), (4000, 4096 * 1000), (1 << 21, 2 << 30), (1 << 22, 2 << 30)]
)
def test_duckdb_has_a_quarter_of_the_memory_up_to_2_gib(
    pages: int, memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}.__getitem__)
    assert room._memory_bytes() == memory_bytes


def test_the_scratch_folder_of_a_killed_process_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / "rmqctl-scratch-x"
    abandoned.mkdir()
    (abandoned / "spill").write_bytes(b"rows")
    with open_engine([str(golden("normal").store)]):
        assert not abandoned.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_answer_may_be_cut_short() -> None:
    with open_engine([str(golden("many").store)]) as engine:
        assert len(asked(engine, "select * from messages", limit=3)) == 3
        assert len(asked(engine, "select topic from messages limit 2")) == 2


def test_damage_in_the_log_leaves_the_records_behind_it() -> None:
    with open_engine([str(golden("corrupt-mid").store)]) as engine:
        (row,) = asked(engine, "select count(*) n, (select count(*) from anomalies) found from messages")
    assert row["n"] == len(records_of(str(golden("corrupt-mid").store)))
    assert row["found"]


ENDLESS = (
    "select max(md5(hex(a.body))) from messages a, messages b, messages c, messages d "
    "where a.queue_id < b.queue_id + c.queue_id + d.queue_id"
)


@pytest.mark.turns(3)
@pytest.mark.parametrize("after_s", [0, 0.3, 1])
def test_a_ctrl_c_ends_a_query_at_once_and_leaves_no_scratch(after_s: float, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rmqctl", "--verbose", "--store", str(golden("normal").store), "sql", ENDLESS]
    with running(words, stderr=subprocess.PIPE, env={**environment(), "TMPDIR": str(tmp_path)}) as query:
        assert query.stderr is not None
        assert any("engine: this process" in line for line in query.stderr)
        time.sleep(after_s)
        query.send_signal(signal.SIGINT)
        assert query.wait(60) == INTERRUPTED
        assert query.stderr.read().splitlines().count("rmqctl: interrupted; the store is consistent") == 1
    assert list(tmp_path.iterdir()) == []
