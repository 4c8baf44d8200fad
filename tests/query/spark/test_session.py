"""Engines and sessions: which one is taken, and what is said when there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any, cast
from zipfile import ZipFile

import pytest

from store.errors import BadRequest, StoreIOError
from store.query.spark import session
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


@pytest.mark.parametrize(
    ("master", "over_connect", "kernels", "calls"),
    [
        ("local", True, True, []),
        ("local[2]", False, True, []),
        (
            None,
            True,
            True,
            [("addArtifact", "store.zip", {"pyfile": True}), ("addArtifact", "kernels", {"file": True})],
        ),
        (None, True, False, [("addArtifact", "store.zip", {"pyfile": True})]),
        (None, False, True, [("addPyFile", "store.zip", {}), ("addFile", "kernels", {})]),
        ("spark://head:7077", True, True, [("addPyFile", "store.zip", {}), ("addFile", "kernels", {})]),
        ("spark://head:7077", True, False, [("addPyFile", "store.zip", {})]),
    ],
)
def test_executors_on_other_machines_get_the_packages_and_the_kernels(
    master: str | None, over_connect: bool, kernels: bool, calls: list[object], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    done = list[object]()

    def call(name: str) -> Callable[..., None]:
        return lambda path, **options: done.append((name, Path(path).name, options))

    other = tmp_path / "other"
    for name in ("z.py", "a/b.pyi", "a/c.txt"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(name)
    monkeypatch.setattr(session, "compiled_module", object() if kernels else None)
    monkeypatch.setattr(session, "copy_to_ship", lambda module, folder: folder / "kernels")
    spark = SimpleNamespace(sparkContext=SimpleNamespace(addPyFile=call("addPyFile"), addFile=call("addFile")))
    if over_connect:
        spark.addArtifact = call("addArtifact")
    session._ship_packages(cast(Any, spark), master, tmp_path, [other])
    assert done == calls
    if calls:
        with ZipFile(tmp_path / "store.zip") as archive:
            names = archive.namelist()
        assert ("store/errors.py" in names, names[-2:]) == (True, ["other/a/b.pyi", "other/z.py"])


@pytest.mark.parametrize(
    ("place", "master"), [({}, "local[*]"), ({"master": "spark://x"}, "spark://x"), ({"remote": "sc://x"}, "")]
)
def test_a_session_on_this_machine_needs_a_java(
    place: dict[str, str], master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("check_pyspark", "check_java"):
        monkeypatch.setattr(session, name, lambda name=name: steps.append(name))
    monkeypatch.setattr(session, "_check_address", lambda master, remote: steps.append(master or remote))

    def started() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_session(**place, on_start=started):  # type: ignore[arg-type]
        pass
    assert steps == ["check_pyspark", *(["check_java", master] if master else ["sc://x"])]
