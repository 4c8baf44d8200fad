"""put's exit code says what opening the store met, although the put itself is done."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.context import Session
from rmqctl.environment import Environment
from rmqctl.exit_codes import NOT_READABLE
from store import open_store
from tests.cli.running import NOW_MS, Keyboard, Run, Text, rmqctl
from tests.support.golden import copy_store, golden
from tests.support.stores import SMALL, make_store, text_message


def put(root: Path, *options: str) -> Run:
    return rmqctl("-f", "json", "put", "T", "body", *options, store=root)


def damage_last_segment(root: Path) -> None:
    segment = sorted((root / "commitlog").iterdir())[-1]
    segment.write_bytes(b"\x7f\xff\xff\xff" + segment.read_bytes()[4:])


@pytest.mark.leaves_damage
def test_a_store_that_was_shut_down_is_cut_only_where_that_is_asked_for(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    damage_last_segment(root)
    refused, first, second = put(root), put(root, "--recover"), put(root)
    assert (refused.code, refused.out) == (NOT_READABLE, "")
    assert "13 messages behind it would be given up; `rmqctl doctor` says what to save first" in refused.err
    assert (first.code, first.json["results"][0]["status"]) == (0, "PUT_OK")
    assert "note: the log was cut at" in first.err
    assert (second.code, second.err.partition(" at ")[0]) == (0, "note: old records lie past the log's end")


@pytest.mark.leaves_damage
def test_messages_that_queues_name_behind_the_logs_end_are_given_up_only_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    root = make_store(tmp_path / "store", queues=1)
    segment = sorted((root / "commitlog").iterdir())[-1]
    segment.write_bytes(bytes(SMALL["mappedFileSizeCommitLog"]))
    refused, first, second = put(root), put(root, "--recover"), put(root)
    assert (refused.code, first.code) == (NOT_READABLE, 0)
    assert "and queues continued past it; 13 messages are lost" in first.err
    assert (second.code, second.err) == (0, "")


@pytest.mark.leaves_damage
def test_messages_that_a_recovery_left_past_the_logs_end_are_in_no_queue(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", queues=1)
    segment = sorted((root / "commitlog").iterdir())[-1]
    segment.write_bytes(bytes(600) + segment.read_bytes()[600:])
    rmqctl("recover", "--yes", store=root)
    changes = rmqctl("-f", "json", "quarantine", "list", store=root).json["changes"]
    first = put(root)
    assert first.code == 1
    assert "messages are past it, in no queue, and new ones may overwrite them" in first.err
    assert rmqctl("-f", "json", "quarantine", "list", store=root).json["changes"] == changes


def test_a_recovery_that_was_asked_for_notes_what_it_cut(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    damage_last_segment(root)
    (root / "abort").touch()
    run = put(root, "--recover")
    assert run.code == 0
    assert "note: the log was cut at" in run.err


BROKERS_OWN = (
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
)  # fmt: skip
"""TopicValidator's NOT_ALLOWED_SEND_TOPIC_SET (5.5.0)."""
LEFT_OUT = BROKERS_OWN[1:4] + BROKERS_OWN[6:]
"""A put of lines puts a transaction's message alone, and none of its traces."""


WHY = "00000000000000131072, offset 528: total size differs from the sum of the fields"
OVERWRITE = "new messages overwrite the rest of the segment"


@pytest.mark.leaves_damage  # An entry of the index points to the torn record.
def test_a_torn_last_message_with_an_entry_is_overwritten_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """The message had PUT_OK, and its first half is nowhere else; a real store started and stopped in between."""
    (*_, last) = map(json.loads, (golden("torn").folder / "write.jsonl").read_text().splitlines())
    assert (last["status"], last["wroteOffset"], last["wroteBytes"]) == ("PUT_OK", 131600, 523)
    root = copy_store(golden("torn").folder / "store-after-load", tmp_path / "s")
    segment = root / "commitlog/00000000000000131072"
    before = segment.read_bytes()
    assert any(before[528 : 528 + 261])
    refused = put(root)
    refusal = f"rmqctl: {root}/commitlog, offset 131600: the log ends here because of {WHY}; 1 message behind it would "
    refusal += (
        "be given up, and none can be salvaged; the next put overwrites what is left of it: copy the segment first "
    )
    refusal += (
        "if that matters; then `rmqctl recover`, and put and serve with --recover, truncate the log as a broker's "
    )
    assert (refused.code, refused.err) == (NOT_READABLE, refusal + "start does\n")
    assert segment.read_bytes() == before
    done = put(root, "--recover")
    assert (done.json["results"][0]["log_offset"], done.err) == (
        131600, f"note: the log was cut at 131600 because of {WHY}; 1 message is behind it; {OVERWRITE}\n"
    )  # fmt: skip


