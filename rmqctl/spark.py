"""A Spark session for a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.context import Session

if TYPE_CHECKING:
    from store.query.spark import Spark


@contextlib.contextmanager
def spark_session(session: Session, master: str | None, remote: str | None, why: str | None = None) -> Iterator[Spark]:
    """Start Spark with a note, for the reason `why`, and stop it at the end of the block."""
    from store.query.spark import open_session

    def note() -> None:
        session.release_notes()
        session.note(f"starting Spark ({why})" if why else "starting Spark")

    # An export as JSON lines uses rmqctl in the tasks.
    packages = [Path(__file__).parent]
    verbose = session.options.verbose
    with open_session(master, remote, verbose=verbose, packages=packages, on_start=note) as spark:
        yield spark
