"""The benchmarks are measured by hand; that they still fit the code is tested."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tests.bench
from tests.bench import gate, profile_recover
from tests.bench.__main__ import OPERATIONS, main


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(tests.bench.__path__[0]).glob("*.py")))
def test_every_module_can_be_imported(name: str) -> None:
    importlib.import_module(f"tests.bench.{name}")


def test_every_step_of_the_profile_is_a_function_of_the_engine() -> None:
    for place, name, _ in profile_recover.STEPS:
        assert callable(getattr(place, name))


@pytest.mark.slow
def test_an_operation_prints_what_was_measured_and_what_limits_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "--size", "small", "--runs", "1"]) == 0
    assert "get of 32 messages by offset" in capsys.readouterr().out
    assert set(OPERATIONS) >= {"recover", "bulk", "scan", "large"}


def test_the_gate_compares_the_best_turns_of_what_both_revisions_have() -> None:
    here, base = [{"scan": 8.0, "new": 1.0}, {"scan": 9.0, "new": 1.0}], [{"scan": 10.0}, {"scan": 12.0}]
    assert gate.ratios(here, base) == {"scan": 0.75}


def test_the_gate_is_skipped_where_there_is_nothing_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert gate.main(["--base", "no-such-revision"]) == 0
    assert gate.main(["--base", "HEAD"]) == 0
    assert capsys.readouterr().out.count("skipped: ") == 2
