"""Consumer offsets: read from both files, the largest of each queue, and written beside all else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.files.filesystem import Filesystem
from store.structures.tables.consumer_offsets import (
    consumed_ends,
    offsets_file,
    offsets_of,
    read_consumer_offsets,
    write_consumer_offsets,
)

FS = Filesystem()
MAIN, LMQ = "consumerOffset.json", "lmqConsumerOffset.json"


def test_offsets_are_numbers_of_keys_with_one_at_sign() -> None:
    tables = {
        "offsetTable": {"T@G": {"0": 7, "x": 1, "2": "9", "3": 0}, "T": {"0": 1}, "T@G@H": {"0": 1}, "U@G": 5},
        "lmqOffsetTable": {"%LMQ%a@G": 4, "%LMQ%b": 4, "%LMQ%c@G": "4", "%LMQ%d@G@H": 4},
    }
    assert offsets_of(tables) == {("T", "G"): {0: 7, 3: 0}, ("%LMQ%a", "G"): {0: 4}}  # type: ignore[arg-type]


@pytest.mark.parametrize(("has_lmq", "name"), [(False, MAIN), (True, LMQ)])
def test_both_files_are_read_and_the_one_of_light_queues_is_written_if_it_is_there(
    has_lmq: bool, name: str, tmp_path: Path
) -> None:
    (tmp_path / MAIN).write_text(json.dumps({"offsetTable": {"T@G": {"0": 7, "1": 0}, "T@H": {"0": 9}}}))
    if has_lmq:
        (tmp_path / LMQ).write_text(json.dumps({"lmqOffsetTable": {"%LMQ%a@G": 1}, "offsetTable": {"T@G": {"0": 8}}}))
    light = {("%LMQ%a", "G"): {0: 1}, ("T", "G"): {0: 8}} if has_lmq else {}
    assert read_consumer_offsets(tmp_path, FS) == {("T", "G"): {0: 7, 1: 0}, ("T", "H"): {0: 9}} | light
    assert consumed_ends(tmp_path, FS) == {("T", 0): 9} | ({("%LMQ%a", 0): 1} if has_lmq else {})
    assert offsets_file(tmp_path, FS).name == name


@pytest.mark.parametrize("line", [LINE_4_9, LINE_5_3])
def test_changed_offsets_are_written_beside_the_others(line: object, tmp_path: Path) -> None:
    (tmp_path / MAIN).write_text(json.dumps({"offsetTable": {"T@G": {"1": 7, "0": 3}}, "other": 1}))
    write_consumer_offsets(tmp_path, FS, {("T", "G"): {1: 8}, ("T", "H"): {5: 6}}, line, 70)  # type: ignore[arg-type]
    of_5 = {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 70},
        "groupTopicMap": {"G": ["T"], "H": ["T"]},
    }
    text = (tmp_path / MAIN).read_text()
    keyed = text.replace("{0:3,1:8", '{"0":3,"1":8').replace("{5:6", '{"5":6')
    assert json.loads(keyed) == {
        "offsetTable": {"T@G": {"0": 3, "1": 8}, "T@H": {"5": 6}}, "other": 1, **(of_5 if line is LINE_5_3 else {})
    }  # fmt: skip
