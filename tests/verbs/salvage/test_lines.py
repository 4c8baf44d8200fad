"""The broker version that a new store is for: `salvage --compat`, and a restored backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import BadRequest, Message, check, open_store, salvage
from store.files.filesystem import Filesystem
from store.structures.tables.config_file import write_config_file
from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive
from tests.support.stores import SMALL, text_message


def store_of(root: Path, compat: str, *more: Message) -> Path:
    with open_store(root, read_only=False, settings=SMALL, compat=compat) as store:
        for number in range(9):
            assert store.put(text_message(number)).is_ok
        for message in more:
            assert store.put(message).is_ok
    return root


def line_of(root: Path) -> str:
    line: str = rmqctl("-f", "json", "info", store=root).json["compat"]
    return line


def checkpoint_at_40(root: Path) -> int:
    return int.from_bytes((root / "checkpoint").read_bytes()[40:48])


def tagged(root: Path) -> tuple[int, int]:
    """The exit code of a query by tags, and its matches."""
    run = rmqctl("-f", "json", "index-query", "T", "tag1", "--tags", store=root)
    return run.code, len(run.json["messages"]) if run.out else 0


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("lines")
    return {compat: store_of(folder / compat, compat) for compat in ("4.9", "5.3", "5.5")}


def last_record(root: Path) -> int:
    with open_store(root) as store:
        return max(message.log_offset for queue in store.queues() for message in store.messages("T", queue.queue_id))


@pytest.mark.parametrize(
    ("found", "compat", "is_of", "query"),
    [
        ("4.9", None, "4.9", (2, 0)), ("5.3", None, "5.3", (2, 0)), ("5.5", None, "5.5", (0, 3)),
        ("5.5", "5.5", "5.5", (0, 3)), ("5.5", "5.3", "5.3", (2, 0)), ("5.5", "4.9", "4.9", (2, 0)),
        ("4.9", "5.3", "5.3", (2, 0)), ("4.9", "5.5", "5.5", (0, 3)), ("5.3", "5.5", "5.5", (0, 3)),
    ],
)  # fmt: skip
def test_a_new_store_has_what_its_broker_writes(
    found: str, compat: str | None, is_of: str, query: tuple[int, int], sources: dict[str, Path], tmp_path: Path
) -> None:
    report, new = salvage(sources[found], tmp_path / "new", compat=compat), tmp_path / "new"
    assert (report.saved, report.is_whole, line_of(new)) == (9, True, is_of)
    assert checkpoint_at_40(new) == (last_record(new) if is_of == "5.5" else 0)
    assert tagged(new) == query
    assert rmqctl("check", store=new).code == 0


COMPACTED = ("compaction", "", "a 4.9 broker does not read it")
OF_A_TIMER = [(name, "", "a 4.9 broker does not read it") for name in ("timerlog", "timerwheel")]


@pytest.mark.parametrize(
    ("source", "brought", "remarks"),
    [
        (five("bcq"),
         [("config/topics.json", "topics.json", "queue.type is left out of BatchB, BatchA, PlainT"),
          ("batchconsumequeue", "", "a 4.9 broker does not read it"), COMPACTED], []),
        (five("compaction"),
         [("config/topics.json", "topics.json",
           "queue.type is left out of CompB; cleanup.policy is left out of CompB, Comp_A"), COMPACTED], []),
        (five("timer"), [("config/topics.json", "topics.json", ""), COMPACTED, *OF_A_TIMER],
         ["41 timer messages never delivered: a 4.9 broker has no timer"]),
        (fivefive("index-only"),
         [COMPACTED, ("rocksdbstore", "", "a 4.9 broker does not read it"), OF_A_TIMER[1],
          ("config/topics.json", "the queues", "3 topics added or widened")], []),
    ],
)  # fmt: skip
def test_a_new_store_for_4_9_has_only_what_4_9_knows(
    source: Path, brought: list[tuple[str, str, str]], remarks: list[str], tmp_path: Path
) -> None:
    report, new = salvage(source / "store", tmp_path / "new", compat="4.9"), tmp_path / "new"
    assert report.new_store is not None
    assert [(one.file, one.copied_from, one.remark) for one in report.new_store.brought] == brought
    assert report.remarks == remarks
    assert line_of(new) == "4.9"
    assert {one.name for one in new.iterdir()} == {"checkpoint", "commitlog", "config", "consumequeue", "index"}
    assert {one.name for one in (new / "config").iterdir()} == {"topics.json"}
    assert list(check(new)) == []


def test_tables_that_only_5_x_has_stay(tmp_path: Path) -> None:
    source, new = store_of(tmp_path / "old", "5.3"), tmp_path / "new"
    for name in ("consumerOrderInfo.json", "topicQueueMapping.json", "consumerFilter.json"):
        write_config_file(source / "config", name, b"{}", Filesystem())
    (source / "config" / "rdb").mkdir()
    report = salvage(source, new, compat="4.9")
    assert report.new_store is not None
    left = "a 4.9 broker does not read it"
    assert {one.file: one.remark for one in report.new_store.brought} == {
        "config/topicQueueMapping.json": left, "config/consumerOrderInfo.json": left, "config/rdb": left,
        "config/consumerFilter.json": "", "config/topics.json": "1 topic added or widened",
    }  # fmt: skip
    assert {one.name for one in (new / "config").iterdir()} == {"consumerFilter.json", "topics.json"}


def test_a_4_9_broker_gets_no_records_of_version_2(tmp_path: Path) -> None:
    source = store_of(tmp_path / "old", "5.3", text_message(9, topic="T" * 128))
    with pytest.raises(BadRequest, match=r"records of version 2, and a 4\.9 broker reads version 1 alone$"):
        salvage(source, tmp_path / "new", compat="4.9")
    assert not (tmp_path / "new").exists()
    assert salvage(source, tmp_path / "new").saved == 10


def test_a_backup_of_5_5_is_restored_with_its_tags(sources: dict[str, Path], tmp_path: Path) -> None:
    rmqctl("backup", "create", tmp_path / "backup", store=sources["5.5"])
    rmqctl("backup", "restore", tmp_path / "backup", "--to", tmp_path / "new")
    new = tmp_path / "new"
    assert (line_of(new), checkpoint_at_40(new), tagged(new)) == ("5.5", last_record(new), (0, 3))
    assert rmqctl("check", store=new).code == 0


@pytest.mark.parametrize("to", [(), ("--to", "x.jsonl"), ("--to", "x.parquet")])
def test_a_version_is_for_a_new_store(to: tuple[str, ...], sources: dict[str, Path]) -> None:
    run = rmqctl("salvage", "--compat", "5.3", *to, store=sources["5.5"])
    assert (run.code, "--compat are for a new store: give its folder with --to" in run.err) == (2, True)
