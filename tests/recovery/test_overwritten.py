"""Leftovers behind records that a broker put over a cut: they are no damage and no loss, and must not come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store import check, open_store
from tests.cli.running import rmqctl
from tests.recovery.test_simulate import simulate
from tests.support.random_damage import records
from tests.support.stores import SMALL, Clock, make_store, text_message, truncate


def overwritten(root: Path) -> Path:
    """A store of one segment that was cut in its middle, with ten longer messages of a broker put there since."""
    make_store(root, 60)
    path, at, _ = records(root)[30]
    before = path.read_bytes()
    truncate(root, at)
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_700_000_600_000)) as opened:
        for number in range(10):
            assert opened.put(replace(text_message(number), body=b"longer" * 3)).is_ok
        end = opened.max_log_offset
    path.write_bytes(path.read_bytes()[:end] + before[end:])
    assert end not in [position for _, position, _ in records(root)]
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return overwritten(tmp_path / "store")


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_start_loses_nothing(line: str, store: Path) -> None:
    start = simulate(store, line, **SMALL)
    assert (start.lost.is_empty, start.traps, start.unseen) == (True, [], {})


def test_check_finds_the_stale_tail_alone(store: Path) -> None:
    assert [finding.kind for finding in check(store)] == ["stale-tail"]


def test_doctor_counts_no_lost_message(store: Path) -> None:
    assert rmqctl("--format", "json", "doctor", store=store).json["lost_messages"] == 0


def test_leftovers_that_an_entry_names_are_lost(store: Path) -> None:
    """The log's end is damaged where its queue shows more."""
    path = store / "consumequeue/T/0" / f"{0:020d}"
    data, (_, at, size) = path.read_bytes(), _last_leftover(store)
    path.write_bytes(data[:260] + at.to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8) + data[280:])
    assert simulate(store, **SMALL).lost.messages > 0
    assert "stale-tail" not in {finding.kind for finding in check(store)}


def _last_leftover(root: Path) -> tuple[Path, int, int]:
    with open_store(root) as opened:
        end = opened.max_log_offset
    (path,) = (root / "commitlog").iterdir()
    data = path.read_bytes()
    at = next(n for n in range(end + 1, len(data)) if data[n + 4 : n + 8] == b"\xda\xa3\x20\xa7")
    return path, at, int.from_bytes(data[at : at + 4], "big")
