"""The light queues of a run's records: names and offsets in pairs, faults apart, retried messages nowhere."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.config import StoreConfig
from store.formats.run import Run
from store.structures.consumequeue.multi_dispatch import _light_queues, _long, _split, find_light_parts
from tests.support.small_log import SmallLog

NAMES, OFFSETS = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"
MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), ("a", ["a"]), ("a,b", ["a", "b"]), ("a,", ["a"]), ("a,,", ["a"]), (",a", ["", "a"]), (",,", [])],
)
def test_words_are_split_as_in_java(text: str, words: list[str]) -> None:
    assert _split(text) == words


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+7", 7), (str(MOST), MOST), (str(-MOST), -MOST), (str(MOST + 1), None), (" 7", None),
     ("1_0", None), ("", None), ("x", None), ("-", None)],
)  # fmt: skip
def test_an_offset_is_a_long(text: str, number: int | None) -> None:
    if number is not None:
        assert _long(text) == number
        return
    with pytest.raises(ValueError):
        _long(text)


@pytest.mark.parametrize(
    ("names", "offsets", "queues"),
    [
        ("%LMQ%a", "7", [("%LMQ%a", 7)]),
        ("%LMQ%a,b", "7,8", [("%LMQ%a", 7), ("b", 8)]),
        ("a,b", "7", None),
        ("a", "7,8", None),
        ("a,b", "", []),
        ("", "7", None),
        ("a,x/y", "7,8", [("a", 7)]),
    ],
)
def test_each_name_has_its_offset(names: str, offsets: str, queues: list[tuple[str, int]] | None) -> None:
    assert _light_queues({NAMES: names, OFFSETS: offsets}) == queues


@pytest.mark.parametrize(("config", "queue_id"), [(None, 0), (True, 0), (False, 3)])
def test_parts_are_those_of_the_asked_rows_by_queue(config: bool | None, queue_id: int) -> None:
    log, runs = SmallLog(), list[Run]()
    places = [
        log.put("T", 3, **{NAMES: "%LMQ%a,b", OFFSETS: "7,8"}),
        log.put("T", 3, **{NAMES: "%LMQ%a", OFFSETS: "9"}),
        log.put("T", 3, **{NAMES: "%LMQ%a", OFFSETS: "x"}),
        log.put("T", 3, **{NAMES: "%LMQ%a", OFFSETS: "1,2"}),
        log.put("%RETRY%g", 3, **{NAMES: "%LMQ%a", OFFSETS: "5"}),
    ]
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=runs.append)))
    (run,) = runs
    settings = None if config is None else replace(StoreConfig(), enable_lmq=config)
    found = find_light_parts(run, np.arange(5), settings)
    rows = [(part.key, part.rows.tolist(), part.run.columns.queue_offset.tolist()) for part in found.parts]
    assert rows == [(("%LMQ%a", queue_id), [0, 1], [7, 9]), (("b", 3), [0], [8])]
    assert (found.faults, found.unmatched) == ([places[2]], [places[3]])
    assert [part.run.columns.log_offset.tolist() for part in found.parts] == [places[:2], places[:1]]
    some = find_light_parts(run, np.array([1]), settings)
    assert [(part.rows.tolist(), part.run.count) for part in some.parts] == [([1], 1)]
    assert find_light_parts(run, np.array([], np.int64), settings) == ([], [], [])
