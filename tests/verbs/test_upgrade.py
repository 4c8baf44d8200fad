"""upgrade show: what a broker of another line makes of stores that real brokers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.verbs import review_upgrade
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, five, fivefive
from tests.support.golden import copy_store, golden
from tests.support.table_databases import single

pytest.importorskip("rocksdict")
SEGMENTS = "a start reads the newest {} of 14 segments, and builds no lost queue from the others"
TEXTS = {
    "timer-deletes": "2 deleted timer messages are delivered: a delete names the key alone",
    "timer-deletes-by-key": "1 deleted timer message is delivered: a delete names topic and key",
    "timers-in-database": "the wheel takes up the queue of timers at 0: 5 delivered messages again",
    "wheel-in-snapshot": "the wheel is in timerwheel.780, and timerwheel is older or empty",
    "half-messages-in-database": "5 open half messages of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC: no producer is asked",
    "index-in-database": "keys are in the database alone, and a query finds no message",
    "queue-database-left": "consumequeue_rocksdb is not looked at, and an empty database is made in consumequeue",
    "queue-database-stays": "with useSeparateStorePathForRocksdbCQ=true it does not start: the database is in "
    "consumequeue",
}
NAMES_TOPICS = {"appendTopicForTimerDeleteKey": "true"}


@pytest.mark.parametrize(
    ("archive", "settings", "notes"),
    [
        # upgrade.jsonl: 5.5 delivered two messages of the store that 5.3 had deleted, but for the setting.
        pytest.param(five("timer"), {}, ["timer-deletes"], id="deleted timers"),
        pytest.param(five("timer"), NAMES_TOPICS, [], id="deleted timers, with the setting"),
        pytest.param(five("rocksdb"), {}, ["queue-database-stays"], id="a queue database"),
        pytest.param(five("bcq"), {}, [], id="batch queues"),
    ],
)
def test_an_upgrade_to_5_5_has_notes_with_counts(archive: Path, settings: dict[str, object], notes: list[str]) -> None:
    found = review_upgrade(archive / "store", "5.5", settings=settings)
    assert [(note.code, note.detail) for note in found.notes] == [(code, TEXTS[code]) for code in notes]
    assert (found.found, found.to) == ("5.3", "5.5")


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("plain", []),
        ("index", []),
        ("index-only", ["index-in-database"]),
        ("trans", ["half-messages-in-database"]),
        ("timer", ["timers-in-database"]),
        ("snapshot", ["timer-deletes-by-key", "wheel-in-snapshot"]),
        ("rocksdbcq-separate", ["queue-database-left"]),
    ],
)
def test_a_downgrade_to_5_3_has_notes_with_counts(name: str, notes: list[str]) -> None:
    found = review_upgrade(fivefive(name) / "store", "5.3")
    assert [(note.code, note.detail) for note in found.notes] == [(code, TEXTS[code]) for code in notes]
    assert (found.found, found.to) == ("5.5", "5.3")


@pytest.mark.parametrize(("most", "noted"), [(None, 10), ("13", 13), ("14", None), ("0", 10)])
def test_a_5_5_start_reads_some_segments_of_many(most: str | None, noted: int | None, tmp_path: Path) -> None:
    settings = {} if most is None else {"commitLogRecoverMaxNum": most}
    root = fivefive("bulk") / "store"
    lines = {name: review_upgrade(root, name, settings=settings).notes for name in ("5.3", "5.5")}
    assert lines == {"5.3": [], "5.5": []}
    older = tmp_path / "store"
    older.mkdir()
    for name in ("commitlog", "consumequeue"):
        (older / name).symlink_to(root / name)
    found = [note.detail for note in review_upgrade(older, "5.5", settings=settings).notes]
    assert found == ([SEGMENTS.format(noted)] if noted is not None else [])


def test_a_downgrade_leaves_the_tables_of_one_database_behind(tmp_path: Path) -> None:
    """A 5.3.3 broker that was started on such a store had none of its topics."""
    root = copy_store(fivefive("plain") / "store", tmp_path / "store")
    single(root / "config")
    found = [(note.code, note.detail) for note in review_upgrade(root, "5.3").notes]
    names = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
    told = "config/metadata is not read, and has 1 entry of {}, which is older or missing"
    assert found == [("tables-in-one-database", told.format(name)) for name in names]
    assert review_upgrade(root, "5.5").notes == []


@pytest.mark.turns(3)
def test_the_command_says_how_the_other_line_starts_and_what_to_set(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    run = rmqctl("-f", "json", "upgrade", "show", "--to", "5.5", store=root)
    assert (run.code, run.json["from"], run.json["to"], run.json["starts"]) == (1, "5.3", "5.5", True)
    assert [(row["name"], row["remedy"]) for row in run.json["notes"]] == [
        ("timer-deletes", "set appendTopicForTimerDeleteKey=true")
    ]
    plain = rmqctl("upgrade", "show", "--to", "5.3", store=golden("normal").store)
    assert (plain.code, plain.out.splitlines()[0]) == (
        0,
        "a 5.3 broker starts and loses nothing; the log ends at 132123",
    )
    assert rmqctl("upgrade", "show", "--to", "all", store=root).code == 2


def test_a_backup_is_restored_before_it_is_reviewed(tmp_path: Path) -> None:
    """It has no wheel and no database, so no note could say what is in them."""
    backups = tmp_path / "backups"
    assert rmqctl("backup", "create", backups, store=fivefive("snapshot") / "store").code == 0
    run = rmqctl("upgrade", "show", "--to", "5.3", store=f"backup:{backups}")
    assert (run.code, "restore the backup, and review the new store" in run.err) == (2, True), run.err
    assert rmqctl("backup", "restore", backups, "--to", tmp_path / "new").code == 0
    run = rmqctl("-f", "json", "upgrade", "show", "--to", "5.3", store=tmp_path / "new")
    assert [(row["name"], row["detail"]) for row in run.json["notes"]] == [
        ("timer-deletes-by-key", TEXTS["timer-deletes-by-key"])
    ]


def test_the_verdict_counts_the_notes() -> None:
    run = rmqctl("upgrade", "show", "--to", "5.3", store=fivefive("snapshot") / "store")
    assert run.out.splitlines()[0] == "a 5.3 broker starts and loses nothing; the log ends at 5266; 2 notes"


def test_a_remote_store_is_reviewed_through_its_file_system() -> None:
    read: list[str] = []

    class Noting(Filesystem):
        def read_file(self, path: Path) -> bytes:
            read.append(path.name)
            return super().read_file(path)

    review_upgrade(five("bcq") / "store", "5.5", fs=Noting())
    assert "topics.json" in read
