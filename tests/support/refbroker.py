"""The whole real broker with its clients, where the environment names it: RMQCTL_REFBROKER=/path/to/refbroker (4.9.8).

RMQCTL_REFBROKER55 names the one of 5.5. Their tests are skipped where they are not there; nothing else needs them.

    with cluster(tmp_path) as real, real.broker(store, SETTINGS) as broker:
        real.produce("Orders", 10)
        broker.kill()
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.refstore import free_port

COMMANDS = {"4.9": os.environ.get("RMQCTL_REFBROKER", ""), "5.5": os.environ.get("RMQCTL_REFBROKER55", "")}
needs_refbroker = pytest.mark.skipif(not COMMANDS["4.9"], reason="RMQCTL_REFBROKER names no refbroker")
needs_refbroker55 = pytest.mark.skipif(not COMMANDS["5.5"], reason="RMQCTL_REFBROKER55 names no refbroker55")
WAIT_S = 180
"""How long a start, a stop or a command may take on a loaded machine."""

SETTINGS = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 500,
    "maxIndexNum": 1000,
}
"""Small files; the same that tests.support.refstore has."""

SLOW = ("--send-timeout", 30_000)
"""A client of its own gives up after 3 s."""
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def broker_port() -> int:
    """A free port for a broker, which takes the ones two below and one above too."""
    return max(free_port() for _ in range(4))


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} took more than {WAIT_S} s"
        time.sleep(0.1)


@dataclass(frozen=True)
class Server:
    """A name server or a broker that runs."""

    process: subprocess.Popen[bytes]
    home: Path

    def log(self, name: str) -> str:
        """The text of logs/rocketmqlogs/`name`.log."""
        return (self.home / "logs/rocketmqlogs" / f"{name}.log").read_text(errors="replace")

    def kill(self) -> None:
        """End as by kill -9: a broker leaves a crashed store."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def stop(self) -> None:
        """End as by kill: a broker shuts its store down. It takes up to 20 s."""
        self.process.terminate()
        self.process.wait(WAIT_S)


@dataclass(frozen=True)
class Cluster:
    """A name server, and what is started at it."""

    command: str
    folder: Path
    port: int

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def broker(self, store: Path, settings: Mapping[str, object] = SETTINGS, port: int = 0) -> Iterator[Server]:
        """A broker on a store folder that the name server knows; killed at the end of the block if it runs."""
        port = port or broker_port()
        words = [f"--set={name}={value}" for name, value in settings.items()]
        with self._serving(
            f"broker-{port}", "broker", "--store", store, "--port", port, "--namesrv", self.namesrv, *words
        ) as server:
            _wait_until(lambda: "broker-a" in self.mqadmin("clusterList"), "being known")
            yield server

    def produce(self, topic: str, count: int, *words: object, timeout_s: float = WAIT_S) -> list[dict[str, Any]]:
        """A row a message: status, queueId, queueOffset, msgId, bodyCRC and more; AssertionError if one fails."""
        return self._rows("produce", "--topic", topic, "--count", count, *SLOW, *words, timeout_s=timeout_s)

    def transact(self, topic: str, count: int, *words: object, timeout_s: float = WAIT_S) -> list[dict[str, Any]]:
        """As produce; `--outcome commit,rollback,unknown` is taken in turn."""
        return self._rows("transact", "--topic", topic, "--count", count, *SLOW, *words, timeout_s=timeout_s)

    def consume(
        self, topic: str, group: str, expect: int, *words: object, timeout_s: float = 60
    ) -> list[dict[str, Any]]:
        """What a group gets until it has `expect` messages or the time is over: maybe fewer, and more if sent twice."""
        numbers = ("--expect", expect, "--timeout", int(timeout_s))
        return self._rows(
            "consume", "--topic", topic, "--group", group, *numbers, *words, timeout_s=timeout_s + WAIT_S, codes=(0, 1)
        )

    def mqadmin(self, command: str, *words: object, timeout_s: float = WAIT_S) -> str:
        """What `mqadmin COMMAND -n NAMESRV WORDS` prints."""
        return self._run(["mqadmin", command, "-n", self.namesrv, *words], timeout_s, (0,))

    def make_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic on the broker, before a client asks for it."""
        self.mqadmin("updateTopic", "-c", "RefCluster", "-t", topic, "-r", queues, "-w", queues)

    def _rows(
        self, command: str, *words: object, timeout_s: float, codes: tuple[int, ...] = (0,)
    ) -> list[dict[str, Any]]:
        text = self._run([command, "--namesrv", self.namesrv, *words], timeout_s, codes)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def _run(self, words: list[object], timeout_s: float, codes: tuple[int, ...]) -> str:
        done = subprocess.run(
            [self.command, *map(str, words)],
            env=self.environment("clients"),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            preexec_fn=_die_with_parent,
        )
        assert done.returncode in codes, f"{words} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def _serving(self, home: str, *words: object) -> Iterator[Server]:
        environment = self.environment(home)
        printed = self.folder / f"{home}.out"
        with printed.open("wb") as out:
            process = subprocess.Popen(
                [self.command, *map(str, words)],
                env=environment,
                stdout=out,
                stderr=out,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (one thread starts servers)
            )

        def booted() -> bool:
            text = printed.read_text(errors="replace")
            assert process.poll() is None, f"{words[0]} ended with {process.returncode}: {text}"
            return "boot success" in text

        try:
            _wait_until(booted, f"the start of the {words[0]}")
            yield Server(process, self.folder / home)
        finally:
            process.kill()
            process.wait(WAIT_S)

    def environment(self, home: str) -> dict[str, str]:
        """The variables of a process whose logs go below `home`."""
        return {**os.environ, "REFBROKER_HOME": str(self.folder / home), "REFBROKER_HEAP": "512m"}


@contextlib.contextmanager
def cluster(folder: Path, line: str = "4.9") -> Iterator[Cluster]:
    """A name server on a free port; logs go below `folder`.

    line  4.9 or 5.5, the refbroker to take
    """
    folder.mkdir(parents=True, exist_ok=True)
    real = Cluster(COMMANDS[line], folder, free_port())
    with real._serving("namesrv", "namesrv", "--port", real.port):
        yield real


def log_offset(row: dict[str, Any]) -> int:
    """Of a message that was sent: the end of its offsetMsgId."""
    return int(row["offsetMsgId"][-16:], 16)


def ids(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The producers' ids of messages, but of placeholders, which have none."""
    return sorted(row["properties"]["UNIQ_KEY"] for row in rows if "RMQCTL_LOST" not in row["properties"])


def sent_ids(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The producers' ids of messages that were sent."""
    return sorted(row["msgId"] for row in rows)
