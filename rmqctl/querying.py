"""The tables of one store or of a fleet for commands that query them: in this process, or on Spark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rmqctl.backend import Engine, choose_backend, require_own_commitlog, stores_of
from rmqctl.context import Session
from rmqctl.spark import spark_session

if TYPE_CHECKING:
    from store import CheckOptions, Finding
    from store.files import StoreReader
    from store.query.embedded import Engine as EmbeddedEngine
    from store.query.tables import Export

Rows = list[dict[str, Any]]
_OF_BODIES = {"compression", "body_state", "body_problem"}


class Tables(Protocol):
    """The tables of the stores, with either engine."""

    @property
    def stores(self) -> Sequence[str]:
        """The stores as given on the command line."""

    def query(self, text: str, limit: int) -> tuple[Sequence[str], Rows]:
        """Return the names of the columns and the first `limit` rows of the answer."""

    def export(self, target: Path, export: Export) -> None:
        """Write messages as files under `target`."""

    def export_lines(self, export: Export) -> Iterator[str]:
        """Yield an export as JSON lines, several whole lines at a time."""

    def check(self, store: str, options: CheckOptions) -> Sequence[Finding]:
        """Return the findings in one of the stores."""


@contextlib.contextmanager
def open_tables(
    session: Session,
    given: Sequence[str] | None,
    engine: Engine,
    master: str | None,
    remote: str | None,
    spark_above_gib: int,
    *,
    outer: bool = False,
    any_size: bool = False,
) -> Iterator[Tables]:
    """Open the tables of the stores given, by the engine that the options choose.

    outer     a record of several messages is one row, instead of a row a message
    any_size  segments may be of another size than mappedFileSizeCommitLog says
    """
    stores = session.store.open_readers(stores_of(session, given), any_size=any_size, or_segment=True)
    above = spark_above_gib << 30
    log_bytes = sum(file.size for reader in stores.values() for file in reader.segments())
    backend = choose_backend(engine, log_bytes, master=master, remote=remote, spark_above_bytes=above)
    if backend.is_spark:
        _check_spark_finds_log(session, stores)
        _check_spark_gets_folders(stores)
        with spark_session(session, master, remote, why=backend.why) as spark:
            from store.query.spark import damage_noted

            with damage_noted(spark, next(iter(stores.values()))):
                yield SparkTables(session, list(stores), spark, outer)
        session.store.warn_of_damage(stores.values())
        if remote or not (master or "local").startswith("local"):
            session.note("damage is reported only if executors share the scratch folder; else run `rmqctl check`")
        return
    backend.tell(session)
    if session.environment.stdout is sys.stdout:
        with session.interrupts.deferred():
            _spare_pandas()
    with embedded_engine(session, stores, outer=outer) as opened:
        yield EmbeddedTables(session, list(stores), opened, stores)
    session.store.warn_of_damage(stores.values())


@contextlib.contextmanager
def embedded_engine(
    session: Session, stores: Mapping[str, StoreReader], *, outer: bool = False
) -> Iterator[EmbeddedEngine]:
    """Start DuckDB with the tables of the stores.

    A signal waits until it has started: a library that is interrupted while it is imported may swallow the signal, or
    end the process.
    """
    with contextlib.ExitStack() as opened:
        with session.interrupts.deferred():
            from store.query.embedded import open_engine

            engine = opened.enter_context(open_engine(stores, outer=outer, scratch=session.options.scratch))
        yield engine


def tell_of_bodies(session: Session, columns: Iterable[str]) -> None:
    """Note that bodies are as stored, unless other columns of the answer show how."""
    if "body" in columns and _OF_BODIES.isdisjoint(columns):
        session.note(
            "note: body is as stored; body_state shows which are compressed, body_problem which cannot be decompressed"
        )


def _check_spark_finds_log(session: Session, stores: Iterable[str]) -> None:
    """Raise BadRequest for a commit log outside of the store's folder: executors would not find it."""
    from store.layout import is_address
    from store.opened import make_layout

    settings = session.store.settings()
    if "storePathCommitLog" in settings:
        # open_readers refuses the setting with several stores.
        (store,) = stores
        if not is_address(store):
            require_own_commitlog(make_layout(Path(store).expanduser(), settings), "Spark")


def _check_spark_gets_folders(stores: Mapping[str, StoreReader]) -> None:
    """Raise BadRequest for one segment file, before Spark is started."""
    from store.errors import BadRequest

    for name, reader in stores.items():
        if reader.is_segment:
            raise BadRequest("one segment file is not read on Spark", file=name, code="not-on-spark")


def _spare_pandas() -> None:
    """Keep pyarrow from importing an installed pandas with its first array: that takes half a second.

    Only for a process of rmqctl itself: from here on pyarrow treats pandas as not installed.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    before = sys.meta_path
    sys.meta_path = [_NoPandas(), *before]
    try:
        pa.array([])
    finally:
        sys.meta_path = before


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


@dataclass(frozen=True, slots=True)
class EmbeddedTables:
    """DuckDB and the local check."""

    session: Session
    stores: Sequence[str]
    engine: EmbeddedEngine
    readers: Mapping[str, StoreReader]

    def query(self, text: str, limit: int) -> tuple[Sequence[str], Rows]:
        with self.session.progress("querying") as bar:
            return self.engine.query(text, limit=limit, on_progress=bar.update)

    def export(self, target: Path, export: Export) -> None:
        from store.query.embedded import write_export

        with self.session.progress("exporting") as bar:
            write_export(self.engine, target, export, on_progress=bar.update)

    def export_lines(self, export: Export) -> Iterator[str]:
        from store.query.embedded import export_lines

        with self.session.progress("exporting") as bar:
            yield from export_lines(self.engine, export, on_progress=bar.update)

    def check(self, store: str, options: CheckOptions) -> Sequence[Finding]:
        from store.verbs.check import by_place, check_files

        with self.session.progress("checking") as bar:
            found = check_files(
                self.readers[store],
                options,
                on_progress=lambda done: bar.update(done.bytes_done, done.bytes_in_all),
            )
            return sorted(found, key=by_place)


@dataclass(frozen=True, slots=True)
class SparkTables:
    """A Spark session with the data source."""

    session: Session
    stores: Sequence[str]
    spark: Any
    outer: bool = False

    def query(self, text: str, limit: int) -> tuple[Sequence[str], Rows]:
        from store.query.spark import run_query

        with self.session.progress("querying", unit="tasks") as bar:
            return run_query(self.spark, self.stores, text, limit=limit, progress=bar.update, outer=self.outer)

    def export(self, target: Path, export: Export) -> None:
        from store.query.spark import write_export

        with self.session.progress("exporting", unit="tasks") as bar:
            write_export(self.spark, self.stores, target, export, progress=bar.update, outer=self.outer)

    def export_lines(self, export: Export) -> Iterator[str]:
        from store.query.spark import export_lines

        return export_lines(self.spark, self.stores, export, outer=self.outer)

    def check(self, store: str, options: CheckOptions) -> Sequence[Finding]:
        from store.query.spark import audit_store

        with self.session.progress("checking", unit="tasks") as bar:
            return audit_store(self.spark, store, options, bar.update)
