"""What needs no Spark session: the filters that are understood, errors as sentences, the progress and the damage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import BadRequest, DamagedFile, NotAStore, StoreError, StoreIOError
from store.query.tables.export import Export
from store.query.tables.row_filter import Condition
from store.query.tables.schema import MESSAGES, RECORD

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import datasource as ds

from store.query.spark import damage, job, query
from store.query.spark.data_source import RocketMQDataSource
from store.query.spark.filters import understand

SIZE, TOPIC, TIME = ("size",), ("topic",), ("store_timestamp",)
NOON = datetime(1970, 1, 2, 12, 0, 1, 7, tzinfo=UTC)
NOON_US = 129_601_000_007


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        (ds.EqualTo(SIZE, 5), Condition("size", "==", 5)),
        (ds.GreaterThan(SIZE, 5), Condition("size", ">", 5)),
        (ds.GreaterThanOrEqual(SIZE, 5), Condition("size", ">=", 5)),
        (ds.LessThan(SIZE, 5), Condition("size", "<", 5)),
        (ds.LessThanOrEqual(SIZE, 5), Condition("size", "<=", 5)),
        (ds.In(SIZE, (5, 7)), Condition("size", "in", (5, 7))),
        (ds.IsNotNull(SIZE), Condition("size", "exists", None)),
        (ds.Not(ds.EqualTo(SIZE, 5)), Condition("size", "==", 5, True)),
        (ds.Not(ds.Not(ds.EqualTo(SIZE, 5))), Condition("size", "==", 5, False)),
        (ds.EqualTo(TOPIC, "T"), Condition("topic", "==", "T")),
        (ds.In(TOPIC, ("T", "U")), Condition("topic", "in", ("T", "U"))),
        (ds.StringStartsWith(TOPIC, "T"), Condition("topic", "starts", "T")),
        (ds.IsNotNull(TOPIC), Condition("topic", "exists", None)),
        (ds.GreaterThan(TIME, NOON), Condition("store_timestamp", ">", NOON_US)),
        (ds.EqualTo(TIME, NOON.replace(tzinfo=None)), Condition("store_timestamp", "==", NOON_US)),
        (
            ds.In(TIME, (NOON.astimezone(timezone(timedelta(hours=5))),)),
            Condition("store_timestamp", "in", (NOON_US,)),
        ),
        (ds.LessThan(TIME, NOON - timedelta(days=2)), Condition("store_timestamp", "<", NOON_US - 172_800_000_000)),
        (ds.Not(ds.IsNotNull(SIZE)), None),
        (ds.Not(ds.IsNull(SIZE)), None),
        (ds.IsNull(SIZE), None),
        (ds.IsNotNull(("body",)), None),
        (ds.EqualTo(("tags",), "a"), None),
        (ds.EqualTo(("properties", "size"), 5), None),
        (ds.GreaterThan(TOPIC, "T"), None),
        (ds.StringStartsWith(("tags",), "T"), None),
        (ds.In(SIZE, (5, None)), None),
        (ds.EqualTo(SIZE, None), None),
        (ds.EqualNullSafe(SIZE, 5), None),
    ],
)  # fmt: skip
def test_a_filter_is_a_condition_or_for_spark_to_decide(given: ds.Filter, condition: Condition | None) -> None:
    assert understand(given) == condition


class PySparkError(Exception):
    """An error as a package of Spark raises it."""


PySparkError.__module__ = "py4j.protocol"
NAMED = "Traceback (most recent call last):\n  File\nstore.errors.{}: {}\n"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (PySparkError("a\n" + NAMED.format("BadRequest", "no topic")), BadRequest, "no topic"),
        (PySparkError(NAMED.format("StoreIOError", "no space")), StoreIOError, "no space"),
        (PySparkError(NAMED.format("Nobody", "unknown")), StoreError, "unknown"),
        (
            PySparkError(NAMED.format("BadRequest", "first") + NAMED.format("DamagedFile", "last")),
            DamagedFile,
            "last",
        ),
        (ParseException("[X] odd.\n\n more"), BadRequest, "Spark does not understand the SQL: [X] odd"),
        (AnalysisException("no column"), BadRequest, "Spark does not understand the SQL: no column"),
        (PySparkError("x\njava.lang.ArithmeticException: by zero SQLSTATE: 22012"), BadRequest,
         "the query fails: java.lang.ArithmeticException: by zero SQLSTATE: 22012"),
        (PySparkError("java.lang.StateException: gone SQLSTATE: 58030"), StoreIOError,
         "the Spark job failed: java.lang.StateException: gone SQLSTATE: 58030"),
        (PySparkError(": org.apache.spark.SparkException: Job aborted"), StoreIOError,
         "the Spark job failed: Job aborted"),
        (PySparkError("ModuleNotFoundError: No module named 'isal'"), StoreIOError,
         "the Spark job failed: ModuleNotFoundError: No module named 'isal'"),
        (PySparkError("\n  lost.\n"), StoreIOError, "the Spark job failed: lost"),
        (PySparkError(""), StoreIOError, "the Spark job failed: PySparkError"),
    ],
)  # fmt: skip
def test_an_error_of_spark_is_one_sentence(error: Exception, kind: type[StoreError], reason: str) -> None:
    with pytest.raises(StoreError) as caught, job.errors_as_sentences():
        raise error
    assert (type(caught.value), caught.value.reason) == (kind, reason)
    assert (caught.value.hint == job.MISSING_HINT) == ("ModuleNotFound" in reason)


@pytest.mark.parametrize("error", [ValueError("x"), BadRequest("x")])
def test_an_error_that_is_not_sparks_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, job.errors_as_sentences():
        raise error
    assert caught.value is error


def test_an_error_while_an_interrupt_is_handled_is_the_interrupt() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise PySparkError("gone") from None

    with pytest.raises(KeyboardInterrupt), job.errors_as_sentences():
        interrupted()


def test_progress_adds_up_the_stages_seen_so_far() -> None:
    info = {1: SimpleNamespace(numCompletedTasks=2, numTasks=3), 2: SimpleNamespace(numCompletedTasks=1, numTasks=9)}
    active = iter([[], [1], [1, 2, 7], [2]])
    told: list[tuple[int, int]] = []
    stop = threading.Event()
    tracker = SimpleNamespace(getActiveStageIds=lambda: next(active), getStageInfo=info.get)
    waits = iter([False] * 4 + [True])
    job._watch(tracker, lambda *both: told.append(both), cast(Any, SimpleNamespace(wait=lambda _: next(waits))))
    assert (told, stop.is_set()) == ([(2, 3), (3, 12), (3, 12)], False)


def noted(folder: str | None, met: dict[Any, str]) -> list[Any]:
    return list(damage.noting(cast(Any, [1, 2]), cast(Any, SimpleNamespace(damage=met)), folder))


def test_the_damage_that_tasks_met_comes_back_to_the_driver() -> None:
    values: dict[str, str] = {}
    spark = cast(Any, SimpleNamespace(conf=SimpleNamespace(set=values.__setitem__, unset=values.__delitem__)))
    reader = cast(Any, SimpleNamespace(damage={("own", 1): "x"}))
    with damage.damage_noted(spark, reader):
        folder = values[damage.FOLDER]
        assert Path(folder).is_absolute()
        assert [noted(folder, {("a", 5): "torn"}), noted(folder, {("b", 6): "zeros"}), noted(folder, {})] == [
            [1, 2]
        ] * 3
        assert len(list(Path(folder).iterdir())) == 2
    assert (values, reader.damage) == ({}, {("own", 1): "x", ("a", 5): "torn", ("b", 6): "zeros"})


@pytest.mark.parametrize("folder", [lambda root: None, lambda root: str(root / "gone")])
def test_without_a_folder_nothing_is_noted(folder: Callable[[Path], str | None], tmp_path: Path) -> None:
    assert noted(folder(tmp_path), {("a", 5): "torn"}) == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_partitions_of_what_is_no_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    reader = RocketMQDataSource({"path": str(tmp_path)}).reader(cast(Any, None))
    assert [one.value for one in reader.partitions()] == []
    (tmp_path / "index").rmdir()
    with pytest.raises(NotAStore):
        reader.partitions()


def test_filters_are_taken_for_messages_alone(tmp_path: Path) -> None:
    for table, left, taken in (("messages", [1], 1), ("index", [0, 1], 0)):
        reader = RocketMQDataSource({"path": str(tmp_path), "table": table}).reader(cast(Any, None))
        given = [ds.EqualTo(SIZE, 5), ds.IsNull(SIZE)]
        assert list(reader.pushFilters(given)) == [given[at] for at in left]
        assert reader.conditions == [Condition("size", "==", 5)][:taken]


def test_a_partition_that_was_not_planned_has_no_rows(tmp_path: Path) -> None:
    reader = RocketMQDataSource({"path": str(tmp_path)}).reader(cast(Any, None))
    assert list(reader.read(ds.InputPartition(None))) == []


class Frame:
    """Notes what is asked of a frame and its writer, and writes a file by the form's name."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.suffix = ""

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        self.suffix = "txt" if name == "text" else name
        self.told.append(name)
        return self

    def options(self, **options: str) -> Frame:
        self.told.append(options)
        return self

    def partitionBy(self, *names: str) -> Frame:
        self.told.append(names)
        return self

    def save(self, folder: str) -> None:
        assert Path(folder).is_absolute()
        (Path(folder) / "tags=a.txt").mkdir(parents=True)
        (Path(folder) / f"tags=a.txt/part-0.{self.suffix}").touch()


