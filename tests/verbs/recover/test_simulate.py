"""simulate says what a broker's next start does: against what real brokers did, and against what recover then does."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.hints import hint_for
from store import open_store
from store import simulate as public_simulate
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.opened.detect import find_store
from store.opened.opened_store import OpenedStore
from store.structures.trap import Trap
from store.verbs.queue_ends import queue_ends
from store.verbs.recover.outcome import SimulatedStart
from store.verbs.recover.simulate import simulate_start
from tests.cli.running import rmqctl
from tests.support.five_stores import five
from tests.support.golden import WITH_ANSWERS, copy_store, golden
from tests.support.random_damage import damage, records
from tests.support.refstore import LINES, SETTINGS, SIZES, needs_refstore, refstore
from tests.support.simulating import FOLDERS, simulate, sizes_afterwards, sizes_in
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, Clock, make_store, recover, text_message

TOPIC_AT = 88 + 60 + 1
"""In a record of text_message: behind the fixed fields, the body, and the topic's length."""
SMALL_FILES = {"mappedFileSizeCommitLog": 16384, "mappedFileSizeConsumeQueue": 400}


@pytest.mark.parametrize("root", [golden("normal").store, five("rocksdb") / "store"], ids=["files", "database"])
def test_a_simulated_start_knows_the_next_offset_of_each_queue(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[tuple[str, int], int] = {}
    ends = {(one.topic, one.queue_id): one.max_offset for one in queue_ends(StoreReader(str(root)))}

    def traps(opened: OpenedStore, start: SimulatedStart) -> list[Trap]:
        found.update({queue: opened.max_offset(*queue) for queue in [*ends, ("unknown", 0)]})
        return []

    monkeypatch.setattr("store.structures.index.start.traps", traps)
    assert public_simulate(root).starts
    assert found == {**ends, ("unknown", 0): 0}
    assert max(found.values()) > 1


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_end_and_files_are_those_that_the_broker_left(name: str, tmp_path: Path) -> None:
    archive = golden(name)
    root = copy_store(archive.store, tmp_path / "store")
    before = snapshot(root)
    start = simulate(root, archive.compat, **archive.settings)
    loaded = archive.loaded()
    assert start.starts == loaded["loadOk"]
    assert start.log_end == loaded["maxPhyOffsetAfterLoad"]
    expected = {path: size for path, (size, _) in archive.files("after-load-only").items() if path.startswith(FOLDERS)}
    assert sizes_afterwards(start) == expected
    assert snapshot(root) == before


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("healthy") / "store", 120)


@pytest.mark.turns(4)
@given(seed=st.integers(0, 1 << 32), crashed=st.booleans())
def test_recover_on_a_copy_does_what_simulate_said(
    healthy: Path, tmp_path_factory: pytest.TempPathFactory, seed: int, crashed: bool
) -> None:
    root = copy_store(healthy, tmp_path_factory.mktemp("damaged") / "store")
    if crashed:
        (root / "abort").touch()
    damage(root, random.Random(seed))
    start = simulate(root, **SMALL_FILES)
    change, _ = recover(root, settings=SMALL_FILES, as_broker=True, compat="4.9")
    found, said = sizes_in(root), sizes_afterwards(start)
    assert change.report.log_end == start.log_end
    assert change.report.start_segment == start.start_segment
    assert change.report.stopped_by == start.cut_reason
    assert change.report.lost == start.lost.queue_rows()
    # What a load leaves undispatched, the start hands over: more queue files, never fewer.
    assert said.items() <= found.items()
    assert all(name.startswith("consumequeue/") for name in found.keys() - said.keys())


