"""Compares this checkout with another revision, as ratios in one run: `python -m tests.bench.gate [--base main]`.

Both revisions run the same operations on the same machine, in turns; the better turn of each operation counts. Where
one seems slower than allowed there are more turns, up to --turns, before the verdict: other work on the machine passes,
a regression stays. Prints a line an operation, and ends with exit code 1 when one of them is slower than allowed.

Skipped with a sentence and exit code 0 where there is nothing to compare with: a clone without the base, a base that is
this revision, or one that can't be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = ("bulk", "scan", "get", "states")
# The beginnings of the rows that are compared.
COMPARED = (
    "bulk put, dispatched, 100 B",
    "scan + CRC, 1 KiB",
    "scan, 100 B",
    "get of 32 messages",
    "recover --normal in process, closed, 1 KiB",
    "recover --abnormal in process, nothing derived, 1 KiB",
)
BASES = ("main", "origin/main")
LOWER_IS_BETTER = ("s", "B")
Measured = dict[str, float]


@contextlib.contextmanager
def checkout(revision: str, folder: Path) -> Iterator[Path]:
    """The revision's files in a work tree of its own."""
    tree = folder / "base"
    subprocess.run(["git", "worktree", "add", "--detach", "-q", str(tree), revision], cwd=ROOT, check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def measure(tree: Path, folder: Path, size: str) -> Measured:
    """The rate of each compared operation, compiled; a time counts as its inverse, so that more is better."""
    subprocess.run([sys.executable, ".build/kernels.py"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    found = folder / "rows.json"
    command = [sys.executable, "-m", "tests.bench", *OPERATIONS, "--size", size, "--runs", "2", "--json", str(found)]
    subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    rates: Measured = {}
    for row in json.loads(found.read_text())["rows"]:
        name = next((name for name in COMPARED if row["operation"].startswith(name)), None)
        if name is not None:
            rates.setdefault(name, 1 / row["value"] if row["unit"] in LOWER_IS_BETTER else row["value"])
    return rates


def ratios(here: Sequence[Measured], base: Sequence[Measured]) -> Measured:
    """Per operation that both have, the best turn here divided by the best turn of the base."""
    best_here, best_base = ({name: max(turn[name] for turn in turns) for name in turns[0]} for turns in (here, base))
    return {name: best_here[name] / best_base[name] for name in best_here if name in best_base}


def find_base(names: Sequence[str]) -> str | None:
    """The commit of the first name that is known here, None without one or where that is the present commit."""
    present = _commit("HEAD")
    found = next((commit for name in names if (commit := _commit(name)) is not None), None)
    return found if found != present else None


def _commit(name: str) -> str | None:
    if shutil.which("git") is None:
        return None
    command = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else None


def compare(base: str, options: argparse.Namespace) -> Measured:
    """The ratios after as many turns as it takes for all to be allowed, at most --turns."""
    here: list[Measured] = []
    there: list[Measured] = []
    found: Measured = {}
    with tempfile.TemporaryDirectory(prefix="rmqctl-gate-") as name, checkout(base, Path(name)) as tree:
        for _ in range(options.turns):
            here.append(measure(ROOT, Path(name), options.size))
            try:
                there.append(measure(tree, Path(name), options.size))
            except subprocess.CalledProcessError as error:
                print(f"skipped: the base can't be measured (exit code {error.returncode})")
                return {}
            found = ratios(here, there)
            if all(ratio >= options.least for ratio in found.values()):
                break
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", help="the revision to compare with (default main, else origin/main)")
    parser.add_argument("--least", type=float, default=0.6, help="the least ratio allowed (default 0.6)")
    parser.add_argument("--turns", type=int, default=4, help="how often each revision is measured at most (default 4)")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    options = parser.parse_args(arguments)
    base = find_base([options.base] if options.base else BASES)
    if base is None:
        print(f"skipped: {options.base or 'main'} is not here, or is this revision")
        return 0
    found = compare(base, options)
    for operation, ratio in found.items():
        print(f"{ratio:5.2f} of {base[:10]}  {operation}{'' if ratio >= options.least else '  SLOWER'}")
    return 0 if all(ratio >= options.least for ratio in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
