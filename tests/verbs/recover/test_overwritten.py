"""Leftovers behind records that a broker put over a cut: they are no damage and no loss, and must not come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store import check, open_store
from store.change.quarantine import undo
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from tests.cli.running import rmqctl
from tests.support.random_damage import records
from tests.support.simulating import simulate
from tests.support.snapshots import snapshot
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


def cut_in_the_middle(root: Path) -> tuple[Path, int]:
    """A store of one segment, the log offset of a record with others behind it."""
    make_store(root, 60)
    return root, records(root)[30][1]


def segment_of(root: Path) -> Path:
    return root / "commitlog" / f"{0:020d}"


def test_a_cut_leaves_no_record_behind_the_end_and_a_second_one_changes_nothing(tmp_path: Path) -> None:
    root, at = cut_in_the_middle(tmp_path / "store")
    command = ("truncate-dirty", "--offset", str(at), "--yes")
    first = rmqctl("-f", "json", *command, store=root)
    rows = [(row["action"], row["file"], row["reason"]) for row in first.json["actions"] if "commitlog" in row["file"]]
    assert (first.code, rows) == (
        0,
        [
            ("write", f"commitlog/{0:020d}", "without the old records past the log's end"),
            ("patch", f"commitlog/{0:020d}", "forbids an undo once records are put here"),
        ],
    )
    assert not any(segment_of(root).read_bytes()[at:])
    assert list(check(root)) == []
    before = snapshot(root)
    second = rmqctl(*command, store=root)
    assert (second.code, second.err, "nothing to change" in second.out) == (0, "", True)
    assert snapshot(root) == before


@pytest.mark.parametrize("runs", [1, 2])
def test_a_cut_is_not_undone_over_records_that_were_put_since(runs: int, tmp_path: Path) -> None:
    """The second run finds what a broker's cut left, whose first bytes are zeros already."""
    root, at = cut_in_the_middle(tmp_path / "store")
    before = snapshot(root)
    if runs == 2:
        data = segment_of(root).read_bytes()
        truncate(root, at)
        segment_of(root).write_bytes(data[:at] + bytes(8) + data[at + 8 :])
        before = snapshot(root)
    _, change_id = truncate(root, at)
    assert change_id is not None
    undo(root, change_id, fs=Filesystem())
    assert snapshot(root) == before
    _, change_id = truncate(root, at)
    assert change_id is not None
    with open_store(root, settings=SMALL, read_only=False) as opened:
        assert opened.put(text_message(99)).log_offset == at
    with pytest.raises(BadRequest, match="undoing would destroy the record that is here now"):
        undo(root, change_id, fs=Filesystem(), force=True)
    assert (records(root)[-1][1], list(check(root))) == (at, [])


def test_recover_says_that_no_broker_may_start_over_a_stale_tail(tmp_path: Path) -> None:
    root, at = cut_in_the_middle(tmp_path / "store")
    (root / "abort").touch()
    data = segment_of(root).read_bytes()
    segment_of(root).write_bytes(data[: at + 4] + bytes(4) + data[at + 8 :])
    warning = (
        f"note: old records lie past the log's end at {at}; a broker that overwrites some may read the rest "
        "again: clear them by truncate-dirty before a broker starts"
    )
    runs = [rmqctl("recover", *words, store=root) for words in (["--dry-run"], ["--yes"], ["--as-broker", "--yes"])]
    assert [run.err.splitlines()[0] for run in runs] == [warning] * 3
    assert rmqctl("truncate-dirty", "--yes", store=root).code == 0
    assert rmqctl("recover", "--abnormal", "--dry-run", store=root).err == ""


def _last_leftover(root: Path) -> tuple[Path, int, int]:
    with open_store(root) as opened:
        end = opened.max_log_offset
    (path,) = (root / "commitlog").iterdir()
    data = path.read_bytes()
    at = next(n for n in range(end + 1, len(data)) if data[n + 4 : n + 8] == b"\xda\xa3\x20\xa7")
    return path, at, int.from_bytes(data[at : at + 4], "big")
