"""Offsets of a consumer group that are set by hand."""

from __future__ import annotations

import json
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


# By the rule of 4.9 a queue whose messages are all older goes on at its last one.
@pytest.mark.parametrize(("number", "wanted"), [(2, {"0": 2, "1": 0}), (7, {"0": 4, "1": 2})])
def test_a_group_goes_on_at_a_time_as_from_the_broker(number: int, wanted: dict[str, int], root: Path) -> None:
    time_ms = rmqctl("--format", "jsonl", "get", "Orders", store=root).rows[number]["store_timestamp_ms"]
    run = rmqctl("config", "reset-offsets", "billing", "--topic", "Orders", "--to", time_ms, "--yes", store=root)
    assert (run.code, offsets(root)["Orders@billing"]) == (OK, wanted)


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
