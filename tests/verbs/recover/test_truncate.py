"""A truncation to one log offset: which offsets it takes, what it loses, and what the checkpoint promises after it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import open_store
from store.errors import BadRequest, NotAStore
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.message import StoredMessage
from store.structures.tables.consumer_offsets import read_consumer_offsets
from store.verbs.recover.truncate import plan_truncation
from tests.support.golden import copy_store
from tests.support.stores import SMALL, make_store, planning

COUNT, SIZE, FIRST_MS = 120, SMALL["mappedFileSizeCommitLog"], 1_700_000_001_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 messages one second apart in three queues, in several segments."""
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)


@pytest.fixture(scope="module")
def stored(whole: Path) -> list[StoredMessage]:
    with open_store(whole) as store:
        found = [message for queue_id in range(3) for message in store.messages("T", queue_id)]
    return sorted(found, key=lambda one: one.log_offset)


@pytest.mark.parametrize("number", [0, 1, 2, 60, 118, 119, 120])
def test_a_truncation_loses_the_records_from_its_offset_on_and_promises_those_before(
    number: int, whole: Path, stored: list[StoredMessage], tmp_path: Path
) -> None:
    root = copy_store(whole, tmp_path / "store")
    end = stored[-1].log_offset + stored[-1].size
    offset = stored[number].log_offset if number < COUNT else end
    with planning(root) as opened:
        change = plan_truncation(opened, offset)
        assert (change.report.log_end, change.report.stopped_by) == (offset, "the offset that was given")
        assert change.lost == ({"T": COUNT - number} if number < COUNT else {})
        assert (change.remarks, change.notes, change.damaged) == ([], [], [])
        change.apply()
    page = decode_checkpoint((root / "checkpoint").read_bytes())
    last_ms = FIRST_MS + 1000 * (number - 1) if number else 0
    assert (page.physic_ms, page.logics_ms) == (last_ms, last_ms)
    with open_store(root) as store:
        assert [store.max_offset("T", queue_id) for queue_id in range(3)] == [(number + 2 - at) // 3 for at in range(3)]
        assert store.max_log_offset == offset


TABLE = '{"offsetTable":{"T@G":{0:20,1:21,2:40},"T@H":{0:0,2:19},"U@G":{0:7}}}'


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (TABLE, ["2 offsets moved back to the ends of the queues: G from 21 to 20 of T/1, G from 40 to 20 of T/2"]),
        (TABLE.replace("21", "20").replace("40", "20"), []),
        ("{", []),
        (None, []),
    ],
)
def test_groups_past_the_new_end_of_a_queue_go_on_there(
    text: str | None, moved: list[str], whole: Path, stored: list[StoredMessage], tmp_path: Path
) -> None:
    root = copy_store(whole, tmp_path / "store")
    place = root / "config/consumerOffset.json"
    if text is not None:
        place.parent.mkdir()
        place.write_text(text)
    with planning(root) as opened:
        change = plan_truncation(opened, stored[60].log_offset)
        assert [row["reason"] for row in change.rows() if row["file"] == "config/consumerOffset.json"] == moved
        change.apply()
    if moved:
        groups = {("T", "G"): {0: 20, 1: 20, 2: 20}, ("T", "H"): {0: 0, 2: 19}, ("U", "G"): {0: 7}}
        assert read_consumer_offsets(root / "config", Filesystem()) == groups
    else:
        assert (place.read_text() if place.exists() else None) == text


def test_an_empty_log_leaves_no_group_past_the_end(whole: Path, tmp_path: Path) -> None:
    root = copy_store(whole, tmp_path / "store")
    shutil.rmtree(root / "commitlog")
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(TABLE)
    with planning(root) as opened:
        plan_truncation(opened, force_empty_log=True).apply()
    groups = {("T", "G"): {0: 0, 1: 0, 2: 0}, ("T", "H"): {0: 0, 2: 0}, ("U", "G"): {0: 7}}
    assert read_consumer_offsets(root / "config", Filesystem()) == groups


def test_the_valid_end_of_a_sound_log_changes_nothing(whole: Path, stored: list[StoredMessage]) -> None:
    with planning(whole) as opened:
        change = plan_truncation(opened)
        end = stored[-1].log_offset + stored[-1].size
        assert (change.report.log_end, change.actions, change.lost) == (end, [], {})
        assert change.report.stopped_by.startswith("the end of what was written")


@pytest.mark.parametrize("number", [0, 1, 70])
@pytest.mark.parametrize("more", [-1, 1, 4, 50])
def test_an_offset_within_a_record_is_refused_and_the_record_before_it_named(
    number: int, more: int, whole: Path, stored: list[StoredMessage]
) -> None:
    offset = stored[number].log_offset + more
    before = stored[number if more > 0 else number - 1].log_offset
    start = offset // SIZE * SIZE
    with planning(whole) as opened, pytest.raises(BadRequest) as caught:
        plan_truncation(opened, offset)
    if offset < 0:
        assert (caught.value.reason, caught.value.file) == (f"log_offset is less than 0: {offset}", None)
        return
    assert (caught.value.reason, caught.value.file, caught.value.offset, caught.value.hint) == (
        f"no record begins at log offset {offset}",
        whole / "commitlog" / f"{start:020d}",
        offset - start,
        f"the record before begins at {before}",
    )


@pytest.mark.parametrize("more", [0, 1])
def test_the_end_of_the_last_segment_is_taken_and_what_is_past_it_refused(more: int, whole: Path) -> None:
    last = max(int(path.name) for path in (whole / "commitlog").iterdir()) + SIZE
    with planning(whole) as opened:
        if not more:
            assert plan_truncation(opened, last).lost == {}
            return
        with pytest.raises(BadRequest, match=f"log offset {last + 1} is in no segment"):
            plan_truncation(opened, last + 1)


def test_a_log_whose_only_segment_has_no_bytes_is_refused_as_such(whole: Path, tmp_path: Path) -> None:
    root = copy_store(whole, tmp_path / "store")
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{0:020d}").touch()
    with planning(root) as opened, pytest.raises(BadRequest) as caught:
        plan_truncation(opened, 0)
    assert (caught.value.reason, caught.value.code) == (
        "the commit log is empty: it holds 1 segment of 0 bytes",
        "empty-log",
    )


def test_an_empty_log_is_refused_unless_forced_and_all_that_the_queues_showed_is_lost(
    whole: Path, tmp_path: Path
) -> None:
    root = copy_store(whole, tmp_path / "store")
    shutil.rmtree(root / "commitlog")
    with planning(root) as opened, pytest.raises(NotAStore):
        plan_truncation(opened)
    with planning(root) as opened:
        change = plan_truncation(opened, force_empty_log=True)
        assert (change.report.log_end, change.report.stopped_by) == (0, "the commit log is empty")
        assert change.lost == {"T": COUNT}
        reasons: dict[str, set[str]] = {}
        for action in change.actions:
            reasons.setdefault(action.path.relative_to(root).parts[0], set()).add(action.reason)
        assert reasons == {
            "consumequeue": {"its entries point past the log's end"},
            "index": {"the commit log is empty"},
            "checkpoint": {"says how far the store is safe"},
        }
        change.apply()
    page = decode_checkpoint((root / "checkpoint").read_bytes())
    assert (page.physic_ms, page.logics_ms, page.index_ms) == (0, 0, 0)


def test_an_empty_store_has_nothing_to_truncate(tmp_path: Path) -> None:
    (tmp_path / "store/commitlog").mkdir(parents=True)
    with planning(tmp_path / "store") as opened, pytest.raises(BadRequest, match="the commit log is empty"):
        plan_truncation(opened)
