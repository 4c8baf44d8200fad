"""The real RocketMQ store behind a command line, where the environment names one: RMQCTL_REFSTORE=/path/to/refstore.

RMQCTL_REFSTORE55 names the one of 5.5. Tests are skipped where theirs is not there; nothing else needs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND = os.environ.get("RMQCTL_REFSTORE", "")
LINES = ("49", "53")
SIZES = ("--commitlog-size", "65536", "--cq-size", "400", "--slots", "500", "--index-num", "1000")
SETTINGS = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 500,
    "maxIndexNum": 1000,
}
COMMAND_55 = os.environ.get("RMQCTL_REFSTORE55", "")
"""Its command line is another."""
needs_refstore = pytest.mark.skipif(not COMMAND, reason="RMQCTL_REFSTORE names no refstore")
needs_refstore55 = pytest.mark.skipif(not COMMAND_55, reason="RMQCTL_REFSTORE55 names no refstore55")


# Below 32768, where Linux begins to give out ports by itself: nobody else's connection takes one meanwhile.
PORTS = iter(range(20_000 + os.getpid() * 61 % 12_000, 32_768))
"""Each process begins at another."""


def free_port() -> int:
    """Return a free port of the loopback that no other test gets."""
    for port in PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")


@contextlib.contextmanager
def refstore(line: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """One refstore command of a broker line, killed at the end of the block."""
    process = subprocess.Popen(
        [COMMAND, *map(str, words)],
        env={**os.environ, "REFSTORE_V": line},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def wait_for(port: int, seconds: float = 60) -> None:
    """Return when a process listens on the port."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {port}"
            time.sleep(0.1)


def segments(store: Path) -> dict[str, bytes]:
    """Return the bytes of the log's segments that are not empty, by name."""
    files = {path.name: path.read_bytes() for path in (store / "commitlog").iterdir()}
    return {name: data for name, data in files.items() if data.strip(b"\0")}


def ask(line: str, root: Path, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Start the real store, ask it, and stop it: its answers, after its state."""
    words = ["ops", "--store", root, *SIZES, "--show-load", "--all-queues", "--raw", "--then-close", "normal"]
    done = subprocess.run(
        [COMMAND, *map(str, words)],
        env={**os.environ, "REFSTORE_V": line},
        input="".join(json.dumps(one) + "\n" for one in ({"op": "catchup"}, *lines)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [json.loads(one) for one in done.stdout.splitlines() if one.startswith("{")]


def write_input(path: Path, count: int) -> Path:
    """Messages as refstore takes them."""
    lines = (
        {"topic": f"T{n % 3}", "queueId": n % 4, "bodyText": "x" * (n % 700), "keys": f"k{n}", "tags": "a"}
        for n in range(count)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
