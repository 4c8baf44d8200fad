"""A view of all queues opens those alone that need something, and gives what it gives when it opens every one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import open_store, staged_store
from store.formats.queue_unit import QueueUnit
from store.formats.run import Stretch
from store.opened import queue_view
from store.opened.missing import QueueBuilder, Repair
from store.opened.queue_view import QueueView
from store.structures.consumequeue.queue_set import QueueKey, QueueState
from store.verbs.recover import review_checkpoint
from tests.cli.running import rmqctl
from tests.support import many_queues as many
from tests.support.many_queues import many_queues
from tests.support.stores import make_store

QUEUE_COUNT = 30
FILE_SIZE = 400


def _cut_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()


def clear_units(root: Path, queue_id: int, first: int = 0) -> None:
    with (root / "consumequeue" / "T0" / str(queue_id) / ("0" * 20)).open("r+b") as file:
        file.seek(20 * first)
        file.write(bytes(FILE_SIZE - 20 * first))


def _cut_last_units(root: Path) -> None:
    """Leave the queues as dispatch does at a crash."""
    _cut_checkpoint(root)
    for queue_id in (27, 28, 29):
        clear_units(root, queue_id, 1)


def _add_empty_queue(root: Path) -> None:
    (root / "consumequeue" / "T0" / "99").mkdir()
    (root / "consumequeue" / "T0" / "99" / ("0" * 20)).write_bytes(bytes(FILE_SIZE))


def _add_files(root: Path) -> None:
    """Put files, and a folder of another name, where folders of topics and of queues are."""
    (root / "consumequeue" / "T0" / "None").mkdir()
    (root / "consumequeue" / "T1").touch()
    (root / "consumequeue" / "T0" / "98").touch()


def _roll_back_last_record(root: Path) -> None:
    """The log ends with a record that is in no queue."""
    with open_store(root) as store:
        *_, last = store.messages("T0", QUEUE_COUNT - 1)
    with next((root / "commitlog").iterdir()).open("r+b") as file:
        file.seek(last.log_offset + 36)
        file.write((0xC).to_bytes(4, "big"))
    clear_units(root, QUEUE_COUNT - 1, last.queue_offset)


def _cut_log(root: Path) -> None:
    """Units of the last queues name records that are no more."""
    _cut_checkpoint(root)
    log = next((root / "commitlog").iterdir())
    data = log.read_bytes()
    end = len(data.rstrip(b"\0"))
    with log.open("r+b") as file:
        file.seek(end - 2000)
        file.write(bytes(2000))


STATES: dict[str, Callable[[Path], object]] = {
    "closed": lambda root: None,
    "crashed": _cut_checkpoint,
    "a queue lost": lambda root: shutil.rmtree(root / "consumequeue" / "T0" / "3"),
    "all queues lost": lambda root: shutil.rmtree(root / "consumequeue"),
    "a queue without units": lambda root: clear_units(root, 3),
    "an empty queue beside them": _add_empty_queue,
    "files beside them": _add_files,
    "queues behind the log": _cut_last_units,
    "a record in no queue at the end": _roll_back_last_record,
    "queues ahead of the log": _cut_log,
}


@pytest.fixture(autouse=True)
def few_queues_are_worth_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_view, "WORTH_A_WALK", 1)


def make_queues(folder: Path) -> Path:
    return many_queues(folder / "store", QUEUE_COUNT, 3 * QUEUE_COUNT, segment_size=1 << 20, queue_file_size=FILE_SIZE)


@pytest.fixture(params=STATES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = many_queues(
        tmp_path / "store", QUEUE_COUNT, 3 * QUEUE_COUNT, segment_size=1 << 20, queue_file_size=FILE_SIZE
    )
    STATES[request.param](made)
    return made


def states(root: Path) -> list[QueueState]:
    with open_store(root) as store:
        return store.queues()


def test_states_are_those_of_opened_queues(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = states(root)
    monkeypatch.setattr(QueueView, "_find_resting", lambda view, keys: {})
    assert found == states(root)
    assert {one.queue_id for one in found} - {99} == set(range(QUEUE_COUNT))


def test_a_queue_that_rests_is_found_and_listed_like_others(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> list[object]:
        with open_store(root) as store:
            queues = store.opened.queues
            ends = len(queues), queues.newest_unit(), queues.max_physic_offset, queues.built_to
            before = *ends, sorted(queue.queue_id for queue in queues.of_topic("T0"))
            found = [
                (queue.max_offset, queue.min_offset) for number in range(30) if (queue := queues.find("T0", number))
            ]
            return [before, found, [queue.queue_id for queue in queues], sorted(queues.states())]

    rested = listed()
    monkeypatch.setattr(QueueView, "_find_resting", lambda view, keys: {})
    assert rested == listed()


def test_the_checkpoints_review_is_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reviewed() -> object:
        with staged_store(root, dry_run=True, verb=None) as opened:
            return review_checkpoint(opened)

    rested = reviewed()
    monkeypatch.setattr("store.structures.consumequeue.queue_set.read_resting", lambda folder, size, fs: None)
    assert rested == reviewed()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[QueueKey]:
    """The queues that views open."""
    keys: list[QueueKey] = []
    open_queue = QueueView._open

    def note(view: QueueView, key: QueueKey) -> Repair:
        keys.append(key)
        return open_queue(view, key)

    monkeypatch.setattr(QueueView, "_open", note)
    return keys


def test_the_states_of_a_closed_store_open_the_queue_at_the_end_of_the_log_alone(
    tmp_path: Path, opened: list[QueueKey]
) -> None:
    found = states(make_queues(tmp_path))
    assert [(one.queue_id, one.min_offset, one.max_offset) for one in found] == [(at, 0, 3) for at in range(30)]
    assert opened == [("T0", 29)]


def test_queues_that_dispatch_has_filled_to_the_end_rest_without_a_walk(
    tmp_path: Path, opened: list[QueueKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueBuilder, "newest_records", None)
    with open_store(make_queues(tmp_path)) as store:
        view = cast(QueueView, store.opened.queues)
        view._trusted = view._log.stop
        assert [one.max_offset for one in store.queues()] == [3] * 30
    assert opened == [("T0", 29)]


def test_a_queue_that_lacks_the_record_after_its_last_is_opened(tmp_path: Path, opened: list[QueueKey]) -> None:
    root = many_queues(tmp_path / "store", 1, 3, segment_size=1 << 20, queue_file_size=FILE_SIZE)
    ends = [one.log_offset + one.size for one in open_store(root).messages("T0", 0)]
    clear_units(root, 0, 1)
    opened.clear()
    with open_store(root) as store:
        view = cast(QueueView, store.opened.queues)
        view._log = view._builder._log = view._log._replace(stop=ends[1])
        view._trusted = ends[0]
        assert [one.max_offset for one in store.queues()] == [2]
    assert opened == [("T0", 0)]


def test_queues_that_lack_records_behind_the_trusted_place_alone_are_opened(
    tmp_path: Path, opened: list[QueueKey]
) -> None:
    root = make_queues(tmp_path)
    ends = sorted(state.max_physic_offset for state in states(root))
    opened.clear()
    for queue_id in (28, 29):
        clear_units(root, queue_id, 2)
    with open_store(root) as store:
        view = store.opened.queues
        assert isinstance(view, QueueView)
        view._trusted = ends[-5]
        assert {state.max_offset for state in store.queues()} == {3}
    assert opened == [("T0", 28), ("T0", 29)]


def test_queues_with_units_at_or_behind_the_end_of_the_log_alone_are_opened(
    tmp_path: Path, opened: list[QueueKey]
) -> None:
    with open_store(make_queues(tmp_path)) as store:
        view = store.opened.queues
        assert isinstance(view, QueueView)
        ends = sorted(state.max_physic_offset for state in states(store.layout.root))
        opened.clear()
        view._log = view._builder._log = view._log._replace(stop=ends[-3])
        view._trusted = ends[-3]
        assert [state.max_offset for state in store.queues()] == [3] * 28 + [2] * 2
    assert opened == [("T0", 27), ("T0", 28), ("T0", 29)]


def test_few_queues_that_may_lack_units_are_opened_without_a_walk(
    tmp_path: Path, opened: list[QueueKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_view, "WORTH_A_WALK", QUEUE_COUNT + 1)
    monkeypatch.setattr(QueueBuilder, "newest_records", None)
    root = make_queues(tmp_path)
    with open_store(root) as store:
        view = store.opened.queues
        assert isinstance(view, QueueView)
        view._trusted = 0
        assert {state.max_offset for state in store.queues()} == {3}
    assert len(opened) == QUEUE_COUNT


def test_a_queue_ends_on_disk_after_the_record_of_its_last_entry(tmp_path: Path) -> None:
    root = make_queues(tmp_path)
    with open_store(root) as store:
        queues = store.opened.queues
        whole = [queues.end_on_disk("T0", number) for number in range(QUEUE_COUNT)]
        last = [store.get("T0", number, 2).messages[0] for number in range(QUEUE_COUNT)]
        assert whole == [one.log_offset + one.size for one in last]
        assert (queues.end_on_disk("T0", QUEUE_COUNT), queues.end_on_disk("T1", 0)) == (-1, -1)
        first = store.get("T0", 3, 0).messages[0]
    clear_units(root, 3, 1)
    clear_units(root, 4)
    with open_store(root) as store:
        ends = [store.opened.queues.end_on_disk("T0", number) for number in (3, 4)]
    assert ends == [first.log_offset + first.size, -1]


def lose(root: Path, folder: str) -> None:
    if folder:
        shutil.rmtree(root / folder)


def wanted_table(root: Path, count: int) -> None:
    (root / "config").mkdir()
    table = {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": count, "writeQueueNums": count}}}
    (root / "config/topics.json").write_text(json.dumps(table))


@pytest.mark.parametrize("is_crashed", [False, True])
@pytest.mark.parametrize("lost", ["", "consumequeue/T/1", "consumequeue/T", "consumequeue"])
def test_queues_without_files_are_listed_and_read_without_a_queue_too(
    lost: str, is_crashed: bool, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 30)
    lose(root, lost)
    if is_crashed:
        (root / "abort").touch()
    with open_store(root) as store:
        assert (store.topics(), store.queue_ids("T"), store.queue_ids("U")) == (["T"], [0, 1, 2], [])
    assert len(rmqctl("--format", "jsonl", "get", "T", "--limit", "100", store=root).rows) == 30


TOLD = "T has no files for 2 queues of topics.json, the first is 1; the log was not read for lost ones"
UNKNOWN = "T is not in topics.json, so queues without files are unknown; the log was not read for lost ones"


@pytest.mark.parametrize(
    ("lost", "table", "ids", "notes"),
    [
        ("consumequeue/T/1", 4, [0, 2], [TOLD]),
        ("consumequeue/T/1", 1, [0, 2], []),
        ("consumequeue/T/1", 0, [0, 2], [UNKNOWN]),
        ("consumequeue/T", 4, [0, 1, 2], []),
        ("", 3, [0, 1, 2], []),
    ],
)
def test_a_long_log_is_read_for_a_topic_without_files_alone_and_else_a_note_says_so(
    lost: str, table: int, ids: list[int], notes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "store", 30)
    lose(root, lost)
    wanted_table(root, table)
    with open_store(root) as store:
        monkeypatch.setattr(queue_view, "SHORT_LOG_BYTES", store.max_log_offset - 1)
        assert store.queue_ids("T") == ids
        assert store.notes == notes
        monkeypatch.setattr(queue_view, "SHORT_LOG_BYTES", store.max_log_offset)
        assert store.queue_ids("T") == [0, 1, 2]


def test_all_queues_are_looked_for_once_and_an_open_one_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(make_store(tmp_path / "store", 30)) as store:
        queues = store.opened.queues
        first = queues.find("T", 1)
        assert first is queues.find("T", 1)
        assert [queue.queue_id for queue in queues] == [0, 1, 2]
        assert first is queues.find("T", 1) is not None
        monkeypatch.setattr(QueueView, "_keys_on_disk", None)
        assert (len(queues), len(queues.of_topic("T"))) == (3, 3)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (len, 3),
        (lambda queues: [queue.queue_id for queue in queues], [0, 1, 2]),
        (lambda queues: [state.queue_id for state in queues.states()], [0, 1, 2]),
        (lambda queues: sorted(queue.queue_id for queue in queues.of_topic("T")), [0, 1, 2]),
        (lambda queues: queues.newest_unit() is not None, True),
    ],
)
def test_each_question_about_all_queues_looks_for_them_first(
    ask: Callable[[QueueView], object], answer: object, tmp_path: Path
) -> None:
    with open_store(make_store(tmp_path / "store", 30)) as store:
        assert ask(cast(QueueView, store.opened.queues)) == answer


def test_an_unknown_queue_is_looked_for_in_the_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_store(tmp_path / "store", 30)
    with open_store(root) as store:
        assert store.queue_ids("T") == [0, 1, 2]
        monkeypatch.setattr(QueueBuilder, "repair", None)
        monkeypatch.setattr(QueueBuilder, "newest_records", None)
        assert (store.queue_ids("T"), store.max_offset("T", 3)) == ([0, 1, 2], 0)
        monkeypatch.setattr(QueueView, "_has_files", None)
        assert store.max_offset("T", 3) == 0
    with open_store(root) as store:
        monkeypatch.undo()
        assert store.max_offset("T", 3) == 0
        monkeypatch.setattr(QueueView, "_open", None)
        assert store.max_offset("T", 3) == 0


MIB_256 = 256 << 20


@pytest.mark.parametrize(
    ("size", "fetches", "is_known", "start"),
    [
        (MIB_256, False, True, 1000),
        (MIB_256 + 1, False, True, 5000),
        (MIB_256, True, True, 5000),
        (MIB_256, True, False, 1000),
        (MIB_256 + 1, False, False, 1000),
    ],
)
def test_a_log_of_256_mib_is_read_whole_for_queues_without_files(
    size: int, fetches: bool, is_known: bool, start: int
) -> None:
    read: list[int] = []
    view: Any = SimpleNamespace(
        _log=Stretch(1000, 1000 + size), _trusted=5000, _fs=SimpleNamespace(fetches=fetches), _meet_from=read.append
    )
    QueueView._meet(view, is_known=is_known)
    assert read == [start]


# The queue at the log's end has one record more than its file has room for, and the other as many as there is room.
def test_the_file_after_a_full_one_is_built_from_the_log(tmp_path: Path) -> None:
    root = many_queues(tmp_path / "store", 2, 42, segment_size=1 << 20, queue_file_size=FILE_SIZE)
    (root / "consumequeue" / "T0" / "0" / f"{FILE_SIZE:020d}").unlink()
    with open_store(root) as store:
        view = cast(QueueView, store.opened.queues)
        view._trusted = store.max_log_offset
        assert [one.max_offset for one in store.queues()] == [21, 21]


@pytest.mark.parametrize("is_cut", [True, False])
def test_once_a_queue_is_cut_at_the_log_s_end_an_empty_one_reaches_it(is_cut: bool, tmp_path: Path) -> None:
    root = make_queues(tmp_path)
    _add_empty_queue(root)
    if not is_cut:
        _roll_back_last_record(root)
    with open_store(root) as store:
        found, end = store.queues(), store.max_log_offset
    last, empty = found[-2:]
    assert (last.max_offset, last.max_physic_offset == end) == (3 if is_cut else 2, is_cut)
    assert empty == QueueState("T0", 99, 0, 0, end if is_cut else -1)


def test_a_file_of_another_size_is_left_out_and_its_units_are_built(tmp_path: Path) -> None:
    root = make_queues(tmp_path)
    file = root / "consumequeue" / "T0" / "3" / ("0" * 20)
    file.write_bytes(bytes(FILE_SIZE - 1))
    with open_store(root) as store:
        assert store.get("T0", 3, 0).max_offset == 3
        hint = "give the right file size, or save what it holds and move it away"
        told = f"left out: {file}: the file has 399 bytes instead of 400; {hint}"
        assert store.notes == [told, "T0, queue 3: 3 entries are missing, and built from the log"]


def test_one_queue_is_opened_alone_where_dispatch_is_behind(tmp_path: Path) -> None:
    root = make_queues(tmp_path)
    _cut_last_units(root)
    with open_store(root) as store:
        view = cast(QueueView, store.opened.queues)
        assert (view.find("T0", 28) is not None, view.awake()) == (True, [view.find("T0", 28)])
        assert store.notes[1:] == ["T0, queue 28: 2 entries are missing, and built from the log"]


@pytest.mark.parametrize("lost", ["", "consumequeue"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_queues_begin_at_their_first_message_that_the_log_still_has(lost: str, is_whole: bool, tmp_path: Path) -> None:
    root = many_queues(tmp_path / "store", 2, 60, segment_size=4096, queue_file_size=2 * FILE_SIZE)
    first, second, *_ = sorted((root / "commitlog").iterdir())
    lose(root, lost)
    first.unlink()
    with open_store(root) as store:
        if is_whole:
            store.queues()
        queues = [store.opened.queues.find("T0", number) for number in range(2)]
        found = [(queue.min_offset, queue.max_offset) for queue in queues if queue]
        log_offsets = [store.get("T0", number, found[number][0]).messages[0].log_offset for number in range(2)]
    assert (found, min(log_offsets)) == ([(22, 30), (21, 30)], int(second.name))


@pytest.mark.parametrize("count", [8, 9])
def test_up_to_eight_built_queues_have_a_note_each(count: int, tmp_path: Path) -> None:
    root = many_queues(tmp_path / "store", count, 2 * count, segment_size=1 << 20, queue_file_size=FILE_SIZE)
    lose(root, "consumequeue")
    with open_store(root) as store:
        store.queues()
        each = [f"T0, queue {number}: 2 entries are missing, and built from the log" for number in range(count)]
        assert store.notes == (each if count <= 8 else ["18 entries are missing of 9 queues, and built from the log"])


def test_topics_are_in_order_of_their_names(tmp_path: Path) -> None:
    root = make_queues(tmp_path)
    for name in ("Z", "A"):
        (root / "consumequeue" / name).mkdir()
    with open_store(root) as store:
        assert store.opened.queues.topics() == ["A", "T0", "Z"]


def test_a_built_first_file_begins_at_its_first_message_in_a_log_from_0_too(tmp_path: Path) -> None:
    """The queue's file 0 had the messages 5 to 19."""
    data, units = b"", b""
    for number in range(5, 26):
        record = many._record(number, 0, number, len(data))
        units += QueueUnit(len(data), len(record), 0).encode() if number >= 20 else b""
        data += record
    many._write_files(tmp_path / "commitlog", [data], 1 << 20)
    many._write_files(tmp_path / "consumequeue/T0/0", [units], FILE_SIZE)
    file = tmp_path / "consumequeue/T0/0" / ("0" * 20)
    file.rename(file.with_name(f"{FILE_SIZE:020d}"))
    with open_store(tmp_path, settings={"mappedFileSizeConsumeQueue": FILE_SIZE}) as store:
        assert [(one.min_offset, one.max_offset) for one in store.queues()] == [(5, 26)]
