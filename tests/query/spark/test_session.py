"""Engines and sessions: which one is taken, and what is said when there is none."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from store.errors import BadRequest, StoreIOError
from store.query.spark.job import errors_as_sentences
from store.query.spark.session import _quiet_stderr, _tail, check_java, open_session
from store.query.tables.query_text import columns_named


@pytest.mark.spark
def test_an_unreachable_master_is_one_sentence() -> None:
    with (
        pytest.raises(StoreIOError, match=r"no Spark answers at spark://127.0.0.1:1"),
        open_session("spark://127.0.0.1:1"),
    ):
        pass


def test_a_missing_java_is_one_sentence_with_the_install_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


def test_a_view_holds_only_the_columns_that_a_query_can_mean() -> None:
    assert list(columns_named("select topic, count(*), sum(size) from messages group by topic", "messages")) == [
        "topic",
        "size",
    ]
    assert "body" in columns_named("select * from messages", "messages")
    assert list(columns_named("select count(*) from messages", "messages")) == ["size"]


def test_what_fails_because_of_an_interrupt_is_the_interrupt() -> None:
    from py4j.protocol import Py4JNetworkError

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), errors_as_sentences():
        interrupted()


def test_a_failed_start_quotes_what_spark_wrote_last_but_for_its_warnings(tmp_path: Path) -> None:
    log = tmp_path / "log"
    greetings = "Using Spark's default log4j profile\n26/11/21 03:09:00 WARN NativeCodeLoader: Unable to load\n"
    log.write_text(greetings)
    assert _tail(log) == ""
    log.write_text(f"no room for the JVM\n{greetings}")
    assert _tail(log) == " (no room for the JVM)"


def test_while_the_jvm_starts_its_stderr_is_a_file_that_goes_with_it() -> None:
    with TemporaryFile() as stderr, ExitStack() as at_end:
        saved = os.dup(2)
        at_end.callback(os.close, saved)
        at_end.callback(os.dup2, saved, 2)
        os.dup2(stderr.fileno(), 2)
        os.close(free := os.dup(2))
        with _quiet_stderr(verbose=False) as log:
            assert log is not None
            os.write(2, b"of the JVM\n")
            assert log.read_bytes() == b"of the JVM\n"
        os.write(2, b"of this process\n")
        assert (log.exists(), os.pread(stderr.fileno(), 99, 0)) == (False, b"of this process\n")
        with _quiet_stderr(verbose=True) as log:
            assert log is None
        os.close(still_free := os.dup(2))
        assert still_free == free
