"""Undo gives back every byte, every name and every modification time."""

from __future__ import annotations

import contextlib
import errno
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import open_store
from store.change.actions import Patch, Publish, Remove
from store.change.change import Change
from store.change.journal import HALF_DONE
from store.change.quarantine import interrupted_change, list_quarantine, purge, undo
from store.errors import BadRequest, StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.verbs.check.check import check
from store.verbs.clean.plan import plan_cleaning
from store.verbs.recover.plan import plan_recovery
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.golden import ALL, MANIFEST, copy_store, golden
from tests.support.random_damage import damage
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store, planning, recover, text_message, truncate

CRASHED = [name for name in ALL if MANIFEST[name]["crashed"]]
FAR_FUTURE_MS = 1_900_000_000_000


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", CRASHED)
@pytest.mark.parametrize("keep_index", [False, True])
def test_a_recovery_is_undone(name: str, keep_index: bool, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    before = snapshot(root)
    _, change_id = recover(root, keep_index=keep_index, settings=golden(name).settings)
    assert change_id is not None
    assert snapshot(root) != before
    undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before


@pytest.mark.parametrize("name", ["normal", "many", "batch"])
def test_a_truncation_is_undone(name: str, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    before = snapshot(root)
    middle = list(golden(name).puts())[100].answer["wroteOffset"]
    _, change_id = truncate(root, middle)
    assert change_id is not None
    assert snapshot(root) != before
    undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before


@pytest.mark.parametrize("name", ["normal", "many"])
def test_a_cleaning_is_undone(name: str, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    before = snapshot(root)
    change_id = clean(root).apply()
    assert change_id is not None
    assert len(list((root / "commitlog").iterdir())) < len(list((golden(name).store / "commitlog").iterdir()))
    undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before


@pytest.mark.turns(4)
@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32), crashed=st.booleans(), keep_index=st.booleans())
def test_undo_brings_a_damaged_store_back_to_the_byte_with_the_findings_it_had(
    tmp_path_factory: pytest.TempPathFactory, seed: int, crashed: bool, keep_index: bool
) -> None:
    root = make_store(tmp_path_factory.mktemp("damaged") / "store", 60)
    if crashed:
        (root / "abort").touch()
    damage(root, random.Random(seed))
    before, findings = snapshot(root), list(check(root))
    try:
        _, change_id = recover(root, keep_index=keep_index, settings=SMALL)
    except StoreError:
        # Refused: nothing was changed, so there is nothing to undo.
        assert snapshot(root) == before
        return
    if change_id is not None:
        undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before
    assert list(check(root)) == findings


def test_two_changes_are_undone_one_after_the_other(tmp_path: Path) -> None:
    root = copy_store(golden("many").store, tmp_path / "store")
    whole = snapshot(root)
    _, first = truncate(root, 98304)
    cut = snapshot(root)
    second = clean(root).apply()
    assert first is not None
    assert second is not None
    assert [entry.id for entry in list_quarantine(root, fs=Filesystem())] == [first, second]
    undo(root, second, fs=Filesystem())
    assert snapshot(root) == cut
    undo(root, first, fs=Filesystem())
    assert snapshot(root) == whole


def test_undo_is_refused_when_the_store_has_moved_on(tmp_path: Path) -> None:
    root = copy_store(golden("torn").store, tmp_path / "store")
    _, change_id = recover(root)
    assert change_id is not None
    (root / "commitlog" / f"{0:020d}").touch()
    with pytest.raises(BadRequest, match="has changed since"):
        undo(root, change_id, fs=Filesystem())


def test_a_forced_undo_is_refused_where_a_record_was_put_over_the_cut(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    change, change_id = truncate(root, list(golden("normal").puts())[100].answer["wroteOffset"])
    assert change_id is not None
    assert any(isinstance(action, Patch) for action in change.actions)
    with open_store(root, read_only=False) as store:
        assert store.put(text_message(1)).is_ok
    before = snapshot(root)
    with pytest.raises(BadRequest, match="would destroy the record") as refused:
        undo(root, change_id, force=True, fs=Filesystem())
    assert refused.value.file is not None
    assert snapshot(root) == before
    assert interrupted_change(root, Filesystem()) is None


def test_a_forced_undo_keeps_what_was_put_since_and_the_files_that_stand_in_its_way(tmp_path: Path) -> None:
    root = copy_store(golden("no-derived").store, tmp_path / "store")
    change, change_id = recover(root)
    assert change_id is not None
    assert not any(isinstance(action, Patch) for action in change.actions)
    built = [action.path for action in change.actions if action.path.is_relative_to(root / "consumequeue")]
    topic, queue_id, _ = built[-1].parts[-3:]
    with open_store(root, read_only=False) as store:
        put = store.put(text_message(7, topic, int(queue_id)))
    later = built[-1].read_bytes()
    undone = undo(root, change_id, force=True, fs=Filesystem())
    assert later in [path.read_bytes() for path in undone.set_aside]
    with open_store(root) as store:
        message = store.lookup(put.log_offset)
        assert message is not None
        assert message.body == text_message(7).body


def test_an_undo_sets_nothing_aside_when_nothing_was_written_since(tmp_path: Path) -> None:
    root = copy_store(golden("corrupt-mid").store, tmp_path / "store")
    _, change_id = recover(root)
    assert change_id is not None
    assert undo(root, change_id, fs=Filesystem()).set_aside == ()


def test_undoing_twice_is_refused(tmp_path: Path) -> None:
    root = copy_store(golden("torn").store, tmp_path / "store")
    _, change_id = recover(root)
    assert change_id is not None
    undo(root, change_id, fs=Filesystem())
    with pytest.raises(BadRequest, match="undone already"):
        undo(root, change_id, fs=Filesystem())


def test_after_a_purge_there_is_nothing_left_to_undo(tmp_path: Path) -> None:
    root = copy_store(golden("torn").store, tmp_path / "store")
    _, change_id = recover(root)
    assert change_id is not None
    assert purge(root, fs=Filesystem()) > 0
    assert list_quarantine(root, fs=Filesystem()) == []
    with pytest.raises(BadRequest, match="no quarantined change"):
        undo(root, change_id, fs=Filesystem())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), [("corrupt-mid", 29), ("aborted", 5)])
