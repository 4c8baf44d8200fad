"""config settings, and what every command says about settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.exit_codes import NOT_READABLE
from tests.cli.running import rmqctl
from tests.support.stores import make_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("config") / "store", 30)


def settings_by_name(*arguments: object, store: Path | None = None) -> dict[str, dict[str, object]]:
    run = rmqctl(*arguments, "--format", "json", "config", "settings", store=store)
    assert run.code == 0, run.err
    return {row["name"]: row for row in run.json["settings"]}


def test_each_setting_says_where_its_value_comes_from(store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskType=SYNC_FLUSH\nfileReservedTime=48\nbrokerName=a\n")
    rows = settings_by_name("--broker-conf", conf, "--set", "fileReservedTime=24", store=store)
    found = {name: (rows[name]["value"], rows[name]["source"]) for name in rows}
    assert found["flushDiskType"] == ("SYNC_FLUSH", "file")
    assert found["fileReservedTime"] == (24, "set")
    assert found["mappedFileSizeCommitLog"] == (16384, "inferred")
    assert found["maxHashSlotNum"] == (50, "inferred")
    assert found["syncFlushTimeout"] == (5000, "default")
    assert found["brokerName"] == ("a", "file")
    assert rows["brokerName"]["effect"] == "none"
    verdict = rmqctl("--broker-conf", conf, "--set", "fileReservedTime=24", "config", "settings", store=store).out
    inferred = sum(row["source"] == "inferred" for row in rows.values())
    said = f"{len(rows)} settings: 3 given, {inferred} read off the files, the others are defaults"
    assert verdict.splitlines()[0] == said


def test_it_works_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings_by_name()["mappedFileSizeCommitLog"]["source"] == "default"
    assert rmqctl("config", "settings", store=tmp_path / "none").code == NOT_READABLE


def test_a_text_and_effective_choose_settings(store: Path) -> None:
    run = rmqctl("--format", "jsonl", "config", "settings", "FLUSHCOMMIT", "--effective", store=store)
    assert {row["name"] for row in run.rows} == {
        "flushCommitLogTimed",
        "flushCommitLogLeastPages",
        "flushCommitLogThoroughInterval",
    }


@pytest.mark.parametrize("command", [("get", "T", "--queue", "0"), ("checkpoint", "show"), ("put", "T", "x")])
def test_a_setting_without_effect_is_said_once(store: Path, command: tuple[str, ...]) -> None:
    run = rmqctl("--set", "haListenPort=1", *command, store=store)
    assert run.err.count("haListenPort has no effect here") == 1


@pytest.mark.parametrize(("folders", "count"), [("log", 1), ("log,more", 0)])
def test_read_only_folders_beside_a_single_one_are_said_to_be_without_effect(
    folders: str, count: int, tmp_path: Path
) -> None:
    paths = ",".join(str(tmp_path / name) for name in folders.split(","))
    settings = ("--set", f"storePathCommitLog={paths}", "--set", f"readOnlyCommitLogStorePaths={tmp_path / 'old'}")
    run = rmqctl(*settings, "put", "T", "x", store=tmp_path / "store")
    assert run.code == 0
    assert run.err.count("readOnlyCommitLogStorePaths has no effect") == count


@pytest.mark.parametrize(
    ("name", "instead"),
    [("enableScheduleAsyncDeliver", "a delivery ends before the next"), ("debugLockEnable", "no stack traces")],
)
def test_what_happens_instead_of_what_a_setting_asks_for_is_said(store: Path, name: str, instead: str) -> None:
    assert settings_by_name(store=store)[name]["effect"].startswith(f"none; {instead}")
    run = rmqctl("--set", f"{name}=true", "get", "T", "--queue", "0", store=store)
    assert f"{name} has no effect here: {instead}" in run.err


@pytest.mark.parametrize("command", [("get", "T", "--queue", "0"), ("recover", "--dry-run"), ("put", "T", "x")])
@pytest.mark.parametrize("setting", ["flushDiskTyp=SYNC_FLUSH", "maxIndexNum=9999999999", "brokerRole=FOO"])
def test_a_wrong_setting_is_a_usage_error_of_every_command(store: Path, command: tuple[str, ...], setting: str) -> None:
    run = rmqctl("--set", setting, *command, store=store)
    assert run.code == 2
    assert len(run.err.splitlines()) == 1


def test_the_store_may_be_named_by_the_broker_configuration(store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathRootDir={store}\n")
    run = rmqctl("--broker-conf", conf, "--format", "json", "get", "T", "--queue", "0", "--max", "1")
    assert run.json["status"] == "FOUND"


@pytest.mark.parametrize(("named", "is_said"), [("/elsewhere", True), ("{store}", False), ("{store}/", False)])
def test_a_folder_that_the_settings_name_beside_another_is_said(named: str, is_said: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "s", 2)
    run = rmqctl("--set", f"storePathRootDir={named.format(store=root)}", "get", "T", store=root)
    assert (run.code, "is used, not storePathRootDir=" in run.err) == (0, is_said)
