"""The process: its encoding of file names."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from rmqctl.environment import use_utf8_names


@pytest.mark.parametrize(
    ("names", "stdout", "given", "encoding"),
    [
        ("ascii", "latin-1", None, "latin-1"),
        ("ascii", None, None, "ascii"),
        ("ascii", "latin-1", "utf-16", "utf-16"),
        ("utf-8", "latin-1", None, None),
    ],
)
def test_a_process_with_names_in_ascii_starts_again_in_utf_8_with_its_streams_encoding(
    names: str, stdout: str | None, given: str | None, encoding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, list[str], str]] = []

    def start(program: str, words: list[str], variables: dict[str, str]) -> None:
        started.append((program, words, variables["PYTHONIOENCODING"]))

    monkeypatch.setattr(os, "execve", start)
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: names)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "rmqctl", "info"])
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding=stdout))
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONIOENCODING", given)
    use_utf8_names()
    words = [sys.executable, "-X", "utf8", "-m", "rmqctl", "info"]
    assert started == ([(sys.executable, words, encoding)] if encoding else [])