def test_a_recovery_whose_nth_operation_fails_leaves_the_store_before_or_after(
    name: str, step: int, tmp_path: Path
) -> None:
    """Before, after, or interrupted: then undo brings back what was before."""
    original = golden(name).store
    before = snapshot(original)
    for fail_at in range(1, 5000, step):
        root = copy_store(original, tmp_path / str(fail_at))
        with planning(root) as opened:
            change = plan_recovery(opened)
            change.fs = faulty = FaultyFilesystem(fail_at)
            try:
                change.apply()
            except StoreIOError:
                assert faulty.failed is not None
        if faulty.failed is None:
            return
        for entry in list_quarantine(root, fs=Filesystem()):
            if entry.state in HALF_DONE:
                undo(root, entry.id, fs=Filesystem())
        after = snapshot(root)
        changed = {path for path in before if after.get(path) != before[path]}
        assert not changed or list_quarantine(root, fs=Filesystem())[0].state == "applied"
    raise AssertionError("the recovery never gets through")


@pytest.mark.parametrize("step", range(1, 90, 4))
def test_a_quarantine_on_another_file_system_that_fails_at_any_step_loses_nothing(step: int, tmp_path: Path) -> None:
    root, away = tmp_path / "store", tmp_path / "away"
    config = root / "config"
    config.mkdir(parents=True)
    for name in "ab":
        (config / name).write_text(f"old {name}")
    (config / "empty").touch()
    (root / "staged").write_text("new b")
    before = {name: state for name, state in snapshot(root, without=("staged",)).items() if state}
    change = Change("test", root, TwoDisks(away, step))
    change.actions = [
        Remove(config / "a", ""),
        Remove(config / "empty", ""),
        Publish(config / "b", root / "staged", ""),
    ]
    with contextlib.suppress(StoreIOError):
        change.apply(quarantine=away)
    left = list_quarantine(root, quarantine=away, fs=Filesystem())
    for entry in left:
        assert (interrupted_change(root, Filesystem()) is not None) == (entry.state == "applying")
        undo(root, entry.id, quarantine=away, fs=TwoDisks(away))
    assert interrupted_change(root, Filesystem()) is None
    assert {name: state for name, state in snapshot(root, without=("staged",)).items() if state} == before


def test_an_undoing_that_was_cut_short_is_noticed_and_taken_up_again(tmp_path: Path) -> None:
    root = copy_store(golden("aborted").store, tmp_path / "store")
    before = snapshot(root)
    _, change_id = recover(root)
    assert change_id is not None
    faulty = FaultyFilesystem(when=lambda name, argument: name == "rename" and faulty.count("rename") > 2)
    with pytest.raises(StoreIOError):
        undo(root, change_id, fs=faulty)
    assert interrupted_change(root, Filesystem()) == (change_id, None)
    with pytest.raises(BadRequest, match="was interrupted"):
        purge(root, fs=Filesystem())
    undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before


class TwoDisks(FaultyFilesystem):
    """Renames in or out of `away` as if it lay on another disk."""

    def __init__(self, away: Path, fail_at: int | None = None) -> None:
        super().__init__(fail_at)
        self._away = away

    def rename(self, source: Path, target: Path) -> None:
        if source.is_relative_to(self._away) != target.is_relative_to(self._away):
            raise StoreIOError.from_os(OSError(errno.EXDEV, "cross-device link"), source, "rename")
        super().rename(source, target)


def clean(root: Path) -> Change:
    """A plan that lets go whatever is older than no time at all."""
    with planning(root) as opened:
        return plan_cleaning(opened, now_ms=FAR_FUTURE_MS, reserved_hours=0, force=True)
