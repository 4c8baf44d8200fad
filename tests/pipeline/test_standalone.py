"""A standalone master and worker on loopback: a rebuild with the broker's bytes, and a query."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.test_rebuild import digests
from tests.support.golden import copy_store, golden
from tests.support.processes import command_line, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_S = 90


@contextmanager
def daemon(folder: Path, name: str, *words: str) -> Iterator[Path]:
    """One of Spark's daemons; gives its log. Ended by its own process number."""
    log = folder / f"{name}.log"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work")}
    with log.open("wb") as target:
        process = subprocess.Popen(
            [SPARK_CLASS, f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", "127.0.0.1", *words],
            stdout=target, stderr=target, env=environment, cwd=folder,
        )  # fmt: skip
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group()
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as running:
        log = running.enter_context(daemon(tmp_path, "Master", "--port", "0", "--webui-port", "0"))
        address = wait_for(log, r"spark://127\.0\.0\.1:\d+")
        words = ("--cores", "2", "--memory", "2g", "--webui-port", "0", address)
        wait_for(running.enter_context(daemon(tmp_path, "Worker", *words)), r"Successfully registered")
        yield address


def test_a_standalone_cluster_answers_and_rebuilds(master: str, tmp_path: Path) -> None:
    store = copy_store(golden("normal").store, tmp_path / "store")
    rebuilt = run(command_line(store, "rebuild", "--master", master, "--yes"))
    assert rebuilt.code == 0, rebuilt.err
    assert digests(store) == digests(golden("normal").store)
    asked = run(
        command_line(store, "--format", "json", "sql", "select count(*) n from messages", "--master", master)
    )
    assert asked.code == 0, asked.err
    assert json.loads(asked.out)["rows"][0]["n"] > 0
