"""A restored store of some topics, or with queue offsets that go on further: nothing else in it differs."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.errors import BadRequest, DamagedFile
from store.files.filesystem import Filesystem
from store.formats.properties import PLACEHOLDER
from store.structures.tables.consumer_offsets import read_consumer_offsets
from store.verbs.backup import selection
from store.verbs.backup.moment import Moment
from tests.support.small_stores import store_of
from tests.support.stores import SMALL, Clock, make_store, text_message
from tests.verbs.backup.backups import back_up, findings_of, messages_of, next_offsets, restore
from tests.verbs.rebuild.stores import expired_store

OFFSETS = '{"offsetTable":{"T@behind":{0:7,1:0,2:49},"T@at_the_end":{0:50,1:50,2:50},"T@ahead":{0:70,1:51,2:50}}}'


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """A backup of 50 messages in each queue of T, and of 30 in Other, with offsets of three groups."""
    root = make_store(tmp_path / "store", 150)
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_750_000_000_000)) as store:
        for number in range(30):
            assert store.put(text_message(number, "Other", number % 2)).is_ok
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(OFFSETS)
    back_up(root, tmp_path / "backups")
    return tmp_path / "backups"


def placeholders(root: Path) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    with open_store(root) as store:
        for queue in store.queues():
            for message in store.messages(queue.topic, queue.queue_id):
                if PLACEHOLDER in message.properties:
                    found.setdefault((queue.topic, queue.queue_id), []).append(message.queue_offset)
    return found


def test_records_of_a_topic_come_alone_at_their_queue_offsets(backups: Path, tmp_path: Path) -> None:
    report = restore(backups, tmp_path / "new", topics=["Other"])
    whole = messages_of(f"backup:{backups}")
    assert (report.log_start, report.record_count, report.findings) == (SMALL["mappedFileSizeCommitLog"], 30, [])
    assert messages_of(tmp_path / "new") == {place: body for place, body in whole.items() if place[0] == "Other"}
    assert findings_of(tmp_path / "new") == []
    assert next_offsets(tmp_path / "new") == {("Other", 0): 15, ("Other", 1): 15}


def test_a_queue_whose_beginning_has_expired_is_read_from_its_first_message_on(tmp_path: Path) -> None:
    source = expired_store(tmp_path / "store")
    back_up(source, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "new", topics=["T"])
    first = min(number for topic, queue_id, number in messages_of(source) if (topic, queue_id) == ("T", 1))
    with open_store(tmp_path / "new") as store:
        found = store.get("T", 1, store.min_offset("T", 1))
    assert (found.min_offset, found.messages[0].queue_offset) == (first, first)


@pytest.mark.turns(3)
@pytest.mark.parametrize("topics", [(), ("T",)])
@pytest.mark.parametrize("bump", [1, 40])
def test_a_bump_skips_offsets_past_the_last_message_of_each_queue(
    bump: int, topics: tuple[str, ...], backups: Path, tmp_path: Path
) -> None:
    report = restore(backups, tmp_path / "new", topics=topics, bump=bump)
    ends = {("T", queue_id): 50 for queue_id in range(3)} | {("Other", queue_id): 15 for queue_id in range(2)}
    ends = {queue: end for queue, end in ends.items() if not topics or queue[0] in topics}
    assert (report.bumped_queue_count, report.findings, findings_of(tmp_path / "new")) == (len(ends), [], [])
    assert report.record_count == sum(ends.values())
    assert next_offsets(tmp_path / "new") == {queue: end + bump for queue, end in ends.items()}
    assert placeholders(tmp_path / "new") == {queue: list(range(end, end + bump)) for queue, end in ends.items()}
    whole, found = messages_of(f"backup:{backups}"), messages_of(tmp_path / "new")
    assert {place: found[place] for place in whole if place[:2] in ends} == {
        place: body for place, body in whole.items() if place[:2] in ends
    }
    offsets = read_consumer_offsets(tmp_path / "new/config", Filesystem())
    assert offsets == {
        ("T", "behind"): {0: 7, 1: 0, 2: 49},
        ("T", "at_the_end"): {0: 50 + bump, 1: 50 + bump, 2: 50 + bump},
        ("T", "ahead"): {0: 50 + bump, 1: 50 + bump, 2: 50 + bump},
    }
    with open_store(tmp_path / "new", read_only=False, clock=Clock(1_900_000_000_000)) as store:
        assert store.put(text_message(1, "T", 2)).queue_offset == 50 + bump


def test_a_bump_writes_the_same_log_in_blocks_of_any_size(
    backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = []
    for number, size in enumerate((1, 300, 1 << 20)):
        monkeypatch.setattr(selection, "_BLOCK_BYTES", size)
        restore(backups, tmp_path / str(number), bump=40)
        logs.append([file.read_bytes() for file in sorted((tmp_path / str(number) / "commitlog").iterdir())])
    assert logs[0] == logs[1] == logs[2]


PLACEHOLDERS_BYTES = 3 * 2 * (109 + 20)
"""Of a bump by 2: for three queues of T, records of 109 bytes and queue units of 20."""


@pytest.mark.parametrize(
    ("bump", "free", "is_refused"),
    [
        (2, PLACEHOLDERS_BYTES - 1, True),
        (2, PLACEHOLDERS_BYTES, False),
        (2, PLACEHOLDERS_BYTES + 1, False),
        (1 << 63, 1 << 40, True),
    ],
)
def test_a_bump_that_the_file_system_has_no_room_for_is_refused_and_nothing_is_left(
    bump: int, free: int, is_refused: bool, backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Filesystem, "free_bytes", lambda fs, folder: free)
    if is_refused:
        with pytest.raises(BadRequest, match=rf"{3 * bump} queue offsets take {129 * 3 * bump} bytes, and {free} are"):
            restore(backups, tmp_path / "new", topics=["T"], bump=bump)
    else:
        restore(backups, tmp_path / "new", topics=["T"], bump=bump)
    assert (tmp_path / "new").exists() == (not is_refused)


def test_a_bump_at_a_moment_goes_on_from_the_offsets_of_the_moment(backups: Path, tmp_path: Path) -> None:
    restore(backups, tmp_path / "new", bump=10, log_offset=16384)
    ends = next_offsets(tmp_path / "new")
    restore(backups, tmp_path / "plain", log_offset=16384)
    # No record of Other was there, whose queues began later.
    assert ends == {
        **{queue: end + 10 for queue, end in next_offsets(tmp_path / "plain").items()},
        **{("Other", queue_id): 10 for queue_id in range(2)},
    }
    assert findings_of(tmp_path / "new") == []


@pytest.mark.turns(3)
@pytest.mark.parametrize(("bump", "next_offset"), [(0, 30), (1, 31), (5, 35)])
@pytest.mark.parametrize("topics", [(), ("Old",), ("Old", "T")])
def test_a_queue_whose_messages_have_expired_goes_on_too(
    topics: tuple[str, ...], bump: int, next_offset: int, tmp_path: Path
) -> None:
    back_up(expired_store(tmp_path / "store"), tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "new", topics=topics, bump=bump)
    with open_store(tmp_path / "new", read_only=False, clock=Clock(1_900_000_000_000)) as store:
        assert store.put(text_message(1, "Old")).queue_offset == next_offset
    assert findings_of(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("name", "topic"), [("normal", "TopicA"), ("normal5", "TopicA"), ("5 bcq", "BatchA"), ("55 plain", "TopicA")]
)
def test_topics_of_real_brokers_come_alone(name: str, topic: str, tmp_path: Path) -> None:
    back_up(store_of(name), tmp_path / "backups")
    whole = messages_of(f"backup:{tmp_path / 'backups'}")
    wanted = {place: body for place, body in whole.items() if place[0] == topic}
    assert wanted
    assert restore(tmp_path / "backups", tmp_path / "new", topics=[topic]).findings == []
    assert messages_of(tmp_path / "new") == wanted
    assert findings_of(tmp_path / "new") == []


def test_queues_with_several_messages_in_a_record_are_named_and_not_bumped(tmp_path: Path) -> None:
    back_up(store_of("5 bcq"), tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "plain")
    report = restore(tmp_path / "backups", tmp_path / "new", bump=3)
    assert report.findings
    assert all(one.endswith(" several messages, so that its next queue offset stays") for one in report.findings)
    stay = {tuple(one.split(" ")[0].rsplit("/", 1)) for one in report.findings}
    for queue, end in next_offsets(tmp_path / "plain").items():
        stays = (queue[0], str(queue[1])) in stay or queue[0].startswith(("RMQ_SYS", "SCHEDULE", "rmq_sys_"))
        assert next_offsets(tmp_path / "new")[queue] == end + (0 if stays else 3)


def test_a_topic_that_the_backup_lacks_is_refused(backups: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="the backup has no queue of 'None', 'Nothing'"):
        restore(backups, tmp_path / "new", topics=["None", "T", "Nothing"])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [{"topics": ["T"]}, {"bump": 1}])
def test_a_damaged_log_is_refused(words: dict[str, object], tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    with (root / f"commitlog/{16384:020d}").open("r+b") as file:
        file.seek(287)
        file.write(b"\xff")
    back_up(root, tmp_path / "backups")
    with pytest.raises(DamagedFile, match="the log is damaged, 2244 bytes before its end") as caught:
        restore(tmp_path / "backups", tmp_path / "new", **words)  # type: ignore[arg-type]
    assert (str(caught.value.file), caught.value.offset) == (f"commitlog/{16384:020d}", 187)
    restore(tmp_path / "backups", tmp_path / "new", log_offset=16384 + 187, **words)  # type: ignore[arg-type]
    shutil.rmtree(tmp_path / "new")


def test_a_queue_with_records_of_several_messages_is_refused_and_not_bumped(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []
    ends = [(("T", 0), 5, True), (("T", 1), 7, True), (("rmq_sys_U", 0), 9, True), (("rmq_sys_T", 0), 4, True)]
    queues = SimpleNamespace(
        batched=lambda: {("T", 0), ("rmq_sys_U", 0)},
        table=SimpleNamespace(names=[]),
        next_offsets=lambda ends_, log_end: ends,
    )
    monkeypatch.setattr(selection, "_Queues", lambda chosen: queues)
    monkeypatch.setattr(selection, "_append_placeholders", lambda writer, rows, last_ms: planned.extend(rows))
    closed: list[bool] = []
    writer: Any = SimpleNamespace(close=lambda: closed.append(True), position=90)
    found = selection.write_selected([], writer, selection.Selection(Moment(), (), 3), [], 90)
    assert (found.refused, found.jumps) == ([("T", 0)], {("T", 1): (7, 10)})
    assert planned == [
        (("T", 0), range(5, 5)), (("T", 1), range(7, 10)), (("rmq_sys_U", 0), range(9, 9)),
        (("rmq_sys_T", 0), range(4, 4)),
    ]  # fmt: skip
    assert (closed, found.log_end) == ([True], 90)
