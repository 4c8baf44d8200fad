"""Each deliberate difference from a broker: a plan names it where it applies, and the manual lists it.

That nothing else differs is held by tests/runs/differential.py, against the real store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import Message, open_store
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import CheckpointPage
from store.formats.message import TRANSACTION_PREPARED
from store.structures.tables.consumer_offsets import read_consumer_offsets
from store.verbs.recover.differences import Difference
from tests.runs.differential import Reference, differing_files
from tests.support.golden import copy_store, golden
from tests.support.refstore import COMMAND, needs_refstore
from tests.support.simulating import simulate
from tests.support.stores import SMALL, make_store, recover, text_message

COUNT, LAST = 61, 60
MAN = Path(__file__).parents[3] / "man" / "man1" / "rmqctl-recover.1"
PLACE_AT = 28
"""Where a record names its log offset."""


def crash(root: Path) -> None:
    """Leaves an abort marker and no checkpoint, so that the whole log is walked."""
    (root / "abort").touch()
    (root / "checkpoint").unlink()


def overwrite_record(root: Path, number: int, position: int, data: bytes) -> None:
    with open_store(root, as_is=True) as store:
        at = store.get("T", number % 3, number // 3).messages[0].log_offset + position
    size = SMALL["mappedFileSizeCommitLog"]
    with (root / "commitlog" / f"{at - at % size:020d}").open("r+b") as file:
        file.seek(at % size)
        file.write(data)


def overwrite_unit(root: Path, queue_id: int, queue_offset: int, position: int, data: bytes) -> None:
    path = root / "consumequeue" / "T" / str(queue_id) / f"{queue_offset // 20 * 400:020d}"
    with path.open("r+b") as file:
        file.seek(queue_offset % 20 * 20 + position)
        file.write(data)


def bad_body(root: Path) -> None:
    overwrite_record(root, 40, 100, b"~~")


def crash_over_a_bad_body(root: Path) -> None:
    bad_body(root)
    crash(root)


def crash_below_the_end_of_kept_index_files(root: Path) -> None:
    """The checkpoint has the time of the newest full index file, so that a broker keeps it."""
    with open_store(root, read_only=False, settings=SMALL) as store:
        for number in range(COUNT, 300):
            store.put(text_message(number, queue_id=number % 3))
    bad_body(root)
    (root / "abort").touch()


def crash_over_a_huge_size(root: Path) -> None:
    overwrite_record(root, 40, 0, b"\x7f\xff\xff\xff")
    crash(root)


def crash_without_queues_over_a_wrong_place(root: Path) -> None:
    overwrite_record(root, 40, PLACE_AT, bytes(8))
    shutil.rmtree(root / "consumequeue")
    crash(root)


def crash_without_queues_of_delayed_messages(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL) as store:
        assert store.put(Message.of("T", "later", properties={"DELAY": "3"})).is_ok
    shutil.rmtree(root / "consumequeue")
    crash(root)


def lose_a_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T" / "1")


def lose_the_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def crash_over_torn_properties(root: Path) -> None:
    with open_store(root) as store:
        last = store.get("T", LAST % 3, LAST // 3).messages[0]
    overwrite_record(root, LAST, last.size - 9, bytes(9))
    crash(root)


def tear_a_unit(root: Path) -> None:
    overwrite_unit(root, 0, 5, 12, bytes(8))
    crash(root)


def damage_a_unit(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL) as store:
        assert all(store.put(text_message(COUNT + number, queue_id=7)).is_ok for number in range(3))
        # A start dispatches from the end of the queue that reaches farthest.
        assert store.put(text_message(COUNT + 3, queue_id=0)).is_ok
    overwrite_unit(root, 7, 1, 0, (1 << 40).to_bytes(8, "big"))


def lose_the_last_unit(root: Path) -> None:
    overwrite_unit(root, LAST % 3, LAST // 3, 0, bytes(20))


def lose_the_last_message_behind_a_prepared_one(root: Path) -> None:
    """The prepared message is in no queue, and in no index file either."""
    with open_store(root, read_only=False, settings=SMALL) as store:
        prepared = text_message(COUNT)
        prepared.sys_flag = TRANSACTION_PREPARED
        assert store.put(prepared).is_ok
        last = store.put(text_message(COUNT + 1, queue_id=2))
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(last.log_offset + 100)
        file.write(b"~~")
    shutil.rmtree(root / "index")


def crash_behind_a_prepared_message(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL) as store:
        prepared = text_message(COUNT)
        prepared.sys_flag = TRANSACTION_PREPARED
        assert store.put(prepared).is_ok
    crash(root)


def make_a_queue_file_ahead(root: Path) -> None:
    """Queue 7 fills its first file; its second was made and never written."""
    with open_store(root, read_only=False, settings=SMALL) as store:
        assert all(store.put(text_message(COUNT + number, queue_id=7)).is_ok for number in range(20))
    (root / "consumequeue" / "T" / "7" / f"{400:020d}").write_bytes(bytes(400))


def lose_a_segment_and_the_queues(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL) as store:
        for number in range(COUNT, 300):
            store.put(text_message(number, queue_id=number % 3))
    (root / "commitlog" / f"{SMALL['mappedFileSizeCommitLog']:020d}").unlink()
    shutil.rmtree(root / "consumequeue")


def crash_under_a_group_at_the_end(root: Path) -> None:
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:21,1:20,2:20}}}')
    crash_over_a_bad_body(root)


# What is done to a closed store, and options of the recovery.
APPLYING: dict[Difference, tuple[Callable[[Path], None], dict[str, Any]]] = {
    Difference.ZEROED_CUT: (crash_over_a_bad_body, {}),
    Difference.ZEROED_UNITS: (crash_over_a_bad_body, {}),
    Difference.CLOSED: (crash, {}),
    Difference.HUGE_SIZE: (crash_over_a_huge_size, {}),
    Difference.DELIVER_TIME: (crash_without_queues_of_delayed_messages, {}),
    Difference.LOST_QUEUES: (lose_a_queue, {}),
    Difference.LOST_INDEX: (lose_the_index, {}),
    Difference.DAMAGED_UNITS: (damage_a_unit, {}),
    Difference.TORN_PROPERTIES: (crash_over_torn_properties, {}),
    Difference.TORN_UNITS: (tear_a_unit, {}),
    Difference.MISPLACED_RECORD: (crash_without_queues_over_a_wrong_place, {}),
    Difference.RECORD_AT_QUEUE_END: (lose_the_last_unit, {"compat": "5.3"}),
    Difference.ZERO_QUEUE_FILE: (make_a_queue_file_ahead, {}),
    Difference.MISSING_SEGMENT: (lose_a_segment_and_the_queues, {}),
    Difference.KEPT_INDEX: (crash, {"keep_index": True}),
    Difference.INDEX_PAST_END: (crash_below_the_end_of_kept_index_files, {}),
    Difference.REPEATED_KEYS: (crash_behind_a_prepared_message, {}),
    Difference.CONSUMED_OFFSETS: (crash_under_a_group_at_the_end, {}),
}


def named(root: Path, **options: Any) -> set[str]:
    change, _ = recover(root, settings=SMALL, **options)
    assert all(row.reason == Difference(row.difference).reason for row in change.report.differs_from_broker)
    return {row.difference for row in change.report.differs_from_broker}


def test_a_store_shows_each_difference_here_or_with_its_structure() -> None:
    # Of others: tests/structures/queuedb/test_rocksdb_recover.py, messagedb/test_recover.py, timer/test_engines.py.
    assert {*APPLYING, Difference.DOUBLE_WRITE, Difference.MESSAGE_DATABASE, Difference.TIMER} == {*Difference}


@pytest.mark.turns(3)
@pytest.mark.parametrize("difference", APPLYING)
def test_a_plan_names_a_difference_that_applies(difference: Difference, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    spoil, options = APPLYING[difference]
    spoil(root)
    assert difference.value in named(root, **options)


def test_groups_past_the_end_of_a_cut_queue_go_on_there(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    crash_under_a_group_at_the_end(root)
    change, _ = recover(root, settings=SMALL)
    assert read_consumer_offsets(root / "config", Filesystem()) == {("T", "G"): {0: 14, 1: 13, 2: 13}}
    moved = "G from 21 to 14 of T/0, G from 20 to 13 of T/1, G from 20 to 13 of T/2"
    rows = [row for row in change.rows() if row["file"] == "config/consumerOffset.json"]
    assert [row["reason"] for row in rows] == [f"3 offsets moved back to the ends of the queues: {moved}"]


def test_keys_of_messages_that_are_put_after_a_recovery_are_in_the_index(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    crash_below_the_end_of_kept_index_files(root)
    assert "index-past-end" in named(root)
    with open_store(root, read_only=False, settings=SMALL) as store:
        new = [store.put(Message.of("T", "new", keys=[f"new{number}"])).log_offset for number in range(3)]
    with open_store(root) as store:
        old = store.get("T", 0, 0).messages[0]
        found = [store.query("T", f"new{number}").messages for number in range(3)]
        assert [[one.log_offset for one in messages] for messages in found] == [[place] for place in new]
        assert [one.log_offset for one in store.query("T", old.keys[0]).messages] == [old.log_offset]


@pytest.mark.turns(3)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("difference", APPLYING)
def test_as_a_broker_only_the_zeroed_cut_and_the_end_differ(difference: Difference, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    spoil, options = APPLYING[difference]
    spoil(root)
    options = {name: value for name, value in options.items() if name != "keep_index"}
    assert named(root, **options, as_broker=True) <= {"zeroed-cut", "closed"}


@pytest.mark.leaves_damage
def test_behind_a_missing_segment_recover_dispatches_as_5_3_does_and_says_so(tmp_path: Path) -> None:
    queues = []
    for as_broker in (True, False):
        root = make_store(tmp_path / str(as_broker), COUNT)
        lose_a_segment_and_the_queues(root)
        change, _ = recover(root, settings=SMALL, compat="5.3", as_broker=as_broker)
        names = [row.difference for row in change.report.differs_from_broker]
        queues.append({path.relative_to(root): path.read_bytes() for path in root.glob("consumequeue/T/*/*")})
    assert names == []
    assert queues[0] == queues[1]
    assert len(queues[0]) == 12
    assert change.notes[0] == "the log lacks 16384 to 32768: messages there are in no queue"


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_of_a_sound_store_nothing_differs(line: str, tmp_path: Path) -> None:
    assert named(make_store(tmp_path / "store", COUNT), compat=line) == set()


@pytest.mark.parametrize(
    ("line", "as_broker", "is_built"), [("5.3", True, False), ("5.3", False, True), ("4.9", True, True)]
)
def test_5_3_alone_leaves_out_the_record_that_begins_where_the_queues_end(
    line: str, as_broker: bool, is_built: bool, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", COUNT)
    lose_the_last_unit(root)
    recover(root, settings=SMALL, compat=line, as_broker=as_broker)
    (queue, *_), offset = (root / "consumequeue" / "T" / str(LAST % 3)).glob("*400"), LAST // 3 % 20 * 20
    assert any(queue.read_bytes()[offset : offset + 20]) == is_built


def test_5_3_alone_leaves_out_a_record_without_a_queue_before_a_cut(tmp_path: Path) -> None:
    found = {}
    for line in ("4.9", "5.3"):
        root = make_store(tmp_path / line, COUNT)
        lose_the_last_message_behind_a_prepared_one(root)
        found[line] = "record-at-queue-end" in named(root, compat=line)
    assert found == {"4.9": False, "5.3": True}


def test_4_9_alone_enters_the_keys_of_a_last_record_without_a_queue_twice(tmp_path: Path) -> None:
    found, counts = {}, {}
    for line, as_broker in (("4.9", False), ("4.9", True), ("5.3", False)):
        root = make_store(tmp_path / f"{line}-{as_broker}", COUNT)
        crash_behind_a_prepared_message(root)
        found[line, as_broker] = "repeated-keys" in named(root, compat=line, as_broker=as_broker)
        with open_store(root) as store:
            counts[line, as_broker] = sum(file.header.index_count - 1 for file in store.opened.index.files)
    assert found == {("4.9", False): True, ("4.9", True): False, ("5.3", False): False}
    # A message has a unique key and two more.
    assert counts["4.9", True] - counts["4.9", False] == 3


@pytest.mark.parametrize(("is_written", "is_named"), [(True, True), (False, False)])
def test_a_broker_without_an_index_repeats_no_keys(is_written: bool, is_named: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT)
    crash_behind_a_prepared_message(root)
    page = CheckpointPage(1_800_000_000_000, 1_800_000_000_000, 1_800_000_000_000)
    (root / "checkpoint").write_bytes(page.encode())
    change, _ = recover(root, settings={**SMALL, "messageIndexEnable": is_written})
    assert ("repeated-keys" in {row.difference for row in change.report.differs_from_broker}) == is_named


@pytest.mark.parametrize("difference", Difference)
def test_the_manual_lists_every_difference_with_its_reason(difference: Difference) -> None:
    page = MAN.read_text(encoding="utf-8").replace("\\-", "-")
    assert f"\\fB{difference.value}\\fR\n{difference.reason[:1].upper()}{difference.reason[1:]}." in page


@needs_refstore
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
@pytest.mark.parametrize("zeroed", [{0}, {1}, {0, 1}], ids=["the first", "the last", "all"])
@pytest.mark.parametrize("name", ["normal", "normal5"])
def test_as_a_broker_queue_files_of_zeros_are_left_as_the_real_start_leaves_them(
    name: str, zeroed: set[int], crashed: bool, tmp_path: Path
) -> None:
    archive = golden(name)
    root = copy_store(archive.store, tmp_path / "store")
    files = sorted((root / "consumequeue/TopicA/1").iterdir())
    for number in zeroed:
        files[number].write_bytes(bytes(files[number].stat().st_size))
    if crashed:
        (root / "abort").touch()
    real, said = copy_store(root, tmp_path / "real"), simulate(root, archive.compat, **archive.settings)
    loaded = Reference([COMMAND], archive.compat).load(real, archive, "abort")
    assert (said.starts, loaded["loadOk"], said.log_end) == (True, True, loaded["maxPhyOffsetAfterLoad"])
    recover(root, settings=archive.settings, compat=archive.compat, as_broker=True)
    assert differing_files(real, root, said.log_end, archive.settings["mappedFileSizeCommitLog"]) == []