def segment(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def put_bytes(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.fixture
def store(healthy: Path, tmp_path: Path) -> Path:
    return copy_store(healthy, tmp_path / "store")


def test_a_file_of_a_wrong_length_keeps_a_broker_from_starting(store: Path) -> None:
    path = segment(store)
    path.write_bytes(path.read_bytes()[:-1])
    start = simulate(store, **SMALL_FILES)
    assert not start.starts
    assert "16383" in start.reason
    assert {file.action for file in start.files} == {"keep"}


def test_what_a_start_changes_is_listed_by_name(healthy: Path, tmp_path: Path) -> None:
    root = copy_store(healthy, tmp_path / "store")
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    damaged, at, _ = records(root)[40]
    put_bytes(damaged, at + 100, b"~~")
    found = find_store(StoreLayout(root), SMALL_FILES, Filesystem())
    start = simulate_start(found, Filesystem(), Clock(), scratch=tmp_path / "scratch")
    listed = [(file.file, file.action) for file in start.files]
    assert listed == sorted(listed)
    assert listed[:2] == [(f"commitlog/{0:020d}", "truncate"), (f"commitlog/{16384:020d}", "remove")]
    assert {action for _, action in listed} == {"truncate", "remove"}
    kept = {file.file for file in simulate(root, **SMALL_FILES).files if file.action == "keep"}
    assert kept == sizes_in(root).keys() - dict(listed).keys()


def test_an_empty_last_segment_stops_4_9_and_is_deleted_by_5_3(store: Path) -> None:
    segment(store, 1 << 20).touch()
    four, five = (simulate(store, line, **SMALL_FILES) for line in ("4.9", "5.3"))
    assert (four.starts, five.starts) == (False, True)
    assert [file.file for file in five.files if file.action == "remove"] == [f"commitlog/{1 << 20:020d}"]


@pytest.mark.parametrize(("size", "starts"), [(0x7FFFFFFF, False), (0x40000000, True)])
def test_a_huge_size_takes_the_memory_of_4_9_but_not_of_5_3(store: Path, size: int, starts: bool) -> None:
    (store / "checkpoint").write_bytes(bytes(4096))
    (store / "abort").touch()
    put_bytes(segment(store), 0, size.to_bytes(4, "big"))
    four, five = (simulate(store, line, **SMALL_FILES) for line in ("4.9", "5.3"))
    assert (four.starts, five.starts) == (starts, True)
    assert [trap.code for trap in four.traps] == ["large-allocation" if starts else "out-of-memory"]


def last_queue_file(root: Path, queue: int = 0) -> Path:
    return max((root / "consumequeue/T" / str(queue)).iterdir())


def test_a_last_queue_file_of_zeros_becomes_a_phantom_unit(store: Path) -> None:
    path = last_queue_file(store)
    path.write_bytes(bytes(path.stat().st_size))
    for line in ("4.9", "5.3"):
        start = simulate(store, line, **SMALL_FILES)
        assert [trap.code for trap in start.traps] == ["phantom-unit", "lost-queue"]
        trap = start.traps[0]
        assert "`rmqctl rebuild --queues --topic T --queue 0`" in hint_for(trap.code, trap.subject)


@pytest.mark.parametrize(("past_the_end", "is_ahead"), [(-1, False), (0, False), (1, True)])
def test_new_messages_get_no_index_entry_below_the_end_of_the_last_file(
    store: Path, past_the_end: int, is_ahead: bool
) -> None:
    log_end = simulate(store, **SMALL_FILES).log_end
    put_bytes(max((store / "index").iterdir()), 24, (log_end + past_the_end).to_bytes(8, "big"))
    for line in ("4.9", "5.3", "5.5"):
        assert [trap.code for trap in simulate(store, line, **SMALL_FILES).traps] == ["index-ahead"] * is_ahead
        assert simulate(store, line, messageIndexEnable=False, **SMALL_FILES).traps == []


@needs_refstore
@pytest.mark.parametrize("line", LINES)
def test_the_real_store_finds_no_key_of_a_message_below_the_index_s_end(line: str, tmp_path: Path) -> None:
    root = copy_store(golden("corrupt-mid").store, tmp_path / "store")
    start = simulate(root, f"{line[0]}.{line[1]}", **SETTINGS)
    assert [trap.code for trap in start.traps] == ["index-ahead"]
    message = {"topic": "TopicA", "queueId": 0, "body": "aGk=", "properties": {"KEYS": "late"}}
    query = {"op": "query", "topic": "TopicA", "key": "late", "max": 5, "begin": 0, "end": 1 << 60}
    (tmp_path / "ops").write_text("\n".join(map(json.dumps, ({"op": "put", "msg": message}, {"op": "catchup"}, query))))
    with refstore(line, "ops", "--store", root, *SIZES, "--input", tmp_path / "ops") as process:
        lines = process.communicate(timeout=120)[0].splitlines()
    put, _, found = (json.loads(line)["res"] for line in lines)
    assert (put["wroteOffset"], found["phyOffsets"]) == (start.log_end, [])


@pytest.mark.parametrize(
    ("begins_later", "moves", "lacks"), [(False, ", and later ones move forward by one", 1), (True, "", 21)]
)
def test_5_3_leaves_out_the_record_at_the_queues_end(begins_later: bool, moves: str, lacks: int, store: Path) -> None:
    for queue in range(3):
        path = last_queue_file(store, queue)
        path.write_bytes(bytes(path.stat().st_size))
    if begins_later:
        shutil.rmtree(store / "consumequeue/T/0")
    start = simulate(store, "5.3", **SMALL_FILES)
    assert [(trap.code, trap.detail) for trap in start.traps[:1]] == [
        ("record-at-queue-end", f"the record at log offset 11200 gets no entry{moves}")
    ]
    assert [trap.code for trap in start.traps[1:]] == ["lost-queue"]
    assert start.unseen == {("T", 0): lacks}


def test_the_command_names_every_line_and_its_exit_code_says_whether_all_is_well(store: Path) -> None:
    sound = rmqctl("--format", "json", "simulate", "--compat", "all", store=store)
    assert sound.code == 0
    assert [one["compat"] for one in sound.json["outcomes"]] == ["4.9", "5.3", "5.5"]
    (store / "abort").touch()
    (store / "checkpoint").write_bytes(bytes(4096))
    (store / "config").mkdir()
    (store / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"0": 0}}}))
    put_bytes(segment(store), 95, b"\xff")
    run = rmqctl("--format", "json", "simulate", "--compat", "4.9", store=store)
    (one,) = run.json["outcomes"]
    assert run.code == 1
    assert one["lost"]["messages"] == 120
    assert one["lost"]["unconsumed"] == {"g": 120}
    assert sum(row["unconsumed_by_group"]["g"] for row in one["lost"]["queues"]) == 120
    dry_run = rmqctl("--format", "json", "recover", "--compat", "4.9", "--dry-run", store=store).json
    assert dry_run["lost"] == one["lost"]["queues"]
    assert dry_run["lost_bytes"] == one["lost"]["bytes"]


