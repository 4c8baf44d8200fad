"""A backup is restored to a log offset or a time: every record before the moment is in it, and none after."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.errors import BadRequest
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up, findings_of, messages_of, next_offsets, restore
from tests.verbs.rebuild.stores import expired_store

BEGAN_MS = 1_700_000_000_000
NOTHING_BEFORE = "the backup's first record is not before the moment: the new store has no records"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Backups of a store of 200 messages, one each second, in three segments."""
    root = tmp_path_factory.mktemp("moments")
    back_up(make_store(root / "store", 200), root / "backups")
    return root / "backups"


@pytest.fixture(scope="module")
def log_offsets(folder: Path) -> list[int]:
    with open_store(folder.with_name("store")) as store:
        return sorted(message.log_offset for queue in range(3) for message in store.messages("T", queue))


def numbers_of(root: Path) -> list[int]:
    return sorted(int(body.split()[1]) for body in messages_of(root).values())


@pytest.mark.turns(2)
@pytest.mark.parametrize("count", [0, 1, 2, 86, 87, 88, 89, 173, 174, 199, 200])
def test_records_before_a_log_offset_are_restored(
    count: int, folder: Path, log_offsets: list[int], tmp_path: Path
) -> None:
    offset = [*log_offsets, 37_000][count] if count < 200 else log_offsets[-1] + 189
    report = restore(folder, tmp_path / "new", log_offset=offset)
    assert numbers_of(tmp_path / "new") == list(range(count))
    assert (report.record_count, report.log_end <= offset) == (count, True)
    assert report.remarks == ([] if count else [NOTHING_BEFORE])
    assert findings_of(tmp_path / "new") == []


def test_a_time_before_the_first_record_is_noted_and_the_backup_of_an_empty_store_is_not(
    folder: Path, tmp_path: Path
) -> None:
    assert restore(folder, tmp_path / "early", time_ms=BEGAN_MS - 1).remarks == [NOTHING_BEFORE]
    with open_store(tmp_path / "empty", read_only=False):
        pass
    back_up(tmp_path / "empty", tmp_path / "backups")
    assert restore(tmp_path / "backups", tmp_path / "again").remarks == []


@pytest.mark.parametrize("seconds", [0, 1, 1.5, 2, 87, 88, 89, 174, 199, 200, 500])
def test_records_stored_until_a_time_are_restored(seconds: float, folder: Path, tmp_path: Path) -> None:
    restore(folder, tmp_path / "new", time_ms=BEGAN_MS + int(1000 * seconds))
    assert numbers_of(tmp_path / "new") == list(range(min(200, int(seconds))))
    assert findings_of(tmp_path / "new") == []


def test_the_earlier_of_two_limits_counts(folder: Path, log_offsets: list[int], tmp_path: Path) -> None:
    restore(folder, tmp_path / "new", time_ms=BEGAN_MS + 50_000, log_offset=log_offsets[30])
    assert numbers_of(tmp_path / "new") == list(range(30))
    restore(folder, tmp_path / "other", time_ms=BEGAN_MS + 20_000, log_offset=log_offsets[30])
    assert numbers_of(tmp_path / "other") == list(range(20))


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (741, "no record begins or ends at log offset 741; the record before begins at 740, and ends at 925"),
        (-1, "the backup has the log from 0 to "),
        (99_999, "the backup has the log from 0 to "),
    ],
)
def test_a_log_offset_inside_of_a_record_or_outside_is_refused(
    offset: int, reason: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadRequest, match=reason):
        restore(folder, tmp_path / "new", log_offset=offset)
    assert not (tmp_path / "new").exists()


def test_a_queue_whose_messages_are_all_behind_the_moment_begins_where_it_did_then(tmp_path: Path) -> None:
    root = expired_store(tmp_path / "store")
    back_up(root, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "new", log_offset=16384)
    ends = next_offsets(tmp_path / "new")
    with open_store(root) as store:
        first = {(one.topic, one.queue_id): one.min_offset for one in store.queues()}
    assert ends == {**{queue: offset for queue, offset in first.items() if offset}, ("Old", 0): 30}
