"""The verdict on a checkpoint: each promise against what the files hold, and the file itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import Message, check, open_store, plan_checkpoint
from store.formats.checkpoint_page import CheckpointPage, decode_checkpoint
from store.structures.findings import CHECKPOINT_AHEAD, CHECKPOINT_INVALID
from store.verbs.recover.checkpoint_plan import CheckpointPlan
from store.verbs.recover.checkpoint_review import Promise, Reached, first_time_ms, page_faults, promises_of
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.stores import SMALL, Clock, make_store, text_message

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


MASTER_FAULT = "master_flushed_offset is negative (-3)"
SAID = CheckpointPage(510, 420, 330, 9100, 8900)


def test_every_promise_has_its_words_what_it_said_and_what_is_reached() -> None:
    expired = REACHED._replace(first_ms=77)
    assert promises_of(SAID, expired) == [
        Promise("physic", 510, 500, "log flushed", False, 77),
        Promise("logics", 420, 400, "queues built", False, 77),
        Promise("index", 330, 300, "index flushed", False, 77),
        Promise("master_flushed", 9100, 9000, "master flushed", True, 0),
        Promise("confirm", 8900, 9000, "last valid record", True, 0),
    ]
    [*_, units] = promises_of(SAID._replace(logics_log_offset=8950), expired)
    assert units == Promise("logics_log", 8950, 8999, "units flushed", True, 0)


@pytest.mark.parametrize(("master", "confirm", "count"), [(0, 0, 3), (1, 0, 5), (0, 1, 5), (1, 1, 5)])
def test_offsets_are_promised_where_one_of_them_is_set(master: int, confirm: int, count: int) -> None:
    page = CheckpointPage(1, 2, 3, master, confirm)
    assert len(promises_of(page, REACHED)) == count


@pytest.mark.parametrize(
    ("said", "reached", "expired", "verdict", "excess"),
    [
        (0, 0, 0, "never set", 0),
        (0, 1, 0, "never set", 0),
        (0, 0, 1, "never set", 0),
        (1, 0, 0, "ahead of the files", 1),
        (1, 0, 1, "ok", 1),
        (2, 0, 1, "ahead of the files", 2),
        (1, 2, 0, "behind", 0),
        (2, 2, 0, "ok", 0),
        (3, 2, 0, "ahead of the files", 1),
        (9, 2, 0, "ahead of the files", 7),
        (2, 2, 9, "ok", 0),
        (3, 2, 3, "ok", 1),
        (4, 2, 3, "ahead of the files", 2),
        (1, 2, 3, "behind", 0),
        (1_700_000_000_001, 1_700_000_000_000, 0, "ahead of the files", 1),
        (1_700_000_000_000, 1_700_000_000_001, 0, "behind", 0),
        (1_700_000_000_000, int("1700000000000"), 0, "ok", 0),
        (-1, 0, 0, "behind", 0),
        (0, -1, 0, "never set", 1),
        (0, -1, -1, "never set", 1),
        (-1, -5, -5, "ok", 4),
        (1, -1, -1, "ahead of the files", 2),
    ],
)
def test_the_verdict_on_a_promise(said: int, reached: int, expired: int, verdict: str, excess: int) -> None:
    promise = Promise("physic", said, reached, "log flushed", expired=expired)
    assert (promise.verdict, promise.excess) == (verdict, excess)
    assert promise.is_ahead is (verdict == "ahead of the files")


@pytest.mark.parametrize(
    ("page", "file_size", "faults"),
    [
        (CheckpointPage(), None, ["there is no checkpoint: an abnormal recovery reads the whole log"]),
        (CheckpointPage(logics_ms=-1), None, ["there is no checkpoint: an abnormal recovery reads the whole log"]),
        (CheckpointPage(), 0, ["0 bytes, expected 4096"]),
        (CheckpointPage(), 4095, ["4095 bytes, expected 4096"]),
        (CheckpointPage(), 4096, []),
        (CheckpointPage(), 4097, []),
        (CheckpointPage(0, 0, 0, 0, 0), 4096, []),
        (CheckpointPage(-2, 1, 1, 1, 1), 4096, ["physic_ms is negative (-2)"]),
        (CheckpointPage(1, 1, 1, 1, -1), 4096, ["confirm_log_offset is negative (-1)"]),
        (CheckpointPage(1, 1, -1, -3, 1), 24, ["24 bytes, expected 4096", "index_ms is negative (-1)", MASTER_FAULT]),
    ],
)
def test_each_fault_of_the_file_is_named_once(page: CheckpointPage, file_size: int | None, faults: list[str]) -> None:
    assert page_faults(page, file_size) == faults


@pytest.mark.turns(5)
@pytest.mark.parametrize("page", [None, b"", b"abc", b"\x7f" * 24])
@pytest.mark.parametrize("messages", [1, 60])
@pytest.mark.parametrize("command", [("recover", "--yes"), ("truncate-dirty", "--yes"), ("put", "T", "body")])
def test_a_lost_or_torn_checkpoint_is_written_anew(
    command: tuple[str, ...], messages: int, page: bytes | None, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", messages)
    if page is None:
        (root / "checkpoint").unlink()
    else:
        (root / "checkpoint").write_bytes(page)
    shown = rmqctl("-f", "json", "checkpoint", "show", store=root)
    assert (shown.code, shown.json["file_bytes"]) == (1, None if page is None else len(page))
    assert rmqctl(*command, store=root).code == 0
    checked = rmqctl("check", store=root)
    assert checked.code == 0, checked.out


NOISE = [b"\xff" * 4096, bytes(range(256)) * 16, (b"\xff" * 40).ljust(4096, b"\0"), b"\x80" + bytes(4095)]


@pytest.mark.turns(3)
@pytest.mark.parametrize("page", NOISE)
@pytest.mark.parametrize("name", ["normal", "normal5"])
def test_a_rewrite_mends_a_checkpoint_that_no_broker_writes(name: str, page: bytes, copy_of: CopyOf) -> None:
    _, root = copy_of(name)
    (root / "checkpoint").write_bytes(page)
    assert {finding.kind for finding in check(root)} <= {CHECKPOINT_AHEAD, CHECKPOINT_INVALID}
    assert rmqctl("checkpoint", "rewrite", "--yes", store=root).code == 0
    assert list(check(root)) == []


@pytest.fixture
def clocked(tmp_path: Path) -> tuple[Path, int]:
    """Sixty messages a second apart, from 1000 s on; and the log's end."""
    clock = Clock(1_000_000)
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(60):
            result = store.put(text_message(number))
            clock.now_ms += 1000
        store.catch_up()
        return tmp_path / "store", result.log_offset + result.size