def lossy(store: Path) -> None:
    """A store that crashed and lost a body, with a group that had consumed nothing."""
    (store / "abort").touch()
    (store / "checkpoint").write_bytes(bytes(4096))
    (store / "config").mkdir()
    (store / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"0": 0}}}))
    put_bytes(segment(store), 95, b"\xff")


@pytest.mark.parametrize("compat", ["4.9", "5.3"])
def test_the_loss_report_is_that_of_recover_and_truncate_dirty(compat: str, store: Path) -> None:
    lossy(store)
    said = rmqctl("--format", "json", "simulate", "--compat", compat, store=store).json
    (losses,) = said["losses"]
    # truncate-dirty keeps the index files that a start drops.
    for line, own in ((f"recover --as-broker --compat {compat}", ()), ("truncate-dirty", ("lost_index_keys",))):
        planned = rmqctl("--format", "json", *line.split(), "--dry-run", store=store).json
        for name in losses.keys() - {"compat", *own}:
            assert planned[name] == losses[name], name
        for table in ("lost", "unconsumed"):
            assert [{"compat": compat, **row} for row in planned[table]] == said[table]


def test_people_see_every_fact_of_the_loss_report(store: Path) -> None:
    lossy(store)
    out = rmqctl("--wide", "simulate", "--compat", "4.9", store=store).out
    for name in ("lost_units_cut", "lost_index_keys", "lost_delayed", "unconsumed_by_group", "unconsumed:"):
        assert name in out


