"""Replication with the real store of both broker lines at the other end: logs are byte-identical."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.refstore import LINES, SIZES, free_port, needs_refstore, refstore, segments, wait_for

pytestmark = [needs_refstore, pytest.mark.leaves_damage, pytest.mark.slow]


def write_input(path: Path, count: int) -> Path:
    """Messages as refstore takes them."""
    lines = (
        {"topic": f"T{n % 3}", "queueId": n % 4, "bodyText": "x" * (n % 700), "keys": f"k{n}", "tags": "a"}
        for n in range(count)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("line", LINES)
def test_a_real_master_is_copied_byte_for_byte(line: str, tmp_path: Path) -> None:
    port, master, to = free_port(), tmp_path / "master", tmp_path / "copy"
    given = write_input(tmp_path / "in.jsonl", 1000)
    words = ("write", "--store", master, *SIZES, "--input", given, "--ha-port", port, "--linger-ms", 60000)
    with refstore(line, *words):
        wait_for(port)
        for _ in range(2):
            run = rmqctl("receive", f"127.0.0.1:{port}", "--to", to, "--format", "json")
            assert run.code == 0, run.err
        assert len(segments(master)) > 3
        assert segments(to) == segments(master)
