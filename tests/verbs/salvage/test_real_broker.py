"""Salvaged stores under the real broker, with real clients."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import rmqctl
from tests.runs.real_group import run_round
from tests.support.random_damage import records
from tests.support.refbroker import SETTINGS, cluster, needs_refbroker, needs_refbroker55

LEVELS = {**SETTINGS, "messageDelayLevel": "1s 5s 40s"}
Rows = list[dict[str, Any]]


def log_offset(row: dict[str, Any]) -> int:
    """Of a message that was sent: the end of its offsetMsgId."""
    return int(row["offsetMsgId"][-16:], 16)


def ids(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The producers' ids of messages, but of placeholders, which have none."""
    return sorted(row["properties"]["UNIQ_KEY"] for row in rows if "RMQCTL_LOST" not in row["properties"])


def sent_ids(rows: Rows) -> list[str]:
    return sorted(row["msgId"] for row in rows)


def zero(root: Path, log_offsets: Iterable[int]) -> None:
    """Zeros the records at these log offsets."""
    sizes = {int(path.name) + at: (path, at, size) for path, at, size in records(root)}
    for log_offset in log_offsets:
        path, at, size = sizes[log_offset]
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes(size))


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
@pytest.mark.parametrize("words", [(), ("--keep-offsets",)], ids=["compacted", "keep"])
def test_groups_get_all_sound_messages_of_a_salvaged_store_and_go_on_where_they_were(
    tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 2)
            old = real.produce("Orders", 60, "--body-size", 500)
            assert ids(real.consume("Orders", "billing", 60)) == sent_ids(old)
            new = real.produce("Orders", 140, "--body-size", 500)
            broker.stop()
        lost = [*old[:3], *new[70:77]]
        zero(root, map(log_offset, lost))
        found = rmqctl("--format", "json", "salvage", "--to", target, *words, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, len(lost)), found.out
        with real.broker(target) as broker:
            assert ids(real.consume("Orders", "billing", 140)) == sent_ids([*new[:70], *new[77:]])
            assert ids(real.consume("Orders", "audit", 200, "--from", "first")) == sent_ids(
                [*old[3:], *new[:70], *new[77:]]
            )
            assert real.produce("Orders", 1, "--queue", 0)[0]["queueOffset"] == 100


@needs_refbroker
def test_lost_delayed_messages_hold_up_none_and_delivered_ones_do_not_come_again(tmp_path: Path) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    with cluster(tmp_path / "real") as real:
        with real.broker(root, LEVELS) as broker:
            real.make_topic("Late", 1)
            delivered = real.produce("Late", 20, "--delay", 1)
            assert ids(real.consume("Late", "billing", 20)) == sent_ids(delivered)
            waiting = real.produce("Late", 20, "--delay", 3)
            broker.stop()
        zero(root, map(log_offset, [*delivered[5:8], *waiting[3:6], *waiting[10:12]]))
        found = rmqctl("--format", "json", "salvage", "--to", target, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, 8), found.out
        sound = [*waiting[:3], *waiting[6:10], *waiting[12:]]
        with real.broker(target, LEVELS):
            assert ids(real.consume("Late", "billing", 15)) == sent_ids(sound)
            assert ids(real.consume("Late", "audit", 36, "--from", "first", timeout_s=10)) == sent_ids(
                [*delivered, *sound]
            )


@needs_refbroker
def test_a_group_misses_no_sound_message_of_a_store_that_was_broken_at_random(tmp_path: Path) -> None:
    run_round(tmp_path, seed=1)
