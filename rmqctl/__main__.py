"""`rmqctl` and `python -m rmqctl`: prepares the process, then runs one command line."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path

COLLECTED_EVERY = 100_000
"""Objects between two collections: Python's 700 cause thirty collections while a command's modules are imported."""


def main() -> int:
    """Run the command line of this process and return its exit code."""
    _collect_seldom()
    from rmqctl.app import main

    return main()


def _collect_seldom() -> None:
    """Collect garbage seldom: it takes a tenth of a quick command's time.

    At the end no search for cycles is needed: files, maps and threads are closed by then, and the process frees memory.
    """
    gc.set_threshold(COLLECTED_EVERY)
    atexit.register(_leave_garbage)


def _leave_garbage() -> None:
    # DuckDB's binding prints its objects that are not collected at the end.
    if "duckdb" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    # Python searches the current folder first: a store.py or a folder `store` there would hide the engine.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.exit(main())
