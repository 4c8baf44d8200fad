"""Java's class archive: written by the first session, read by later ones, and never in the way."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from store.query.spark.class_archive import _MAGIC, FOLDER_VARIABLE, archive_options


@pytest.fixture
def java(tmp_path: Path) -> Path:
    program = tmp_path / "java"
    program.write_text("")
    return program


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def written_by(java: Path) -> Path:
    """The archive that a session with this Java would write."""
    (option,) = (option for option in archive_options(java) if "ArchiveClassesAtExit" in option)
    return Path(option.partition("=")[2])


def test_a_whole_archive_is_read_and_anything_else_is_written_anew(java: Path, folder: Path) -> None:
    archive = written_by(java)
    assert archive.parent == folder
    assert re.fullmatch("spark-[0-9a-f]{16}.jsa", archive.name)
    archive.write_bytes(b"cut short")
    assert written_by(java) == archive
    archive.write_bytes(_MAGIC + b"classes")
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(java)


def test_another_java_has_an_archive_of_its_own(java: Path, folder: Path) -> None:
    before = written_by(java)
    os.utime(java, ns=(1, 1))
    assert written_by(java) != before


def test_a_variable_that_is_empty_asks_for_no_archive(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert archive_options(java) == []


@pytest.mark.parametrize("name", ["with space", 'with"quote'])
def test_a_folder_that_spark_would_cut_in_two_is_not_used(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / name))
    assert archive_options(java) == []


def test_a_folder_that_can_not_be_made_is_not_used(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(java / "below"))
    assert archive_options(java) == []


def test_a_missing_java_has_no_archive(tmp_path: Path, folder: Path) -> None:
    assert archive_options(tmp_path / "nothing") == []
