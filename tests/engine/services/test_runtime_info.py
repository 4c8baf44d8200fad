"""Amounts of bytes as the broker's report writes them, and the partitions of several folders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.config import StoreConfig
from store.engine.live.services import StoreServices
from store.engine.services import runtime_info
from store.engine.services.runtime_info import describe_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), ((1 << 20) - 1, "1024.0 KiB"),
        (1 << 20, "1.0 MiB"), (1 << 30, "1.0 GiB"), (1 << 40, "1.0 TiB"), (1 << 50, "1.0 PiB"), (1 << 60, "1.0 EiB"),
        (1 << 62, "4.0 EiB"), (1 << 71, "2048.0 EiB"),
    ],
)  # fmt: skip
def test_an_amount_has_one_digit_and_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert describe_bytes(count) == text


@pytest.mark.parametrize(("used", "least"), [((0.25, 0.5), "0.25"), ((0.5, 0.25), "0.25"), ((0.75,), "0.75")])
def test_of_several_folders_the_emptiest_counts(used: tuple[float, ...], least: str) -> None:
    ratios = {**{f"log{number}": one for number, one in enumerate(used)}, "queues": 0.125}
    layout = SimpleNamespace(commitlogs=[f"log{number}" for number in range(len(used))], consumequeue="queues")
    opened: Any = SimpleNamespace(layout=layout, fs=SimpleNamespace(used_ratio=ratios.__getitem__))
    assert runtime_info._disk_ratios(opened) == {
        **{f"commitLogDiskRatio_log{number}": str(one) for number, one in enumerate(used)},
        "commitLogDiskRatio": least,
        "consumeQueueDiskRatio": "0.125",
    }


@pytest.mark.parametrize(
    ("used", "full", "is_refused"),
    [
        ((0.5,), [], False),
        ((0.85, 0.5), [], False),
        ((0.86, 0.5), ["log0"], False),
        ((0.5, 0.86), ["log1"], False),
        ((0.90, 0.95), ["log0", "log1"], False),
        ((0.95, 0.91), ["log0", "log1"], True),
    ],
)
def test_puts_are_refused_once_the_emptiest_folder_is_nearly_full(
    used: tuple[float, ...], full: list[str], is_refused: bool
) -> None:
    names = [f"log{number}" for number in range(len(used))]
    folders = SimpleNamespace(full=frozenset())
    opened = SimpleNamespace(
        config=StoreConfig(disk_space_clean_forcibly_ratio=85, disk_space_warning_level_ratio=90),
        fs=SimpleNamespace(used_ratio=dict(zip(names, used, strict=True)).__getitem__),
        layout=SimpleNamespace(writable_commitlogs=names),
        log=SimpleNamespace(segments=SimpleNamespace(folders=folders)),
    )
    calls: list[str] = []
    flags = SimpleNamespace(set=lambda flag, text: calls.append("set"), clear=lambda flag: calls.append("clear"))
    StoreServices.check_disk(cast(Any, SimpleNamespace(_opened=opened, flags=flags)))
    assert (sorted(folders.full), calls) == (full, ["set" if is_refused else "clear"])
