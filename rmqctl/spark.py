"""What the commands that may run on Spark share: their options, and a session in a few words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from rmqctl.context import Session


class Engine(StrEnum):
    """Values of --engine."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="This process, or Spark; auto takes Spark for what is large.")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark master, as local[4] or spark://HOST:7077.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="Spark Connect address, as sc://HOST:15002.")]
Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="A store's folder or URI; repeat it for a fleet.",
        show_default="--store",
    ),
]
SparkAbove = Annotated[
    int, typer.Option(metavar="GIB", min=0, help="With --engine auto: larger commit logs go to Spark.")
]


def addresses(session: Session, stores: list[str] | None) -> list[str]:
    """The stores given to the command, else the global one."""
    return stores or [session.options.uri or str(session.root)]


@contextlib.contextmanager
def spark_session(session: Session, master: str | None, remote: str | None) -> Iterator[Any]:
    """A running Spark, stopped on leaving."""
    from store.spark.session import open_session

    def note() -> None:
        session.note("starting Spark")

    with open_session(master, remote, verbose=session.options.verbose, on_start=note) as spark:
        yield spark
