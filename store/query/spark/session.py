"""Starts Spark sessions: checks Java and addresses first, and keeps Spark's log quiet.

Steps of `open_session`:
  1. check for causes of late failures: no Java, an old Java, a master that does not listen
  2. set variables for workers: the running interpreter, this package's path, the loopback address for local masters
  3. start (Spark's log goes to a file unless verbose; an error quotes its last line if the start fails)
  4. register the data source `rocketmq`


Tried with PySpark 4.3 and Java 17. The module names of pyspark appear only below this package.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import store.errors
from store.errors import BadRequest, StoreIOError
from store.files.scratch import Scratch
from store.kernels import compiled_module
from store.kernels.shipped import copy_to_ship
from store.query.spark.class_archive import archive_options
from store.query.spark.job import reason_of
from store.query.tables.interrupts import interrupts_wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
JAVA_HINT = "install one, for instance: apt install openjdk-17-jre-headless"
CONNECT_TIMEOUT_S = 5.0
# For local masters, where one JVM does everything. Bodies and Parquet pages are large, and the parallel collector does
# not move them.
LOCAL_JVM_MEMORY = "2g"
# JVMs other than OpenJDK ignore most of these options. Methods are fully compiled only at ten times Java's default
# limits, as that compiler takes cores from the tasks of a short query or rebuild.
LOCAL_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
DEFAULT_PORTS = {"spark": 7077, "sc": 15002}


def java_program() -> str | None:
    """Return the Java that Spark would start, None without one."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start, None without one."""
    java = java_program()
    if java is None:
        return None
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(found.group(1)) if found else None


def check_java() -> None:
    """Raise BadRequest if Java is missing or too old for Spark."""
    version = java_version()
    if version is None:
        raise BadRequest("Spark needs Java, and none was found on PATH or in JAVA_HOME", hint=JAVA_HINT)
    if version < OLDEST_JAVA:
        raise BadRequest(f"Spark needs Java {OLDEST_JAVA} or newer, and Java {version} was found", hint=JAVA_HINT)


def is_installed() -> bool:
    """Return whether PySpark is installed, without the slow import."""
    return find_spec("pyspark") is not None


def check_pyspark() -> None:
    """Raise BadRequest with the command to install PySpark if it is missing."""
    if not is_installed():
        raise BadRequest("PySpark is not installed", hint="install it: pip install 'rmqctl[spark]'")


def why_not_here() -> str | None:
    """Return why Spark can't start on this machine, as a clause; None if it can."""
    if not is_installed():
        return "PySpark is not installed"
    version = java_version()
    if version is None or version < OLDEST_JAVA:
        return f"no Java {OLDEST_JAVA} was found for Spark"
    return None


class SessionOptions(TypedDict, total=False):
    """The named options of open_session."""

    verbose: bool
    settings: dict[str, str] | None
    packages: Sequence[Path]
    on_start: Callable[[], None]


Spark: TypeAlias = "SparkSession"
"""The session's type, for modules that do not import PySpark."""


@contextmanager
def open_session(
    master: str | None = None,
    remote: str | None = None,
    *,
    verbose: bool = False,
    settings: dict[str, str] | None = None,
    packages: Sequence[Path] = (),
    on_start: Callable[[], None] = lambda: None,
) -> Iterator[SparkSession]:
    """Start a Spark session with the data source; stop it on leaving. `master` defaults to local[*].

    packages  folders of further Python packages that tasks need
    on_start  called after all checks, before the start
    """
    if master and remote:
        raise BadRequest("a Spark master and a Spark Connect address contradict each other", code="two-sparks")
    check_pyspark()
    if not remote:
        master = master or "local[*]"
        check_java()
    _check_address(master, remote)
    on_start()
    with Scratch() as scratch:
        warehouse = {"spark.sql.warehouse.dir": str(scratch.folder / "warehouse")} if master else {}
        spark = _start(master, remote, verbose, warehouse | (settings or {}))
        try:
            _ship_packages(spark, master, scratch.folder, packages)
            from store.query.spark.data_source import RocketMQDataSource

            spark.dataSource.register(RocketMQDataSource)
            yield spark
        finally:
            with suppress(Exception), warnings.catch_warnings():
                # After an interrupt the JVM may have exited already.
                warnings.simplefilter("ignore", RuntimeWarning)
                spark.stop()


def start_session(
    master: str | None = None, remote: str | None = None, **options: Unpack[SessionOptions]
) -> SparkSession:
    """Open a session for notebooks, as open_session does; it lasts until the process ends."""
    lasting = ExitStack()
    spark = lasting.enter_context(open_session(master, remote, **options))
    atexit.register(lasting.close)
    return spark


