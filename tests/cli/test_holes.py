"""The hole behind the log's end stays one, also in memory, where a page that is read takes room."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, open_store
from tests.cli.running import rmqctl

SEGMENT_BYTES = 256 << 20
READ_AT_MOST = 64 << 20
SIZES = ("--set", "mappedFileSizeConsumeQueue=6000", "--set", "maxHashSlotNum=50", "--set", "maxIndexNum=200")


@pytest.mark.parametrize(
    "line",
    [
        "check", "doctor", "simulate", "recover --dry-run", "rebuild --dry-run", "truncate-dirty --dry-run", "stale",
        "bundle {0}/bundle.tar.zst --yes", "salvage --to {0}/new", "backup create {0}/backups",
        "report --html {0}/page.html",
    ],
)  # fmt: skip
def test_no_command_reads_the_hole_behind_the_log(line: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": SEGMENT_BYTES, "mappedFileSizeConsumeQueue": 6000}
    with open_store(root, read_only=False, settings=settings) as store:
        for _ in range(3):
            store.put(Message("Orders", b"body"))
    (root / "abort").touch()
    assert rmqctl(*line.format(tmp_path).split(), *SIZES, store=root).code in (0, 1)
    assert (root / "commitlog" / f"{0:020d}").stat().st_blocks * 512 < READ_AT_MOST
