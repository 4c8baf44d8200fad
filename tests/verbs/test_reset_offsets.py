"""Offsets of a consumer group that are set by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rmqctl.exit_codes import NOT_READABLE, OK, USAGE
from store import Message, open_store
from tests.cli.running import rmqctl
from tests.support.snapshots import snapshot

BEGIN_MS = 1_800_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two queues of five messages, a second apart; `billing` is at 2 in the first of them."""
    times = iter(range(BEGIN_MS, BEGIN_MS + 100_000, 1000))
    store = tmp_path / "store"
    with open_store(store, read_only=False, clock=lambda: next(times)) as opened:
        for number in range(10):
            opened.put(Message.of("Orders", "x", queue_id=number // 5, born_timestamp_ms=1))
    (store / "config").mkdir(exist_ok=True)
    table = {"offsetTable": {"Orders@billing": {"0": 2}, "Other@billing": {"0": 9}}, "kept": True}
    (store / "config/consumerOffset.json").write_text(json.dumps(table))
    return store


def offsets(root: Path) -> dict[str, dict[str, int]]:
    table = (root / "config/consumerOffset.json").read_text()
    for number in range(10):
        # Fastjson writes numbers without quotes for keys.
        table = table.replace(f"{{{number}:", f'{{"{number}":').replace(f",{number}:", f',"{number}":')
    found: dict[str, dict[str, int]] = json.loads(table)["offsetTable"]
    return found


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        ("first", {"0": 0, "1": 0}),
        ("last", {"0": 5, "1": 5}),
        ("0", {"0": 0, "1": 0}),
        ("4", {"0": 4, "1": 4}),
        ("5", {"0": 5, "1": 5}),
        ("6", {"0": 5, "1": 5}),
        (str(10**12 - 1), {"0": 5, "1": 5}),
        # A time: 2001, before the first message.
        (str(10**12), {"0": 0, "1": 0}),
    ],
)
def test_a_group_goes_on_where_it_is_set(to: str, wanted: dict[str, int], root: Path) -> None:
    run = rmqctl("config", "reset-offsets", "billing", "--topic", "Orders", "--to", to, "--yes", store=root)
    assert run.code == OK, run.err
    assert offsets(root) == {"Orders@billing": wanted, "Other@billing": {"0": 9}}


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("5", "2 offsets of billing in Orders"),
        ("6", "2 offsets of billing in Orders; offset 6 is outside of 2 queues"),
        ("last", "2 offsets of billing in Orders"),
    ],
)
def test_an_offset_outside_of_a_queue_is_said_in_the_plan(to: str, says: str, root: Path) -> None:
    words = ("config", "reset-offsets", "billing", "--topic", "Orders", "--to", to, "--dry-run")
    assert [row["reason"] for row in rmqctl("-f", "json", *words, store=root).json["actions"]] == [says]


@pytest.mark.parametrize("modified_s", [1, 2_000_000_000])
@pytest.mark.parametrize(
    ("time_ms", "wanted"),
    [
        (2000, {"0": 2, "1": 0}),
        (2001, {"0": 3, "1": 0}),
        (7000, {"0": 5, "1": 2}),
        (9000, {"0": 5, "1": 4}),
        (9001, {"0": 5, "1": 5}),
    ],
)
def test_a_group_goes_on_at_the_first_message_from_a_time_on(
    time_ms: int, wanted: dict[str, int], modified_s: int, root: Path
) -> None:
    """Check that the times of the files, which a copy does not keep, decide nothing."""
    for file in (root / "consumequeue/Orders").glob("*/*"):
        os.utime(file, (modified_s, modified_s))
    first = rmqctl("--format", "jsonl", "get", "Orders", store=root).rows[0]["store_timestamp_ms"]
    words = ("config", "reset-offsets", "billing", "--topic", "Orders", "--to", first + time_ms, "--yes")
    assert rmqctl(*words, store=root).code == OK
    assert offsets(root)["Orders@billing"] == wanted


def test_messages_before_a_lost_segment_are_not_skipped(tmp_path: Path) -> None:
    root, times = tmp_path / "store", iter(range(BEGIN_MS, BEGIN_MS + 100_000, 1000))
    sizes = {"mappedFileSizeCommitLog": 400}
    with open_store(root, read_only=False, clock=lambda: next(times), settings=sizes) as opened:
        for _ in range(10):
            opened.put(Message.of("Orders", "x" * 20, born_timestamp_ms=1))
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"Orders@billing":{"0":9}}}')
    third = rmqctl("--format", "jsonl", "get", "Orders", store=root).rows[2]["store_timestamp_ms"]
    # Of messages 3 to 5: a search by halves comes to 5 first.
    (root / "commitlog/00000000000000000400").unlink()
    words = ("config", "reset-offsets", "billing", "--topic", "Orders", "--yes", "--to", third)
    assert rmqctl(*words, store=root).code == OK
    assert offsets(root) == {"Orders@billing": {"0": 2}}


def test_one_queue_is_set_and_undo_takes_it_back(root: Path) -> None:
    before = snapshot(root / "config")
    words = ("config", "reset-offsets", "billing", "--topic", "Orders", "--to", "first", "--queue", 0)
    plan = rmqctl("--format", "json", *words, "--dry-run", store=root).json
    row = {"topic": "Orders", "queue_id": 0, "min_offset": 0, "max_offset": 5, "consumed_offset": 2, "next_offset": 0}
    assert (plan["applied"], plan["offsets"]) == (False, [row])
    assert snapshot(root / "config") == before
    run = rmqctl("--format", "json", *words, "--yes", store=root)
    assert offsets(root)["Orders@billing"] == {"0": 0}
    assert rmqctl("undo", run.json["change_id"], store=root).code == OK
    assert offsets(root)["Orders@billing"] == {"0": 2}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("biling", "--topic", "Orders"), USAGE, "no table has a consumer group 'biling'"),
        (("billing", "--topic", "Order"), USAGE, "the store has no queue of 'Order'"),
        (("billing", "--topic", "Orders", "--queue", 7), USAGE, "the store has no queue of 'Orders', queue 7"),
    ],
)
def test_an_unknown_group_or_queue_is_refused(words: tuple[object, ...], code: int, says: str, root: Path) -> None:
    run = rmqctl("config", "reset-offsets", *words, "--to", "first", "--yes", store=root)
    assert (run.code, says in run.err) == (code, True), run.err


@pytest.mark.parametrize("to", ["firts", "-5"])
def test_what_is_no_place_is_answered_with_all_kinds_of_them(to: str, root: Path) -> None:
    run = rmqctl("config", "reset-offsets", "billing", "--topic", "Orders", "--to", to, "--yes", store=root)
    assert (run.code, "-15m, -2h, -3d; or first, last, or a queue offset (see" in run.err) == (USAGE, True), run.err


def test_a_store_that_was_not_shut_down_is_recovered_first(root: Path) -> None:
    (root / "abort").touch()
    run = rmqctl("config", "reset-offsets", "billing", "--topic", "Orders", "--to", "first", "--yes", store=root)
    assert (run.code, "did not shut down" in run.err) == (NOT_READABLE, True)
