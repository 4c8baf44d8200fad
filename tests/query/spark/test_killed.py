"""What is left when a rebuild or recovery on Spark dies: the store as it was, and a second run that succeeds."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rmqctl.exit_codes import INTERRUPTED, OK
from tests.support.golden import copy_store, golden
from tests.support.processes import REPOSITORY, command_line, environment, run, running
from tests.support.snapshots import snapshot
from tests.support.spark_stores import digests

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXECUTOR_DIES = """
import os, signal, sys, threading
from pathlib import Path
from store.query.spark import rebuild
from store.query.spark.session import open_session
from tests.query.spark.daemons import executors_below
from tests.support.spark_stores import by_spark

store, staging = Path(sys.argv[1]), Path(sys.argv[2])
with open_session("local-cluster[2,1,1024]") as spark:
    by_spark(spark, store, staging / "undisturbed", 1)
    victims = executors_below(os.getpid())
    threading.Timer(0.3, os.kill, (victims[0], signal.SIGKILL)).start()
    by_spark(spark, store, staging / "disturbed", 3)
    assert victims[0] not in executors_below(os.getpid()), "the executor outlived it"
    print(len(victims))
"""


def on_spark(store: Path, command: str) -> list[str]:
    return command_line(store, command, "--engine", "spark", "--master", "local[2]", "--yes")


def staged_files(store: Path) -> list[Path]:
    return [path for path in (store / ".rmqctl" / "staging").rglob("*") if path.is_file()]


def end_while_it_builds(store: Path, command: str, number: int) -> int:
    """Sends the signal as soon as a file is staged; gives the exit code."""
    silence = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running(on_spark(store, command), env=environment(), **silence) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and not staged_files(store) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        return process.wait(120)


@pytest.mark.parametrize("command", ["rebuild", "recover"])
def test_a_killed_command_leaves_the_store_as_it_was_and_the_next_one_succeeds(command: str, tmp_path: Path) -> None:
    for attempt in range(5):
        store = copy_store(golden("normal").store, tmp_path / f"store{attempt}")
        before = snapshot(store, without=(".rmqctl", "lock"))
        code = end_while_it_builds(store, command, signal.SIGKILL)
        # A command that is over before it is killed says nothing.
        if code == -signal.SIGKILL:
            break
    assert code == -signal.SIGKILL
    assert snapshot(store, without=(".rmqctl", "lock")) == before

    done = run(on_spark(store, command))
    assert done.code == 0, done.err
    assert staged_files(store) == []
    assert digests(store)[1] == digests(golden("normal").store)[1]
    if command == "rebuild":  # a recovery by the rules of 4.9.8 knows no delay levels
        assert digests(store) == digests(golden("normal").store)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rebuild", "recover"])
def test_an_interrupted_command_says_so_and_leaves_nothing(command: str, tmp_path: Path) -> None:
    for attempt in range(5):
        store = copy_store(golden("normal").store, tmp_path / f"store{attempt}")
        before = snapshot(store, without=("lock",))
        code = end_while_it_builds(store, command, signal.SIGINT)
        if code != OK:
            break
    assert code == INTERRUPTED
    assert snapshot(store, without=("lock",)) == before
    assert not (store / ".rmqctl").exists()


def test_executors_of_their_own_write_the_brokers_bytes_even_when_one_is_killed(tmp_path: Path) -> None:
    """In a child process: one process holds one Spark only, and the other tests' is running."""
    arguments = [sys.executable, "-c", EXECUTOR_DIES, str(golden("normal").store), str(tmp_path)]
    done = subprocess.run(
        arguments, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == 2
    assert digests(tmp_path / "undisturbed") == digests(golden("normal").store)
    assert digests(tmp_path / "disturbed") == digests(golden("normal").store)
