"""recover's choice of engine: what contradicts Spark, and when auto goes there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from rmqctl.backend import Backend, Engine
from rmqctl.commands import recover
from store.query.spark import session
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.snapshots import snapshot
from tests.support.stores import planning

GIB = 1 << 30
needs_pyspark = pytest.mark.skipif(find_spec("pyspark") is None, reason="PySpark is not installed")


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store of three segments with an abort marker and a checkpoint of zeros: all of its log would be read."""
    root = copy_store(golden("aborted").store, tmp_path / "store")
    (root / "checkpoint").write_bytes(bytes(4096))
    return root


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "java_version", lambda: session.OLDEST_JAVA)


def goes_to_spark(root: Path, *, above: int = 0, mode: str = "auto", stays: bool = False, **where: str) -> bool:
    with planning(root) as opened:
        choice = recover._choose(
            opened, Engine.AUTO, where.get("master"), where.get("remote"), above, mode=mode, stays=stays
        )
    return choice.is_spark


@needs_pyspark
def test_auto_goes_to_spark_when_the_log_is_large_and_all_of_it_would_be_read(crashed: Path) -> None:
    assert goes_to_spark(crashed)
    assert not goes_to_spark(crashed, above=GIB)


def test_auto_stays_when_only_a_part_of_the_log_would_be_read(crashed: Path) -> None:
    assert not goes_to_spark(crashed, mode="normal")
    assert not goes_to_spark(crashed, stays=True)
    (crashed / "abort").unlink()
    assert not goes_to_spark(crashed)
    (crashed / "abort").touch()
    (crashed / "checkpoint").write_bytes((1 << 50).to_bytes(8, "big") * 3 + bytes(4072))
    assert not goes_to_spark(crashed)


def test_auto_goes_to_an_address_that_is_given(crashed: Path) -> None:
    (crashed / "abort").unlink()
    assert goes_to_spark(crashed, above=GIB, master="local[2]")
    assert goes_to_spark(crashed, above=GIB, remote="sc://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--normal", "--engine", "spark"), "rebuilds everything"),
        (("--normal", "--master", "local[2]"), "rebuilds everything"),
        (("--cold", "--remote", "sc://127.0.0.1:1"), "--remote and --cold do not go together"),
        (("--engine", "local", "--master", "local[2]"), "--engine local and --master do not go together"),
        (("--engine", "spark", "--set", "storePathCommitLog=x"), "a folder outside of the store"),
        pytest.param(("--master", "nonsense"), "no Spark master", marks=needs_pyspark),
    ],
)
def test_what_contradicts_spark_is_a_wrong_use(crashed: Path, words: tuple[str, ...], reason: str) -> None:
    before = snapshot(crashed, without=("lock",))
    done = rmqctl("recover", "--yes", *words, store=crashed)
    assert done.code == 2
    assert reason in done.err
    assert snapshot(crashed, without=("lock",)) == before


def test_the_size_above_which_spark_recovers_is_in_gib(crashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def choose(opened: object, engine: object, master: object, remote: object, above: int, **others: object) -> Backend:
        asked.append(above)
        return Backend(False, "")

    monkeypatch.setattr("rmqctl.commands.recover._choose", choose)
    rmqctl("recover", "--dry-run", "--spark-above", "3", store=crashed)
    assert asked == [3 * GIB]
