"""Watches a Spark job: its errors as one sentence each, and its progress."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import store.errors
from store.errors import BadRequest, StoreError, StoreIOError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING_HINT = "the Python of the executors needs numpy, isal, crcmod and pyarrow; PYSPARK_PYTHON there names another"
# Classes of SQLSTATE: unsupported feature, wrong number of rows, wrong values, wrong names or syntax.
QUERY_AT_FAULT = ("0A", "21", "22", "42")

Progress = Callable[[int, int], None]  # (tasks done, tasks in all)


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Raise Spark's errors as the StoreError of the failed task, or as one sentence."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            raise
        if _is_of_interrupt(error):
            raise KeyboardInterrupt from error
        raise _as_store_error(error) from error


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Return whether the error was raised while an interrupt was handled.

    Ctrl-C also reaches the JVM, so the JVM may no longer respond.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _as_store_error(error: Exception) -> StoreError:
    text = str(error)
    raised = re.findall(r"^(?:.*?)store\.errors\.(\w+): (.*)$", text, re.MULTILINE)
    if raised:
        name, reason = raised[-1]
        kind = getattr(store.errors, name, StoreError)
        return StoreIOError(reason) if kind is StoreIOError else kind(reason)
    is_of_python = "Traceback (most recent call last)" in text
    if type(error).__name__ in ("ParseException", "AnalysisException") and not is_of_python:
        return BadRequest(f"Spark does not understand the SQL: {_first_line(error)}")
    reason = reason_of(error)
    state = re.search(r"SQLSTATE: (\w\w)", reason)
    if state and state.group(1) in QUERY_AT_FAULT:
        return BadRequest(f"the query fails: {reason}")
    fault = f"the Spark job failed: {reason}"
    if reason.startswith("ModuleNotFoundError"):
        return StoreIOError(fault, hint=MISSING_HINT)
    return StoreIOError(fault, code="spark-log")


def reason_of(error: Exception) -> str:
    """Return the message of the innermost error in an error's text."""
    raised = re.findall(r"^(?:: )?(\w+(?:\.\w+)*(?:Error|Exception): .*)$", str(error), re.MULTILINE)
    return raised[-1].removeprefix("org.apache.spark.SparkException: ") if raised else _first_line(error)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removesuffix(".")[:300] if lines else type(error).__name__


@contextmanager
def watched(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Call `progress` four times a second with the done and all tasks of every stage seen so far."""
    context = getattr(spark, "_sc", None)
    if progress is None or context is None:
        yield
        return
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context.statusTracker(), progress, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(tracker: Any, progress: Progress, stop: threading.Event) -> None:
    stages: dict[int, tuple[int, int]] = {}
    while not stop.wait(0.25):
        with suppress(Exception):
            for stage_id in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage_id)
                if info is not None:
                    stages[stage_id] = (info.numCompletedTasks, info.numTasks)
        if stages:
            progress(sum(done for done, _ in stages.values()), sum(count for _, count in stages.values()))
