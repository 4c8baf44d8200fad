"""The usage command: groups by size, and how many at most."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqctl.commands import usage
from store import Message, open_store
from tests.cli.running import rmqctl
from tests.support.stores import SMALL


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queue n of T has n + 1 messages."""
    root = tmp_path_factory.mktemp("usage") / "store"
    with open_store(root, settings=SMALL, read_only=False) as opened:
        for queue_id in range(3):
            for _ in range(queue_id + 1):
                assert opened.put(Message("T", b"body", queue_id=queue_id)).is_ok
    return root


@pytest.mark.parametrize(
    ("by", "stores", "names", "most"),
    [
        ("queue", 1, ["queue_id"], "queue 2, 50.00 %"),
        ("topic,queue", 1, ["topic", "queue_id"], "T/2, 50.00 %"),
        ("topic", 1, ["topic"], None),
        ("topic", 2, ["store", "topic"], "T, {}, 50.00 %"),
    ],
)
def test_rows_and_verdict_name_the_groups(
    by: str, stores: int, names: list[str], most: str | None, store: Path, tmp_path: Path
) -> None:
    places = [store, shutil.copytree(store, tmp_path / "zweiter")][:stores]
    words = ("usage", "--by", by, *(word for place in places for word in ("--store", place)))
    rows = rmqctl("-f", "json", *words).json["usage"]
    assert list(rows[0])[: len(names) + 1] == [*names, "message_count"]
    verdict = rmqctl(*words).out.splitlines()[0]
    assert verdict.partition("; the most in ")[2] == (most.format(rows[0]["store"]) if stores > 1 else most or "")


@pytest.mark.parametrize(
    ("most", "counts", "note"),
    [
        (2, [3, 2], "only the 2 largest groups are read, shown and added up"),
        (3, [3, 2, 1], ""),
        (4, [3, 2, 1], ""),
    ],
)
def test_a_user_is_told_of_more_groups_than_are_read(
    most: int, counts: list[int], note: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usage.MOST_GROUPS == 1_000_000
    monkeypatch.setattr(usage, "MOST_GROUPS", most)
    run = rmqctl("usage", "--by", "queue", "--format", "json", store=store)
    assert [row["message_count"] for row in run.json["usage"]] == counts
    assert (run.json["message_count"], run.err.strip()) == (sum(counts), note)
