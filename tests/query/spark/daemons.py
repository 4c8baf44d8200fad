"""Spark's daemons on loopback: what a test needs of a cluster, on this machine alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent
START_S = 240
STOP_S = 120


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker; gives the master's address."""
    on_loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as running:
        master = _deployed("Master", "--port", "0", *on_loopback)
        address = _wait_for(running.enter_context(_daemon(folder, master)), r"spark://127\.0\.0\.1:\d+")
        worker = _deployed("Worker", "--cores", "2", "--memory", "2g", *on_loopback, address)
        _wait_for(running.enter_context(_daemon(folder, worker)), r"Successfully registered")
        yield address


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server that runs tasks itself; gives its address. PySpark's own package brings all it needs."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    words = [SPARK / "bin" / "spark-submit", "--class", server, "--master", "local[2]", *options, "spark-internal"]
    with _daemon(folder, words) as log:
        found = _wait_for(log, r"Spark Connect server started at: \S+")
        yield f"sc://{found.rsplit(' ', 1)[1]}"


def _deployed(name: str, *words: str) -> list[str | Path]:
    return [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name.lower()}.{name}", *words]


@contextmanager
def _daemon(folder: Path, words: Sequence[str | Path]) -> Iterator[Path]:
    """One of Spark's daemons; gives its log. Ended by its own process number."""
    log = folder / f"{len(list(folder.iterdir()))}.log"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as target:
        process = subprocess.Popen(words, stdout=target, stderr=target, env=environment, cwd=folder)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        finally:
            process.kill()


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group()
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


def executors_below(ancestor: int) -> list[int]:
    """The executor JVMs among a process's descendants."""
    parent, command = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            continue

    def descends(process: int) -> bool:
        while process in parent and process != ancestor:
            process = parent[process]
        return process == ancestor

    return [p for p, words in command.items() if b"CoarseGrainedExecutorBackend" in words and descends(p)]
