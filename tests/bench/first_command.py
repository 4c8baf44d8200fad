"""The first command on a host, whose environment is on the device still, beside the second.

What the command loads and the store are taken out of the page cache before: modules with their bytecode, libraries.
What another process has mapped stays, as the interpreter's own library does, which runs the benchmark.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench import stores
from tests.bench.cold_files import run_command, timed
from tests.bench.context import SMALL_BODY, Bench
from tests.bench.report import Row

COMMANDS = {"closed": ("check",), "nothing derived": ("recover", "--abnormal", "--dry-run")}
COUNT = 20_000
WANTED_S = 1.0
_LIST_LOADED = """
import json, sys
from rmqctl.app import main
main(sys.argv[1:])
maps = [line.split()[-1] for line in open("/proc/self/maps")]
found = {path for path in maps if path.startswith("/")}
for module in list(sys.modules.values()):
    found |= {str(path) for name in ("__file__", "__cached__") if (path := getattr(module, name, None))}
print(json.dumps(sorted(found)))
"""


def first_commands(bench: Bench) -> Iterator[Row]:
    """Seconds of the first `check` and `recover`, and of the second; the medians of the runs."""
    root = bench.store(SMALL_BODY, COUNT)
    for state, words in COMMANDS.items():
        stores.put_into_state(root, state)
        files = [*_loaded_by(root, words), *(path for path in root.rglob("*") if path.is_file())]
        command = partial(run_command, root, *words)
        turns = [(timed(files, command), timed((), command)) for _ in range(bench.runs)]
        first, second = (statistics.median(times) for times in zip(*turns, strict=True))
        yield Row(f"the first command on a host, {words[0]}, {COUNT:,} messages, {state}", first, "s", "the second",
                  second, target=WANTED_S, note=f"{len(files)} files not in the page cache")  # fmt: skip


def _loaded_by(root: Path, words: tuple[str, ...]) -> list[Path]:
    """The files that a process with this command has loaded at its end."""
    argv = [sys.executable, "-c", _LIST_LOADED, "--store", str(root), *words]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    paths = map(Path, json.loads(run.stdout.splitlines()[-1]))
    return [path for path in paths if path.is_file() and path.stat().st_size]
