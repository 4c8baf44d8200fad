"""Lets Java archive the classes that it loaded from Spark's jars, for the next session.

    first session    the JVM writes the archive when it ends       -XX:ArchiveClassesAtExit, 150 MB
    later sessions   the JVM maps the archive                      -XX:SharedArchiveFile

Loading and checking the classes takes nearly half of the CPU time of a start with its first query. A JVM ignores an
archive of other jars. The user's cache folder has one archive for each Java and PySpark. RMQCTL_SPARK_CACHE sets
another folder; if it is set but empty, no archive is used.

Source: java(1) of OpenJDK 17, "Application Class Data Sharing".
"""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from pathlib import Path

FOLDER_VARIABLE = "RMQCTL_SPARK_CACHE"
# CDS_DYNAMIC_ARCHIVE_MAGIC, in the byte order of the machines that Spark runs on; written last.
_MAGIC = 0xF00BABA8.to_bytes(4, "little")
# Otherwise the JVM's log would mix with the command's output.
_QUIET = "-Xlog:disable"


def archive_options(java: Path) -> list[str]:
    """Return the JVM options to read the archive, or to write it; none without a folder for it."""
    archive = _archive(java)
    if archive is None or any(letter.isspace() or letter in "\"'\\" for letter in str(archive)):
        # Spark would split the option in two.
        return []
    if _is_whole(archive):
        return [_QUIET, f"-XX:SharedArchiveFile={archive}"]
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return []
    if not os.access(archive.parent, os.W_OK):
        return []
    return [_QUIET, f"-XX:ArchiveClassesAtExit={archive}"]


def _archive(java: Path) -> Path | None:
    """Return the archive's path, None if no archive is to be used."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named == "":
        return None
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        found = java.resolve().stat()
    except (OSError, RuntimeError):
        return None
    key = f"{java.resolve()} {found.st_size} {found.st_mtime_ns} {version('pyspark')}"
    name = f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"
    return Path(named or Path(cache, "rmqctl")).absolute() / name


def _is_whole(archive: Path) -> bool:
    try:
        with archive.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