def _start(master: str | None, remote: str | None, verbose: bool, settings: dict[str, str]) -> SparkSession:
    _set_environment(master)
    with interrupts_wait(), _quiet_stderr(verbose) as log:
        try:
            return _builder(master, remote, verbose, settings).getOrCreate()
        except Exception as error:
            raise BadRequest(f"Spark did not start: {reason_of(error)}{_tail(log)}") from error


def _builder(master: str | None, remote: str | None, verbose: bool, settings: dict[str, str]) -> SparkSession.Builder:
    warnings.filterwarnings("ignore", message=".*pandas.*", category=FutureWarning)
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    if not verbose:
        # These loggers print every failed query again, with the stack traces of both languages.
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        # py4j logs every interrupt, by its own loggers and by the root logger.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_of_py4j)
    builder = SparkSession.builder.appName("rmqctl")
    values = {"spark.sql.python.filterPushdown.enabled": "true", "spark.sql.session.timeZone": "UTC"}
    if remote:
        builder = builder.remote(remote)
    else:
        builder = builder.master(master or "local[*]")
        values |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "WARN" if verbose else "OFF",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        }
        if (master or "local").startswith("local"):
            options = [*LOCAL_JVM_OPTIONS, *archive_options(Path(java_program() or "java"))]
            values |= {
                "spark.driver.memory": LOCAL_JVM_MEMORY,
                "spark.driver.extraJavaOptions": " ".join(options),
            }
        if _is_on_this_machine(master or ""):
            values |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            values["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    for name, value in (values | settings).items():
        builder = builder.config(name, value)
    return builder


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _set_environment(master: str | None) -> None:
    """Set the variables that workers inherit.

    Without them, executors would start the python3 on PATH instead of the running interpreter.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    package_parent = str(Path(store.errors.__file__).parents[1])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package_parent not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([package_parent, *filter(None, paths)])
    if master and _is_on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _is_on_this_machine(master: str) -> bool:
    return master.startswith("local") or "//127.0.0.1" in master or "//localhost" in master


def _check_address(master: str | None, remote: str | None) -> None:
    """Raise for an invalid or unreachable address, as a standalone client would retry for a minute."""
    address = remote or master or ""
    if remote and not remote.startswith("sc://"):
        raise BadRequest(f"{remote!r} is no Spark Connect address", hint="one is sc://HOST:15002")
    if master and not re.match(r"local(\[|$)|yarn$|(spark|k8s)://|local-cluster\[", master):
        fault = f"{master!r} is no Spark master"
        if master.startswith("sc://"):
            raise BadRequest(fault, code="spark-connect-address", subject=(master,))
        raise BadRequest(fault, hint="those are local[2], spark://HOST:7077, k8s://… and yarn")
    found = re.match(r"(spark|sc)://([^:/,;]+)(?::(\d+))?", address)
    if not found:
        return
    scheme, host, port = found.groups()
    try:
        socket.create_connection((host, int(port or DEFAULT_PORTS[scheme])), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise StoreIOError(f"no Spark answers at {address}: {error.strerror or error}") from error


def _ship_packages(spark: SparkSession, master: str | None, folder: Path, others: Sequence[Path]) -> None:
    """Ship this package as a zip, and its compiled kernels, to executors on other machines.

    Executors on this machine have both.
    """
    if master and master.startswith("local"):
        return
    archive = folder / "store.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for package in (Path(store.errors.__file__).parent, *others):
            for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
                target.write(path, Path(package.name, path.relative_to(package)))
    over_connect = hasattr(spark, "addArtifact") and master is None
    if over_connect:
        spark.addArtifact(str(archive), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(archive))
    if compiled_module is not None:
        kernels = str(copy_to_ship(compiled_module, folder))
        spark.addArtifact(kernels, file=True) if over_connect else spark.sparkContext.addFile(kernels)


@contextmanager
def _quiet_stderr(verbose: bool) -> Iterator[Path | None]:
    """Redirect descriptor 2 to a file while the JVM starts; yield the file, None if verbose.

    The JVM keeps the descriptor, so it continues to write to the file.
    """
    if verbose:
        yield None
        return
    descriptor, name = tempfile.mkstemp(prefix="rmqctl-spark-", suffix=".log")
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        with suppress(OSError):
            Path(name).unlink()


def _tail(log: Path | None) -> str:
    """Return the last line of Spark's log, without greetings and warnings."""
    lines = log.read_text(errors="replace").strip().splitlines() if log else []
    lines = [
        line
        for line in lines
        if not line.startswith(("Setting ", "Using ", "WARNING: Using ", "To adjust ")) and " WARN " not in line
    ]
    return f" ({lines[-1][:200]})" if lines else ""
