"""The verdict on a checkpoint: each promise against what the files hold, and the file itself."""

import pytest

from store.formats.checkpoint_page import CheckpointPage
from store.recovery.checkpoint_review import Reached, page_faults, promises_of

REACHED = Reached(log_end=9000, log_ms=500, queue_ms=400, index_ms=300)


@pytest.mark.parametrize(
    ("field", "page", "verdict"),
    [
        ("physic", CheckpointPage(physic_ms=500), "ok"),
        ("physic", CheckpointPage(physic_ms=501), "ahead of the files"),
        ("physic", CheckpointPage(physic_ms=499), "behind"),
        ("physic", CheckpointPage(), "never set"),
        ("logics", CheckpointPage(logics_ms=401), "ahead of the files"),
        ("index", CheckpointPage(index_ms=301), "ahead of the files"),
        ("confirm", CheckpointPage(confirm_log_offset=9001), "ahead of the files"),
        ("confirm", CheckpointPage(confirm_log_offset=8000), "behind"),
        ("master_flushed", CheckpointPage(master_flushed_offset=9000), "ok"),
    ],
)
def test_a_promise_is_held_against_what_it_is_about(field: str, page: CheckpointPage, verdict: str) -> None:
    found = {promise.field: promise.verdict for promise in promises_of(page, REACHED)}
    assert found[field] == verdict


def test_a_4_x_page_promises_no_offsets() -> None:
    assert [promise.field for promise in promises_of(CheckpointPage(1, 2, 3), REACHED)] == ["physic", "logics", "index"]


@pytest.mark.parametrize(
    ("page", "file_size", "word"),
    [
        (CheckpointPage(), None, "no checkpoint"),
        (CheckpointPage(), 24, "24 bytes, expected 4096"),
        (CheckpointPage(logics_ms=-1), 4096, "logics_ms is negative (-1)"),
    ],
)
def test_a_fault_of_the_file_is_named(page: CheckpointPage, file_size: int | None, word: str) -> None:
    assert word in page_faults(page, file_size)[0]


def test_a_sound_page_has_no_fault() -> None:
    assert page_faults(CheckpointPage(1, 2, 3), 4096) == []
