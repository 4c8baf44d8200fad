"""The walk-through of man/rmqctl-spark.md: its cells run as printed, and print what is printed below them."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pandas
import pytest

from store.query.spark import session
from tests.support.golden import golden
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.spark

CELL = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def cells() -> list[tuple[str, str]]:
    """Source and output of every cell, with the store where this test has it."""
    text = (REPOSITORY / "man/rmqctl-spark.md").read_text(encoding="utf-8")
    notebook = text[text.index("## In a notebook") :]
    return CELL.findall(notebook.replace("/tmp/try/aborted/store", str(golden("aborted").store)))


def printed(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.turns(4)
def test_the_walk_through_runs_as_printed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the plot's window: that needs matplotlib."""
    plots = []
    monkeypatch.setattr(session, "start_session", lambda *_: spark)
    monkeypatch.setattr(pandas.DataFrame, "plot", lambda frame, x, y: plots.append(frame[[x, y]]))
    names: dict[str, Any] = {}
    for source, output in cells():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, "rmqctl-spark.md", "exec"), names)
        assert printed(out.getvalue()) == printed(output), source
    (plot,) = plots
    assert plot["bytes"].sum() == 43356 + 42148 + 41656 + 4490
