"""What cannot work ends in one sentence and the exit code that the manual names, and leaves nothing half-written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rmqctl.exit_codes import IO_ERROR, NOT_READABLE, USAGE, exit_code_of
from store.errors import BadRequest, NotAStore, StoreError, StoreIOError
from store.query.spark import rebuild as rebuild_module
from store.query.spark.audit import audit_store
from store.query.spark.job import errors_as_sentences
from store.query.spark.query import run_query, write_export
from store.query.tables.export import Export
from tests.support.golden import copy_store, golden
from tests.support.processes import NOBODY, command_line, run
from tests.support.snapshots import snapshot
from tests.support.spark_stores import by_spark, segment, table

COUNT = "select count(*) from messages"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(golden("normal").store, tmp_path / "store")


def assert_one_sentence(error: StoreError, code: int, *words: str) -> None:
    assert exit_code_of(error) == code
    assert "\n" not in str(error)
    assert "Traceback" not in str(error)
    for word in words:
        assert word in str(error)


@pytest.mark.turns(4)
@pytest.mark.spark
@pytest.mark.parametrize(
    "words",
    [
        ("sql", COUNT, "--master", "spark://127.0.0.1:1"),
        ("audit", "--master", "spark://127.0.0.1:1"),
        ("rebuild", "--engine", "spark", "--master", "spark://127.0.0.1:1", "--yes"),
        ("recover", "--engine", "spark", "--master", "spark://127.0.0.1:1", "--yes"),
        ("recover", "--yes", "--remote", "sc://127.0.0.1:1"),
        ("sql", COUNT, "--remote", "sc://127.0.0.1:1"),
    ],
    ids=lambda words: " ".join((words[0], words[-2])),
)
def test_an_unreachable_spark_ends_a_command_with_the_code_for_io(store: Path, words: tuple[str, ...]) -> None:
    before = snapshot(store, without=(".rmqctl", "lock"))
    done = run(command_line(store, *words))
    assert done.code == IO_ERROR
    assert "no Spark answers at" in done.err
    assert "Traceback" not in done.err
    assert snapshot(store, without=(".rmqctl", "lock")) == before


@pytest.mark.turns(3)
@pytest.mark.parametrize("words", [("sql", COUNT), ("audit",), ("check",), ("usage",), ("export", "--to", "x")])
def test_a_store_that_is_not_there_ends_a_command_before_spark_starts(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(command_line(tmp_path / "nowhere", *words))
    assert done.code == NOT_READABLE
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


@pytest.mark.turns(6)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("selec topic from messages", "selec"),
        ("select nothing from messages", "nothing"),
        ("select 1 from none", "none"),
        ("select sise from messages", "size"),
        ("select 1 / 0", "DIVIDE_BY_ZERO"),
        ("select (select size from messages)", "SUBQUERY"),
    ],
)
def test_a_bad_query_is_a_wrong_use(spark: Any, store: Path, text: str, word: str) -> None:
    with pytest.raises(BadRequest) as caught:
        run_query(spark, [str(store)], text, limit=5)
    assert_one_sentence(caught.value, USAGE, word)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--to", "s3://bucket/x"), "s3:/"),
        (("--to", "file:///tmp/x"), "folder of this machine"),
        (("--partition-by", "store"), "store"),
        (("--partition-by", "topic,topic"), "twice"),
        (("--partition-by", "body"), "body"),
        (("--partition-by", "properties"), "properties"),
        (("--partition-by", "topic,keys"), "keys"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_an_export_that_cannot_work_is_refused_before_spark_starts(
    store: Path, tmp_path: Path, words: tuple[str, ...], word: str
) -> None:
    done = run(command_line(store, "export", "--to", tmp_path / "out", *words))
    assert (done.code, len(done.err.splitlines())) == (USAGE, 1), done.err
    assert word in done.err
    assert "starting Spark" not in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.spark
def test_a_bad_where_leaves_no_folder(spark: Any, store: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        write_export(spark, [str(store)], tmp_path / "out", Export("parquet", "nothing = 1"))
    assert_one_sentence(caught.value, USAGE, "nothing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.turns(4)
@pytest.mark.spark
def test_a_segment_that_vanishes_while_a_query_runs_is_named(spark: Any, store: Path) -> None:
    frame = table(spark, str(store)).select("topic")
    frame._jdf.queryExecution().toRdd().getNumPartitions()  # the parts are cut now
    segment(store, 1).unlink()
    with pytest.raises(StoreIOError) as caught, errors_as_sentences():
        frame.collect()
    assert_one_sentence(caught.value, IO_ERROR, "commitlog", "o such file")


@pytest.mark.turns(3)
@pytest.mark.spark
def test_a_segment_that_vanishes_while_a_rebuild_runs_is_named(
    spark: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_tasks = rebuild_module.map_tasks

    def map_tasks_later(*arguments: Any) -> Any:
        segment(store, 1).unlink(missing_ok=True)
        return map_tasks(*arguments)

    monkeypatch.setattr(rebuild_module, "map_tasks", map_tasks_later)
    with pytest.raises(StoreIOError) as caught:
        by_spark(spark, store, tmp_path / "staging", 1)
    assert_one_sentence(caught.value, IO_ERROR, "commitlog", "o such file")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("words", [("audit",), ("export", "--to")], ids=lambda words: words[0])
def test_a_segment_that_may_not_be_read_is_named_and_nothing_is_written(
    store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """As root in a process without the right to override file modes, of files that are somebody else's."""
    unreadable = segment(store, 1)
    if os.geteuid() == 0:
        for path in store.rglob("*"):
            os.chown(path, NOBODY, NOBODY)
    unreadable.chmod(0)
    targets = [tmp_path / "out"] if words[-1] == "--to" else []
    done = run(command_line(store, *words, *targets, "--master", "local[1]"), override=False)
    unreadable.chmod(0o644)
    assert done.code == IO_ERROR
    note, sentence = done.err.splitlines()
    assert note.startswith("starting Spark")
    assert sentence.startswith(f"rmqctl: {unreadable}: cannot")
    assert "permission denied" in sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.spark
def test_asking_spark_for_no_store_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    for work in (lambda: run_query(spark, [str(tmp_path)], COUNT, limit=5), lambda: audit_store(spark, str(tmp_path))):
        with pytest.raises(NotAStore) as caught:
            work()
        assert_one_sentence(caught.value, NOT_READABLE, str(tmp_path))
