"""The choice of entries that dump shows: each bound with what is below, at and above it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rmqctl.dumping import EntryFilter, EntryRows, split_target
from store.errors import NotAStore

MESSAGE = SimpleNamespace(topic="T", queue_id=3, uniq_key="U", keys=["a", "b"], store_timestamp_ms=100)
MESSAGES_OF_3 = {"topic": "T", "queue_id": 3}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, True),
        ({"from_number": 49}, True),
        ({"from_number": 50}, True),
        ({"from_number": 51}, False),
        ({"to_number": 49}, False),
        ({"to_number": 50}, True),
        ({"to_number": 51}, True),
        ({"from_number": 0, "to_number": 0}, False),
        ({"from_ms": 99}, True),
        ({"from_ms": 100}, True),
        ({"from_ms": 101}, False),
        ({"to_ms": 99}, False),
        ({"to_ms": 100}, True),
        ({"to_ms": 101}, True),
        ({"topic": "T"}, True),
        ({"topic": "t"}, False),
        (MESSAGES_OF_3, True),
        ({**MESSAGES_OF_3, "queue_id": 0}, False),
        ({"key": "U"}, True),
        ({"key": "a"}, True),
        ({"key": "b"}, True),
        ({"key": "c"}, False),
        ({"tags": SimpleNamespace(matches=lambda one: one is MESSAGE)}, True),
        ({"tags": SimpleNamespace(matches=lambda one: one is not MESSAGE)}, False),
    ],
)
def test_a_record_is_wanted_within_all_bounds(given: dict[str, Any], wanted: bool) -> None:
    entry: Any = SimpleNamespace(number=50, message=MESSAGE)
    assert EntryFilter(**given).wants(entry) is wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, True), ({"queue_id": 3}, True), ({"from_number": 51}, False), ({"topic": "T"}, False), ({"to_ms": 9}, False)],
)
def test_what_is_no_record_is_wanted_where_nothing_of_messages_is_asked(given: dict[str, Any], wanted: bool) -> None:
    entry: Any = SimpleNamespace(number=50, message=None)
    assert EntryFilter(**given).wants(entry) is wanted


@pytest.mark.parametrize(
    ("given", "raw", "may"),
    [
        ({}, b"", True),
        ({"topic": "T"}, b"xTx", True),
        ({"topic": "T"}, b"x", False),
        ({"topic": "T", "key": "ä"}, "Tä".encode(), True),
        ({"topic": "T", "key": "ä"}, b"T", False),
    ],
)
def test_a_record_whose_bytes_lack_a_text_is_not_decoded(given: dict[str, Any], raw: bytes, may: bool) -> None:
    assert EntryFilter(**given).may_want(raw) is may


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({}, [4, 5, 6]),
        ({"from_number": 5}, [5, 6]),
        ({"to_number": 5}, [4, 5]),
        ({"from_number": 5, "to_number": 5}, [5]),
        ({"from_number": 7}, []),
        ({"to_number": 0}, []),
    ],
)
def test_units_are_wanted_from_one_number_to_another(given: dict[str, Any], numbers: list[int]) -> None:
    all_numbers = np.array([4, 5, 6])
    block: Any = SimpleNamespace(numbers=all_numbers, select=lambda rows: all_numbers[rows])
    assert list(EntryFilter(**given).part_of(block)) == numbers  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("target", "place"),
    [(None, (None, None)), ("", (None, None)), ("T", ("T", None)), ("T/", ("T", None)), ("T/0", ("T", 0))],
)
def test_a_target_is_a_topic_with_or_without_a_queue(target: str | None, place: tuple[str | None, int | None]) -> None:
    assert split_target(target) == place


@pytest.mark.parametrize("target", ["T/x", "T/-1", "T/1/2"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    with pytest.raises(NotAStore, match=f"^{target}: neither a file nor TOPIC/QUEUE$"):
        split_target(target)


@pytest.mark.parametrize(
    ("size", "wide", "for_programs", "shown"),
    [
        (4, False, False, "00010203"),
        (8, False, False, "00010203 04050607"),
        (9, False, False, "00010203 04050607…"),
        (9, True, False, "00 01020304 05060708"),
        (9, False, True, "000102030405060708"),
    ],
)
def test_people_see_eight_bytes_of_a_field(size: int, wide: bool, for_programs: bool, shown: str) -> None:
    session: Any = SimpleNamespace(
        format=SimpleNamespace(is_for_programs=for_programs), options=SimpleNamespace(wide=wide)
    )
    rows: Any = SimpleNamespace()
    assert EntryRows(session, rows, rows, None, None)._hex(bytes(range(size))) == shown
    assert [EntryRows(session, rows, rows, where, None).is_filtered for where in (None, "x")] == [False, True]
