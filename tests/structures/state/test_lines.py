"""Epochs of a file with the fault that a broker meets first."""

from __future__ import annotations

import pytest

from store.formats.java import crc32
from store.structures.state.lines import StateLine, _identity, epochs_of, is_torn

TORN = "torn: NumberFormatException, no broker in controller mode starts with it"
FALLING = "epochs or start offsets do not rise: a slave would cut its log at a wrong place"
CRC = crc32(b"1-0\n2-40\n")


@pytest.mark.parametrize(
    ("text", "epochs", "fault"),
    [
        ("", [], TORN),
        ("2\n", [], TORN),
        ("x\n0\n1-0\n", [], TORN),
        ("1\nx\n1-0\n", [], TORN),
        ("0\n0\n", [], ""),
        ("2\n0\n1-0\n2-40\n", [(1, 0), (2, 40)], ""),
        (f"2\n{CRC}\n1-0\n2-40\n", [(1, 0), (2, 40)], ""),
        (
            "2\n1\n1-0\n2-40\n",
            [(1, 0), (2, 40)],
            f"CRC 1 instead of {CRC}; the copy, which may lack one epoch, is loaded",
        ),
        ("3\n0\n1-0\n2-40\n", [(1, 0), (2, 40)], "counts 3 epochs, holds 2; the copy is loaded instead"),
        ("1\n0\n0-0\n", [(0, 0)], ""),
        ("2\n0\n1-0\nx\n", [(1, 0)], "'x' is no epoch and start offset; the copy is loaded instead"),
        ("2\n0\n1-0\n-1-5\n", [(1, 0)], "'-1-5' is no epoch and start offset; the copy is loaded instead"),
        ("2\n0\n1-0\n2--1\n", [(1, 0)], "'2--1' is no epoch and start offset; the copy is loaded instead"),
        ("2\n0\n1-0\n1-40\n", [(1, 0), (1, 40)], FALLING),
        ("2\n0\n2-0\n1-40\n", [(2, 0), (1, 40)], FALLING),
        ("2\n0\n1-40\n2-40\n", [(1, 40), (2, 40)], ""),
        ("2\n0\n1-40\n2-39\n", [(1, 40), (2, 39)], FALLING),
    ],
)
def test_epochs_are_read_up_to_the_first_fault(text: str, epochs: list[tuple[int, int]], fault: str) -> None:
    assert epochs_of(text) == (epochs, fault)
    assert is_torn(text) is (fault == TORN)


@pytest.mark.parametrize(
    ("name", "text", "is_right"),
    [
        ("brokerIdentity", "c#b#1\n", True),
        ("brokerIdentity", "c#b#1#x", False),
        ("brokerIdentity", "c#b", False),
        ("brokerIdentity", "c##1", False),
        ("brokerIdentity", "c#b#x", False),
        ("brokerIdentity-temp", "c#b#1#x", True),
        ("brokerIdentity-temp", "c#b#1", False),
    ],
)
def test_an_identity_has_its_parts_and_a_number(name: str, text: str, is_right: bool) -> None:
    count, wanted = text.count("#") + 1, 4 if name.endswith("-temp") else 3
    fault = f"{count} parts between # instead of {wanted}: the broker requests a new id"
    assert list(_identity(name, text)) == [StateLine(name, "identity", text.strip(), "" if is_right else fault)]
