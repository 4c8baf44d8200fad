"""A standalone master and worker on loopback: a rebuild with the broker's bytes, and a query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.query.spark.daemons import standalone
from tests.support.golden import copy_store, golden
from tests.support.processes import command_line, run
from tests.support.spark_stores import digests

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("spark")) as address:
        yield address


def test_a_standalone_cluster_answers_and_rebuilds(master: str, tmp_path: Path) -> None:
    store = copy_store(golden("normal").store, tmp_path / "store")
    rebuilt = run(command_line(store, "rebuild", "--master", master, "--yes"))
    assert rebuilt.code == 0, rebuilt.err
    assert digests(store) == digests(golden("normal").store)
    asked = run(command_line(store, "--format", "json", "sql", "select count(*) n from messages", "--master", master))
    assert asked.code == 0, asked.err
    assert json.loads(asked.out)["rows"][0]["n"] > 0