def test_segments_that_are_removed_are_kept_and_named(tmp_path: Path) -> None:
    root = copy_store(golden("torn").folder / "store", tmp_path / "s")
    said = put(root, "--recover").err
    (kept,) = rmqctl("-f", "json", "quarantine", "list", store=root).json["changes"]
    removed = f"removed segments are in the quarantine as {kept['change_id']}"
    assert said.split("; ")[1:] == ["1 message is behind it", removed, f"{OVERWRITE}\n"]


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("kept", "is_refused"), [(1, False), (8, True), (100, True)])
def test_so_is_one_without_an_entry(kept: int, is_refused: bool, tmp_path: Path) -> None:
    """Entries reach the disk after the log: the message may have had PUT_OK."""
    root = tmp_path / "s"
    with open_store(root, read_only=False, settings=SMALL) as store:
        first = store.put(text_message(0))
    segment = root / "commitlog" / f"{0:020d}"
    data = segment.read_bytes()
    torn = data[:kept].ljust(first.size, b"\0")
    segment.write_bytes(data[: first.size] + torn + data[2 * first.size :])
    refused = put(root)
    assert (refused.code, "none can be salvaged" in refused.err) == (NOT_READABLE if is_refused else 0, is_refused)
    assert put(root, "--recover").json["results"][0]["status"] == "PUT_OK"


@pytest.mark.turns(5)
@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("Orders|a-b_%1", ""),
        ("bad topic!", "it has characters other than ASCII letters, digits and % | _ -"),
        ("订单", "it has characters other than ASCII letters, digits and % | _ -"),
        ("a" * 127, ""),
        ("a" * 128, "it has 128 characters, and 127 is the limit"),
        ("%RETRY%" + "a" * 128, ""),
        *((topic, "it is the broker's own") for topic in BROKERS_OWN),
        ("TBW102", ""),
        ("CHECKPOINT_TOPIC", ""),
    ],
)
@pytest.mark.parametrize("is_from", [False, True])
@pytest.mark.leaves_damage  # in the topic of delayed messages
def test_a_topic_that_a_broker_refuses_is_warned_of(topic: str, fault: str, is_from: bool, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"topic": topic, "body_text": "x"}) + "\n", encoding="utf-8")
    words = ["put", "--from", str(lines)] if is_from else ["put", topic, "x"]
    run = rmqctl(*words, "--compat", "5.3", store=tmp_path / "store")
    warnings = [line for line in run.err.splitlines() if "refuses the topic" in line]
    assert run.code == 0, run.err
    fault = "" if is_from and topic in LEFT_OUT else fault
    assert warnings == ([f"warning: a broker refuses the topic {topic!r} from producers: {fault}"] if fault else [])


EMPTY = (
    "warning: {} with an empty body, which no producer can send: a 4.9 client decodes it as null, and drops all "
    "messages of its pull"
)


@pytest.mark.parametrize(
    ("words", "lines", "warned"),
    [
        (["T", ""], "", "1 message"),
        (["T", "", "--half", "G"], "", "1 message"),
        (["T", "--body-file", "-"], "", "1 message"),
        (["T", " "], "", ""),
        (["T", "--input", "-"], '{"body_text": ""}\n{"keys": ["k"]}\n{"body_text": "x"}\n', "2 messages"),
        (["T", "--input", "-"], '{"body_text": "x"}\n', ""),
        (["T", "--input", "-", "--as-stored"], '{"body_text": ""}\n', ""),
    ],
)
def test_an_empty_body_is_warned_of_once_with_a_count(
    words: list[str], lines: str, warned: str, tmp_path: Path
) -> None:
    run = rmqctl("put", *words, store=tmp_path / "store", stdin=lines.encode())
    warnings = [line for line in run.err.splitlines() if "empty body" in line]
    assert (run.code, warnings) == (0, [EMPTY.format(warned)] if warned else [])


def test_a_name_that_keeps_only_another_line_from_starting_is_a_note(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, read_only=False, settings=SMALL, compat="5.3") as store:
        store.put(text_message(0))
    (root / "consumequeue/T/0/sub").mkdir()
    run = put(root, "--compat", "5.3")
    assert run.code == 0, run.err
    assert "note:" in run.err
    assert "from starting" in run.err


@pytest.mark.parametrize(
    ("said", "finding", "is_told"),
    [
        ("the log: no space left on device", "a queue: no space left on device", False),
        ("the log: no space left on device", "a queue: input/output error", True),
        ("the log: input/output error", "a queue: no space left on device", True),
        ("", "a queue: no space left on device", True),
    ],
)
def test_a_full_disk_that_log_and_queues_meet_is_named_once(said: str, finding: str, is_told: bool) -> None:
    err = Text(terminal=False)
    environment = Environment(Keyboard(b"", terminal=False), Text(terminal=False), err, {}, lambda: NOW_MS)
    session = Session(environment, lambda words, environment: 0)
    if said:
        session.fail(said)
    closed: Any = SimpleNamespace(opening_findings=[], describe_findings=lambda: [finding])
    session.store.warn_of_news(closed)
    assert err.written.decode().count("warning: ") == is_told
