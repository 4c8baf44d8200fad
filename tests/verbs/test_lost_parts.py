"""Lost files of queues, index and extension, found by the log: what each lacks, and where the walk ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.files.store_reader import StoreReader
from store.formats.queue_unit import UNIT_SIZE
from store.verbs.lost_parts import ExpectedQueues, Problem, find_lost_extensions, find_lost_parts
from store.verbs.queue_ends import QueueEnd, queue_ends
from tests.support.golden import copy_store
from tests.support.small_log import UNITS_PER_FILE, SmallLog, open_index, open_queues

FILE_SIZE = UNITS_PER_FILE * UNIT_SIZE
QUEUE = "consumequeue/T/0/{:020d}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SmallLog]:
    """25 records of T with a key each and 3 of U: ten entries a queue file, eleven keys an index file."""
    root, log = tmp_path_factory.mktemp("whole"), SmallLog()
    for number in range(25):
        log.put("T", keys=f"k{number}")
    log.put_many(3, "U", 1)
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{0:020d}").write_bytes(log.data)
    queues, index = open_queues(root), open_index(root)
    log.dispatch_to(queues, index)
    queues.close()
    index.close()
    return root, log


def lost(root: Path, stop: int, other_topics: frozenset[str] = frozenset()) -> list[Problem]:
    reader = StoreReader(str(root))
    ends = list(queue_ends(reader))
    return list(find_lost_parts(reader, reader.segments(), ends, stop, ExpectedQueues(FILE_SIZE, other_topics)))


def lost_files(count: int, *starts: int) -> Problem:
    names = ", ".join(f"{start:020d}" for start in starts)
    detail = f"T, queue 0: the log has {count} messages of files that are not there: {names}"
    return Problem("lost queue file", detail, "queue-file-lost", ("T", 0))


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        ((), []),
        ((200,), [lost_files(10, 200)]),
        ((0, 400), [lost_files(15, 0, 400)]),
        ((400,), [lost_files(5, 400)]),
        ((0, 200, 400), [lost_files(25, 0, 200, 400)]),
    ],
)
def test_a_queue_lacks_the_files_of_its_records(
    removed: tuple[int, ...], expected: list[Problem], whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    for start in removed:
        (root / QUEUE.format(start)).unlink()
    assert lost(root, log.end) == expected


@pytest.mark.parametrize(("record", "more", "count"), [(25, 0, 0), (25, 1, 1), (26, 0, 1), (26, 1, 2), (27, 1, 3)])
def test_a_queue_without_a_folder_is_lost_where_the_log_has_records_of_it_before_the_stop(
    record: int, more: int, count: int, whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    shutil.rmtree(root / "consumequeue/U")
    messages = "1 message" if count == 1 else f"{count} messages"
    detail = f"U, queue 1: there is no folder, and the log has {messages} of it"
    expected = [Problem("lost queue", detail, "queue-file-lost", ("U", 1))] if count else []
    stop = log.units[record].log_offset + more
    assert lost(root, stop) == expected
    assert lost(root, stop, frozenset({"U"})) == []


@pytest.mark.parametrize(
    ("removed", "first", "last", "said"),
    [(0, None, 11, "11 keys are"), (1, 10, 22, "11 keys are"), (2, 21, None, "3 keys are")],
)
def test_keys_between_the_index_files_are_in_none(
    removed: int, first: int | None, last: int | None, said: str, whole: tuple[Path, SmallLog], tmp_path: Path
) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    sorted((root / "index").iterdir())[removed].unlink()
    low = 0 if first is None else log.units[first].log_offset + 1
    high = log.end if last is None else log.units[last].log_offset
    detail = f"no index file covers log offsets {low} to {high}: {said} in none"
    assert lost(root, log.end) == [Problem("lost index file", detail, "index-file-lost")]


def test_lost_queues_come_before_lost_index_files(whole: tuple[Path, SmallLog], tmp_path: Path) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    shutil.rmtree(root / "consumequeue/U")
    (root / QUEUE.format(200)).unlink()
    min((root / "index").iterdir()).unlink()
    assert [one.what for one in lost(root, log.end)] == ["lost queue file", "lost queue", "lost index file"]


def test_a_store_without_any_index_file_lacks_none(whole: tuple[Path, SmallLog], tmp_path: Path) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    shutil.rmtree(root / "index")
    assert lost(root, log.end) == []


def test_keys_past_the_stop_are_not_missed(whole: tuple[Path, SmallLog], tmp_path: Path) -> None:
    root, log = copy_store(whole[0], tmp_path / "store"), whole[1]
    sorted((root / "index").iterdir())[2].unlink()
    low, stop = log.units[21].log_offset, log.units[23].log_offset
    detail = f"no index file covers log offsets {low + 1} to {stop}: 1 key is in none"
    assert lost(root, stop) == [Problem("lost index file", detail, "index-file-lost")]
    assert lost(root, log.units[22].log_offset) == []


@pytest.mark.parametrize(
    ("address", "start", "size", "is_lost"),
    [
        (-1, 0, 0, False),
        (0, 0, 1, False),
        (48, 0, 48, True),
        (48, 0, 49, False),
        (48, 48, 1, False),
        (48, 49, 48, True),
        (0, 0, 0, True),
    ],
)
def test_an_extension_is_lost_where_no_file_has_the_newest_address(
    address: int, start: int, size: int, is_lost: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "consumequeue_ext/T/3"
    folder.mkdir(parents=True)
    (folder / f"{start:020d}").write_bytes(bytes(size))
    detail = "T, queue 3: its entries point into consumequeue_ext/, where no file has their data"
    expected = [Problem("lost extension", detail, "extension-file-lost")] if is_lost else []
    ends = [QueueEnd("T", 3, 0, 1, 0, 91, extension=address)]
    assert list(find_lost_extensions(StoreReader(str(tmp_path)), ends)) == expected
