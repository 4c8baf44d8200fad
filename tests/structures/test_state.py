"""The small files of a 5.x broker: shown line by line, and named where they cannot be right."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Message, check, open_store
from store.files.store_reader import StoreReader
from store.formats.derived import units_of
from store.query.spark.pieces import Gatherer
from store.structures.commitlog.slices import LogSlice
from store.structures.registry import STRUCTURES
from store.structures.state.lines import epochs_of, revive_line, state_lines
from store.verbs.rebuild.scope import RebuildScope
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, five
from tests.support.snapshots import contents
from tests.support.stores import SMALL, make_store

EPOCHS = "2\n664415559\n1-0\n3-5000\n"
"""As EpochFileCache writes it."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", 5)


def kinds(root: Path) -> set[str]:
    return {finding.kind for finding in check(root)}


def test_epochs_are_read_with_their_crc() -> None:
    assert epochs_of(EPOCHS) == ([(1, 0), (3, 5000)], "")


def test_the_crc_of_epochs_has_no_top_bit() -> None:
    assert zlib.crc32(b"1-8\n") == 2920071310
    assert epochs_of("1\n772587662\n1-8\n") == ([(1, 8)], "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "torn"),
        ("2\n", "torn"),
        ("2\n664415558\n1-0\n3-5000\n", "CRC"),
        ("3\n664415559\n1-0\n3-5000\n", "counts"),
        ("2\n0\n3-0\n1-5000\n", "do not rise"),
        ("1\n0\nx\n", "no epoch"),
    ],
)
def test_an_epoch_file_that_is_not_right_is_told_with_what_follows(text: str, fault: str, root: Path) -> None:
    assert fault in epochs_of(text)[1]
    (root / "epochFileCheckpoint").write_text(text)
    assert kinds(root) == {"state-file"}


