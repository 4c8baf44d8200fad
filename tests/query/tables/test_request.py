"""The options of a reader of the data source: what each gives, its default, and the sentence for a wrong one."""

from __future__ import annotations

import pytest

from store.errors import BadRequest
from store.query.tables.request import Request
from store.query.tables.row_filter import Condition

HOUR_US = 3_600_000_000


def test_a_folder_alone_asks_for_all_messages_with_bodies() -> None:
    assert Request.from_options({"path": "/s"}) == Request(
        "/s", "messages", True, False, 268_435_456, None, (), False, None
    )


def test_each_option_is_taken() -> None:
    options = {
        "path": "/s",
        "table": "messages",
        "body": "none",
        "checkCrc": "TRUE",
        "partitionBytes": "1",
        "partitions": "7",
        "outer": "true",
        "damageFolder": "/d",
        "from": "5",
        "to": "9",
    }
    limits = (Condition("log_offset", ">=", 5), Condition("log_offset", "<", 9))
    assert Request.from_options(options) == Request("/s", "messages", False, True, 1, 7, limits, True, "/d")


def test_other_tables_are_taken_without_limits() -> None:
    assert Request.from_options({"path": "/s", "table": "segments", "outer": "false"}) == Request("/s", "segments")


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("0", "log_offset", 0),
        ("1700000000000ms", "store_timestamp", 1_700_000_000_000_000),
        ("1970-01-01T01:00:00", "store_timestamp", HOUR_US),
        ("1970-01-01T01:00:00+01:00", "store_timestamp", 0),
        ("1970-01-01T00:00:00.0000015", "store_timestamp", 1),
    ],
)
def test_a_limit_is_a_log_offset_or_a_time_by_its_form(text: str, column: str, value: int) -> None:
    assert Request.from_options({"path": "/s", "from": text}).conditions == (Condition(column, ">=", value),)
    assert Request.from_options({"path": "/s", "to": text}).conditions == (Condition(column, "<", value),)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "load() needs a store's folder or URI"),
        ({"path": ""}, "load() needs a store's folder or URI"),
        ({"table": "topics"}, "no table is called 'topics'"),
        ({"body": "text"}, "body is binary or none, not 'text'"),
        ({"table": "segments", "from": "1"}, "from can be given for messages only, not for segments"),
        ({"table": "index", "to": "1"}, "to can be given for messages only, not for index"),
        ({"table": "index", "from": "1", "to": "1"}, "from and to can be given for messages only, not for index"),
        ({"checkCrc": "yes"}, "checkCrc is true or false, not 'yes'"),
        ({"outer": "1"}, "outer is true or false, not '1'"),
        ({"partitions": "0"}, "partitions must be a positive whole number, not '0'"),
        ({"partitionBytes": "x" * 81}, f"partitionBytes must be a positive whole number, not {'x' * 60!r}…"),
        ({"from": "soon"}, "'soon' is neither a log offset nor a time"),
        ({"from": "-1ms"}, "'-1ms' is neither a log offset nor a time"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, str], sentence: str) -> None:
    given = {"path": "/s", **options} if options else options
    with pytest.raises(BadRequest) as caught:
        Request.from_options(given)
    assert caught.value.args[0] == sentence
