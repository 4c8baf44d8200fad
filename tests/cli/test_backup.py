"""backup on the command line: the usual way round, and what a stranger gets wrong."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rmqctl.exit_codes import DECLINED, FINDINGS, LOCKED, NOT_READABLE, OK, USAGE
from store.engine.ha.follow import FollowOptions
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.formats.backup_manifest import Manifest
from tests.cli.running import rmqctl
from tests.support.five_stores import five
from tests.support.golden import golden
from tests.support.s3 import s3_bucket
from tests.support.stores import make_store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    for count in (100, 160):
        shutil.rmtree(root / "store", ignore_errors=True)
        make_store(root / "store", count)
        assert rmqctl("backup", "create", root / "backups", store=root / "store").code == OK
    return root


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Two backups of a store beside them, of 100 and of 160 messages."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "backups"


def ids(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "backups").iterdir())


def test_backups_are_listed_verified_compared_pruned_and_restored(folder: Path, tmp_path: Path) -> None:
    listed = rmqctl("-f", "json", "backup", "list", folder).json["backups"]
    assert [(one["backup_id"], one["note_count"]) for one in listed] == [(one, 0) for one in ids(folder)]
    assert "2 backups: 0 damaged files, 0 findings" in rmqctl("backup", "verify", folder).out
    assert rmqctl("backup", "diff", folder).code == FINDINGS
    assert rmqctl("backup", "diff", folder, ids(folder)[-1]).out.startswith("the backups are equal")
    run = rmqctl("backup", "restore", f"{folder}@{ids(folder)[0]}", "--to", tmp_path / "new")
    assert run.out.splitlines()[0] == f"100 records of {ids(folder)[0]} restored; the log ends at 18815"
    assert rmqctl("check", store=tmp_path / "new").code == OK
    for keep, verdict in (("1", "would delete 1 backup, "), ("2", "nothing to delete\n"), ("9", "nothing to delete\n")):
        run = rmqctl("backup", "prune", folder, "--keep-last", keep, "--dry-run")
        assert (run.code, run.out.startswith(verdict)) == (OK, True)
    planned = rmqctl("-f", "json", "backup", "prune", folder, "--keep-last", "1", "--dry-run").json
    assert [row["backup_id"] for row in planned["backups"]] == ids(folder)
    assert planned["applied"] is False
    assert [row["stored_as"] for row in planned["files"]] == sorted(row["stored_as"] for row in planned["files"])
    assert len(planned["files"]) > 1
    assert len(ids(folder)) == 2
    assert rmqctl("backup", "prune", folder, "--keep-last", "1", "--yes").out.startswith("deleted 1 backup, ")
    assert len(ids(folder)) == 1
    assert rmqctl("backup", "verify", folder).code == OK


@pytest.mark.parametrize("words", [("--broker", "127.0.0.1:1"), ("--every", "3"), ("--controller",)])
def test_options_of_follow_are_refused_without_it(words: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    run = rmqctl("backup", "create", folder, *words, store=tmp_path / "store")
    assert (run.code, f"{words[0]}: it has no effect without --follow" in run.err) == (USAGE, True)


def test_an_address_that_is_none_is_refused_before_a_backup_is_made(folder: Path, tmp_path: Path) -> None:
    before = ids(folder)
    run = rmqctl("backup", "create", folder, "--follow", "--broker", "nonsense", store=tmp_path / "store")
    assert (run.code, ids(folder)) == (USAGE, before)


@pytest.mark.turns(3)
def test_readers_take_a_backup_in_place_of_a_store(folder: Path) -> None:
    first, last = (f"backup:{folder}@{one}" for one in ids(folder))
    heads = {}
    for words in (
        "check",
        "info",
        "doctor",
        "find message",
        "salvage",
        "usage",
        "timeline",
        "fingerprint",
        "dump commitlog",
        "simulate",
    ):
        run = rmqctl(*words.split(), store=last)
        assert run.code == OK, (words, run.out, run.err)
        heads[words] = run.out.splitlines()[0]
    assert heads["info"] == "a 4.9 store, which holds the log alone; nothing is missing"
    assert heads["doctor"] == "a sound 4.9 store with the log alone"
    assert rmqctl("-f", "json", "info", store=last).json["message_count"] is None
    count = "select count(*) n from messages"
    assert [rmqctl("-f", "json", "sql", count, store=one).json["rows"] for one in (first, last)] == [
        [{"n": 100}],
        [{"n": 160}],
    ]
    assert rmqctl("-f", "jsonl", "get", "T", "--limit", "2", store=last).out.count("\n") == 2
    run = rmqctl("recover", "--yes", store=last)
    assert (run.code, "this command needs a store in a folder of this machine" in run.err) == (USAGE, True)


@pytest.fixture(scope="module")
def of_golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A real store whose files have odd sizes, and the address of its backup."""
    root, target = golden("normal").store, tmp_path_factory.mktemp("golden") / "backups"
    assert rmqctl("backup", "create", str(target), store=root).code == OK
    return root, f"backup:{target}"


