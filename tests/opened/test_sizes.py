"""The sizes of a store's files, inferred from the files that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.formats.index_page import index_file_size
from store.formats.queue_unit import QueueUnit, encode_ext_address
from store.layout import StoreLayout
from store.opened.sizes import infer_sizes

FS = Filesystem()
SEGMENT, QUEUE = "commitlog/{:020d}", "consumequeue/T/{}/{:020d}"
EXTENSION = "consumequeue_ext/T/0/00000000000000000000"
ADDRESS = QueueUnit(0, 91, encode_ext_address(0)).encode()
HASH = QueueUnit(0, 91, 7).encode()


def inferred(root: Path, files: dict[str, bytes], **settings: object) -> dict[str, object]:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return infer_sizes(StoreLayout(root), settings, FS)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({SEGMENT.format(0): b""}, {}),
        ({SEGMENT.format(0): bytes(100)}, {"mappedFileSizeCommitLog": 100}),
        (
            {SEGMENT.format(at): bytes(size) for at, size in [(0, 100), (100, 0), (200, 60), (300, 0), (400, 60)]},
            {"mappedFileSizeCommitLog": 100},
        ),
        (
            {SEGMENT.format(at): bytes(size) for at, size in [(0, 100), (90, 0), (180, 60), (300, 60)]},
            {"mappedFileSizeCommitLog": 60},
        ),
        ({"commitlog/other": bytes(100)}, {}),
        ({QUEUE.format(0, 0): bytes(40)}, {"mappedFileSizeConsumeQueue": 40}),
        ({QUEUE.format("x", 0): b"", QUEUE.format(1, 0): bytes(60)}, {"mappedFileSizeConsumeQueue": 60}),
        ({QUEUE.format(0, 0): HASH}, {"mappedFileSizeConsumeQueue": 20}),
        ({QUEUE.format(0, 0): ADDRESS}, {"mappedFileSizeConsumeQueue": 20, "enableConsumeQueueExt": True}),
        ({QUEUE.format(0, 0): ADDRESS[:19]}, {"mappedFileSizeConsumeQueue": 19}),
        (
            {EXTENSION: bytes(48)},
            {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 48},
        ),
        ({EXTENSION: b""}, {"enableConsumeQueueExt": True}),
        ({f"index/{'2' * 17}": bytes(index_file_size(1, 2))}, {"maxHashSlotNum": 1, "maxIndexNum": 2}),
        ({f"index/{'2' * 17}": bytes(index_file_size(1, 2) - 1)}, {}),
        ({"index/other": bytes(index_file_size(1, 2))}, {"maxHashSlotNum": 1, "maxIndexNum": 2}),
    ],
)
def test_the_usual_size_of_each_kind_of_file_is_taken(
    files: dict[str, bytes], expected: dict[str, object], tmp_path: Path
) -> None:
    assert inferred(tmp_path, files) == expected


@pytest.mark.parametrize(("queues", "is_seen"), [(15, True), (16, False)])
def test_the_first_sixteen_queue_files_show_whether_units_hold_addresses(
    queues: int, is_seen: bool, tmp_path: Path
) -> None:
    files = {QUEUE.format(0, 20 * number): HASH for number in range(queues)}
    found = inferred(tmp_path, {**files, QUEUE.format(0, 20 * queues): ADDRESS})
    assert ("enableConsumeQueueExt" in found) == is_seen


@pytest.mark.parametrize("is_on", [True, False])
def test_a_setting_is_not_inferred_again(is_on: bool, tmp_path: Path) -> None:
    files = {EXTENSION: bytes(48), f"index/{'2' * 17}": bytes(index_file_size(1, 2))}
    found = inferred(tmp_path, files, enableConsumeQueueExt=is_on, maxHashSlotNum=1, maxIndexNum=2)
    assert found == {}
    both_alone = inferred(tmp_path, {}, maxHashSlotNum=1, maxIndexNum=2)
    assert both_alone == {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 48}
    one_alone = inferred(tmp_path, {}, enableConsumeQueueExt=is_on, maxHashSlotNum=9)
    assert one_alone == {"maxHashSlotNum": 1, "maxIndexNum": 2}


def test_an_unreadable_queue_file_shows_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.errors import StoreIOError

    def unreadable(*_: object) -> bytes:
        raise StoreIOError("unreadable")

    monkeypatch.setattr(FS, "read", unreadable)
    assert inferred(tmp_path, {QUEUE.format(0, 0): ADDRESS}) == {"mappedFileSizeConsumeQueue": 20}
