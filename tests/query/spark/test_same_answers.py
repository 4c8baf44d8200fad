"""Both engines give the same rows to the same words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from store.errors import BadRequest, StoreError
from store.query.embedded.engine import Engine, open_engine
from store.query.spark.query import run_query
from tests.query.spark.random_queries import casts, of_any_kind, query
from tests.support.golden import golden
from tests.support.quickly import one_of

QUERIES = (
    "select topic, count(*) n from messages group by topic",
    "select * from messages",
    "select * from consumequeue",
    "select * from `index`",
    "select * from segments",
    "select * from anomalies",
    "select count(*) n, sum(size) s, min(log_offset) low, max(log_offset) high from messages",
    "select avg(body_size) a from messages where topic = 'TopicA'",
    "select topic, queue_id, max(queue_offset) n from messages group by topic, queue_id having count(*) > 3",
    "select distinct tags from messages",
    "select log_offset, body from messages where topic = 'TopicA' and queue_id in (1, 2)",
    "select log_offset from messages where topic like 'topic!_%' escape '!'",
    "select log_offset from messages where topic not in ('TopicA', 'TopicB')",
    "select log_offset from messages where log_offset >= 65536 and log_offset < 131072",
    "select log_offset from messages where store_timestamp >= '2001-01-01' and tags is null",
    "select log_offset from messages where store_timestamp < timestamp '2001-01-01 00:00:00'",
    "select min(store_timestamp) first, max(store_timestamp) last, min(born_timestamp) born from messages",
    "select unix_millis(store_timestamp) ms, log_offset from messages",
    "select date_trunc('hour', store_timestamp) as hour, count(*) n from messages group by 1",
    "select cast(cast(store_timestamp as date) as string) as day, count(*) n from messages group by 1",
    "select log_offset, keys, properties from messages where uniq_key is not null",
    "select properties['KEYS'] k, properties['none'] nothing, log_offset from messages",
    "select log_offset from messages where properties['p1'] = 'v0'",
    "select log_offset, array_contains(keys, 'all') has from messages where cardinality(keys) > 0",
    "select hex(body) h, upper(topic) t, length(topic) n, substring(msg_id, 1, 8) host from messages",
    "select c.topic, c.queue_offset, m.msg_id from consumequeue c join messages m on m.log_offset = c.log_offset",
    "select m.log_offset from messages m left join consumequeue c on m.log_offset = c.log_offset where c.size is null",
    "select i.key_hash, m.topic from `index` i join messages m using (log_offset) where i.previous_entry > 0",
    "select topic, queue_id, row_number() over (partition by topic order by msg_id, size) r from messages",
    "select topic, count(*) filter (where queue_id = 0) zero, count_if(size > 250) large from messages group by topic",
    "with t as (select topic, sum(size) s from messages group by topic) select * from t where s > 20000 order by 2",
    "select topic from messages where queue_id = 1 union select file from segments",
    "select case when sys_flag & 12 = 4 then 'half' else 'other' end kind, count(*) n from messages group by 1",
    "select file, record_count, used_bytes, outcome, coalesce(reason, 'none') why from segments order by file_start",
    "select s.file, count(*) n from segments s join messages m on m.log_offset between s.file_start and s.file_start + s.file_size group by s.file",  # noqa: E501
    "select a.`offset`, a.kind, a.count, a.detail from anomalies a",
    "select upper('straße') a, upper('İı') b, upper('é') c, lower('İ') d, lower('ΑΣ') e, lower('ÀB') f, upper(null) g",
    "select cast(1e20 as string) a, cast(12345678e0 as string) b, cast(1e7 as string) c, cast(1e-3 as string) d",
    "select cast(9.9e-4 as string) a, cast(-1.5e-9 as string) b, cast(cast('NaN' as double) as string) c",
    "select cast(9999999e0 as string) a, cast(cast('-Infinity' as double) as string) b, cast(-12.25 as string) c",
    "select date_trunc('day', date '2020-02-03') a, date_trunc('hour', '2020-02-03 04:05') b, 5 - 3 - 1 c, -(2) d",
    "select log_offset - size a, -queue_id b from messages where store_timestamp - interval 1 day < store_timestamp",
    "select -(size(keys)) a, 2 - cardinality(properties) b from messages where keys is not null",
    "select 9223372036854775807 big, -1 small, 1.5 half, true yes, null nothing, 'é' letter",
)
FLEET = "normal batch"
# Every query on one store, a third of them on each of the others.
ASKED = {"normal": QUERIES, "corrupt-mid": QUERIES[::3], "ipv6": QUERIES[1::3], FLEET: QUERIES[2::3]}
CASES = [(names, text) for names, texts in ASKED.items() for text in texts]


def test_there_are_thirty_of_them() -> None:
    assert len(set(QUERIES)) >= 30


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest) -> list[str]:
    return [str(golden(name).store) for name in request.param.split()]


@pytest.fixture(scope="module")
def engine(stores: list[str]) -> Iterator[Engine]:
    with open_engine(stores) as opened:
        yield opened


def in_one_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("stores", "text"), CASES, indirect=["stores"], scope="module")
def test_the_same_words_get_the_same_rows(spark: Any, engine: Engine, stores: list[str], text: str) -> None:
    names, rows = engine.query(text, limit=100_000)
    names_on_spark, rows_on_spark = run_query(spark, stores, text, limit=100_000)
    assert list(names) == list(names_on_spark)
    assert in_one_order(rows) == in_one_order(rows_on_spark)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal"], indirect=True, scope="module")
def test_queries_at_random_get_the_same_names_types_rows_and_order(
    spark: Any, engine: Engine, stores: list[str]
) -> None:
    for seed in range(int(os.environ.get("RMQCTL_QUERIES", "24"))):
        text = query(Random(seed))
        names, rows = engine.query(text, limit=100_000)
        names_on_spark, rows_on_spark = run_query(spark, stores, text, limit=100_000)
        assert names == names_on_spark, (seed, text)
        if "order by" in text:
            assert list(map(json.dumps, rows)) == list(map(json.dumps, rows_on_spark)), (seed, text)
        else:
            assert in_one_order(rows) == in_one_order(rows_on_spark), (seed, text)


OVER_A_VALUE = re.compile(
    r"sql does not take '.*' as .*: write|Conversion Error|Out of Range Error|CAST_|_CAST|OVERFLOW|zero|OUT_OF_RANGE"
)


def outcome(ask: Any, text: str) -> Any:
    """Names and rows, the words of the refusal, or None where a value makes it fail."""
    try:
        names, rows = ask(text, limit=100_000)
    except StoreError as error:
        return None if OVER_A_VALUE.search(str(error)) else str(error)
    return names, in_one_order(rows)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal"], indirect=True, scope="module")
def test_values_of_every_kind_get_the_same_rows_or_are_refused_in_the_same_words(
    spark: Any, engine: Engine, stores: list[str]
) -> None:
    for seed in range(int(os.environ.get("RMQCTL_QUERIES", "24"))):
        text = of_any_kind(Random(seed))
        here, there = outcome(engine.query, text), outcome(partial(run_query, spark, stores), text)
        # An engine may leave out a value that no row of the answer needs.
        assert here == there or None in (here, there), (seed, text)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal"], indirect=True, scope="module")
def test_casts_at_random_get_the_same_values_or_fail_on_both(spark: Any, engine: Engine, stores: list[str]) -> None:
    for seed in range(int(os.environ.get("RMQCTL_QUERIES", "24"))):
        text = casts(Random(seed))
        assert outcome(engine.query, text) == outcome(partial(run_query, spark, stores), text), (seed, text)


SAYINGS = {
    "select tags is null isnull, count(*) from messages group by 1": ["isnull", "count(*)"],
    "select length(body), size(keys), SIZE from messages": ["length(body)", "size(keys)", "SIZE"],
    "select  m.size ,m.size  +  1, 'it''s' from messages m": ["size", "m.size + 1", "'it''s'"],
    "select `offset`, `offset` count from anomalies": ["offset", "count"],
    "select get(keys, 0), get(keys, -1), get(keys, 99) last from messages": ["get(keys, 0)", "get(keys, -1)", "last"],
    "select tags from messages order by tags, log_offset": ["tags"],
    "select tags from messages order by tags desc, log_offset": ["tags"],
    "select cast(2.5 as int), cast('7' as bigint), 1.5 from messages": [
        "cast(2.5 as int)",
        "cast('7' as bigint)",
        "1.5",
    ],
}


@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal"], indirect=True, scope="module")
@pytest.mark.parametrize("text", one_of(9, SAYINGS))
def test_a_column_is_called_what_the_query_says_on_both(
    spark: Any, engine: Engine, stores: list[str], text: str
) -> None:
    names, rows = engine.query(text, limit=100_000)
    names_on_spark, rows_on_spark = run_query(spark, stores, text, limit=100_000)
    assert names == names_on_spark == SAYINGS[text]
    assert rows == rows_on_spark if "order by" in text else in_one_order(rows) == in_one_order(rows_on_spark)


@pytest.mark.turns(3)
@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal"], indirect=True, scope="module")
def test_a_division_by_zero_fails_on_both(spark: Any, engine: Engine, stores: list[str]) -> None:
    for text in (
        "select size / 0 from messages",
        "select size % 0 from messages",
        "select 1.5 / (size - size) from messages",
    ):
        for ask in (engine.query, partial(run_query, spark, stores)):
            with pytest.raises(StoreError, match=r"(?i)(division|remainder) by zero"):
                ask(text, limit=5)


REFUSED = (
    "select '1' + 1",
    "select tags + 1 from messages",
    "select trim(size) from messages",
    "select max(m.properties) from messages m",
    "select interval 1 day",
    "select max(store_timestamp) - min(store_timestamp) d from messages",
    "select date '2020-01-01' - date '2020-01-02' d",
)
"""One engine alone would answer, or each another value."""


@pytest.mark.turns(3)
@pytest.mark.spark
@pytest.mark.parametrize("stores", ["normal", FLEET], indirect=True, scope="module")
@pytest.mark.parametrize("text", REFUSED)
def test_what_one_engine_alone_would_answer_is_refused_on_both(
    spark: Any, engine: Engine, stores: list[str], text: str
) -> None:
    for ask in (engine.query, partial(run_query, spark, stores)):
        with pytest.raises(BadRequest, match=r"sql does not take|Binder Error"):
            ask(text, limit=5)
