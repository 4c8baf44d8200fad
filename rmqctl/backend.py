"""The choice of engine: this process, or Spark.

    --engine local, --engine spark     the named one
    --master, --remote                 Spark
    a log of more than --spark-above   Spark, if PySpark and Java are installed
    else                               this process

Both read stores at a URI.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rmqctl.context import Session
    from store.layout import StoreLayout

SPARK_ABOVE_GIB = 64


class Engine(StrEnum):
    """Values of --engine."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="This process, or Spark; auto takes Spark for large logs.")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark master, as local[4] or spark://HOST:7077.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="Spark Connect address, as sc://HOST:15002.")]
Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="A store's folder, URI or glob, or @FILE with one on each line; repeat it for a fleet.",
        show_default="--store",
    ),
]
SparkAbove = Annotated[
    int, typer.Option(metavar="GIB", min=0, help="With --engine auto: larger commit logs go to Spark.")
]


@dataclass(frozen=True, slots=True)
class Backend:
    """The chosen engine, and the reason as a clause for people."""

    is_spark: bool
    why: str
    is_second_choice: bool = False
    """Whether the log is large enough for Spark, but Spark is not installed."""

    def tell(self, session: Session) -> None:
        """Note the engine if it is Spark or a second choice; else log it for --verbose and --log."""
        say = session.note if self.is_spark or self.is_second_choice else session.log
        say(f"engine: {self}")

    def __str__(self) -> str:
        return f"{'Spark' if self.is_spark else 'this process'} ({self.why})"


def choose_backend(
    engine: Engine, log_bytes: int, *, master: str | None, remote: str | None, spark_above_bytes: int
) -> Backend:
    """Return the engine for `log_bytes` of commit log by the options."""
    if engine is Engine.LOCAL:
        return Backend(False, "asked for")
    if engine is Engine.SPARK:
        return Backend(True, "asked for")
    if master or remote:
        return Backend(True, "a Spark address is given")
    if log_bytes <= spark_above_bytes:
        return Backend(False, f"the commit log holds {_size(log_bytes)}, not more than {_size(spark_above_bytes)}")
    from store.query.spark import why_not_here

    missing = why_not_here()
    if missing:
        return Backend(False, missing, is_second_choice=True)
    return Backend(True, f"the commit log holds {_size(log_bytes)}, more than {_size(spark_above_bytes)}")


def stores_of(session: Session, given: Sequence[str] | None) -> list[str]:
    """Return the stores given to the command, else the global one; each folder once.

    Globs and @FILE become the stores that they list.
    """
    from store.layout import is_address

    found = [store for text in given or [str(session.store.place)] for store in _stores_in(text)]
    once: dict[str, str] = {}
    for store in found:
        once.setdefault(store if is_address(store) else os.path.realpath(Path(store).expanduser()), store)
    return list(once.values())


def _stores_in(text: str) -> list[str]:
    from store.errors import BadRequest
    from store.files import Filesystem, find_member_logs
    from store.layout import is_address

    if text.startswith("@"):
        found = [store for line in _lines(Path(text[1:])) for store in _stores_in(line)]
        if not found:
            raise BadRequest("no store is named in it", file=text[1:])
        return found
    if is_address(text) and "*" in text:
        raise BadRequest("only folders of this machine are found by a glob; name each URI", file=text)
    path = Path(text).expanduser()
    if is_address(text) or not any(sign in text for sign in "*?[") or path.exists():
        return [text]
    # The glob may match other folders too, such as lost+found.
    folders = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    fs = Filesystem()
    found = sorted(str(one) for one in folders if (one / "commitlog").is_dir() or find_member_logs(one, fs))
    if not found:
        raise BadRequest(f"no store is found by {text}")
    return found


def _lines(path: Path) -> list[str]:
    from store.errors import StoreIOError

    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise StoreIOError.from_os(error, path, "read") from error
    return [line for line in lines if line and not line.startswith("#")]


def _size(byte_count: int) -> str:
    return f"{byte_count / (1 << 30):.1f} GiB" if byte_count >> 30 else f"{byte_count >> 10} KiB"


def require_own_commitlog(layout: StoreLayout, reader: str) -> None:
    """Raise BadRequest for a commit log outside of the store's folder: `reader` reads only that folder."""
    from store.errors import BadRequest

    if layout.has_plain_log and layout.commitlog != layout.root / "commitlog":
        raise BadRequest(
            f"storePathCommitLog names a folder outside of the store, and {reader} reads only commitlog in the store",
            file=layout.commitlog,
            hint="put a link in its place",
        )
