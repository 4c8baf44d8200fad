"""Small rules of the command line, by their values: sizes, rates, warnings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.backend import _size
from rmqctl.commands import replicate_pull
from rmqctl.commands.replicate_pull import _with_rate
from rmqctl.commands.salvage import _warn
from rmqctl.put_files import bytes_of


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [
        (0, "0 KiB"),
        (1023, "0 KiB"),
        (1024, "1 KiB"),
        ((1 << 30) - 1, "1048575 KiB"),
        (1 << 30, "1.0 GiB"),
        (3 << 29, "1.5 GiB"),
    ],
)
def test_a_size_has_kibibytes_below_a_gibibyte(byte_count: int, text: str) -> None:
    assert _size(byte_count) == text


def test_the_rate_is_said_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said, updates = [100.0], list[str](), list[int]()
    monkeypatch.setattr(replicate_pull, "time", SimpleNamespace(monotonic=lambda: now[0]))
    session = cast(Any, SimpleNamespace(note=said.append))
    update = _with_rate(session, updates.append)
    interval = replicate_pull.RATE_INTERVAL_S
    for at, received in ((interval / 2, 1_000_000), (interval, 3_000_000), (1.5 * interval, 4_000_000),
                         (3 * interval, 9_000_000)):  # fmt: skip
        now[0] = 100.0 + at
        update(received)
    assert updates == [1_000_000, 3_000_000, 4_000_000, 9_000_000]
    assert said == [
        f"{3 / interval:.1f} MB/s, 3000000 bytes received",
        f"{3 / interval:.1f} MB/s, 9000000 bytes received",
    ]


@pytest.mark.parametrize(
    ("suffixes", "size"),
    [([".jsonl"], 5), ([".jsonl", ".jsonl"], 10), ([".csv"], None), ([".jsonl", ".parquet"], None)],
)
def test_the_bytes_of_lines_are_known_and_those_of_tables_are_not(
    suffixes: list[str], size: int | None, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, suffix in enumerate(suffixes):
        (folder / f"{number}{suffix}").write_bytes(b"12345")
    assert bytes_of(str(folder)) == size
    assert bytes_of("-") == 0


def test_a_salvage_warns_of_each_queue_whose_end_is_unknown_and_of_tables_that_it_could_not_read() -> None:
    warned: list[str] = []
    ends = [
        SimpleNamespace(topic=None, queue_id=0, fault="torn"),
        SimpleNamespace(topic="T", queue_id=2, fault="no entry"),
    ]
    report = SimpleNamespace(unknown_ends=ends, new_store=None, unread_offsets="torn", lost_ops=None)
    session = SimpleNamespace(warn=warned.append, note=warned.append)
    _warn(cast(Any, session), cast(Any, report))
    assert warned == [
        "queues without a record start at 0: torn",
        "T/2: the offset of its next message is unknown: no entry",
        "nothing is counted as unconsumed: torn",
    ]
