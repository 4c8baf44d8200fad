"""A slice of the fuzz of all readers, and every input that ever made one fail. See tests/fuzz.py."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests import fuzz

pytestmark = pytest.mark.leaves_damage


@pytest.mark.parametrize("name", fuzz.READERS)
def test_no_mutated_input_makes_a_reader_fail(name: str) -> None:
    assert fuzz.fuzz(400 if fuzz.READERS[name].every < 10 else 4, 7, [name])[name]["failures"] == 0


@pytest.mark.parametrize(("name", "path"), fuzz.kept())
def test_what_once_made_a_reader_fail_is_read_or_refused(name: str, path: Path) -> None:
    assert fuzz.failure(fuzz.READERS[name], path.read_bytes()) is None


def test_a_reader_that_fails_is_found_out() -> None:
    def read(data: bytes) -> None:
        raise KeyError(data)

    assert isinstance(fuzz.failure(fuzz.Reader(read, lambda: [b""]), b"x"), KeyError)


def test_mutations_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    def mutants(seed: int) -> list[bytes]:
        random = Random(seed)
        return [fuzz.mutate(b"a record of some bytes", random) for _ in range(20)]

    assert mutants(1) == mutants(1) != mutants(2)
