"""`rmqctl` and `python -m rmqctl`: prepares the process, then runs one command line."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path

COLLECTED_EVERY = 100_000
"""Objects between two collections: Python's 700 make thirty of them while a command's modules are imported."""


def main() -> int:
    """Run the command line of this process and give its exit code."""
    _collect_seldom()
    from rmqctl.app import main

    return main()


def _collect_seldom() -> None:
    """Spare a quick command the collector's work, a tenth of its time.

    What is left at the end needs no search for cycles: files, maps and threads are closed by then, memory goes with
    the process.
    """
    gc.set_threshold(COLLECTED_EVERY)
    atexit.register(_leave_garbage)


def _leave_garbage() -> None:
    # DuckDB's binding prints what of it is not collected at the end.
    if "duckdb" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    # Python puts the current folder in front, where a store.py or a folder `store` would take the engine's name.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.exit(main())