LAST_MS, FAR = 1_059_000, 9_999_999


@pytest.mark.parametrize(
    "page",
    [CheckpointPage(), CheckpointPage(FAR, FAR, FAR, FAR, FAR, FAR), CheckpointPage(LAST_MS, LAST_MS, 5, 7, 9, 0)],
)
def test_a_rewritten_checkpoint_promises_what_the_files_hold_and_is_left_then(
    page: CheckpointPage, clocked: tuple[Path, int]
) -> None:
    root, log_end = clocked
    (root / "checkpoint").write_bytes(page.encode().ljust(4096, b"\0"))
    with plan_checkpoint(root) as change:
        full_index_ms = change.report.index_ms
        assert change.report == CheckpointPlan(log_end, LAST_MS, LAST_MS, full_index_ms)
        assert [action.path.name for action in change.actions] == ["checkpoint"]
        assert [path.name for path in change.sync_paths][:1] == [f"{0:020d}"]
        change.apply()
    assert 1_000_000 < full_index_ms < LAST_MS
    written = decode_checkpoint((root / "checkpoint").read_bytes())
    kept = min(page.master_flushed_offset, log_end), min(page.confirm_log_offset, log_end)
    assert written == CheckpointPage(LAST_MS, LAST_MS, full_index_ms, *kept, 0)
    with plan_checkpoint(root) as again:
        assert (again.actions, again.sync_paths) == ([], [])


@pytest.mark.parametrize("size", [None, 0, 23, 24, 100, 1964, 4095])
def test_a_checkpoint_that_is_missing_or_short_is_rewritten_as_a_whole_page(
    size: int | None, clocked: tuple[Path, int]
) -> None:
    checkpoint = clocked[0] / "checkpoint"
    with plan_checkpoint(clocked[0]) as change:
        change.apply()
    whole = checkpoint.read_bytes()
    checkpoint.unlink()
    if size is not None:
        checkpoint.write_bytes(whole[:size])
    with plan_checkpoint(clocked[0]) as change:
        change.apply()
    assert (checkpoint.read_bytes(), list(check(clocked[0]))) == (whole, [])


@pytest.mark.parametrize("times", [[-1], [-5, -3], [0], [-7, 0]])
def test_a_checkpoint_of_zeros_promises_nothing_beside_messages_from_before_1970(
    times: list[int], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    clock = Clock(0)
    with open_store(root, settings=SMALL, read_only=False, clock=clock) as store:
        for clock.now_ms in times:
            store.put(Message("T", b"x"))
        store.catch_up()
        log_end = store.max_log_offset
    assert (decode_checkpoint((root / "checkpoint").read_bytes()), list(check(root))) == (CheckpointPage(), [])
    with plan_checkpoint(root) as change:
        assert (change.report, change.actions) == (CheckpointPlan(log_end, 0, 0, 0), [])


def test_a_log_without_a_record_has_no_first_time(tmp_path: Path) -> None:
    none = SimpleNamespace(log=SimpleNamespace(segments=SimpleNamespace(first=None)), line=None)
    assert first_time_ms(cast(Any, none)) == 0