@pytest.mark.parametrize("words", ["checkpoint show", "get TopicA --limit 3", "timeline", "delay show"])
def test_a_reader_answers_from_a_backup_as_from_its_store(words: str, of_golden: tuple[Path, str]) -> None:
    root, backup = of_golden
    of_store, of_backup = (rmqctl(*words.split(), store=store) for store in (root, backup))
    assert (of_backup.code, of_backup.out, of_backup.err) == (of_store.code, of_store.out, "")


def test_a_query_of_a_backup_lacks_no_index(of_golden: tuple[Path, str]) -> None:
    found = [rmqctl("-f", "json", "index-query", "TopicA", "order0", store=store) for store in of_golden]
    assert found[0].json["messages"] == found[1].json["messages"] != []
    assert [run.err for run in found] == ["", ""]


def test_a_backup_brings_the_settings_of_its_store(of_golden: tuple[Path, str], tmp_path: Path) -> None:
    def sizes(store: Path | str, *given: str) -> dict[str, tuple[int, str]]:
        run = rmqctl("-f", "json", *given, "config", "settings", store=store)
        names = ("mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
        return {row["name"]: (row["value"], row["source"]) for row in run.json["settings"] if row["name"] in names}

    root, backup = of_golden
    of_golden_sizes = {"mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 500, "maxIndexNum": 1000}
    assert sizes(root) == {name: (value, "inferred") for name, value in of_golden_sizes.items()}
    assert sizes(backup) == {name: (value, "file") for name, value in of_golden_sizes.items()}
    assert sizes(backup, "--set", "maxIndexNum=7")["maxIndexNum"] == (7, "set")
    assert rmqctl("backup", "create", str(tmp_path / "again"), store=backup).code == OK
    assert sizes(f"backup:{tmp_path / 'again'}") == sizes(backup)


def test_a_damaged_backup_is_verified_with_a_finding_and_refused_by_restore(folder: Path, tmp_path: Path) -> None:
    path = next((folder / "log").glob(f"{0:020d}.*"))
    path.write_bytes(path.read_bytes()[:-5])
    run = rmqctl("backup", "verify", folder)
    assert (run.code, run.out.splitlines()[0]) == (FINDINGS, "2 backups: 2 damaged files")
    first, second = run.err.splitlines()
    assert first == "note: the log is not checked, as files are damaged"
    assert second.startswith("note: `rmqctl backup create` copies a missing file again if the store has it; delete ")
    run = rmqctl("backup", "restore", folder, "--to", tmp_path / "new")
    assert (run.code, "the file ends at 16379 instead of 16384" in run.err) == (NOT_READABLE, True)
    assert not (tmp_path / "new").exists()


def test_the_document_of_a_verification_lists_each_damaged_file(folder: Path) -> None:
    damaged = next((folder / "log").glob(f"{0:020d}.*"))
    damaged.unlink()
    run = rmqctl("-f", "json", "backup", "verify", folder)
    rows = [{"backup_id": one, "file": f"log/{damaged.name}", "reason": "it is missing"} for one in ids(folder)]
    assert (run.code, run.json["damaged_files"], run.json["fault_count"]) == (FINDINGS, rows, len(rows))


def test_a_damaged_manifest_is_verified_with_a_finding_and_the_other_backups_are_checked(folder: Path) -> None:
    older, newest = ids(folder)
    manifest = folder / "backups" / f"{newest}.json"
    manifest.write_text("{")
    run = rmqctl("-f", "json", "backup", "verify", folder)
    assert (run.code, run.json["checked_backup"], run.json["backup_count"]) == (FINDINGS, older, 2)
    row = {"backup_id": newest, "file": f"backups/{newest}.json"}
    assert [{name: one[name] for name in row} for one in run.json["damaged_files"]] == [row]
    assert "it is no whole JSON" in run.json["damaged_files"][0]["reason"]
    for words in (("restore", folder, "--to", folder / "new"), ("prune", folder, "--yes")):
        run = rmqctl("backup", *words)
        assert (run.code, "choose another backup by @ID" in run.err) == (NOT_READABLE, True), run.err
    (folder / "backups" / f"{older}.json").write_text("{")
    run = rmqctl("backup", "verify", folder)
    assert (run.code, "no manifest of a backup" in run.err) == (NOT_READABLE, True), run.err


@pytest.mark.parametrize("compress", [(), ("--compress",)])
def test_a_missing_file_of_a_backup_names_the_verification(compress: tuple[str, ...], tmp_path: Path) -> None:
    folder, root = tmp_path / "backups", make_store(tmp_path / "store", 100)
    assert rmqctl("backup", "create", folder, *compress, store=root).code == OK
    next((folder / "log").glob(f"{0:020d}.*")).unlink()
    for words in (("backup", "restore", folder, "--to", tmp_path / "new"), ("check", "--store", f"backup:{folder}")):
        run = rmqctl(*words)
        assert (run.code, "`rmqctl backup verify` lists every damaged file" in run.err) == (NOT_READABLE, True), run.err


@pytest.mark.parametrize(
    ("number", "size", "saved"),
    [(0, None, 73), (0, 0, 73), (0, 9000, 116), (1, None, 87), (1, 0, 87), (1, 9000, 130)],
)
def test_a_backup_that_lacks_bytes_is_refused_and_salvaged(
    number: int, size: int | None, saved: int, tmp_path: Path
) -> None:
    folder, root = tmp_path / "backups", make_store(tmp_path / "store", 160)
    assert rmqctl("backup", "create", folder, store=root).code == OK
    damaged = sorted((folder / "log").iterdir())[number]
    if size is None:
        damaged.unlink()
    else:
        os.truncate(damaged, size)
    for words in (("simulate",), ("check",), ("sql", "select count(*) from messages")):
        run = rmqctl(*words, store=f"backup:{folder}")
        assert (run.code, f"log/{damaged.name}: " in run.err) == (NOT_READABLE, True), run.err
    run = rmqctl("-f", "json", "salvage", "--to", tmp_path / "new", store=f"backup:{folder}")
    assert (run.code, [(one["grade"], one["records"]) for one in run.json["grades"]]) == (
        FINDINGS,
        [("certain", saved)],
    )
    assert rmqctl("simulate", store=tmp_path / "new").code == OK


def test_a_backup_without_a_table_is_refused_and_salvaged(tmp_path: Path) -> None:
    folder, root = tmp_path / "backups", five("timer") / "store"
    assert rmqctl("backup", "create", folder, store=root).code == OK
    next((folder / "tables" / "config").glob("topics.json.*")).unlink()
    run = rmqctl("get", "T", store=f"backup:{folder}")
    assert (run.code, "saves the rest" in run.err) == (NOT_READABLE, True), run.err
    run = rmqctl("-f", "json", "salvage", "--to", tmp_path / "new", store=f"backup:{folder}")
    brought = {one["file"]: one["copied_from"] for one in run.json["brought"]}
    assert (run.code, brought["config/topics.json"]) == (OK, "the queues")


@pytest.mark.parametrize("command", ["info", "check"])
def test_a_folder_of_backups_given_as_a_store_names_its_newest_backup(command: str, folder: Path) -> None:
    run = rmqctl(command, store=folder)
    assert (run.code, f"did you mean backup:{folder}?" in run.err) == (NOT_READABLE, True), run.err


def test_a_moment_past_the_backup_is_named(folder: Path, tmp_path: Path) -> None:
    newest = rmqctl("-f", "json", "backup", "list", folder).json["backups"][-1]
    for number, (at, is_named) in enumerate(((newest["ended_ms"], False), (newest["ended_ms"] + 1, True))):
        run = rmqctl("backup", "restore", folder, "--to", tmp_path / f"new{number}", "--at", at)
        assert (run.code, "before --at: messages stored later are not in it" in run.err) == (OK, is_named), run.err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_following_backup_shows_on_a_terminal_how_far_it_has_come(
    is_terminal: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BackupFiles(str(folder)).find(None)

    def follow(root: object, address: object, target: object, how: FollowOptions, *others: object) -> Manifest:
        how.create.progress(1, 1000)
        how.on_created(made)
        how.on_progress(1)
        how.on_grown(replace(made, last_store_timestamp_ms=1_800_000_123_000))
        time.sleep(1)
        how.on_progress(2)
        return made

    monkeypatch.setattr("store.engine.ha.follow_master", follow)
    run = rmqctl("backup", "create", folder, "--follow", store=tmp_path / "store", terminal=is_terminal)
    assert (run.code, "received; backed up to 2027-01-15T08:02:03" in run.err) == (OK, is_terminal), run.err
    assert "copying the log" not in run.err.partition("is made")[2]


@pytest.mark.turns(3)
def test_a_backup_of_a_damaged_log_says_what_salvages_it(tmp_path: Path) -> None:
    folder, new = tmp_path / "backups", tmp_path / "new"
    assert rmqctl("backup", "create", folder, store=golden("corrupt-mid").store).code == OK
    assert rmqctl("backup", "verify", folder).code == FINDINGS
    run = rmqctl("backup", "restore", folder, "--to", new)
    assert run.code == NOT_READABLE
    words = run.err.split("`")[1].replace("NEWSTORE", str(new)).split()[1:]
    assert words[:2] == ["salvage", "--store"]
    assert rmqctl(*words).code == FINDINGS
    assert rmqctl("check", store=new).code == OK


WRONG = {
    "backup create": (USAGE, "Missing argument 'TO'"),
    "backup create STORE": (USAGE, "is inside of"),
    "backup create STORE/commitlog/x": (USAGE, "is inside of"),
    "backup create FILE": (USAGE, "not a folder; name a folder that does not exist yet"),
    "backup create OTHER": (USAGE, "the folder has other files, and no backups"),
    "backup list ABSENT": (NOT_READABLE, "no such folder"),
    "backup verify BACKUPS@1": (NOT_READABLE, "no such folder; an id after @ looks like 20260115T083000.000"),
    "backup list STORE": (NOT_READABLE, "`rmqctl backup create` makes one there"),
    "backup verify BACKUPS@20200101T000000.000": (USAGE, "`rmqctl backup list` shows the ids"),
    "backup verify OTHER": (NOT_READABLE, "no backup is in it"),
    "backup diff BACKUPS nothing": (USAGE, "no backup has the id 'nothing'"),
    "backup prune BACKUPS --keep-last 0 --yes": (USAGE, "0 is not in the range"),
    "backup prune BACKUPS --keep-last 1": (USAGE, "give --yes, or look first with --dry-run"),
    "backup prune ABSENT --yes": (NOT_READABLE, "no such folder"),
    "backup restore BACKUPS": (USAGE, "Missing option '--to'"),
    "backup restore BACKUPS --to STORE": (USAGE, "the folder is not empty"),
    "backup restore BACKUPS --to BACKUPS/new": (USAGE, "is inside of"),
    "backup restore BACKUPS --to NEW --at yesterday": (USAGE, "'yesterday' is not a time"),
    "backup restore BACKUPS --to NEW --log-offset 7": (USAGE, "no record begins or ends at log offset 7"),
    "backup restore BACKUPS --to s3://bucket/new": (USAGE, "a folder of this machine is needed, not a URI"),
    "backup restore ABSENT --to NEW": (NOT_READABLE, "no such folder"),
    "check --store backup:ABSENT": (NOT_READABLE, "no such folder"),
    "check --store backup:OTHER": (NOT_READABLE, "no backup is in it"),
    "put T x --store backup:BACKUPS": (USAGE, "needs a store in a folder of this machine"),
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_refused_with_one_sentence(line: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "OTHER").mkdir()
    (tmp_path / "OTHER/mine").write_text("x")
    (tmp_path / "FILE").write_text("x")
    for name, path in {"STORE": "store", "BACKUPS": "backups", "NEW": "new"}.items():
        line = line.replace(name, str(tmp_path / path))
    words = [str(tmp_path / word) if word in ("ABSENT", "OTHER", "FILE") else word for word in line.split()]
    words = [word.replace("backup:ABSENT", f"backup:{tmp_path}/ABSENT") for word in words]
    words = [word.replace("backup:OTHER", f"backup:{tmp_path}/OTHER") for word in words]
    given = None if "--store" in line else tmp_path / "store"
    run = rmqctl(*words, store=given)
    code, reason = WRONG[next(one for one in WRONG if run_matches(one, line, tmp_path))]
    assert (run.code, run.out, run.err.count("\n"), reason in run.err) == (code, "", 1, True), run.err
    assert not (tmp_path / "new").exists()
    assert len(ids(folder)) == 2


def run_matches(template: str, line: str, tmp_path: Path) -> bool:
    for name, path in {"STORE": "store", "BACKUPS": "backups", "NEW": "new"}.items():
        template = template.replace(name, str(tmp_path / path))
    return template == line


def test_a_prune_asks_on_a_terminal(folder: Path) -> None:
    run = rmqctl("backup", "prune", folder, "--keep-last", "1", terminal=True, stdin=b"n\n")
    assert (run.code, len(ids(folder))) == (DECLINED, 2)
    assert run.err.startswith("note: to delete: 1 backup, ")
    assert f"; backups {ids(folder)[0]}\n" in run.err
    run = rmqctl("backup", "prune", folder, "--keep-last", "1", terminal=True, stdin=b"y\n")
    assert (run.code, len(ids(folder))) == (OK, 1)
    (folder / "log" / "unfinished").touch()
    assert rmqctl("-f", "json", "backup", "prune", folder, "--yes").json["applied"] is True
    assert not (folder / "log" / "unfinished").exists()


def test_a_folder_that_another_backup_writes_to_is_locked(folder: Path, tmp_path: Path) -> None:
    with StoreLock(folder / "lock", Filesystem()):
        for words in (("create", folder), ("prune", folder, "--yes")):
            run = rmqctl("backup", *words, store=tmp_path / "store")
            assert (run.code, "the folder of backups is in use" in run.err) == (LOCKED, True)
        assert rmqctl("backup", "list", folder).code == OK


@pytest.mark.turns(4)
def test_backups_that_were_copied_to_an_object_store_are_read_there(folder: Path, tmp_path: Path) -> None:
    with s3_bucket("copies") as files:
        for path in (one for one in folder.rglob("*") if one.is_file()):
            with files.open_output_stream(f"copies/a/{path.relative_to(folder)}") as stream:
                stream.write(path.read_bytes())
        assert rmqctl("backup", "list", "s3://copies/a").out == rmqctl("backup", "list", folder).out
        assert rmqctl("backup", "verify", "s3://copies/a").code == OK
        assert rmqctl("backup", "diff", "s3://copies/a").code == FINDINGS
        first = ids(folder)[0]
        assert rmqctl("backup", "restore", f"s3://copies/a@{first}", "--to", tmp_path / "new").code == OK
        assert rmqctl("check", store=tmp_path / "new").code == OK
        run = rmqctl("-f", "jsonl", "--store", "backup:s3://copies/a", "get", "T", "--limit", "3")
        assert (run.code, run.out.count("\n")) == (OK, 3)


@pytest.mark.turns(3)
def test_backups_in_an_object_store_are_made_listed_pruned_and_restored(tmp_path: Path) -> None:
    root, to = make_store(tmp_path / "store", 200), "s3://copies/made"
    with s3_bucket("copies"):
        made = [rmqctl("-f", "json", "backup", "create", to, store=root).json for _ in range(2)]
        assert [one["new_bytes"] for one in made] == [one + 94 + 4096 for one in (made[0]["log_end"], -94 - 4096)]
        assert rmqctl("backup", "verify", to).code == OK
        assert rmqctl("backup", "prune", to, "--keep-last", "1", "--yes").out.startswith("deleted 1 backup, 0 files")
        assert [one["backup_id"] for one in rmqctl("-f", "json", "backup", "list", to).json["backups"]] == [
            made[1]["backup_id"]
        ]
        assert rmqctl("backup", "restore", to, "--to", tmp_path / "new").code == OK
        assert rmqctl("diff", root, tmp_path / "new").code == OK
        run = rmqctl("backup", "create", "s3://nowhere/a", store=root)
        assert (run.code, run.err.endswith("called nowhere; check its name, and the region\n")) == (
            NOT_READABLE,
            True,
        ), run.err
        run = rmqctl("backup", "list", "s3://nowhere/a")
        assert (run.code, run.err) == (
            NOT_READABLE,
            "rmqctl: s3://nowhere/a: no bucket or container is called nowhere\n",
        )


@pytest.mark.parametrize("words", [("backup", "create", "s3://"), ("backup", "list", "s3://")])
def test_an_address_without_a_bucket_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    run = rmqctl(*words, store=make_store(tmp_path / "store"))
    assert (run.code, run.err) == (NOT_READABLE, "rmqctl: s3://: the address names no bucket or container\n")


@pytest.mark.parametrize("word", ["list", "verify"])
def test_a_folder_of_backups_that_is_missing_is_named(word: str, tmp_path: Path) -> None:
    run = rmqctl("backup", word, tmp_path / "none")
    assert (run.code, run.err.splitlines()[0]) == (NOT_READABLE, f"rmqctl: {tmp_path / 'none'}: no such folder")
