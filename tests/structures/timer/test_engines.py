"""One engine holds a store's timers: the wheel, or the timeline of the message database (5.4 and later).

A message on both is delivered twice; one on neither is delivered again from its queue, or never.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from store import open_store
from tests.cli.running import Run, rmqctl
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55

pytest.importorskip("rocksdict")
ON = "timerRocksDBEnable=true"
DUE_MS = 1795398324000
"""All timers of the golden store are due then."""
DELIVERED = dict.fromkeys(["soon 0", "soon 1", "soon 2", "soon 3", "past"], 1)
ONCE = DELIVERED | dict.fromkeys(["hour 6", "hour 7", "hour 8", "hour 9", "last 12", "last 13"], 1)
"""The messages that a start leads to: the delivered ones and those that wait."""
AS_LEFT = {"delivered": 5, "rolled": 4, "deleted": 2, "delete": 3, "pending": 6}


def copy_of(tmp_path: Path) -> Path:
    return copy_store(fivefive("timer") / "store", tmp_path / "store")


def run(root: Path, *words: str, settings: tuple[str, ...] = (ON,)) -> Run:
    given = [word for one in settings for word in ("--set", one)]
    return rmqctl("--format", "json", *given, *words, store=root)


def states_of(root: Path, time_ms: int = 0, **settings: object) -> dict[str, int]:
    with open_store(root, settings={"timerRocksDBEnable": "true", **settings}) as store:
        return dict(Counter(message.state.value for message in store.timers(time_ms).messages))


def deliveries(root: Path, tmp_path: Path, *settings: str) -> dict[str, int]:
    """Let the real 5.5.0 fire what is due; return the messages in the queues of topics, with their numbers."""
    answers = tmp_path / "answers"
    words = (COMMAND_55, "wait12,tq", root, answers, "normal", ON, *settings)
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    queues = [one for one in found if one.get("queue", "").startswith("Topic")]
    return dict(Counter(unit[3] for queue in queues for unit in queue["units"]))


@pytest.mark.parametrize("settings", [(ON,), ()], ids=["given", "by the database"])
def test_a_rebuild_of_the_timer_leaves_a_timeline_without_a_wheel_beside_it(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    root = copy_of(tmp_path)
    made = run(root, "rebuild", "timer", "--yes", settings=settings)
    # Three units are those of recalls, which a broker puts on the wheel beside its timeline.
    assert (made.code, made.json["message_count"]) == (0, 9)
    assert run(root, "check", settings=settings).json["findings"] == []
    assert states_of(root) == AS_LEFT
    assert states_of(root, timerRocksDBEnable="false")["delete"] == 3


@needs_refstore55
@pytest.mark.parametrize("command", ["timer", "message-database"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_5_5_delivers_each_message_once_after_a_rebuild(is_lost: bool, command: str, tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    if is_lost:
        shutil.rmtree(root / "rocksdbstore")
    assert run(root, "rebuild", command, "--yes").code == 0
    assert deliveries(root, tmp_path) == ONCE


AGAIN = {"duplicate": 11, "delete": 3, "pending": 6}


@pytest.mark.parametrize(
    ("time_ms", "states"),
    [
        pytest.param(0, {"duplicate": 5, "rolled": 4, "deleted": 2, "delete": 3, "pending": 6}, id="none is due"),
        pytest.param(DUE_MS - 2000, AGAIN | {"duplicate": 9, "rolled": 2}, id="all but the last are due"),
        pytest.param(DUE_MS, AGAIN, id="all are due: copies and deleted messages too"),
    ],
)
def test_a_start_delivers_each_due_record_of_the_queue_if_the_timeline_is_lost(
    time_ms: int, states: dict[str, int], tmp_path: Path
) -> None:
    root = copy_of(tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    assert states_of(root, time_ms) == states


@needs_refstore55
def test_5_5_delivers_as_many_messages_again_as_a_simulated_start(tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    foretold = states_of(root, DUE_MS)["duplicate"]
    assert sum(deliveries(root, tmp_path).values()) == len(ONCE) + foretold


def test_what_a_lost_timeline_repeats_is_mended_by_a_rebuild_of_the_database(tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    shutil.rmtree(root / "rocksdbstore")
    detail = (
        "a start delivers or rolls 11 timer messages once more, the first at queue offset 0: rocksdbstore lacks what "
        "the timer did with them"
    )
    found = [(one["kind"], one["count"], one["detail"]) for one in run(root, "check").json["findings"]]
    assert found == [("timeline-again", 11, detail)]
    mend = "run `rmqctl rebuild message-database`"
    outcomes = run(root, "simulate").json["outcomes"]
    assert outcomes[0]["traps"] == [{"name": "timeline-again", "detail": detail, "remedy": mend}]
    assert [one["remedy"] for one in run(root, "upgrade", "show", "--to", "5.5").json["notes"]] == [mend]
    advised = [one["command"] for one in run(root, "doctor").json["commands"]]
    assert advised == ["rebuild message-database"]
    assert run(root, "rebuild", "message-database", "--yes").code == 0
    assert (run(root, "check").json["findings"], states_of(root)) == ([], AS_LEFT)


IN_DATABASE, COMBINED = "storeType=defaultRocksDB", "rocksdbCQDoubleWriteEnable=true"


def with_queues_in(kind: str, root: Path) -> tuple[str, ...]:
    """Move the queues into a database, or write them there too; return the settings."""
    if not kind:
        return (ON,)
    if kind == IN_DATABASE:
        shutil.rmtree(root / "consumequeue")
    assert run(root, "rebuild", "--queues", "--yes", settings=(kind,)).code == 0
    return ON, kind


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("kind", ["", IN_DATABASE, COMBINED])
@pytest.mark.parametrize("command", ["message-database", "timer"])
def test_a_rebuilt_timeline_has_the_waiting_timers_whatever_holds_the_queues(
    command: str, kind: str, is_lost: bool, tmp_path: Path
) -> None:
    root = copy_of(tmp_path)
    settings = with_queues_in(kind, root)
    if is_lost:
        shutil.rmtree(root / "rocksdbstore")
    made = run(root, "rebuild", command, "--yes", settings=settings)
    assert made.code == 0
    assert {"message_count": 9, "timer_count": 6}.items() & made.json.items()
    assert run(root, "check", settings=settings).json["findings"] == []
    assert states_of(root, DUE_MS, **dict(one.split("=") for one in settings)) == AS_LEFT


@needs_refstore55
@pytest.mark.parametrize("kind", [IN_DATABASE, COMBINED])
def test_5_5_delivers_each_message_once_after_a_rebuild_beside_queues_in_a_database(kind: str, tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    settings = with_queues_in(kind, root)
    assert run(root, "rebuild", "message-database", "--yes", settings=settings).code == 0
    assert deliveries(root, tmp_path, kind) == ONCE


def test_the_wheel_is_rebuilt_beside_queues_in_a_database(tmp_path: Path) -> None:
    root = copy_store(five("timer") / "store", tmp_path / "store")
    before = states_of(root, timerRocksDBEnable="false")
    shutil.rmtree(root / "consumequeue")
    settings = ("storeType=defaultRocksDB",)
    assert run(root, "rebuild", "--queues", "--yes", settings=settings).code == 0
    for name in ("timerwheel", "config/timercheck"):
        (root / name).unlink()
    made = run(root, "rebuild", "timer", "--yes", settings=settings)
    assert (made.code, run(root, "check", settings=settings).json["findings"]) == (0, [])
    assert states_of(root, timerRocksDBEnable="false", storeType="defaultRocksDB") == before


def salvaged(root: Path, new: Path, *words: str, settings: tuple[str, ...] = (ON,)) -> Path:
    assert run(root, "salvage", "--to", str(new), *words, settings=settings).code == 0
    return new


def restored(root: Path, new: Path, *words: str, settings: tuple[str, ...] = (ON,)) -> Path:
    backups = str(new.with_name("backups"))
    # The note is that the backup leaves the database out.
    assert run(root, "backup", "create", backups, settings=settings).code == 1
    assert rmqctl("backup", "restore", backups, "--to", new, *words).code == 0
    return new


NEW_STORES = [
    pytest.param(salvaged, (), id="salvage"),
    pytest.param(salvaged, ("--keep-offsets",), id="salvage with its offsets"),
    pytest.param(restored, (), id="restore"),
]


@pytest.mark.parametrize("settings", [(ON,), ()], ids=["given", "by the database"])
@pytest.mark.parametrize(("make", "words"), NEW_STORES)
def test_a_new_store_of_a_timeline_has_the_waiting_timers_in_its_database_and_no_wheel(
    make: Callable[..., Path], words: tuple[str, ...], settings: tuple[str, ...], tmp_path: Path
) -> None:
    new = make(copy_of(tmp_path), tmp_path / "new", *words, settings=settings)
    assert [name for name in ("timerwheel", "timerlog", "config/timercheck") if (new / name).exists()] == []
    assert (states_of(new, DUE_MS), run(new, "check").json["findings"]) == (AS_LEFT, [])
    assert run(new, "simulate").json["outcomes"][0]["traps"] == []


@needs_refstore55
@pytest.mark.parametrize(("make", "words"), NEW_STORES)
def test_5_5_delivers_each_message_once_from_a_new_store(
    make: Callable[..., Path], words: tuple[str, ...], tmp_path: Path
) -> None:
    new = make(copy_of(tmp_path), tmp_path / "new", *words)
    assert deliveries(new, tmp_path) == ONCE


def test_a_salvage_for_5_3_puts_the_waiting_timers_on_a_wheel(tmp_path: Path) -> None:
    new = salvaged(copy_of(tmp_path), tmp_path / "new", "--compat", "5.3")
    assert (new / "timerwheel").exists()
    assert not (new / "rocksdbstore").exists()


@pytest.mark.parametrize("is_given", [True, False])
def test_a_salvage_of_a_database_that_can_t_be_read_says_where_the_timers_go(is_given: bool, tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    for path in root.glob("rocksdbstore/MANIFEST-*"):
        path.unlink()
    made = run(root, "salvage", "--to", str(tmp_path / "new"), settings=(ON,) if is_given else ())
    said = [line for line in made.err.splitlines() if "timers go on the wheel, unless" in line]
    assert (made.code, bool(said), (tmp_path / "new/timerwheel").exists()) == (0, not is_given, not is_given)


@needs_refstore55
def test_5_5_delivers_each_message_of_a_truncated_store_once(tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    assert run(root, "truncate-dirty", "--offset", "2320", "--yes").code == 0
    assert deliveries(root, tmp_path) == {f"hour {number}": 1 for number in range(4, 10)}


def lose_from(root: Path, position: int) -> None:
    """Lose the log's records from a log offset on, as a crash does."""
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        file.write(bytes(65536 - position))


@pytest.mark.parametrize("as_broker", [False, True])
def test_a_recovery_takes_messages_past_the_log_s_end_off_the_wheel_and_a_broker_leaves_them(
    as_broker: bool, tmp_path: Path
) -> None:
    root = copy_of(tmp_path)
    lose_from(root, 2598)
    made = run(root, "recover", "--yes", *(["--as-broker"] if as_broker else []))
    differences = [one["difference"] for one in made.json["differs_from_broker"]]
    assert ("timer" in differences) is not as_broker
    found = {one["kind"] for one in run(root, "check").json["findings"] if one["kind"].startswith("timer")}
    assert found == ({"timer-stale"} if as_broker else set())