def test_delayed_messages_that_4_9_delivers_at_once_are_lost_deliver_times(tmp_path: Path) -> None:
    root = tmp_path / "delayed"
    with open_store(root, settings=SMALL, read_only=False, clock=Clock()) as opened:
        for number in range(3):
            opened.put(replace(text_message(number), properties=b"DELAY\x013"))
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    run = rmqctl("--format", "json", "simulate", "--compat", "all", store=root)
    assert run.code == 1
    assert [one["lost_delayed"] for one in run.json["losses"]] == [3, 0, 0]
    assert "loses no message, but 3 delayed messages delivered at once" in " ".join(
        rmqctl("simulate", "--compat", "4.9", store=root).out.split()
    )


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_delayed_message_that_has_its_entry_keeps_its_deliver_time(kept: int, tmp_path: Path) -> None:
    root = tmp_path / "delayed"
    with open_store(root, settings=SMALL, read_only=False, clock=Clock()) as opened:
        for number in range(3):
            opened.put(replace(text_message(number), properties=b"DELAY\x013"))
    (queue,) = (root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2").iterdir()
    queue.write_bytes(queue.read_bytes()[: 20 * kept].ljust(queue.stat().st_size, b"\0"))
    (root / "abort").touch()
    run = rmqctl("--format", "json", "simulate", "--compat", "4.9", store=root)
    assert [one["lost_delayed"] for one in run.json["losses"]] == [3 - kept]


def test_records_of_5_x_that_a_4_9_broker_loses_are_intact() -> None:
    start = simulate(golden("normal5").store)
    assert start.lost.intact == start.lost.messages == 489
    assert "a record of 5.x (V2 magic), which a 4.x broker cannot read" in start.cut_reason


def test_the_verdict_on_all_lines_fits_a_terminal() -> None:
    run = rmqctl("simulate", "--compat", "all", store=golden("normal5").store, terminal=True)
    lines = run.out.partition("\n\n")[0].splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("line", ["simulate", "recover --dry-run"])
def test_beside_an_owner_the_start_is_that_after_its_abrupt_end(line: str, store: Path) -> None:
    with StoreLock(store / "lock", Filesystem()):
        run = rmqctl(*line.split(), store=store)
    assert run.code == 0
    assert "holds the store; the start shown is the one after its abrupt end" in run.err
    assert "holds the store" not in rmqctl(*line.split(), store=store).err


def test_an_empty_last_queue_file_is_deleted_as_by_5_3(store: Path) -> None:
    empty = store / "consumequeue/T/0" / f"{800:020d}"
    empty.touch()
    foretold = [file.file for file in simulate(store, "5.3", **SMALL_FILES).files if file.action == "remove"]
    assert foretold == [str(empty.relative_to(store))]
    recover(store, settings=SMALL_FILES, compat="5.3", as_broker=True)
    assert not empty.exists()


FIRST, LAST = f"{0:020d}", f"{400:020d}"
"""The files of a queue of 40 messages."""


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def half_zeroed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200] + bytes(200))


def pre_blanked(path: Path) -> None:
    path.write_bytes((bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)) * 15 + path.read_bytes()[300:])


def flipped(path: Path) -> None:
    path.write_bytes(b"\0\0\0\x01" + path.read_bytes()[4:])


LOST: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int]] = {
    "both files of zeros": (zeroed, (FIRST, LAST), 40),
    "the older file of zeros, and with it the newer one": (zeroed, (FIRST,), 40),
    "the newer file of zeros": (zeroed, (LAST,), 20),
    "zeros amid the older file, and what is behind them": (half_zeroed, (FIRST,), 30),
    "pre-blank entries over written ones": (pre_blanked, (FIRST,), 15),
    "an entry that names another place": (flipped, (FIRST,), 1),
    "an emptied folder": (Path.unlink, (FIRST, LAST), 40),
    "the older file lost": (Path.unlink, (FIRST,), 20),
    "the newer file lost": (Path.unlink, (LAST,), 20),
}


