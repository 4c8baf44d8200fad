"""A log that lacks a segment: what cannot be read is counted, and never passed over in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store.formats.wording import amount
from tests.cli.running import rmqctl
from tests.support.stores import make_store

COUNT = 240


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", COUNT, queues=1)


def lose(root: Path, number: int) -> None:
    sorted((root / "commitlog").iterdir())[number].unlink()


def ask(root: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    run = rmqctl(*words, "--format", "json", store=root)
    return run.code, json.loads(run.out), run.err


def test_get_counts_each_message_of_a_lost_segment(root: Path) -> None:
    lose(root, 1)
    code, found, err = ask(root, "get", "T", "--queue", "0", "--max", str(COUNT))
    assert code == 1
    assert len(found["messages"]) + found["damaged_count"] == COUNT
    assert "whether a segment is missing" in err


def test_get_counts_no_expired_message(root: Path) -> None:
    lose(root, 0)
    code, found, _ = ask(root, "get", "T", "--queue", "0", "--max", str(COUNT))
    assert (code, found["damaged_count"]) == (0, 0)


def test_index_query_says_what_it_cannot_read(root: Path) -> None:
    _, whole, _ = ask(root, "index-query", "T", "k120")
    lose(root, 1)
    code, found, err = ask(root, "index-query", "T", "k120")
    lost = whole["message_count"] - found["message_count"]
    more = f", as at {amount(lost - 1, 'more place')}" if lost > 1 else ""
    assert (code, lost > 0) == (1, True)
    assert f"for the key{more}, where no record can be read" in err


def test_index_query_is_silent_about_expired_messages(root: Path) -> None:
    for _ in range(2):
        lose(root, 0)
    code, _, err = ask(root, "index-query", "T", "k0")
    assert (code, "can be read" in err) == (1, False)


@pytest.mark.parametrize("size", [0, 1000, 100_000])
def test_reading_goes_on_without_a_segment_of_another_size(size: int, root: Path) -> None:
    segment = sorted((root / "commitlog").iterdir())[1]
    with segment.open("r+b") as file:
        file.truncate(size)
    run = rmqctl("get", "T", "--queue", "0", store=root)
    assert run.code == 0
    assert f"left out: {segment}: the file has {size} bytes" in run.err


def test_a_segment_size_that_no_segment_has_is_refused(root: Path) -> None:
    run = rmqctl("get", "T", "--queue", "0", "--set", "mappedFileSizeCommitLog=1048576", store=root)
    assert run.code == 4