@pytest.mark.parametrize(
    ("beyond", "found"), [(0, []), (1, ["epoch 4 begins at log offset 32769, the last segment ends at 32768"])]
)
def test_epochs_beyond_the_log_are_found(beyond: int, found: list[str], tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    text = f"1-0\n4-{2 * SMALL['mappedFileSizeCommitLog'] + beyond}\n"
    (root / "epochFileCheckpoint").write_text(f"2\n{zlib.crc32(text.encode()) & 0x7FFFFFFF}\n{text}")
    assert [(one.kind, one.offset, one.detail) for one in check(root)] == [("state-file", 0, one) for one in found]


def test_an_identity_before_its_registration_is_checked_by_itself(root: Path) -> None:
    (root / "brokerIdentity-temp").write_text("C#b#1")
    assert kinds(root) == {"state-file"}


@pytest.mark.parametrize(("text", "found"), [("C#b#1", set()), ("C#b", {"state-file"}), ("C#b#x", {"state-file"})])
def test_a_brokers_identity_has_three_parts(text: str, found: set[str], root: Path) -> None:
    (root / "brokerIdentity").write_text(text)
    assert kinds(root) == found


WRONG_TIERED = {"queueMetadataTable": {"T": {"0": {"minOffset": 9, "maxOffset": 0}}}}
ORDER = {"table": {"T@G": {"0": {"popTime": 1, "i": 60000, "o": [5, 1], "cm": 1}}}}
TIERED = {
    "queueMetadataTable": {"T": {"0": {"minOffset": 0, "maxOffset": 9}}},
    "commitLogFileSegmentTable": {"p": {"0": {"baseOffset": 0, "size": 10, "status": 1}}},
}


@pytest.mark.parametrize(
    ("name", "document", "found"),
    [
        ("consumerOrderInfo.json", ORDER, set()),
        ("consumerOrderInfo.json", {"table": {"T@G": {"0": {"o": [5], "cm": 6}}}}, {"state-file"}),
        ("tieredStoreMetadata.json", TIERED, set()),
        ("tieredStoreMetadata.json", WRONG_TIERED, {"state-file"}),
    ],
)  # fmt: skip
def test_tables_are_checked_for_their_form(name: str, document: dict[str, object], found: set[str], root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_text(json.dumps(document))
    assert kinds(root) == found
    assert list(state_lines(StoreReader(str(root))))


def test_a_dump_shows_every_line(root: Path) -> None:
    (root / "epochFileCheckpoint").write_text(EPOCHS)
    (root / "brokerIdentity").write_text("C#b#1")
    run = rmqctl("--format", "json", "dump", "state", store=root)
    assert [(row["field"], row["value"]) for row in run.json["entries"]] == [
        ("epoch 1", "0"),
        ("epoch 3", "5000"),
        ("identity", "C#b#1"),
    ]


@pytest.mark.leaves_damage
def test_checkpoints_and_acknowledgements_of_pop_consumers_are_shown_and_checked(root: Path) -> None:
    topic = "rmq_sys_REVIVE_LOG_C"
    checkpoint = {"so": 3, "pt": 1, "it": 60000, "bm": 0, "n": 2, "q": 0, "t": "T", "c": "G", "d": [0, 1]}
    ack = {"ao": 3, "so": 3, "c": "G", "t": "T", "q": 0, "pt": 1}
    with open_store(root, read_only=False) as store:
        store.put(Message.of(topic, json.dumps(checkpoint), tags="ck"))
        store.put(Message.of(topic, json.dumps(ack), tags="ack"))
        store.catch_up()
    assert kinds(root) == set()
    run = rmqctl("--format", "json", "dump", "state", store=root)
    assert [row["field"] for row in run.json["entries"]] == ["checkpoint", "acknowledgement"]
    with open_store(root, read_only=False) as store:
        store.put(Message.of(topic, json.dumps({**checkpoint, "bm": 9}), tags="ck"))
        store.catch_up()
    assert "state-file" in kinds(root)


def test_recover_puts_the_confirm_offset_of_controller_mode_into_the_log(root: Path) -> None:
    page = bytearray((root / "checkpoint").read_bytes())
    page[32:40] = (1 << 40).to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    (root / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    (root / "abort").write_text("1")
    run = rmqctl("--format", "json", "recover", "--yes", store=root)
    assert run.code == 0, run.err
    assert int.from_bytes((root / "checkpoint").read_bytes()[32:40], "big") == run.json["log_end"]


def test_records_behind_the_confirm_offset_get_no_unit_from_a_broker_and_are_told(root: Path) -> None:
    with open_store(root) as store:
        confirm = store.get("T", 0, 0).messages[0].log_offset + store.get("T", 0, 0).messages[0].size
    page = bytearray(4096)
    page[32:40] = confirm.to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    (root / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    (root / "abort").write_text("1")
    run = rmqctl("recover", "--dry-run", store=root)
    assert "past the confirm offset" in run.err
    assert rmqctl("recover", "--as-broker", "--yes", "--compat", "5.3", store=root).code == 0
    assert int.from_bytes((root / "checkpoint").read_bytes()[32:40], "big") == confirm


def test_info_shows_what_the_small_files_say(root: Path) -> None:
    (root / "epochFileCheckpoint").write_text(EPOCHS)
    (root / "brokerIdentity").write_text("C#b#1")
    queue = {"brokerName": "b", "queueId": 0, "topic": "T"}
    tiered = {"topicMetadataTable": {"T": {"topicId": 0, "status": 0}}, "queueMetadataTable": {"T": {"0": queue}}}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/tieredStoreMetadata.json").write_text(json.dumps(tiered))
    order = {"table": {"T@g": {"0": {"popTime": 1, "o": [5], "cm": 1}, "1": {"popTime": 1, "o": [7], "cm": 0}}}}
    (root / "config/consumerOrderInfo.json").write_text(json.dumps(order))
    (root / "consumequeue/rmq_sys_REVIVE_LOG_C/0").mkdir(parents=True)
    rows = rmqctl("--format", "json", "info", store=root).json["structures"]
    assert [(one["file"], one["detail"]) for one in rows] == [
        ("epochFileCheckpoint", "epoch 1 0; epoch 3 5000"),
        ("brokerIdentity", "identity C#b#1"),
        (
            "config/tieredStoreMetadata.json",
            "1 topic, 1 queue, 0 log files, 0 queue files, 0 index files: older messages may lie elsewhere",
        ),
        ("config/consumerOrderInfo.json", "offsets that groups took of 2 queues"),
        ("consumequeue/rmq_sys_REVIVE_LOG_C", "checkpoints and acknowledgements of pop consumers in 1 queue"),
    ]


def test_structures_are_looked_for_in_the_order_of_the_brokers_criteria() -> None:
    assert [one.name for one in STRUCTURES if not one.newer] == [
        "commit log",
        "checkpoint",
        "abort marker",
        "lock",
        "dledger",
        "consume queue",
        "light queue",
        "extension",
        "queue database",
        "queue database of its own folder",
        "batch queue",
        "message database",
        "index",
        "compaction",
        "timer",
        "wheel snapshots",
        "delay offsets",
        "epochs",
        "tiered storage",
        "tables",
        "tables of 5.x",
        "one RocksDB for all tables",
        "pop consumers",
        "state",
    ]


def leaving(file: str) -> Callable[[Path], None]:
    def leave(root: Path) -> None:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()

    return leave


def write_newer_field(root: Path) -> None:
    with (root / "checkpoint").open("r+b") as file:
        file.seek(48)
        file.write(b"\1")


NEWER_FILES = [
    "consumequeue_r/CURRENT",
    "RocksDBMessageStore/CURRENT",
    "of-a-broker-to-come/CURRENT",
]


@pytest.mark.turns(2)
@pytest.mark.parametrize("leave", [write_newer_field, *map(leaving, NEWER_FILES)], ids=["checkpoint", *NEWER_FILES])
def test_what_a_newer_broker_left_is_named_read_and_never_changed(
    leave: Callable[[Path], None], tmp_path: Path
) -> None:
    root = copy_of_five("bcq", tmp_path)
    leave(root)
    before = contents(root)
    assert kinds(root) == {"newer"}
    [found] = rmqctl("--format", "json", "doctor", store=root).json["diagnoses"]
    assert (found["what"], found["rank"]) == ("newer", 4)
    assert rmqctl("get", "PlainT", "--queue", 0, "--offset", 0, store=root).code == 0
    assert rmqctl("checkpoint", "show", store=root).code == 0
    for words in (
        ["put", "PlainT", "x"],
        ["recover", "--yes"],
        ["rebuild", "--yes"],
        ["checkpoint", "rewrite", "--yes"],
    ):
        assert rmqctl(*words, store=root).code == 4
    assert contents(root) == before


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("notes.txt", {"unknown"}),
        ("backup/commitlog/00000000000000000000", {"unknown"}),
        ("timerwheel.old", {"unknown"}),
        ("lost+found/x", set()),
        (".nfs000000000000a1b2", set()),
        ("rocksdbstore", set()),
    ],
)
def test_what_no_broker_made_in_the_root_is_noted_and_hinders_no_change(
    file: str, found: set[str], tmp_path: Path
) -> None:
    root = copy_of_five("bcq", tmp_path)
    leaving(file)(root)
    assert kinds(root) == found
    assert rmqctl("recover", "--yes", store=root).code == (4 if "newer" in found else 0)
    assert (root / file).exists()


def controlled(tmp_path: Path, confirm_index: int) -> tuple[Path, int]:
    """A killed store in controller mode, its queues lost, confirmed up to the end of one message."""
    root = copy_of_five("bcq-aborted", tmp_path)
    with open_store(root, as_is=True) as store:
        last = store.get("PlainT", 0, confirm_index).messages[0]
    confirm = last.log_offset + last.size
    page = bytearray(4096)
    page[32:40] = confirm.to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    (root / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "batchconsumequeue")
    return root, confirm


def test_a_recovery_gives_no_units_behind_the_confirm_offset_and_check_misses_none(tmp_path: Path) -> None:
    root, confirm = controlled(tmp_path, 20)
    sizes = ("--set", "mappedFileSizeConsumeQueue=400", "--set", "mapperFileSizeBatchConsumeQueue=460")
    run = rmqctl("--format", "json", *sizes, "recover", "--yes", store=root)
    assert (run.code, run.json["log_end"] > confirm) == (0, True)
    files = sorted((root / "consumequeue/PlainT/0").iterdir())
    units = units_of(b"".join(path.read_bytes() for path in files))
    live = units[units["size"] > 0]
    assert (len(live), int(live[-1]["log_offset"] + live[-1]["size"])) == (21, confirm)
    assert kinds(root) == set()


def test_a_lost_unit_before_the_confirm_offset_is_missed(tmp_path: Path) -> None:
    root, confirm = controlled(tmp_path, 20)
    rmqctl("recover", "--yes", store=root)
    unit = next((root / "consumequeue/PlainT/0").iterdir())
    with unit.open("r+b") as file:
        file.seek(20 * 20)
        file.write(bytes(20))
    [found] = check(root)
    assert (found.kind, found.offset < confirm) == ("missing-unit", True)


def test_a_put_behind_the_confirm_offset_gets_the_next_queue_offset_of_the_log(tmp_path: Path) -> None:
    root, _ = controlled(tmp_path, 20)
    rmqctl("recover", "--yes", store=root)
    with open_store(five("bcq-aborted") / "store") as store:
        following = {(queue.topic, queue.queue_id): queue.max_offset for queue in store.queues()}["PlainT", 0]
    put = rmqctl("--format", "json", "put", "PlainT", "after", "--queue", 0, store=root)
    assert put.json["results"][0]["queue_offset"] == following
    assert kinds(root) == set()


def test_a_rebuild_gives_no_units_behind_the_confirm_offset_and_says_so(tmp_path: Path) -> None:
    root, confirm = controlled(tmp_path, 20)
    sizes = ("--set", "mappedFileSizeConsumeQueue=400", "--set", "mapperFileSizeBatchConsumeQueue=460")
    run = rmqctl("--format", "json", *sizes, "rebuild", "--yes", store=root)
    assert f"past the confirm offset {confirm}" in run.err + run.out
    files = sorted((root / "consumequeue/PlainT/0").iterdir())
    units = units_of(b"".join(path.read_bytes() for path in files))
    live = units[units["size"] > 0]
    assert (len(live), int(live[-1]["log_offset"] + live[-1]["size"])) == (21, confirm)
    assert kinds(root) == set()
    [shown] = [
        one for one in rmqctl("--format", "json", "info", store=root).json["structures"] if one["file"] == "checkpoint"
    ]
    assert str(confirm) in shown["detail"]


def test_pieces_for_spark_hold_confirmed_records_alone(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    segment = StoreReader(str(root)).segments()[0]
    with open_store(root) as store:
        confirm = store.get("T", 0, 0).messages[0].log_offset + store.get("T", 0, 0).messages[0].size
    gather = Gatherer(str(root), tmp_path, RebuildScope(confirmed=confirm), ())
    found = gather(LogSlice(segment.path, segment.number, segment.size, 0, segment.size))
    assert (found.record_count, sum(piece.unit_count for of in found.queues.values() for piece in of)) == (5, 1)


def fault_of(text: str) -> str:
    return epochs_of(text)[1]


STOPS = "torn: NumberFormatException, no broker in controller mode starts with it"
RISE = "epochs or start offsets do not rise: a slave would cut its log at a wrong place"


@pytest.mark.parametrize(
    ("text", "found", "fault"),
    [
        ("0\n0\n", [], ""),
        ("x\n0\n", [], STOPS),
        ("0\nx\n", [], STOPS),
        ("1\n0\n0-0\n", [(0, 0)], ""),
        ("1\n0\n-1-0\n", [], "'-1-0' is no epoch and start offset; the copy is loaded instead"),
        ("2\n0\n1-0\n2\n", [(1, 0)], "'2' is no epoch and start offset; the copy is loaded instead"),
        ("1\n0\n1--5\n", [], "'1--5' is no epoch and start offset; the copy is loaded instead"),
        ("1\n0\n1-0\n2-5\n", [(1, 0), (2, 5)], "counts 1 epochs, holds 2; the copy is loaded instead"),
        ("2\n0\n1-5\n2-5\n", [(1, 5), (2, 5)], ""),
        ("2\n0\n1-5\n2-4\n", [(1, 5), (2, 4)], RISE),
        ("2\n0\n1-5\n1-6\n", [(1, 5), (1, 6)], RISE),
        ("3\n0\n1-0\n2-5\n2-6\n", [(1, 0), (2, 5), (2, 6)], RISE),
    ],
)
def test_epochs_and_start_offsets_rise(text: str, found: list[tuple[int, int]], fault: str) -> None:
    assert epochs_of(text) == (found, fault)


def said(root: Path, path: str, text: str) -> list[tuple[str, str, str]]:
    """Name, value and fault of each line of one file."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    lines = list(state_lines(StoreReader(str(root))))
    assert {line.file for line in lines} <= {path}
    return [(line.name, line.value, line.fault) for line in lines]


NO_ID = "parts between # instead of {}: the broker requests a new id"
NO_NUMBER = "no name and number"
NO_TIERS = "minOffset is above maxOffset, or no number"
NO_SEGMENT = "its size is no number, or baseOffset is not its key"
FILES = [
    ("brokerIdentity", "C#b#1\n", [("identity", "C#b#1", "")]),
    ("brokerIdentity", "C#b#-1", [("identity", "C#b#-1", "")]),
    ("brokerIdentity", "C#b#x", [("identity", "C#b#x", "3 " + NO_ID.format(3))]),
    ("brokerIdentity", "C##1", [("identity", "C##1", "3 " + NO_ID.format(3))]),
    ("brokerIdentity", "C#b", [("identity", "C#b", "2 " + NO_ID.format(3))]),
    ("brokerIdentity-temp", "C#b#1#c", [("identity", "C#b#1#c", "")]),
    ("brokerIdentity-temp", "C#b#1", [("identity", "C#b#1", "3 " + NO_ID.format(4))]),
    ("epochFileCheckpoint", "2\n0\n1-0\n2-5\n", [("epoch 1", "0", ""), ("epoch 2", "5", "")]),
    ("epochFileCheckpoint.bak", "", [("epochs", "0", STOPS)]),
    (
        "compaction/position-checkpoint",
        '{"queueOffsetMap":{"T_0":5,"T_1":"x"}}',
        [("T_0", "5", ""), ("T_1", "x", "no queue offset")],
    ),
    (
        "config/consumerOrderInfo.json",
        (
            '{"table":{"T@g":{0:{"popTime":1,"o":[7,1],"cm":3},1:{"popTime":1,"o":[7,1],"cm":4},2:{"o":5},3:{"o":[],"cm":1},'
            '4:{"o":[],"cm":2}},"Tg":{0:{"o":[1]}}}}'
        ),
        [
            ("T@g 0", "popTime=1 offsets=2 acknowledged=3", ""),
            ("T@g 1", "popTime=1 offsets=2 acknowledged=4", "cm acknowledges more than 2 messages"),
            ("T@g 2", "popTime=None offsets=0 acknowledged=None", "o is no list of offsets"),
            ("T@g 3", "popTime=None offsets=0 acknowledged=1", ""),
            ("T@g 4", "popTime=None offsets=0 acknowledged=2", "cm acknowledges more than 0 messages"),
            ("Tg 0", "popTime=None offsets=1 acknowledged=None", "the key is no topic@group"),
        ],
    ),
    (
        "config/tieredStoreMetadata.json",
        (
            '{"topicMetadataTable":{"T":{"topicId":1,"status":0}},"queueMetadataTable":{"T":{"0":{"minOffset":5,"maxOffset":5},'
            '"1":{"minOffset":6,"maxOffset":5},"2":{"minOffset":0}}},"commitLogFileSegmentTable":{"a":{"0":{"baseOffset":0,'
            '"size":0,"status":1},"5":{"baseOffset":4,"size":5},"9":{"baseOffset":9,"size":-1}}},'
            '"indexFileSegmentTable":{"b":{"0":{"baseOffset":0,"size":"x"}}}}'
        ),
        [
            ("topic T", "id=1 status=0", ""),
            ("queue T/0", "5 to 5", ""),
            ("queue T/1", "6 to 5", NO_TIERS),
            ("queue T/2", "0 to None", NO_TIERS),
            ("commitLog a 0", "size=0 status=1", ""),
            ("commitLog a 5", "size=5 status=None", NO_SEGMENT),
            ("commitLog a 9", "size=-1 status=None", NO_SEGMENT),
            ("index b 0", "size=x status=None", NO_SEGMENT),
        ],
    ),
]


@pytest.mark.parametrize(("path", "text", "lines"), FILES)
def test_each_line_of_a_small_file_is_said_with_its_fault(
    path: str, text: str, lines: list[tuple[str, str, str]], root: Path
) -> None:
    assert said(root, path, text) == lines


def test_a_table_that_is_no_json_is_said_with_its_length(root: Path) -> None:
    ((name, value, fault),) = said(root, "compaction/position-checkpoint", "{x")
    assert (name, value, fault.split(":")[0]) == ("document", "2 characters", "not what a broker writes")


TOO_MANY = "bm acknowledges more than"
ACK = {"ao": 6, "so": 5, "c": "g", "t": "T", "q": 0, "pt": 1}
CHECKPOINT = {"so": 5, "pt": 1, "it": 1, "n": 2, "q": 0, "t": "T", "c": "g"}


@pytest.mark.parametrize(
    ("tags", "document", "line"),
    [
        ("ck", CHECKPOINT, ("checkpoint", "g T/0 from 5: 2 messages", "")),
        ("ck", {**CHECKPOINT, "bm": 3}, ("checkpoint", "g T/0 from 5: 2 messages", "")),
        ("ck", {**CHECKPOINT, "bm": 4}, ("checkpoint", "g T/0 from 5: 2 messages", f"{TOO_MANY} 2 messages")),
        ("ck", {**CHECKPOINT, "n": 0, "bm": 1}, ("checkpoint", "g T/0 from 5: 0 messages", "")),
        ("ck", {**CHECKPOINT, "n": 0, "bm": 2}, ("checkpoint", "g T/0 from 5: 0 messages", f"{TOO_MANY} 0 messages")),
        ("ck", {"so": 5, "n": 2}, ("checkpoint", "None None/None from 5: 2 messages", "without c, it, pt, q, t")),
        ("ack", ACK, ("acknowledgement", "g T/0: 6", "")),
        ("ack", {"ao": 6, "c": "g", "t": "T", "q": 0}, ("acknowledgement", "g T/0: 6", "fields are missing")),
        ("bAck", {**ACK, "aol": [7]}, ("acknowledgement", "g T/0: [7]", "")),
        ("x", {}, ("x", "2 bytes", "neither ck, ack nor bAck")),
        (None, {}, ("None", "2 bytes", "neither ck, ack nor bAck")),
    ],
)  # fmt: skip
def test_each_message_of_a_pop_consumer_is_said(
    tags: str | None, document: dict[str, object], line: tuple[str, str, str]
) -> None:
    found = revive_line("rmq_sys_REVIVE_LOG_C", tags, json.dumps(document, separators=(",", ":")).encode())
    assert (found.file, found.name, found.value, found.fault) == ("rmq_sys_REVIVE_LOG_C", *line)
