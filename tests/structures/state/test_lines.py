"""The lines of each small file of a 5.x broker, with their faults."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.store_reader import StoredFile
from store.structures.state.lines import StateLine, epochs_of, lines_of, revive_line

IDENTITY, TEMPORARY = "brokerIdentity", "brokerIdentity-temp"
TERM, POSITIONS = "dledger-n0/currterm", "compaction/position-checkpoint"
ORDER, TIERED = "config/consumerOrderInfo.json", "config/tieredStoreMetadata.json"
NO_PAIR, NO_QUEUE = "no name and number", "no queue offset"
LOW, SIZE = "minOffset is above maxOffset, or no number", "its size is no number, or baseOffset is not its key"


def parts(count: int, wanted: int = 3) -> str:
    return f"{count} parts between # instead of {wanted}: the broker requests a new id"


def order(**info: object) -> dict[str, object]:
    return {"table": {"T@G": {"0": info}}}


def segment(**found: object) -> dict[str, object]:
    return {"indexFileSegmentTable": {"p": {"7": found}}}


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        (TERM, "currTerm=2\nvoteLeader=n0\n", [("currTerm", "2", ""), ("voteLeader", "n0", "")]),
        (TERM, "currTerm=x\nvoteLeader\nvoteLeader=\n",
         [("currTerm", "x", NO_PAIR), ("voteLeader", "", NO_PAIR), ("voteLeader", "", "")]),
        (TERM, "5\nother=-1\n", [("5", "", NO_PAIR), ("other", "-1", "")]),
        (IDENTITY, "C#b#1\n", [("identity", "C#b#1", "")]),
        (IDENTITY, "C#b", [("identity", "C#b", parts(2))]),
        (IDENTITY, "C#b#x", [("identity", "C#b#x", parts(3))]),
        (IDENTITY, "#b#1", [("identity", "#b#1", parts(3))]),
        (IDENTITY, "C#b#1#x", [("identity", "C#b#1#x", parts(4))]),
        (TEMPORARY, "C#b#1#x", [("identity", "C#b#1#x", "")]),
        (TEMPORARY, "C#b#1", [("identity", "C#b#1", parts(3, 4))]),
        ("epochFileCheckpoint", "2\n0\n1-0\n3-5\n", [("epoch 1", "0", ""), ("epoch 3", "5", "")]),
        ("epochFileCheckpoint", "2\n0\n1-0\n",
         [("epochs", "1", "counts 2 epochs, holds 1; the copy is loaded instead"), ("epoch 1", "0", "")]),
    ],
)  # fmt: skip
def test_a_file_has_a_line_for_each_value(path: str, text: str, lines: list[tuple[str, str, str]]) -> None:
    assert lines_in(path, text) == [StateLine(path, *one) for one in lines]


def lines_in(path: str, text: str) -> list[StateLine]:
    files: Any = SimpleNamespace(read=lambda given: {path: text.encode()}[given])
    return list(lines_of(files, StoredFile(path, 0, len(text), 0)))


@pytest.mark.parametrize(
    ("path", "document", "lines"),
    [
        (POSITIONS, {"queueOffsetMap": {"T_0": 5, "T_1": "x"}}, [("T_0", "5", ""), ("T_1", "x", NO_QUEUE)]),
        (ORDER, order(popTime=1, o=[5, 1], cm=3), [("T@G 0", "popTime=1 offsets=2 acknowledged=3", "")]),
        (ORDER, order(popTime=1, o=[5, 1], cm=4),
         [("T@G 0", "popTime=1 offsets=2 acknowledged=4", "cm acknowledges more than 2 messages")]),
        (ORDER, order(o=[], cm=1), [("T@G 0", "popTime=None offsets=0 acknowledged=1", "")]),
        (ORDER, order(o=[], cm=2),
         [("T@G 0", "popTime=None offsets=0 acknowledged=2", "cm acknowledges more than 0 messages")]),
        (ORDER, order(o=5), [("T@G 0", "popTime=None offsets=0 acknowledged=None", "o is no list of offsets")]),
        (ORDER, order(o=[5, "x"]), [("T@G 0", "popTime=None offsets=2 acknowledged=None", "o is no list of offsets")]),
        (ORDER, {"table": {"T": {"0": {"o": []}}}},
         [("T 0", "popTime=None offsets=0 acknowledged=None", "the key is no topic@group")]),
        (TIERED, {"topicMetadataTable": {"T": {"topicId": 4, "status": 0}}}, [("topic T", "id=4 status=0", "")]),
        (TIERED, {"queueMetadataTable": {"T": {"0": {"minOffset": 9, "maxOffset": 9}}}}, [("queue T/0", "9 to 9", "")]),
        (TIERED, {"queueMetadataTable": {"T": {"0": {"minOffset": 9, "maxOffset": 8}}}},
         [("queue T/0", "9 to 8", LOW)]),
        (TIERED, {"queueMetadataTable": {"T": {"0": {"minOffset": "1", "maxOffset": 8}}}},
         [("queue T/0", "1 to 8", LOW)]),
        (TIERED, {"queueMetadataTable": {"T": {"0": {"minOffset": 1}}}}, [("queue T/0", "1 to None", LOW)]),
        (TIERED, segment(baseOffset=7, size=0, status=1), [("index p 7", "size=0 status=1", "")]),
        (TIERED, segment(baseOffset=7, size=-1, status=1), [("index p 7", "size=-1 status=1", SIZE)]),
        (TIERED, segment(baseOffset=8, size=1, status=1), [("index p 7", "size=1 status=1", SIZE)]),
        (TIERED, segment(baseOffset=7, size="1"), [("index p 7", "size=1 status=None", SIZE)]),
    ],
)  # fmt: skip
def test_a_table_has_a_line_for_each_row(path: str, document: object, lines: list[tuple[str, str, str]]) -> None:
    assert lines_in(path, json.dumps(document)) == [StateLine(path, *one) for one in lines]


def test_a_table_that_is_no_document_is_one_line() -> None:
    (line,) = lines_in(ORDER, "{x")
    assert (line.file, line.name, line.value) == (ORDER, "document", "2 characters")
    assert line.fault.startswith("not what a broker writes: ")


@pytest.mark.parametrize(
    ("text", "epochs", "fault"),
    [
        ("1\n0\n0-0\n", [(0, 0)], ""),
        ("1\n0\n1--1\n", [], "'1--1' is no epoch and start offset; the copy is loaded instead"),
        ("1\n0\n-1-5\n", [], "'-1-5' is no epoch and start offset; the copy is loaded instead"),
        ("1\n0\n1\n", [], "'1' is no epoch and start offset; the copy is loaded instead"),
        ("2\n0\n1-5\n2-5\n", [(1, 5), (2, 5)], ""),
        ("2\n0\n1-5\n2-4\n", [(1, 5), (2, 4)],
         "epochs or start offsets do not rise: a slave would cut its log at a wrong place"),
        ("2\n0\n2-5\n2-6\n", [(2, 5), (2, 6)],
         "epochs or start offsets do not rise: a slave would cut its log at a wrong place"),
        ("1\nx\n", [], "torn: NumberFormatException, no broker in controller mode starts with it"),
        ("x\n1\n", [], "torn: NumberFormatException, no broker in controller mode starts with it"),
        ("0\n0\n", [], ""),
    ],
)  # fmt: skip
def test_epochs_and_their_starts_rise(text: str, epochs: list[tuple[int, int]], fault: str) -> None:
    assert epochs_of(text) == (epochs, fault)


CHECKPOINT = {"so": 3, "pt": 1, "it": 60000, "bm": 0, "n": 2, "q": 0, "t": "T", "c": "G"}
ACK = {"ao": 3, "so": 3, "c": "G", "t": "T", "q": 0, "pt": 1}
LONG_ACK = {"ackOffset": 3, "startOffset": 3, "consumerGroup": "G"}
TWO = "G T/0 from 3: 2 messages"


@pytest.mark.parametrize(
    ("tags", "document", "line"),
    [
        ("ck", CHECKPOINT, ("checkpoint", TWO, "")),
        ("ck", {**CHECKPOINT, "bm": 3}, ("checkpoint", TWO, "")),
        ("ck", {**CHECKPOINT, "bm": 4}, ("checkpoint", TWO, "bm acknowledges more than 2 messages")),
        ("ck", {**CHECKPOINT, "bm": 1, "n": 0}, ("checkpoint", "G T/0 from 3: 0 messages", "")),
        ("ck", {"c": "G"}, ("checkpoint", "G None/None from None: None messages", "without it, n, pt, q, so, t")),
        ("ack", ACK, ("acknowledgement", "G T/0: 3", "")),
        ("bAck", {**ACK, "aol": [4]}, ("acknowledgement", "G T/0: [4]", "")),
        ("ack", LONG_ACK, ("acknowledgement", "None None/None: None", "")),
        ("ack", {"ao": 3}, ("acknowledgement", "None None/None: 3", "fields are missing")),
        ("other", {}, ("other", "2 bytes", "neither ck, ack nor bAck")),
        (None, {}, ("None", "2 bytes", "neither ck, ack nor bAck")),
    ],
)
def test_a_pop_consumers_message_is_a_checkpoint_or_an_acknowledgement(
    tags: str | None, document: object, line: tuple[str, str, str]
) -> None:
    assert revive_line("R", tags, json.dumps(document).encode()) == StateLine("R", *line)
