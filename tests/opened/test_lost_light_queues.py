"""Light queues (%LMQ%) that are lost: read as before, named by check, and brought back by a recovery."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import Message, open_store
from tests.cli.running import rmqctl
from tests.support.snapshots import contents
from tests.support.stores import SMALL, recover

LIGHT = {**SMALL, "enableMultiDispatch": True, "enableLmq": True}
COUNT = 50
LOST = {
    "one light queue": ["%LMQ%x"],
    "all light queues": ["%LMQ%x", "%LMQ%y"],
    "a file of a light queue": ["%LMQ%x/0/00000000000000000400"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_store(tmp_path / "store", settings=LIGHT, read_only=False) as store:
        for number in range(COUNT):
            named = {"INNER_MULTI_DISPATCH": "%LMQ%x,%LMQ%y", "INNER_MULTI_QUEUE_OFFSET": f"{number},{number}"}
            assert store.put(Message.of("T", f"{number}", properties=named)).is_ok
    return tmp_path / "store"


def lose(root: Path, names: list[str]) -> None:
    for name in names:
        place = root / "consumequeue" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()


@pytest.mark.parametrize("lost", LOST)
def test_get_reads_a_lost_light_queue_as_before(root: Path, lost: str) -> None:
    lose(root, LOST[lost])
    run = rmqctl("get", "%LMQ%x", "--max", COUNT, "--body", "utf8", "--format", "json", store=root)
    assert [message["body"] for message in run.json["messages"]] == [str(number) for number in range(COUNT)]
    assert "built from the log" in run.err
    assert "no topic" not in run.err


@pytest.mark.parametrize(("given", "is_shown"), [((), True), (("--set", "enableMultiDispatch=false"), False)])
def test_info_and_a_list_of_queues_show_light_queues_that_are_lost_with_all_their_folders(
    root: Path, given: tuple[str, ...], is_shown: bool
) -> None:
    lose(root, LOST["all light queues"])
    run = rmqctl(*given, "--format", "json", "info", store=root)
    problems = [(one["what"], one["detail"]) for one in run.json["problems"]]
    details = [f"%LMQ%{name}, queue 0: there is no folder, and the log has {COUNT} messages of it" for name in "xy"]
    assert problems == ([("lost queue", detail) for detail in details] if is_shown else [])
    with open_store(root, settings=dict(word.split("=") for word in given[1:])) as store:
        assert {queue.topic: queue.max_offset for queue in store.queues()} == (
            {"%LMQ%x": COUNT, "%LMQ%y": COUNT, "T": COUNT} if is_shown else {"T": COUNT}
        )
        assert [note for note in store.notes if "%LMQ%x" in note] == (
            ["%LMQ%x, queue 0: 50 entries are missing, and built from the log"] if is_shown else []
        )


def test_info_shows_a_lost_file_of_a_light_queue(root: Path) -> None:
    lose(root, LOST["a file of a light queue"])
    run = rmqctl("--format", "json", "info", store=root)
    assert [(one["what"], one["detail"]) for one in run.json["problems"]] == [
        ("lost queue file", "%LMQ%x, queue 0: the log has 20 messages of files that are not there: " + f"{400:020d}")
    ]


@pytest.mark.parametrize("lost", LOST)
def test_a_recovery_brings_lost_light_queues_back_byte_for_byte(root: Path, lost: str) -> None:
    before = contents(root / "consumequeue")
    lose(root, LOST[lost])
    recover(root, settings=LIGHT)
    assert contents(root / "consumequeue") == before


@pytest.mark.parametrize("lost", LOST)
def test_records_show_a_recovery_without_settings_that_the_store_has_light_queues(root: Path, lost: str) -> None:
    before = contents(root / "consumequeue")
    lose(root, LOST[lost])
    recover(root)
    assert contents(root / "consumequeue") == before


@pytest.mark.parametrize("lost", LOST)
def test_check_names_lost_light_queues_and_the_command_that_mends_them(root: Path, lost: str) -> None:
    lose(root, LOST[lost])
    run = rmqctl("check", "--format", "json", store=root)
    assert run.code == 1
    assert {"%LMQ%x"} <= {finding["topic"] for finding in run.json["findings"]}
    assert rmqctl("rebuild", "--queues", "--yes", store=root).code == 0
    assert rmqctl("check", store=root).code == 0


def test_light_queues_that_a_setting_denies_are_not_missed(root: Path) -> None:
    lose(root, LOST["all light queues"])
    codes = {
        value: rmqctl("--set", f"enableMultiDispatch={value}", "check", store=root).code for value in ("true", "false")
    }
    assert codes == {"true": 1, "false": 0}
