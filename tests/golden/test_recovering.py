"""Recovery leaves what the broker's own recovery left, byte for byte, but for the 8 zeroed bytes at a cut."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from store import Message, open_store
from tests.conftest import CopyOf
from tests.support.answers import queue_rows
from tests.support.golden import CLEAN, CRASHED, WITH_ANSWERS, Golden
from tests.support.snapshots import contents, differences, snapshot, without_index_names
from tests.support.stores import LATER_MS, Clock, recover

# The broker's load() alone writes no checkpoint at its end and leaves the abort marker; a finished recovery does both.
OF_THE_END = ("checkpoint", "abort", "lock")


@pytest.mark.parametrize("name", CRASHED)
def test_log_queues_and_index_are_what_the_broker_left(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    recover(root, settings=archive.settings, as_broker=True)
    assert differences(expected_files(archive), what_counts(contents(root))) == []


@pytest.mark.parametrize("name", CRASHED)
def test_what_differs_from_the_broker_is_named(name: str, copy_of: CopyOf) -> None:
    topics, differences_named = {
        "aborted": ("", "closed"),
        "torn": ("TopicB", "closed zeroed-cut zeroed-units"),
        "corrupt-mid": (
            "SCHEDULE_TOPIC_XXXX TopicA TopicB index topic_C-3",
            "closed index-past-end zeroed-cut zeroed-units",
        ),
        "no-derived": ("SCHEDULE_TOPIC_XXXX", "closed deliver-time"),
    }[name]
    archive, root = copy_of(name)
    change, _ = recover(root, settings=archive.settings)
    differing = {
        line.split("/")[1].partition(":")[0] or "index"
        for line in differences(expected_files(archive), what_counts(contents(root)))
    }
    named = {row.difference for row in change.report.differs_from_broker}
    assert (sorted(differing), sorted(named)) == (topics.split(), differences_named.split())


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_offsets_are_the_ones_the_broker_reported(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    loaded = archive.loaded()
    recover(root)
    with open_store(root) as store:
        assert queue_rows(store) == loaded["queues"]
        assert (store.min_log_offset, store.max_log_offset) == (
            loaded["minPhyOffset"],
            loaded["maxPhyOffset"],
        )


@pytest.mark.parametrize("name", CLEAN)
def test_a_store_that_was_closed_cleanly_needs_no_change(name: str, copy_of: CopyOf) -> None:
    _, root = copy_of(name)
    before = snapshot(root)
    change, _ = recover(root)
    assert change.rows() == []
    assert snapshot(root) == before


@pytest.mark.parametrize("name", CLEAN)
def test_a_deleted_consumequeue_folder_is_rebuilt_to_the_same_bytes(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    shutil.rmtree(root / "consumequeue")
    recover(root, settings=archive.settings, compat=archive.compat)
    expected = {path: value for path, value in archive.files("pristine").items() if path.startswith("consumequeue/")}
    found = {path: value for path, value in contents(root).items() if path.startswith("consumequeue/")}
    assert differences(expected, found) == []


@pytest.mark.parametrize("name", CLEAN)
def test_an_abnormal_recovery_from_nothing_but_the_log_rebuilds_queues_and_index(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "checkpoint").write_bytes(bytes(4096))
    recover(root, mode="abnormal", settings=archive.settings, compat=archive.compat)
    assert differences(what_counts(archive.files("pristine")), what_counts(contents(root))) == []


@pytest.mark.parametrize("name", CRASHED)
def test_recovering_again_changes_nothing(name: str, copy_of: CopyOf) -> None:
    _, root = copy_of(name)
    recover(root)
    before = snapshot(root)
    change, _ = recover(root)
    assert change.rows() == []
    assert snapshot(root) == before


@pytest.mark.parametrize("name", CRASHED)
def test_the_abort_marker_is_gone_and_the_checkpoint_reaches_the_last_message(name: str, copy_of: CopyOf) -> None:
    _, root = copy_of(name)
    recover(root)
    assert not (root / "abort").exists()
    with open_store(root) as store:
        queues = [queue for queue in store.queues() if queue.max_offset]
        newest = [store.get(queue.topic, queue.queue_id, queue.max_offset - 1).messages[0] for queue in queues]
        assert store.checkpoint.logics_ms == max(message.store_timestamp_ms for message in newest)


@pytest.mark.parametrize("name", ["crash-async-checkpoint0"])
def test_a_store_killed_before_its_first_checkpoint_is_walked_from_its_first_segment(
    name: str, copy_of: CopyOf
) -> None:
    _, root = copy_of(name)
    change, _ = recover(root)
    assert change.report.start_segment == 0
    assert change.report.record_count == 200
    assert change.report.log_end == 54430


def test_keeping_the_index_rebuilds_what_the_broker_throws_away(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    recover(root, keep_index=True)
    with open_store(root) as store:
        found = store.query("TopicB", "single250", verify=False)
        assert [message.log_offset for message in found.messages] == []
        assert store.query("TopicA", "user0").messages


def test_after_a_cut_stale_records_do_not_come_back_to_life(copy_of: CopyOf) -> None:
    """The real 4.9.8 reads the old records again once a record of the same size stands at the cut."""
    archive, root = copy_of("corrupt-mid")
    recover(root)
    stale = archive.record(66765)
    with open_store(root, read_only=False, clock=Clock(LATER_MS)) as store:
        result = store.put(message_of_size(len(stale)))
        assert (result.log_offset, result.size) == (66765, len(stale))
    (root / "abort").touch()
    change, _ = recover(root)
    assert change.report.log_end == 66765 + len(stale)


def test_the_cut_is_zeroed_and_nothing_else_of_the_log_is_touched(copy_of: CopyOf) -> None:
    archive, root = copy_of("corrupt-mid")
    recover(root)
    before, after = (folder / "commitlog" / f"{65536:020d}" for folder in (archive.store, root))
    pairs = enumerate(zip(before.read_bytes(), after.read_bytes(), strict=True))
    changed = [at for at, (old, new) in pairs if old != new]
    assert changed
    assert min(changed) >= 66765 - 65536
    assert max(changed) < 66765 - 65536 + 8


def message_of_size(size: int) -> Message:
    """A message of topic T without properties whose record has that many bytes."""
    return Message("T", b"x" * (size - 92))


def expected_files(archive: Golden) -> dict[str, object]:
    """What the broker left, with the 8 bytes at the cut zeroed."""
    files = archive.files("after-load-only")
    end = archive.loaded()["maxPhyOffset"]
    size = archive.settings["mappedFileSizeCommitLog"]
    path = f"commitlog/{end - end % size:020d}"
    data = bytearray((archive.store / path).read_bytes())
    data[end % size : end % size + 8] = bytes(8)
    files[path] = (size, hashlib.sha256(data).hexdigest())
    return what_counts(files)


def what_counts(files: dict[str, tuple[int, str]]) -> dict[str, object]:
    return without_index_names({path: value for path, value in files.items() if path not in OF_THE_END})
