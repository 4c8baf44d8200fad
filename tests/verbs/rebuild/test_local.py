"""Rebuilding queues and index in this process: what the scope names, byte for byte what the store has."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, open_store
from store.config import StoreConfig
from store.files.store_reader import StoreReader
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues
from store.verbs.rebuild import local
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildScope
from tests.cli.running import rmqctl
from tests.support.golden import copy_store
from tests.support.stores import SMALL, Clock, make_store, recover

CONFIG = StoreConfig().with_settings(SMALL)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", 60)


def files_in(root: Path, *folders: str) -> dict[str, bytes]:
    """Bytes by name of all files below the folders."""
    paths = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("scope", "folders"),
    [
        (RebuildScope(index=False), ["consumequeue"]),
        (RebuildScope(index=False, topic="T"), ["consumequeue"]),
        (RebuildScope(index=False, topic="T", queue_id=1), ["consumequeue/T/1"]),
        (RebuildScope(index=False, topic="T", queue_id=2), ["consumequeue/T/2"]),
        (RebuildScope(index=False, topic="Other"), []),
        (RebuildScope(queues=False, index=False), []),
    ],
)
def test_the_queues_of_the_scope_are_rebuilt_to_the_same_bytes(
    store: Path, tmp_path: Path, scope: RebuildScope, folders: list[str]
) -> None:
    report = rebuild_locally(StoreReader(str(store)), tmp_path, CONFIG, scope, clock=Clock())
    assert files_in(tmp_path, "consumequeue", "index") == files_in(store, *folders)
    assert report.record_count == 60


def test_the_index_is_rebuilt_to_the_same_bytes_under_names_of_today(store: Path, tmp_path: Path) -> None:
    rebuild_locally(StoreReader(str(store)), tmp_path, CONFIG, RebuildScope(queues=False), clock=Clock())
    rebuilt, old = files_in(tmp_path, "index"), files_in(store, "index")
    assert [rebuilt[name] for name in sorted(rebuilt)] == [old[name] for name in sorted(old)]
    assert not (tmp_path / "consumequeue").exists()


@pytest.mark.parametrize("place", ["index/x.bak", "consumequeue/T/0/x.bak", "consumequeue/T/0/.DS_Store"])
def test_a_rebuild_leaves_files_that_no_broker_made(place: str, store: Path, tmp_path: Path) -> None:
    root = copy_store(store, tmp_path / "store")
    (root / place).write_bytes(b"kept")
    assert rmqctl("rebuild", "--yes", "--no-quarantine", store=root).code == 0
    assert (root / place).read_bytes() == b"kept"


def test_a_log_in_another_folder_is_rebuilt_from(store: Path, tmp_path: Path) -> None:
    root = copy_store(store, tmp_path / "store")
    (root / "commitlog").rename(tmp_path / "log")
    scope, staging = RebuildScope(index=False), tmp_path / "staging"
    rebuild_locally(StoreReader(str(root), commitlogs=[tmp_path / "log"]), staging, CONFIG, scope, clock=Clock())
    assert files_in(staging, "consumequeue") == files_in(store, "consumequeue")


NEEDS = "records need queue.type=BatchCQ in topics.json, or its queues are built as plain; rebuild topics first"


@pytest.mark.parametrize(
    ("scope", "others", "said"),
    [
        (RebuildScope(), NO_OTHERS, [f"A: its {NEEDS}", f"B: its {NEEDS}"]),
        (RebuildScope(), NO_OTHERS._replace(topics=frozenset(("C",))), []),
        (RebuildScope(queues=False), NO_OTHERS, []),
    ],
)
def test_topics_are_named_whose_records_need_other_queues_than_the_store_has(
    scope: RebuildScope, others: OtherQueues, said: list[str], store: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    needed = {topic: {"queue.type": "BatchCQ"} for topic in ("B", "A")}
    monkeypatch.setattr(local, "record_attributes", lambda run: needed)
    monkeypatch.setattr(local, "find_other_queues", lambda source, config, fs: others)
    report = rebuild_locally(StoreReader(str(store)), tmp_path, CONFIG, scope, clock=Clock())
    assert [*report.findings] == said


def test_progress_is_of_the_bytes_from_the_first_segment_on(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 200)
    first, *later = sorted((root / "commitlog").iterdir())
    first.unlink()
    with open_store(root, as_is=True) as opened:
        end = opened.opened.log.max_offset
    seen: list[tuple[int, int]] = []
    rebuild_locally(
        StoreReader(str(root)), tmp_path / "new", CONFIG, RebuildScope(), clock=Clock(),
        on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == end - int(later[0].name)


def test_a_record_that_names_another_log_offset_gets_its_entry_at_its_own(store: Path, tmp_path: Path) -> None:
    root = copy_store(store, tmp_path / "store")
    with open_store(root) as opened:
        place = opened.get("T", 1, 5).messages[0].log_offset
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(place + 28)
        file.write((place + 1).to_bytes(8, "big"))
    rebuild_locally(StoreReader(str(root)), tmp_path / "new", CONFIG, RebuildScope(index=False), clock=Clock())
    assert files_in(tmp_path / "new", "consumequeue") == files_in(store, "consumequeue")


@pytest.fixture
def damaged(store: Path, tmp_path: Path) -> Path:
    """The store with a bad body in its message 40; number n is in queue n % 3."""
    root = copy_store(store, tmp_path / "store")
    with open_store(root) as reader:
        place = reader.get("T", 40 % 3, 40 // 3).messages[0].log_offset
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(place + 100)
        file.write(b"~~")
    return root


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ([], 20),
        (["--queues"], 20),
        (["--topic", "T", "--queue", "1"], 7),
        (["--topic", "T", "--queue", "2"], 7),
        (["--topic", "T", "--queue", "0"], 6),
        (["--topic", "Other"], 0),
        (["--index"], 0),
    ],
)
def test_messages_behind_damage_are_counted_and_said(words: list[str], lost: int, damaged: Path) -> None:
    run = rmqctl("rebuild", *words, "--yes", "--format", "json", store=damaged)
    assert (run.code, run.json["lost_messages"]) == (1, lost)
    assert ("can be read past the log's end" in run.err) is (lost > 0)


def test_a_rebuild_that_keeps_nothing_of_what_it_loses_exits_1(damaged: Path) -> None:
    run = rmqctl("rebuild", "--yes", "--no-quarantine", "--format", "table", store=damaged)
    assert run.code == 1
    assert "20 messages no longer shown" in run.out


def test_what_an_earlier_cut_left_behind_a_sound_end_is_not_lost(damaged: Path) -> None:
    (damaged / "abort").touch()
    recover(damaged, settings=SMALL, mode="abnormal")
    assert rmqctl("rebuild", "--yes", "--format", "json", store=damaged).json["lost_messages"] == 0


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("later_ms", "lost"), [(0, 2), (1, 2), (-1, 0)])
def test_behind_zeros_a_message_is_lost_if_its_time_is_not_before_the_last_valid_one(
    later_ms: int, lost: int, tmp_path: Path
) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=(clock := Clock())) as store:
        places = []
        for later in (0, 0, later_ms, later_ms):
            clock.now_ms = 5000 + later
            places.append(store.put(Message.of("T", "one")).log_offset)
    (segment,) = (tmp_path / "store/commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(places[1])
        file.write(bytes(places[2] - places[1]))
    run = rmqctl("rebuild", "--dry-run", "--format", "json", store=tmp_path / "store")
    assert run.json["lost_messages"] == lost


@pytest.mark.leaves_damage
def test_messages_of_segments_behind_a_zeroed_one_are_lost(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    _, zeroed, *later = sorted((root / "commitlog").iterdir())
    messages = sum(path.read_bytes().count(b"message ") for path in later)
    zeroed.write_bytes(bytes(zeroed.stat().st_size))
    assert messages > 0
    assert rmqctl("rebuild", "--dry-run", "--format", "json", store=root).json["lost_messages"] == messages


@pytest.mark.leaves_damage
def test_a_message_whose_queue_offset_another_has_is_named_as_left_out(store: Path, tmp_path: Path) -> None:
    root = copy_store(store, tmp_path / "store")
    with open_store(root, settings=SMALL) as opened:
        last = opened.get("T", 1, 19).messages[0]
    # As 5.3 numbers a message behind one whose unit was lost.
    segment = max(path for path in (root / "commitlog").iterdir() if int(path.name) <= last.log_offset)
    with segment.open("r+b") as file:
        file.seek(last.log_offset - int(segment.name) + 20)
        file.write((18).to_bytes(8, "big"))
    run = rmqctl("rebuild", "--topic", "T", "--queue", 1, "--yes", store=root)
    assert run.code == 1
    assert "T, queue 1: the message with queue offset 18 came where 19 is next, without an entry" in run.err
