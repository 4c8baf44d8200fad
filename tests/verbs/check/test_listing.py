"""The files of a store, each in its place, and those that no broker made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.structures.findings import (
    FOREIGN_FILE,
    LINK,
    Finding,
)
from store.verbs.check.listing import (
    HARMLESS,
    LINKED,
    NO_BROKER,
    NO_BROKERS,
    NOT_4_9,
    NOT_5_3,
    Listing,
)
from tests.verbs.check.stores import findings

FILE: Callable[[Path], None] = lambda path: path.write_bytes(b"x") and None  # noqa: E731
FOLDER: Callable[[Path], None] = Path.mkdir
FIFO: Callable[[Path], None] = os.mkfifo


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "make", "detail"),
    [
        ("consumequeue/file", FILE, f"a file where topics' folders are; {HARMLESS}"),
        ("consumequeue/T/file", FILE, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/7", FILE, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/old", FOLDER, f"not the folder of a queue; {HARMLESS}"),
        ("consumequeue/T/0/x.bak", FILE, f"not the name of a queue file; {NO_BROKER}"),
        ("consumequeue/T/0/folder", FOLDER, f"a folder among a queue's files; {NOT_4_9}"),
        ("consumequeue/T/0/00000000000000009999", FIFO, f"a FIFO among a queue's files; {NO_BROKERS}"),
        ("index/x.bak", FILE, f"not the name of an index file; {HARMLESS}"),
        ("index/folder", FOLDER, f"a folder among the index files; {HARMLESS}"),
        ("index/20260101000000000", FOLDER, f"a folder among the index files; {NOT_5_3}"),
        ("index/20260101000000000", FIFO, f"a FIFO among the index files; {NO_BROKERS}"),
        ("commitlog/x.bak", FILE, f"not the name of a segment; {NO_BROKER}"),
        ("commitlog/folder", FOLDER, f"a folder among the segments; {NOT_4_9}"),
        ("commitlog/00000000000000999999", FIFO, f"a FIFO among the segments; {NO_BROKERS}"),
    ],
)
def test_a_name_that_no_broker_made_is_listed_with_what_brokers_do(
    name: str, make: Callable[[Path], None], detail: str, root: Path
) -> None:
    make(root / name)
    assert findings(root) == [Finding(FOREIGN_FILE, name, 0, detail=detail)]


def test_links_are_listed_and_what_they_lead_to_counts(root: Path, tmp_path: Path) -> None:
    names = ["consumequeue/T/0", f"index/{min((root / 'index').iterdir()).name}"]
    for number, name in enumerate(names):
        (root / name).rename(tmp_path / str(number))
        (root / name).symlink_to(tmp_path / str(number))
    assert findings(root) == [Finding(LINK, name, 0, detail=LINKED) for name in names]


def test_what_is_in_a_folder_among_the_index_files_is_part_of_it(root: Path) -> None:
    (root / "index/folder").mkdir()
    (root / "index/folder/x.bak").touch()
    assert [one.file for one in findings(root)] == ["index/folder"]


def listing_of(*names: tuple[str, int], settings: dict[str, object] | None = None) -> Listing:
    """List a store with these files, by path and size."""
    entries = [
        SimpleNamespace(path=name, size=size, mtime_ms=0, is_folder=not size, is_file=size > 0, is_link=False, kind="")
        for name, size in names
    ]
    files: Any = SimpleNamespace(
        links=list, below=lambda folder: [one for one in entries if one.path.startswith(folder + "/")],
        index_files=list, segments=lambda with_empty: [], foreign_in_commitlog=list, name_of=str,
    )  # fmt: skip
    return Listing.of(files, settings or {})


def test_queues_are_listed_by_topic_and_id() -> None:
    names = [("Plain", 2), ("Batch", 10), ("Plain", 0), ("Batch", 9)]
    listing = listing_of(*((f"consumequeue/{topic}/{number}", 0) for topic, number in names))
    assert [(one.topic, one.queue_id) for one in listing.queues] == [
        ("Batch", 9), ("Batch", 10), ("Plain", 0), ("Plain", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(("queues", "shares"), [(1, 1), (15, 15), (16, 16), (31, 31), (32, 16), (33, 17), (9000, 18)])
def test_queues_are_shared_among_sixteen_tasks_of_at_most_five_hundred(queues: int, shares: int) -> None:
    listing = listing_of(*((f"consumequeue/T/{number}", 0) for number in range(queues)))
    found = listing.shares()
    assert len(found) == shares
    assert [queue for share in found for queue in share] == list(listing.queues)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "given", "usual"), [([], 0, 0), ([40, 60, 60], 0, 60), ([40, 60, 60], 40, 40), ([], 40, 40)]
)
def test_a_queue_file_should_be_as_long_as_the_settings_say_or_as_most_are(
    sizes: list[int], given: int, usual: int
) -> None:
    files = [(f"consumequeue/T/{number}/{0:020d}", size) for number, size in enumerate(sizes)]
    settings: dict[str, object] = {"mappedFileSizeConsumeQueue": given} if given else {}
    assert listing_of(*files, settings=settings).queue_file_size == usual


@pytest.mark.parametrize(
    ("files", "span"), [([], (0, 0)), ([(200, 50)], (200, 250)), ([(300, 70), (200, 100)], (200, 370))]
)
def test_a_queues_extension_goes_from_its_first_file_to_the_end_of_its_last(
    files: list[tuple[int, int]], span: tuple[int, int]
) -> None:
    names = [(f"consumequeue_ext/T/1/{number:020d}", size) for number, size in files]
    (queue,) = listing_of(("consumequeue/T/1", 0), *names).queues
    assert (queue.topic, queue.queue_id, queue.extension_start, queue.extension_end) == ("T", 1, *span)
