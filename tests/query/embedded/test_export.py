"""Exports as files: each row is in the file of its partition, in each kind as it is in the table."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmqctl.exit_codes import OK, USAGE
from store import BadRequest, Message, open_store
from store.query.embedded import export as module
from store.query.embedded import open_engine
from store.query.tables.export import Export
from tests.cli.running import rmqctl
from tests.support.five_stores import five
from tests.support.golden import golden
from tests.support.stores import SMALL

TOPICS = ("A", "%RETRY%g", "B=b")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("export") / "s"
    with open_store(root, read_only=False, settings=SMALL, clock=lambda: 86_400_000 + 7) as opened:
        for number in range(12):
            tags = None if number % 2 else "t,1"
            opened.put(Message.of(TOPICS[number % 3], b"-%d" % number, tags=tags, keys=["k"], queue_id=number % 2))
    return root


def exported(store: Path, target: Path, kind: str, *words: str) -> Path:
    run = rmqctl("export", "--to", target, "--as", kind, *words, store=store)
    assert run.code == 0, run.err
    return target


def bodies(path: Path) -> list[str]:
    """Numbers of the messages in a file."""
    if path.suffix == ".parquet":
        found = [row["body"] for row in pq.read_table(path, partitioning=None).to_pylist()]
    elif path.suffix == ".csv":
        found = [base64.b64decode(row["body"]) for row in csv.DictReader(path.open(encoding="utf-8"))]
    else:
        found = [base64.b64decode(json.loads(line)["body"]) for line in path.open(encoding="utf-8")]
    return [body[1:].decode() for body in found]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_each_message_is_in_the_files_of_its_partition(
    kind: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    target = exported(store, tmp_path / "out", kind, "--partition-by", "topic,queue_id,day")
    found: dict[str, list[str]] = {}
    for path in sorted(target.rglob("*.*")):
        found.setdefault(str(path.parent.relative_to(target)), []).extend(bodies(path) if path.is_file() else [])
    expected: dict[str, list[str]] = {}
    for number in range(12):
        place = f"topic={TOPICS[number % 3]}/queue_id={number % 2}/day=1970-01-02"
        expected.setdefault(place, []).append(str(number))
    assert {unquote(place): numbers for place, numbers in found.items()} == expected


ALL_MESSAGES = [
    *((kind, words) for kind in ("parquet", "jsonl") for words in ((), ("--no-body",), ("--outer",))),
    ("parquet", ("--store", "normal", "--store", "batch")),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("kind", "words"), ALL_MESSAGES, ids=str)
def test_all_messages_are_written_without_a_query_as_by_one(
    kind: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, asked = module._query, list[str]()
    monkeypatch.setattr(module, "_query", lambda *of: asked.append(query(*of)) or asked[-1])
    words = tuple(word if word.startswith("--") else str(golden(word).store) for word in words)
    by_scan = exported(golden("batch").store, tmp_path / "all", kind, *words)
    assert asked == []
    by_query = exported(golden("batch").store, tmp_path / "query", kind, "--where", "true", *words)
    assert len(asked) == 1
    one, other = (folder / f"part-00000.{kind}" for folder in (by_scan, by_query))
    if kind == "jsonl":
        assert one.read_bytes() == other.read_bytes()
    else:
        assert pq.read_table(one).equals(pq.read_table(other))


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_an_export_without_messages_is_a_file_of_its_columns(kind: str, store: Path, tmp_path: Path) -> None:
    target = exported(store, tmp_path / "out", kind, "--where", "topic = 'none'")
    assert [path.name for path in target.iterdir()] == [f"part-00000.{kind}"]
    assert bodies(target / f"part-00000.{kind}") == []


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(("most", "numbers"), [(1, ["0"]), (3, ["0", "3", "6"]), (99, ["0", "3", "6", "9"])])
def test_a_limit_keeps_the_first_messages_of_the_log(
    kind: str, most: int, numbers: list[str], store: Path, tmp_path: Path
) -> None:
    target = exported(store, tmp_path / "out", kind, "--where", "topic = 'A'", "--limit", most)
    assert bodies(target / f"part-00000.{kind}") == numbers


@pytest.mark.parametrize(("most", "code"), [(2**31 - 1, OK), (2**31, USAGE)])
def test_a_limit_is_one_that_spark_takes_too(most: int, code: int, store: Path) -> None:
    run = rmqctl("export", "--to", "-", "--as", "jsonl", "--limit", most, store=store)
    assert (run.code, len(run.out.splitlines())) == (code, 12 if code == OK else 0)


def test_lines_are_written_with_the_queue_offset_of_the_record_around_and_inner_messages_are_counted(
    store: Path,
) -> None:
    batch, inner, others = five("bcq") / "store", list[int](), list[int]()
    with open_engine([str(batch)]) as engine:
        plain = [*module.export_lines(engine, Export("jsonl", to_line=lambda record, outer: f"{outer}"))]
        [*module.export_lines(engine, Export("jsonl", to_line=lambda *_: "", on_inner=inner.append))]
    with open_engine([str(store)]) as engine:
        [*module.export_lines(engine, Export("jsonl", to_line=lambda *_: "", on_inner=others.append))]
    assert (sum(inner), sum(others)) == (len(plain) - plain.count("None\n"), 0)
    assert sum(inner) > 0


@pytest.mark.parametrize(
    ("where", "refused"), [("size", "a number in place of a boolean"), ("not size", "a number in")]
)
def test_a_condition_of_other_types_is_refused(where: str, refused: str, store: Path) -> None:
    with open_engine([str(store)]) as engine, pytest.raises(BadRequest, match=f"sql does not take {refused}"):
        list(module.export_lines(engine, Export("jsonl", where, to_line=lambda *_: "")))


def test_the_file_that_was_written_least_recently_is_closed_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    batch = pa.RecordBatch.from_pylist([{"a": 1}])
    files = module._Files(tmp_path, Export("csv"), batch.schema)
    for place in ("a", "b", "a", "c", "a", "b"):
        files.write(place, batch)
    files.close()
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv"))
    assert names == ["a/part-00000.csv", "b/part-00001.csv", "b/part-00003.csv", "c/part-00002.csv"]


def test_csv_has_times_bytes_and_lists_as_text(store: Path, tmp_path: Path) -> None:
    target = exported(store, tmp_path / "out", "csv", "--where", "body_size = 2 and topic = 'A' and queue_id = 0")
    with (target / "part-00000.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["store_timestamp"], row["tags"], row["keys"], row["body"]) for row in rows] == [
        ("1970-01-02T00:00:00.007Z", "t,1", '["k"]', base64.b64encode(b"-%d" % number).decode()) for number in (0, 6)
    ]


def test_a_partition_without_a_value_has_a_folder_of_its_own(store: Path, tmp_path: Path) -> None:
    target = exported(store, tmp_path / "out", "parquet", "--partition-by", "tags")
    names = sorted(unquote(path.name) for path in target.iterdir())
    assert names == ["tags=__HIVE_DEFAULT_PARTITION__", "tags=t,1"]


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        *((kind, [], "25 bodies cannot be decompressed, and are written") for kind in ("jsonl", "parquet", "csv")),
        *((kind, ["--no-body"], "") for kind in ("jsonl", "parquet", "csv")),
        ("jsonl", ["--stored-body"], ""),
        ("jsonl", ["--where", "topic = 'TopicA'"], "6 bodies cannot be decompressed, and are written"),
        ("csv", ["--partition-by", "body_problem"], "25 bodies cannot be decompressed, and are written"),
        ("jsonl", ["--where", "log_offset = 8627"], "one body cannot be decompressed, and is written"),
        ("parquet", ["--where", "log_offset = 8627"], "one body cannot be decompressed, and is written"),
        ("csv", ["--where", "crc_ok and body_state = 'plain'"], ""),
    ],
)
def test_bodies_that_cannot_be_decompressed_are_counted(kind: str, words: list[str], told: str, tmp_path: Path) -> None:
    name = "body_state" if kind == "jsonl" else "body_problem"
    for target in (tmp_path / "out", *(["-"] if kind == "jsonl" else [])):
        run = rmqctl("export", "--to", target, "--as", kind, *words, store=golden("normal").store)
        assert (run.code, run.err) == (0, f"warning: {told} as stored ({name})\n" if told else "")


LAST_MS = (1 << 63) // 1000 - 1
"""The last time whose microseconds have 64 bits."""
TABLE_TIMES = [-LAST_MS, -62_167_219_200_001, -1, 0, 253_402_300_800_000, LAST_MS]
LEFT_EMPTY = [
    f"warning: {name} is left empty for {count} messages: no table holds such a time, and `put --input` refuses these "
    "rows; export them as jsonl"
    for name, count in (("born_timestamp", 3), ("store_timestamp", 2))
]


def of_times(root: Path, pairs: list[tuple[int, int]]) -> Path:
    with open_store(root, read_only=False, settings=SMALL) as opened:
        for born_ms, stored_ms in pairs:
            message = Message.of("T", "x", born_timestamp_ms=born_ms)
            assert opened.put_replayed(message, store_timestamp_ms=stored_ms).is_ok
    return root


@pytest.mark.leaves_damage  # store times that go back
@pytest.mark.parametrize("words", [[], ["--limit", "9"], ["--partition-by", "store_timestamp,born_timestamp"]])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_times_beyond_those_of_a_table_are_counted_by_column(kind: str, words: list[str], tmp_path: Path) -> None:
    root = of_times(tmp_path / "s", [(LAST_MS + 1, 1), (-LAST_MS - 1, LAST_MS + 1), (1 << 62, -(1 << 62)), (1, 1)])
    run = rmqctl("export", "--to", tmp_path / "out", "--as", kind, *words, store=root)
    assert run.code == 0
    assert [line for line in run.err.splitlines() if "timestamp" in line] == (LEFT_EMPTY if kind != "jsonl" else [])


@pytest.mark.leaves_damage  # store times that go back
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_each_time_of_a_table_comes_back(kind: str, tmp_path: Path) -> None:
    root = of_times(tmp_path / "s", [(time_ms, time_ms) for time_ms in TABLE_TIMES])
    out = exported(root, tmp_path / "out", kind)
    settings = [f"--set={name}={value}" for name, value in SMALL.items()]
    again = tmp_path / "again"
    run = rmqctl(*settings, "put", "--input", out, "--as-stored", "--keep-times", store=again)
    assert (run.code, run.err) == (0, "")
    log = f"commitlog/{0:020d}"
    assert (again / log).read_bytes() == (root / log).read_bytes()
