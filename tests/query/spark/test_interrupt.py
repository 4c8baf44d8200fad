"""Ctrl-C and SIGTERM while Spark starts and while it works: the exit code, one sentence, and nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rmqctl.exit_codes import INTERRUPTED
from tests.support.golden import golden
from tests.support.processes import command_line, environment, running

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENDLESS = "select sum(a.size % 7) from messages a, messages b, messages c, messages d"
JVM_ENDS_S = 120


def processes_of(session: int) -> list[str]:
    """The command lines of the processes in a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("after_s", [0.5, 12], ids=["while it starts", "while it works"])
def test_a_signal_ends_a_command_and_its_spark(after_s: float, number: signal.Signals, tmp_path: Path) -> None:
    words = command_line(golden("normal").store, "sql", ENDLESS, "--master", "local[1]")
    variables = {**environment(), "TMPDIR": str(tmp_path)}
    with running(words, env=variables, stderr=subprocess.PIPE, start_new_session=True) as query:
        assert query.stderr is not None
        assert query.stderr.readline().startswith("starting Spark")
        time.sleep(after_s)
        os.kill(query.pid, number)
        _, said = query.communicate(timeout=JVM_ENDS_S)
        assert (said, query.returncode) == ("rmqctl: interrupted; the store is consistent\n", INTERRUPTED)
    deadline = time.monotonic() + JVM_ENDS_S
    while processes_of(query.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(query.pid) == []
    assert list(tmp_path.iterdir()) == []
