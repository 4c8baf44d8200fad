"""Compares commands on very many queues with another revision: `python -m tests.bench.queues_beside --base REVISION`.

Both revisions run each command on the same store, one after the other, by this interpreter, with compiled kernels and
bytecode. Prints, for each command, the ratio of the CPU times of the two processes and both times; a ratio is
comparable between machines, where seconds are not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.bench.gate import ROOT, checkout, find_base
from tests.bench.many import QUEUE_FILE_SIZE
from tests.bench.queues import COMMANDS, MADE_COUNT, MOST_COUNT
from tests.bench.stores import forget_derived, put_into_state
from tests.support.many_queues import many_queues, queue_name

Step = tuple[str, Callable[[], object], list[str]]
"""What is measured, what is done with the store before each run, and the words after `rmqctl`."""


def steps(folder: Path, share: float) -> Iterator[Step]:
    """Yield what is measured; each step finds the store as the one before left it."""
    made, lines, most = folder / "made", folder / "lines", folder / "most"
    count = int(MADE_COUNT * share)
    rows = ({"topic": topic, "queue_id": queue, "body_text": ""} for topic, queue in map(queue_name, range(count)))
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # A revision that reads holes fills them in memory: 20,000 files of the default size do not fit.
    at_made = ["--store", str(made), "--set", f"mappedFileSizeConsumeQueue={QUEUE_FILE_SIZE}"]
    yield f"put --from, {count:,} new queues", lambda: _empty(made), [*at_made, "put", "--from", str(lines)]
    yield f"rebuild --dry-run, {count:,} queues", lambda: None, [*at_made, "rebuild", "--dry-run"]
    yield f"recover, {count:,} lost queues", lambda: forget_derived(made), [*at_made, "recover", "--yes"]
    shutil.rmtree(made)
    count = int(MOST_COUNT * share)
    many_queues(most, count, 2 * count, queue_file_size=QUEUE_FILE_SIZE)
    for name, (words, _) in COMMANDS.items():
        yield f"{name}, {count:,} queues", lambda: None, ["--store", str(most), *words]
    put_into_state(most, "crashed with queues")
    topic, queue = queue_name(7)
    get = ["--store", str(most), "get", topic, "--queue", str(queue), "--max", "1"]
    yield f"get, {count:,} queues, crashed, an empty checkpoint", lambda: None, get


def cpu_of(tree: Path, folder: Path, words: Sequence[str]) -> float:
    """Return the CPU seconds that a process of `tree` takes for a command, with its children."""
    variables, command = {**os.environ, "TMPDIR": str(folder)}, [sys.executable, "-m", "rmqctl", *words]
    began = os.times()
    done = subprocess.run(command, cwd=tree, env=variables, check=False, capture_output=True, text=True)
    ended = os.times()
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return ended.children_user + ended.children_system - began.children_user - began.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.queues_beside", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--dir", type=Path, help="the device to measure")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the queues (default 1)")
    options = parser.parse_args(arguments)
    base = find_base([options.base])
    if base is None:
        parser.error(f"{options.base} is not here, or is this revision")
    with tempfile.TemporaryDirectory(dir=options.dir) as name, checkout(base, Path(name)) as tree:
        for one in (ROOT, tree):
            subprocess.run([sys.executable, ".build/kernels.py"], cwd=one, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([sys.executable, "-m", "compileall", "-q", "rmqctl", "store"], cwd=one, check=True)
        for what, prepare, words in steps(Path(name), options.share):
            found = []
            for one in (tree, ROOT):
                prepare()
                found.append(cpu_of(one, Path(name), words))
            there, here = found
            print(f"{here / there:5.2f} of {base[:10]}  {here:6.2f} s and {there:6.2f} s  {what}", flush=True)
    return 0


def _empty(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()


if __name__ == "__main__":
    sys.exit(main())
