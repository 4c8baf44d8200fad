"""Leftovers behind records that a broker put over a cut: they are no damage and no loss, and must not come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store import check, open_store
from store.change.quarantine import undo
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE
from store.formats.message import BORN_HOST_AT
from store.formats.queue_unit import UNIT_SIZE
from tests.cli.running import rmqctl
from tests.support.bad_sectors import BadSectors
from tests.support.random_damage import records
from tests.support.refstore import LINES, SETTINGS, ask, needs_refstore
from tests.support.simulating import simulate
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, Clock, make_store, recover, text_message, truncate

STORE_TIME_AT = BORN_HOST_AT + 8
"""Behind a host of 8 bytes."""


def overwritten(root: Path, *, keeps_units: bool = False) -> Path:
    """A store of one segment that was cut in its middle, with ten longer messages of a broker put there since.

    keeps_units  the broker itself cut the log: it zeroes no queue unit
    """
    make_store(root, 60)
    path, at, _ = records(root)[30]
    before = path.read_bytes()
    units = {queue: queue.read_bytes() for queue in (root / "consumequeue").rglob("0" * 20)}
    truncate(root, at)
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_700_000_600_000)) as opened:
        for number in range(10):
            assert opened.put(replace(text_message(number), body=b"longer" * 3)).is_ok
        end = opened.max_log_offset
    path.write_bytes(path.read_bytes()[:end] + before[end:])
    for queue, old in units.items() if keeps_units else ():
        now = queue.read_bytes()
        end = -(-len(now.rstrip(b"\0")) // UNIT_SIZE) * UNIT_SIZE
        queue.write_bytes(now[:end] + old[end:])
    assert end not in [position for _, position, _ in records(root)]
    return root


@pytest.fixture(params=[False, True], ids=["without units", "with units"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return overwritten(tmp_path / "store", keeps_units=request.param)


def test_recover_builds_nothing_of_the_leftovers(tmp_path: Path) -> None:
    root = overwritten(tmp_path / "store", keeps_units=True)
    before = snapshot(root)
    plan = rmqctl("--format", "json", "recover", "--dry-run", store=root).json
    assert [(row["action"], row["file"]) for row in plan["actions"]] == [
        ("patch", f"commitlog/{0:020d}"),
        ("write", f"consumequeue/T/1/{0:020d}"),
        ("write", f"consumequeue/T/2/{0:020d}"),
    ]
    assert (plan["lost_messages"], plan["lost_units_cut"], snapshot(root)) == (0, 15, before)


@needs_refstore
@pytest.mark.parametrize("line", LINES)
def test_a_real_broker_that_cut_the_log_itself_loses_nothing_at_its_next_start(line: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 120, **SETTINGS)
    places = records(root)
    path, at, size = places[70]
    data = bytearray(path.read_bytes())
    data[at + size // 2] ^= 0x20
    path.write_bytes(data)
    puts = [{"op": "put", "msg": {"topic": "T", "queueId": 0, "bodyText": f"new {n}"}} for n in range(10)]
    answers = ask(line, root, *puts)
    assert [one["res"]["status"] for one in answers if "msg" in one.get("req", {})] == ["PUT_OK"] * 10
    start = simulate(root, {"49": "4.9", "53": "5.3"}[line], **SETTINGS)
    assert (start.log_end, start.lost.messages, start.lost.units_cut > 0) == (sum(records(root)[-1][1:]), 0, True)
    assert "stale-tail" in {finding.kind for finding in check(root)}
    shown = ask(line, root, {"op": "minmax", "topic": "T", "queue": 0})
    assert shown[-1]["res"]["max"] == 34


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_start_loses_nothing(line: str, store: Path) -> None:
    start = simulate(store, line, **SMALL)
    assert (start.lost.is_empty, start.traps, start.unseen) == (True, [], {})


def test_check_finds_the_stale_tail_and_units_without_a_record(tmp_path: Path) -> None:
    plain, kept = (overwritten(tmp_path / str(keeps), keeps_units=keeps) for keeps in (False, True))
    assert [finding.kind for finding in check(plain)] == ["stale-tail"]
    assert {finding.kind for finding in check(kept)} == {"stale-tail", "unit-nowhere"}


def test_doctor_counts_no_lost_message_and_stale_shows_every_leftover(store: Path) -> None:
    assert rmqctl("--format", "json", "doctor", store=store).json["lost_messages"] == 0
    (tail,) = (finding for finding in check(store) if finding.kind == "stale-tail")
    stale = rmqctl("--format", "json", "stale", store=store).json["stale_records"]
    rows = [row for row in stale if row["file"].startswith("commitlog/")]
    assert (len(rows), rows[0]["log_offset"], rows[-1]["uniq_key"]) == (tail.count, tail.offset, "U59")


def test_info_and_the_checkpoint_s_review_end_the_log_at_the_new_records(store: Path) -> None:
    end = records(store)[-1][1] + records(store)[-1][2]
    info = rmqctl("--format", "json", "info", store=store).json
    assert (info["log_end"], info["last_ms"]) == (end, 1_700_000_600_000)
    assert {problem["what"] for problem in info["problems"]} <= {"queues ahead"}
    review = rmqctl("--format", "json", "checkpoint", "show", store=store).json
    assert (review["log_end"], {row["verdict"] for row in review["times"]}) == (end, {"ok"})


def test_records_that_a_clock_set_back_made_older_are_lost_behind_damage(tmp_path: Path) -> None:
    """They go on with the queue offsets of the records before, but for the damaged one."""
    root = make_store(tmp_path / "store", 60)
    places = records(root)
    data = bytearray(segment_of(root).read_bytes())
    data[places[30][1] + 4] ^= 0x20
    for _, at, _ in places[31:]:
        data[at + STORE_TIME_AT : at + STORE_TIME_AT + 8] = (1_600_000_000_000).to_bytes(8, "big")
    segment_of(root).write_bytes(data)
    assert simulate(root, **SMALL).lost.messages == 30
    assert "stale-tail" not in {finding.kind for finding in check(root)}


class UnreadableLog(BadSectors):
    """The bad pages are those of segments; queue files have the same names."""

    def is_bad(self, path: Path, start: int, stop: int) -> bool:
        return path.parent.name == "commitlog" and super().is_bad(path, start, stop)


@pytest.mark.parametrize("mode", ["normal", "abnormal"])
def test_an_unreadable_newest_record_stops_no_recovery(mode: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    path, at, _ = records(root)[-1]
    recover(root, mode=mode, fs=UnreadableLog({path.name: [at // PAGE_SIZE]}))
    assert {finding.kind for finding in check(root)} == {"stale-tail"}


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
