"""Extension files (consumequeue_ext/) that are lost: noticed, read past, and gone from the units after a recovery."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Message, check, open_store
from store.reading.filter.tags import TagExpression
from store.structures.findings import LOST_EXTENSION
from tests.support.snapshots import contents
from tests.support.stores import SMALL, make_store, recover

WITH_EXT = {**SMALL, "enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 200}
COUNT = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_store(tmp_path / "store", settings=WITH_EXT, read_only=False) as store:
        for number in range(COUNT):
            assert store.put(Message.of("T", f"{number}", tags="odd" if number % 2 else "even")).is_ok
    return tmp_path / "store"


def lose_all(root: Path) -> None:
    shutil.rmtree(root / "consumequeue_ext")


def lose_last(root: Path) -> None:
    sorted((root / "consumequeue_ext/T/0").iterdir())[-1].unlink()


def lose_first(root: Path) -> None:
    sorted((root / "consumequeue_ext/T/0").iterdir())[0].unlink()


def lose_queue_file(number: int) -> Callable[[Path], None]:
    return lambda root: sorted((root / "consumequeue/T/0").iterdir())[number].unlink()


LOST = {"all": lose_all, "the last file": lose_last, "the first file": lose_first}


def odd_ones(root: Path, **options: object) -> list[bytes]:
    with open_store(root, settings=options) as store:
        return [message.body for message in store.messages("T", 0, message_filter=TagExpression("odd"))]


def kinds(root: Path) -> set[str]:
    return {finding.kind for finding in check(root)}


@pytest.mark.parametrize("lost", LOST)
def test_a_filter_of_tags_finds_the_same_messages_without_extension_files(root: Path, lost: str) -> None:
    expected = odd_ones(root)
    assert expected == [b"%d" % number for number in range(1, COUNT, 2)]
    LOST[lost](root)
    assert odd_ones(root) == expected
    assert odd_ones(root, **WITH_EXT) == expected


@pytest.mark.parametrize("lost", LOST)
def test_check_names_lost_extension_files(root: Path, lost: str) -> None:
    LOST[lost](root)
    assert LOST_EXTENSION in kinds(root)


@pytest.mark.turns(2)
@pytest.mark.parametrize("settings", [SMALL, WITH_EXT], ids=["read off the files", "given"])
@pytest.mark.parametrize("lost", LOST)
def test_a_put_goes_on_and_the_units_need_no_lost_file_any_more(
    root: Path, lost: str, settings: dict[str, object]
) -> None:
    LOST[lost](root)
    with open_store(root, settings=settings, read_only=False) as store:
        assert any("consumequeue_ext/" in note for note in store.notes)
        assert store.put(Message.of("T", "one more", tags="odd")).queue_offset == COUNT
    assert odd_ones(root) == [b"%d" % number for number in range(1, COUNT, 2)] + [b"one more"]
    assert kinds(root) == set()


@pytest.mark.parametrize("lost", LOST)
def test_a_recovery_after_a_crash_mends_them_too(root: Path, lost: str) -> None:
    LOST[lost](root)
    (root / "abort").touch()
    open_store(root, read_only=False, recover=True).close()
    assert kinds(root) == set()
    assert odd_ones(root) == [b"%d" % number for number in range(1, COUNT, 2)]


LOST_OF_EITHER = {
    **LOST,
    "the queue": lambda root: shutil.rmtree(root / "consumequeue"),
    "the queue and its extension": lambda root: [lose_all(root), shutil.rmtree(root / "consumequeue")][-1],
    "the queue's first file": lose_queue_file(0),
    "the queue's middle file": lose_queue_file(1),
    "the queue's last file": lose_queue_file(-1),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("lost", LOST_OF_EITHER)
def test_a_recovery_writes_lost_units_and_their_extension_as_the_broker_did(root: Path, lost: str) -> None:
    folders = ("consumequeue", "consumequeue_ext")
    before = [contents(root / folder) for folder in folders]
    LOST_OF_EITHER[lost](root)
    change, _ = recover(root, settings=WITH_EXT)
    assert [contents(root / folder) for folder in folders] == before
    if lost in LOST:
        assert any("bit maps" in remark for remark in change.remarks)


def test_units_tell_that_a_store_without_consumequeue_ext_had_it(root: Path) -> None:
    before = contents(root / "consumequeue_ext")
    lose_all(root)
    change, _ = recover(root, settings={"mappedFileSizeConsumeQueueExt": 200})
    assert contents(root / "consumequeue_ext") == before
    lose_all(root)
    change, _ = recover(root)
    assert any("mappedFileSizeConsumeQueueExt=50331648 is assumed" in remark for remark in change.remarks)


def test_extension_files_that_expired_are_not_lost(tmp_path: Path) -> None:
    root = make_store(tmp_path / "s", 400, queues=1, enableConsumeQueueExt=True, mappedFileSizeConsumeQueueExt=200)
    (root / "commitlog/00000000000000000000").unlink()
    with open_store(root, read_only=False) as store:
        first = store.min_offset("T", 0)
    address = first * 20 // 200 * 200
    for path in sorted((root / "consumequeue_ext/T/0").iterdir()):
        if int(path.name) + 400 < address:
            path.unlink()
    before = contents(root / "consumequeue")
    with open_store(root, read_only=False) as store:
        assert store.notes == []
    assert contents(root / "consumequeue") == before
    assert kinds(root) == set()
