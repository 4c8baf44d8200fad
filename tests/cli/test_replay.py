"""replay on the command line: a cut log into a cluster, killed and gone on with, and what a stranger gets wrong."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.commands import replay as replay_command
from rmqctl.exit_codes import FINDINGS, INTERRUPTED, NOT_READABLE, OK, USAGE
from store import Message, open_store
from store.engine.remoting import Cluster
from tests.cli.running import rmqctl
from tests.support.fake_broker import Behaviour, FakeBroker, Taken
from tests.support.golden import golden
from tests.support.processes import command_line, running
from tests.support.refstore import free_port
from tests.support.sessions import said, session
from tests.support.stores import SMALL

TOPICS = {"TopicA": 4, "TopicB": 4, "topic_C-3": 4}
LOST = 186
"""Messages of the golden that a start would lose and that a consumer can read."""


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(dict(TOPICS)) as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """40 messages in two topics, with keys and tags."""
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as opened:
        for number in range(40):
            topic = "TopicA" if number % 4 else "TopicB"
            keys = [f"order-{number}"]
            opened.put(Message.of(topic, f"body {number}", keys=keys, uniq_key=f"U{number:02d}", queue_id=number % 2))
    return tmp_path / "store"


def replay(store: Path, broker: FakeBroker, *words: object) -> Any:
    run = rmqctl("-f", "json", "replay", store, "--to", broker.address, *words)
    return run.code, run.json


@pytest.mark.turns(3)
def test_the_losses_of_a_cut_are_sent_once(broker: FakeBroker, tmp_path: Path) -> None:
    cut = golden("corrupt-mid").store
    code, planned = replay(cut, broker, "--losses", "--dry-run")
    assert (code, sum(row["message_count"] for row in planned["topics"]), broker.taken) == (FINDINGS, LOST, [])
    left_out = {"damaged": 1, "rolled-back": 13, "empty": 25, "unreadable": 13, "half": 12}
    code, sent = replay(cut, broker, "--losses", "--ledger", tmp_path)
    assert (code, sent["ledger_acknowledged_count"], planned["left_out"], sent["left_out"]) == (
        1,
        LOST,
        left_out,
        left_out,
    )
    assert len(set(broker.keys)) == len(broker.taken) == LOST
    assert sum(left_out.values()) + LOST == 250
    code, again = replay(cut, broker, "--losses", "--ledger", tmp_path)
    assert (again["run"], len(broker.taken), [row["already_count"] for row in again["topics"]]) == (
        2,
        LOST,
        [61, 62, 63],
    )


CHOSEN = {
    "": [f"U{number:02d}" for number in range(40)],
    "--where queue_id=1": [f"U{number:02d}" for number in range(40) if number % 2],
    "--topic TopicB": [f"U{number:02d}" for number in range(0, 40, 4)],
    "--topic TopicB --topic TopicA --id U04": ["U04"],
    "--topic TopicA --id U04": [],
    "--id U01 --id @IDS": ["U01", "U07", "U08"],
    "--since 2100-01-01T00:00:00Z": [],
    "--until 2100-01-01T00:00:00Z --topic TopicB": [f"U{number:02d}" for number in range(0, 40, 4)],
    "--stale": [],
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", CHOSEN)
def test_messages_are_chosen_by(words: str, store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "IDS").write_text("U07\nU08\n")
    line = words.replace("@IDS", f"@{tmp_path / 'IDS'}").split()
    code, _ = replay(store, broker, "--ledger", tmp_path / "ledger", *line)
    # An id that no chosen message has is a finding.
    assert (code, broker.keys) == (FINDINGS if words == "--topic TopicA --id U04" else OK, CHOSEN[words])


def test_delayed_messages_of_a_topic_are_chosen_with_it(store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    with open_store(store, read_only=False, settings=SMALL) as opened:
        opened.put(Message.of("TopicB", "later", uniq_key="D1", delay_level=18))
        opened.put(Message.of("TopicA", "later", uniq_key="D2", delay_level=18))
    code, planned = replay(store, broker, "--topic", "TopicB", "--dry-run")
    assert (code, [(row["topic"], row["message_count"], row["delayed_count"]) for row in planned["topics"]]) == (
        OK,
        [("TopicB", 11, 0)],
    )


def test_a_stale_record_that_is_lost_is_sent(broker: FakeBroker, store: Path, tmp_path: Path) -> None:
    log = next((store / "commitlog").iterdir())
    data, places = bytearray(log.read_bytes()), []
    at = 0
    while size := int.from_bytes(data[at : at + 4], "big"):
        places.append(at)
        at += size
    # As a broker that cut the log at record 38 and put nothing since.
    data[places[38] : places[38] + 8] = bytes(8)
    log.write_bytes(data)
    listed = rmqctl("-f", "json", "stale", store=store).json["stale_records"]
    assert replay(store, broker, "--stale", "--ledger", tmp_path / "ledger")[0] == OK
    assert (broker.keys, [row["uniq_key"] for row in listed]) == (["U39"], ["U39"])


def test_topics_are_mapped_and_refusals_are_counted_by_reason(store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    del broker.topics["TopicA"]
    words = ["--topic-map", "TopicB=topic_C-3"]
    for more in (["--dry-run"], ["--ledger", tmp_path / "ledger"]):
        code, answer = replay(store, broker, *words, *more)
        assert (code, answer["refused"]) == (
            FINDINGS,
            [{"topic": "TopicA", "reason": "there is no topic TopicA", "message_count": 30}],
        )
    assert {one.topic for one in broker.taken} == {"topic_C-3"}
    assert (answer["ledger_acknowledged_count"], answer["ledger_refused_count"]) == (10, 30)


@pytest.mark.turns(4)
def test_what_is_in_doubt_is_named_asked_for_and_not_sent_again(
    store: Path, broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster.__init__, "__defaults__", (0.5,))

    def behave(message: Taken, tries: int) -> Behaviour:
        return {"U05": "silent", "U06": "lost"}.get(message.uniq_key) if tries == 1 else None

    broker.behave = behave
    code, answer = replay(store, broker, "--ledger", tmp_path / "one")
    doubts = [{"topic": "TopicA", "uniq_key": key, "certainty": "doubt"} for key in ("U05", "U06")]
    assert (code, [{k: v for k, v in row.items() if k != "origin_msg_id"} for row in answer["uncertain"]]) == (
        1,
        doubts,
    )
    code, answer = replay(store, broker, "--ledger", tmp_path / "one", "--verify")
    assert (code, answer["verified_counts"], answer["uncertain"]) == (OK, {"acknowledged": 1, "again": 1}, [])
    assert sorted(broker.keys) == CHOSEN[""]


def test_without_verify_it_is_sent_again_and_named(store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    broker.behave = lambda message, tries: "close" if (message.uniq_key, tries) == ("U39", 1) else None
    assert replay(store, broker, "--ledger", tmp_path / "one")[0] == FINDINGS
    code, answer = replay(store, broker, "--ledger", tmp_path / "one")
    assert (code, [(row["uniq_key"], row["certainty"]) for row in answer["uncertain"]]) == (OK, [("U39", "twice")])
    assert broker.keys.count("U39") == 2


@pytest.mark.turns(2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_goes_on(number: signal.Signals, store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    words = ["replay", store, "--to", broker.address, "--ledger", tmp_path / "one", "--verify", "--rate", "5"]
    with running(command_line(None, *words)) as process:
        while len(broker.taken) < 7:
            assert process.poll() is None
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == (-9 if number is signal.SIGKILL else INTERRUPTED)
    assert len(broker.taken) < 40
    code, answer = replay(store, broker, "--ledger", tmp_path / "one", "--verify")
    assert (code, answer["ledger_acknowledged_count"], answer["uncertain"]) == (OK, 40, [])
    assert sorted(broker.keys) == CHOSEN[""]


UNUSED = {
    "--topic-map topica=TopicB": (OK, "no message of topica was chosen: --topic-map names it without effect"),
    "--topic-map TopicA=TopicB": (OK, ""),
    "--topic TopicA --topic topica": (OK, "no message of topica was chosen: --topic names it without effect"),
    "--id U01 --id U02 --topic TopicA": (OK, ""),
    "--id U01 --id x": (FINDINGS, "1 id not found among the chosen messages: x\n"),
    "--id U00 --topic TopicA": (FINDINGS, "1 id not found among the chosen messages: U00\n"),
    "--id a --id b --id c --id d --id e --id f": (
        FINDINGS,
        "6 ids not found among the chosen messages: a, b, c, d, e, …",
    ),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", UNUSED)
def test_an_id_or_a_mapped_topic_of_no_message_is_named(
    words: str, store: Path, broker: FakeBroker, tmp_path: Path
) -> None:
    code, warning = UNUSED[words]
    for ending in (("--dry-run",), ("--ledger", tmp_path / "one")):
        run = rmqctl("replay", store, "--to", broker.address, *words.split(), *ending)
        assert (run.code, run.err.partition("warning: ")[2].startswith(warning), not run.err) == (
            code,
            True,
            not warning,
        )


@pytest.mark.turns(2)
def test_an_interrupted_run_says_how_to_continue(
    store: Path, broker: FakeBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["replay", store, "--to", broker.address, "--ledger", tmp_path / "one", "--rate", "5"]
    with running(command_line(None, *words)) as process:
        while len(broker.taken) < 7:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.wait(60)
    first, second = capfd.readouterr().err.splitlines()[:2]
    # The requests of one window may be under way.
    counts = re.fullmatch(r"note: the ledger has (\d+) acknowledged messages, (\d+) in doubt", first)
    assert counts is not None, first
    assert len(broker.taken) - 5 <= int(counts[1]) <= int(counts[1]) + int(counts[2]) <= len(broker.taken) + 5
    assert second == replay_command.CONTINUE


def test_a_target_that_takes_no_more_stops_the_run(
    store: Path, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("store.verbs.replay.replay.PAUSES_S", (0.0, 0.01))
    broker.behave = lambda message, tries: (14, "service not available now, maybe disk full") if tries else None
    run = rmqctl("replay", store, "--to", broker.address, "--ledger", tmp_path / "one", "--id", "U01")
    assert run.out.startswith("stopped: code 14: service not available now, maybe disk full; 0 messages sent")
    assert (run.code, "note: run the same command again to continue" in run.err) == (FINDINGS, True)


WRONG = {
    "STORE": (USAGE, "name the target: a name server or a broker"),
    "STORE --to TARGET": (USAGE, "name a folder for the ledger, or look first with --dry-run"),
    "STORE --to TARGET --ledger STORE": (USAGE, "is inside of"),
    "STORE --to TARGET --dry-run --where nothing=1": (USAGE, "the query fails"),
    "STORE --to TARGET --dry-run --topic-map x": (USAGE, "'x' is not OLD=NEW"),
    "STORE --to TARGET --dry-run --topic-map T=A --topic-map T=B": (USAGE, "'T' has two new names: 'A' and 'B'"),
    "STORE --to TARGET --dry-run --stale --losses": (USAGE, "combine it only with --topic"),
    "STORE --to TARGET --dry-run --since yesterday": (USAGE, "'yesterday' is not a time"),
    "STORE --to TARGET --dry-run --id @ABSENT": (NOT_READABLE, "no such file"),
    "STORE --to TARGET --dry-run --topic TopicA --topic-map topica=T": (USAGE, "--topic chooses no message of topica"),
    "STORE --to nowhere --dry-run": (USAGE, "an address is HOST:PORT"),
    "STORE --to 127.0.0.1:CLOSED --dry-run": (5, "connection refused"),
    "ABSENT --to TARGET --dry-run": (NOT_READABLE, "no such folder"),
    "ABSENT --to 127.0.0.1:CLOSED --dry-run": (NOT_READABLE, "no such folder"),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_refused_with_one_sentence(line: str, store: Path, broker: FakeBroker, tmp_path: Path) -> None:
    places = {"STORE": store, "TARGET": broker.address, "ABSENT": tmp_path / "absent", "CLOSED": free_port()}
    words = line.split()
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    run = rmqctl("replay", *words)
    code, reason = WRONG[line]
    assert (run.code, run.out, run.err.count("\n"), reason in run.err) == (code, "", 1, True), run.err
    assert broker.taken == []


def test_another_protocol_is_named(store: Path) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].sendall(b"HTTP/1.1 400 Bad\r\n"), daemon=True).start()
        run = rmqctl("replay", store, "--to", f"127.0.0.1:{server.getsockname()[1]}", "--dry-run")
    assert (run.code, "sends no frame of the remoting protocol" in run.err) == (5, True), run.err


def test_a_plan_is_shown_by_topic(store: Path, broker: FakeBroker) -> None:
    run = rmqctl("replay", store, "--to", broker.address, "--dry-run")
    assert run.out.splitlines()[0] == "would send 40 messages; 0 would be refused"
    assert json.loads(rmqctl("-f", "jsonl", "replay", store, "--to", broker.address, "--dry-run").out.splitlines()[0])


def test_a_plan_and_a_replay_warn_of_what_they_leave_out(broker: FakeBroker, tmp_path: Path) -> None:
    words = ("replay", golden("corrupt-mid").store, "--to", broker.address, "--losses", "--ledger", tmp_path)
    runs = [rmqctl(*words, "--dry-run"), rmqctl(*words)]
    assert [run.err.count("warning: left out: ") for run in runs] == [1, 1]


def test_topics_and_ids_that_are_named_come_in_order(store: Path, broker: FakeBroker) -> None:
    chosen = ["--topic", "Z", "--topic", "TopicB", "--topic", "TopicA", "--topic", "Y", "--id", "U04", "--id", "U01"]
    maps = ["--topic-map", "Z=z", "--topic-map", "Y=y"]
    ids = [word for number in (9, 3, 7, 5, 1, 8) for word in ("--id", f"N{number}")]
    broker.topics.clear()
    run = rmqctl("-f", "json", "replay", store, "--to", broker.address, "--dry-run", *chosen, *maps, *ids)
    assert [row["topic"] for row in run.json["topics"]] == ["TopicA", "TopicB"]
    assert [row["topic"] for row in run.json["refused"]] == ["TopicA", "TopicB"]
    assert [line.removeprefix("warning: ") for line in run.err.splitlines()] == [
        "6 ids not found among the chosen messages: N1, N3, N5, N7, N8, …",
        "no message of Y was chosen: --topic names it without effect",
        "no message of Z was chosen: --topic names it without effect",
        "no message of Y was chosen: --topic-map names it without effect",
        "no message of Z was chosen: --topic-map names it without effect",
    ]
    refused = rmqctl("replay", store, "--to", broker.address, "--topic", "TopicA", *maps, "--dry-run")
    assert (refused.code, "--topic chooses no message of Y, Z" in " ".join(refused.err.split())) == (2, True), (
        refused.err
    )


def test_kinds_that_are_left_out_are_counted_in_order() -> None:
    one = session()
    for left_out in ({"unreadable": 1, "damaged": 2}, {}):
        replay_command._say_left_out(one, cast(Any, SimpleNamespace(left_out=left_out)))
    damaged, unreadable = (replay_command.LEFT_OUT[kind] for kind in ("damaged", "unreadable"))
    assert said(one) == f"warning: left out: 2 {damaged}, 1 {unreadable}\n"