@pytest.mark.parametrize("line", ["4.9", "5.3"])
@pytest.mark.parametrize("case", LOST)
def test_messages_that_no_queue_shows_after_a_start_are_counted(case: str, line: str, store: Path) -> None:
    harm, names, count = LOST[case]
    for name in names:
        harm(store / "consumequeue/T/0" / name)
    start = simulate(store, line, **SMALL_FILES)
    assert start.unseen == {("T", 0): count}
    assert "lost-queue" in [trap.code for trap in start.traps]


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_message_counts_whose_damaged_topic_can_name_no_folder(line: str, store: Path) -> None:
    path, at, _ = records(store)[0]
    put_bytes(path, at + TOPIC_AT, b"\0")
    start = simulate(store, line, **SMALL_FILES)
    assert start.unseen == {("\0", 0): 1}
    assert [trap.code for trap in start.traps] == ["nameless-queue"]


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_crashed_start_from_the_logs_beginning_passes_over_what_is_below_a_queues_end(line: str, store: Path) -> None:
    (store / "abort").touch()
    (store / "checkpoint").write_bytes(bytes(4096))
    (store / "consumequeue/T/0" / FIRST).unlink()
    start = simulate(store, line, **SMALL_FILES)
    assert (start.start_segment, start.unseen) == (0, {("T", 0): 20})


def test_a_start_that_hands_over_what_queues_lack_leaves_no_message_unseen(store: Path) -> None:
    shutil.rmtree(store / "consumequeue")
    assert [simulate(store, line, **SMALL_FILES).unseen for line in ("4.9", "5.3")] == [{}, {}]


def test_a_4_9_start_passes_over_as_many_bytes_again_behind_a_segment_with_a_wrong_sum(tmp_path: Path) -> None:
    root = make_store(tmp_path / "long", 500)
    shutil.rmtree(root / "consumequeue")
    path, at, size = next(place for place in records(root) if place[1] > 1000)
    put_bytes(path, at + 100, bytes(SMALL_FILES["mappedFileSizeCommitLog"] - at - 100))
    second = [place for place in records(root) if place[0] == segment(root, SMALL_FILES["mappedFileSizeCommitLog"])]
    assert size not in [position for _, position, _ in second]
    assert sum(simulate(root, **SMALL_FILES).unseen.values()) == len(second)


def test_zeros_before_written_entries_of_a_last_file_count_as_an_entry(store: Path) -> None:
    put_bytes(store / "consumequeue/T/0" / LAST, 0, bytes(20))
    start = simulate(store, **SMALL_FILES)
    assert [trap.code for trap in start.traps] == ["phantom-unit", "lost-queue"]
    assert start.unseen == {("T", 0): 1}


@pytest.mark.parametrize(
    ("queues_reach", "line", "waits"),
    [
        ("the log's beginning", "4.9", True),
        ("the hole", "4.9", True),
        ("behind the hole", "4.9", False),
        ("the log's beginning", "5.3", False),
    ],
)
def test_4_9_waits_for_ever_where_its_dispatch_comes_upon_a_missing_segment(
    queues_reach: str, line: str, waits: bool, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 300)
    first, hole, *behind = sorted((root / "commitlog").iterdir())
    at = first.stat().st_size
    if queues_reach == "the log's beginning":
        shutil.rmtree(root / "consumequeue")
    elif queues_reach == "the hole":
        at += max(position + size for path, position, size in records(root) if path == hole)
        for segment in behind:
            segment.write_bytes(bytes(segment.stat().st_size))
    hole.unlink()
    start = simulate(root, line, **SMALL)
    reason = f"the start waits for ever for the segment of log offset {at}, which is missing"
    assert (start.starts, start.reason, start.blocker[0]) == (
        (False, reason, "waits-for-segment") if waits else (True, "", "")
    )
