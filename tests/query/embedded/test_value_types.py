"""Queries whose types only one engine takes: each is refused by name, and what both take is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store.errors import BadRequest
from store.query.embedded.engine import Engine, open_engine
from tests.support.golden import golden

CONVERT, DAY = "cast(x as type) converts a value", "write YYYY-MM-DD, and HH:MM:SS after a blank"
OF_MAP, OF_BYTES, OF_LIST = "properties['NAME'] is text", "hex(x) gives text", "get(keys, 0) is text"
A_MAP = "an order or a comparison of a map", OF_MAP
MILLIS = "subtract unix_millis(TIME) of both times"


@pytest.fixture(scope="module")
def normal() -> Iterator[Engine]:
    with open_engine([str(golden("normal").store)]) as engine:
        yield engine


def ask(engine: Engine, text: str) -> None:
    engine.query(text if text.startswith("select") else f"select {text}", limit=1)


@pytest.mark.turns(8)
@pytest.mark.parametrize(
    "text",
    [
        "round(size, 2) from messages",
        "round(size) from messages",
        "round(size, -2) from messages",
        "round(size, cast('2' as int)) from messages",
        "lag(size, 1) over (order by size) from messages",
        "lag(size) over (order by size) from messages",
        "store_timestamp - interval '1 hour' from messages",
        "store_timestamp - interval 1 hour from messages",
        "size + 1 from messages",
        "sum(size) from messages",
        "sum(null) from messages",
        "upper(topic) from messages",
        "contains(topic, 'x') from messages",
        "length(topic) from messages",
        "length(body) from messages",
        "year(store_timestamp) from messages",
        "year(cast(store_timestamp as date)) from messages",
        "hour(store_timestamp) from messages",
        "unix_millis(store_timestamp) from messages",
        "topic || queue_id from messages",
        "topic || size from messages",
        "topic || (queue_id = 1) from messages",
        "not null from messages",
        "size from messages where store_timestamp > '2026-01-01'",
        "size from messages where store_timestamp > '2026-01-01 10:00:00'",
        "size from messages where store_timestamp > '2026-01-01 10:00'",
        "size from messages where store_timestamp > '2026-01-01T10:00:00.123456Z'",
        "size from messages where store_timestamp > cast('2026-01-01' as date)",
        "size from messages where cast(store_timestamp as date) = '2026-01-01'",
        "cast(size as string) from messages",
        "cast(store_timestamp as string) from messages",
        "cast(store_timestamp as date) from messages",
        "cast(queue_id = 1 as int) from messages",
        "cast(size as boolean) from messages",
        "cast(null as date) from messages",
        "count(distinct topic) from messages",
        "least(size, 1) from messages",
        "size & 1 from messages",
        "count_if(queue_id = 1) from messages",
        "date_trunc('hour', store_timestamp) from messages",
    ],
)
def test_types_that_both_engines_take_alike_are_taken(normal: Engine, text: str) -> None:
    ask(normal, text)


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("round(size, queue_id) from messages", "round by a column", None),
        ("lag(size, queue_id) over (order by size) from messages", "lag by a column", None),
        ("lead(size, queue_id) over (order by size) from messages", "lead by a column", None),
        ("store_timestamp - store_timestamp from messages", "the interval 'store_timestamp - store_timestamp'", MILLIS),
        ("size - '1' from messages", "text in place of a number", CONVERT),
        ("interval '1 hour' + store_timestamp from messages", "an interval + a time", MILLIS),
        ("sum(queue_id = 1) from messages", "sum of a boolean", CONVERT),
        ("contains(keys, 'x') from messages", "contains of a list", OF_LIST),
        ("hour(cast(store_timestamp as date)) from messages", "hour of a date", CONVERT),
        ("topic || store_timestamp from messages", "a time in place of text", CONVERT),
        ("topic || body from messages", "bytes in place of text", OF_BYTES),
        ("topic || cast(1.5 as double) from messages", "a number in place of text", CONVERT),
        ("not size from messages", "a number in place of a boolean", CONVERT),
        ("size from messages where size", "a number in place of a boolean", CONVERT),
        ("size from messages where null", "null in place of a boolean", CONVERT),
        ("size from messages where topic", "text in place of a boolean", CONVERT),
        ("case when size then 1 end from messages", "a number in place of a boolean", CONVERT),
        ("case when null then 1 end from messages", "null in place of a boolean", CONVERT),
        ("count(*) filter (where size) from messages", "a number in place of a boolean", CONVERT),
        ("size from messages where queue_id = '1'", "text in place of a number", CONVERT),
        ("size from messages where topic = 1", "text in place of a number", CONVERT),
        (
            "size from messages where store_timestamp > '2026-01-01T10:00:00.1234567Z'",
            "'2026-01-01T10:00:00.1234567Z' as a time",
            DAY,
        ),
        ("size from messages where store_timestamp > '2026-1-1'", "'2026-1-1' as a time", DAY),
        (
            "size from messages where cast(store_timestamp as date) = '2026-01-01 10:00:00'",
            "'2026-01-01 10:00:00' as a date",
            DAY,
        ),
        ("cast(store_timestamp as bigint) from messages", "a cast of a time to a number", None),
        ("cast(body as string) from messages", "a cast of bytes to text", OF_BYTES),
        ("cast(size as timestamp) from messages", "a cast of a number to a time", None),
        ("cast('x' as date) from messages", "'x' as a date", DAY),
        ("cast(keys as string) from messages", "a cast of a list to text", OF_LIST),
        ("max(properties) from messages", *A_MAP),
        ("distinct properties from messages", *A_MAP),
        ("count(distinct properties) from messages", *A_MAP),
        ("topic from messages order by properties", *A_MAP),
        ("properties, count(*) from messages group by properties", *A_MAP),
        ("topic from messages where properties = properties", *A_MAP),
        ("greatest(properties, properties) from messages", *A_MAP),
        (
            "row_number() over (partition by properties order by size) from messages",
            "an order or a comparison of a map",
            OF_MAP,
        ),
        (
            "row_number() over (partition by topic order by properties) from messages",
            "an order or a comparison of a map",
            OF_MAP,
        ),
        ("size from messages where size = true", "a boolean in place of a number", CONVERT),
        ("size from messages union all select topic from messages", "a number in place of text", CONVERT),
        ("size * '2' from messages", "text in place of a number", CONVERT),
        (
            "select a.topic from messages a join messages b on a.properties = b.properties",
            "an order or a comparison of a map",
            OF_MAP,
        ),
    ],
)
def test_types_that_one_engine_alone_takes_are_refused(normal: Engine, text: str, what: str, hint: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        ask(normal, text)
    refused = f"sql does not take {what}: DuckDB and Spark do not read it alike"
    assert (caught.value.reason, caught.value.hint) == (refused, hint)
