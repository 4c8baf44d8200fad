"""Real executor processes: the same bytes, a dead executor is survived, and failures are one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import BadRequest, StoreIOError
from store.pipeline.engine import choose_engine
from store.pipeline.query import columns_named
from store.pipeline.session import check_java, open_session
from tests.pipeline.test_rebuild import digests
from tests.support.golden import golden


@pytest.mark.slow
@pytest.mark.spark
def test_executors_in_processes_of_their_own_write_the_brokers_bytes(tmp_path: Path) -> None:
    """In a child process: one process holds one Spark only, and the other tests' is running."""
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from store.pipeline.session import open_session\n"
        "from tests.pipeline.test_rebuild import by_spark\n"
        "with open_session('local-cluster[2,1,1024]') as spark:\n"
        "    by_spark(spark, Path(sys.argv[1]), Path(sys.argv[2]), 2)\n"
    )
    arguments = [sys.executable, "-c", script, str(golden("normal").store), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert digests(tmp_path) == digests(golden("normal").store)


def test_an_unreachable_master_is_one_sentence() -> None:
    with (
        pytest.raises(StoreIOError, match=r"no Spark answers at spark://127.0.0.1:1"),
        open_session("spark://127.0.0.1:1"),
    ):
        pass


def test_a_missing_java_is_one_sentence_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadRequest, match=r"Spark needs Java.*apt install"):
        check_java()


def test_an_old_java_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadRequest, match=r"Java 8 was found"):
        check_java()


def test_auto_stays_local_for_what_is_small_and_goes_to_spark_when_an_address_is_given() -> None:
    assert not choose_engine("auto", []).is_spark
    assert choose_engine("auto", [], master="local[2]").is_spark
    with pytest.raises(BadRequest):
        choose_engine("local", [], master="local[2]")


def test_a_view_holds_only_the_columns_that_a_query_can_mean() -> None:
    assert list(
        columns_named("select topic, count(*), sum(size) from messages group by topic", "messages")
    ) == ["topic", "size"]
    assert "body" in columns_named("select * from messages", "messages")
    assert list(columns_named("select count(*) from messages", "messages")) == ["size"]
