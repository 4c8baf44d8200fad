"""Which engine does the work: this process with the compiled kernels, or Spark.

auto takes Spark when a master or a Connect address is named, or when the commit logs hold more than `spark_above` bytes
and Java is there; else the local engine. A store at a remote URI goes to Spark in any case: the local
engine maps files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.errors import BadRequest
from store.layout import StoreLayout

if TYPE_CHECKING:
    from store.disk.store_reader import StoreReader

SPARK_ABOVE_BYTES = 64 << 30
ENGINES = ("auto", "local", "spark")


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine, and why it was taken, as a clause for people."""

    is_spark: bool
    why: str


def choose_engine(
    engine: str,
    stores: Sequence[StoreReader],
    *,
    master: str | None = None,
    remote: str | None = None,
    spark_above: int = SPARK_ABOVE_BYTES,
) -> Choice:
    """The engine for these stores, by the rules above."""
    log_bytes = sum(file.size for files in stores for file in files.segments())
    is_remote_store = any(not files.is_local for files in stores)
    return choose(
        engine, log_bytes, master=master, remote=remote, spark_above=spark_above, is_remote_store=is_remote_store
    )


def choose(
    engine: str,
    log_bytes: int,
    *,
    master: str | None = None,
    remote: str | None = None,
    spark_above: int = SPARK_ABOVE_BYTES,
    is_remote_store: bool = False,
) -> Choice:
    """The engine for so many bytes of commit log."""
    if engine not in ENGINES:
        raise BadRequest(f"no engine is called {engine!r}", hint="auto, local or spark")
    if engine == "local":
        if master or remote:
            raise BadRequest("--engine local contradicts --master and --remote")
        if is_remote_store:
            raise BadRequest("the local engine reads folders only", hint="use --engine spark for a store at a URI")
        return Choice(False, "asked for")
    if engine == "spark":
        return Choice(True, "asked for")
    if master or remote:
        return Choice(True, "a Spark address is given")
    if is_remote_store:
        return Choice(True, "the store is at a URI")
    return _by_size(log_bytes, spark_above)


def _by_size(total_bytes: int, spark_above: int) -> Choice:
    if total_bytes <= spark_above:
        return Choice(False, f"the commit log holds {_size(total_bytes)}, not more than {_size(spark_above)}")
    from store.spark.session import OLDEST_JAVA, java_version

    if (java_version() or 0) < OLDEST_JAVA:
        return Choice(False, f"no Java {OLDEST_JAVA} was found for Spark")
    return Choice(True, f"the commit log holds {_size(total_bytes)}, more than {_size(spark_above)}")


def _size(byte_count: int) -> str:
    return f"{byte_count / (1 << 30):.1f} GiB" if byte_count >> 30 else f"{byte_count >> 10} KiB"


def require_own_commitlog(layout: StoreLayout) -> None:
    """BadRequest where the commit log lies elsewhere: a store at an address is one folder."""
    if layout.commitlog != layout.root / "commitlog":
        raise BadRequest(
            "storePathCommitLog names another folder than the store's commitlog, which is what a rebuild reads",
            file=layout.commitlog,
            hint="put a link in its place",
        )