RFC_4180 = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@pytest.mark.parametrize("partition_by", [(), ("topic",), ("topic", "day")])
@pytest.mark.parametrize(
    ("kind", "with_record", "steps", "written"),
    [
        ("parquet", False, ["parquet"], "tags=a.txt/part-0.parquet"),
        ("jsonl", True, ["lines", "text"], "tags=a.txt/part-0.jsonl"),
        ("csv", False, ["flat", "csv", RFC_4180], "tags=a.txt/part-0.csv"),
    ],
)
def test_an_export_is_written_in_its_form_and_folders(
    kind: str,
    with_record: bool,
    steps: list[Any],
    written: str,
    partition_by: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame, export = Frame(), Export(kind, partition_by=partition_by)
    asked: list[Any] = []

    def fleet_frame(spark: Any, stores: Any, table: str, columns: dict[str, str], *, outer: bool) -> Frame:
        asked.append((stores, table, columns, outer))
        return frame

    def step(name: str) -> Callable[..., Frame]:
        return lambda given, *export: frame.told.append(name) or given  # type: ignore[func-returns-value]

    monkeypatch.setattr(query, "fleet_frame", fleet_frame)
    monkeypatch.setattr(query, "_chosen", lambda given, chosen: given)
    monkeypatch.setattr(query, "_counted", lambda given, export: (given, lambda: frame.told.append("counts")))
    monkeypatch.setattr(query, "_lines", step("lines"))
    monkeypatch.setattr(query, "_flat", step("flat"))
    monkeypatch.chdir(tmp_path)
    query.write_export(cast(Any, None), ["s"], Path("out"), export, outer=True)
    assert asked == [(["s"], "messages", {**MESSAGES, **({RECORD: "binary"} if with_record else {})}, True)]
    assert frame.told == [*steps, *([partition_by] if partition_by else []), "counts"]
    found = [str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()]
    assert (found, list(tmp_path.iterdir())) == ([written], [tmp_path / "out"])
