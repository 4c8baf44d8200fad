"""The words that both engines share: what each is given for them, and what is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from store.errors import BadRequest
from store.query.embedded.bound import check_binds
from store.query.embedded.engine import Engine, open_engine
from store.query.tables.dialect import FUNCTIONS, WRITTEN, double_text, for_duckdb, for_spark, for_types
from tests.support.golden import golden

WORDS = [
    ("select size", "select size", "select size"),
    ("select Size", "select Size as `Size`", 'select Size as "Size"'),
    ("select m.size, m.*", "select m . size , m . *", "select m . size , m . *"),
    ("select count( * )", "select count ( * ) as `count( * )`", 'select count ( * ) as "count( * )"'),
    ("select tags is null isnull", "select tags is null as `isnull`", 'select tags is null as "isnull"'),
    ("select tags is null", "select tags is null as `tags is null`", 'select tags is null as "tags is null"'),
    ("select distinct a b", "select distinct a as `b`", 'select distinct a as "b"'),
    ("select distinct a + 1", "select distinct a + 1 as `a + 1`", 'select distinct a + 1 as "a + 1"'),
    ("select a AS b", "select a as `b`", 'select a as "b"'),
    ("select `a``b` `c\"d`", "select `a``b` as `c\"d`", 'select "a`b" as "c""d"'),
    ("select 1 one, 1.5", "select 1 as `one` , 1.5e0 as `1.5`", 'select 1 as "one" , 1.5e0 as "1.5"'),
    ("select coalesce(a, 1), b", "select coalesce ( a , 1 ) as `coalesce(a, 1)` , b",
     'select coalesce ( a , 1 ) as "coalesce(a, 1)" , b'),
    ("select interval 1 day", "select interval 1 day as `interval 1 day`", 'select interval 1 day as "interval 1 day"'),
    ("select a from (select 1 + 1) where b", "select a from ( select 1 + 1 as `1 + 1` ) where b",
     'select a from ( select 1 + 1 as "1 + 1" ) where b'),
    ("select null", "select null as `null`", 'select null as "null"'),
    ("select case when a then 1 end", "select case when a then 1 end as `case when a then 1 end`",
     'select case when a then 1 end as "case when a then 1 end"'),
    ("select f from (select 1 + 1)", "select f from ( select 1 + 1 as `1 + 1` )",
     'select f from ( select 1 + 1 as "1 + 1" )'),
    ("select a -- b\n, c /* d */", "select a , c", "select a , c"),
    ("select x;", "select x", "select x"),
    ("size(keys) > 1 and t = timestamp '2020-01-01'", "size ( keys ) > 1 and t = timestamp '2020-01-01'",
     "entries_of ( keys ) > 1 and t = timestamptz '2020-01-01'"),
    ("cast(cast('7' as int) as string) = 'x'", "cast ( cast ( '7' as int ) as string ) = 'x'",
     "to_string ( to_int ( '7' ) ) = 'x'"),
    ("cast('7.' as double) < cast('2020-01-02' as timestamp)",
     "cast ( '7.' as double ) < cast ( '2020-01-02' as timestamp )",
     "cast ( '7.' as double ) < cast ( '2020-01-02' as timestamptz )"),
    ("cast(a as int)",
     (r"cast ( if ( typeof ( a ) = 'string' and not cast ( a as string ) rlike r'^[ \t\r\n]*[+-]?[0-9]+[ \t\r\n]*\z' , "
      "raise_error ( 'sql does not take ''' || cast ( a as string ) || ''' as a whole number: write digits alone' ) "
      ", a ) as int )"),
     (r"to_int ( case when typeof ( a ) = 'VARCHAR' and not regexp_full_match ( cast ( a as varchar ) , "
      r"'[ \t\r\n]*[+-]?[0-9]+[ \t\r\n]*' ) then error ( 'sql does not take ''' || cast ( a as varchar ) || "
      "''' as a whole number: write digits alone' ) else a end )")),
    ("properties['a'] = 'it''s'", "properties [ 'a' ] = 'it''s'", "properties [ 'a' ] = 'it''s'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "on_spark", "on_duckdb"), WORDS)
def test_each_engine_gets_its_words(text: str, on_spark: str, on_duckdb: str) -> None:
    assert (for_spark(text), for_duckdb(text)) == (on_spark, on_duckdb)


@pytest.mark.parametrize("translate", [for_spark, for_duckdb])
@pytest.mark.parametrize("inner", ["cast(b as boolean)", "cast(b as string)", "cast(cast(b as date) as string)"])
def test_a_cast_inside_a_cast_has_its_own_guard(inner: str, translate: Callable[[str], str]) -> None:
    whole = translate("x + cast(a as double) + y")
    assert translate(f"x + cast({inner} as double) + y") == re.sub(
        r"\ba\b(?! (number|point))", lambda _: translate(inner), whole
    )


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("select a is null, null", 'select a is null as "a is null" , error(\'\') as "null"'),
        ("select a is not NULL, coalesce(NULL, 1)",
         'select a is not NULL as "a is not NULL" , coalesce ( error(\'\') , 1 ) as "coalesce(NULL, 1)"'),
        ("a > date '2020-01-01' and b = timestamp '2020-01-01'",
         "a >  try_cast('2020-01-01' as date) and b =  try_cast('2020-01-01' as timestamptz)"),
        ("cast(date as string) and CAST(a as bigint)", "to_string ( date ) and to_bigint ("),
    ],
)  # fmt: skip
def test_a_query_to_bind_has_tried_casts_and_no_constant_null(text: str, bound: str) -> None:
    assert for_types(text).startswith(bound)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1e-3, "0.001"), (9.9e-4, "9.9E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (-1.5e-9, "-1.5E-9"), (12345678.0, "1.2345678E7"), (-12.25, "-12.25"), (1e20, "1.0E20"),
        (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_a_double_is_written_as_in_java(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tags isnull", "'isnull'"),
        ("select 1 where tags is null isnull", "'isnull'"),
        ("select string_agg(tags)", "the function string_agg"),
        ("string_agg(tags)", "the function string_agg"),
        ("select a from t order by (a), (select 1)", "'select' in an order or a group"),
        ("select date_trunc(", "date_trunc by another unit"),
        ('select "size"', "the sign '\"'"),
        ("select 'a\\n'", "a text with a backslash"),
        ("select 'a", "a text with a backslash, or without its end"),
        ("select r'a'", "the sign 'r'"),
        ("select size::int", "the sign ':'"),
        ("select keys[0]", "the sign '['"),
        ("select 7 // 2", "the sign '/'"),
        ("select 2 ** 2", "the sign '*'"),
        ("select 2 ^ 2", "the sign '^'"),
        ("select 1 == 1", "the sign '='"),
        ("select 1 <=> 1", "the sign '<'"),
        ("select 1 | 1", "the sign '|'"),
        ("select 7 div 2", "'div'"),
        ("select cast(size as decimal)", "a cast to decimal"),
        ("select cast('it''s' as int)", '"it\'s" as a whole number'),
        ("select cast( '2024-1-5' as DATE)", "'2024-1-5' as a date"),
        ("select size from t where cast('on' as boolean)", "'on' as a boolean"),
        ("select null + 1", "null as an operand"),
        ("select 1 - null", "null as an operand"),
        ("select contains(null, 'x')", "null as an operand"),
        ("select contains(upper(tags), null)", "null as an operand"),
        ("select contains(upper(lower(tags)), null)", "null as an operand"),
        ("select array_contains(keys, null)", "null as an operand"),
        ("select date_trunc('weak', t)", "date_trunc by another unit"),
        ("select a from t order by sum(a) over (order by a)", "'over' in an order or a group"),
        ("select a from t order by (select 1)", "'select' in an order or a group"),
        ("select a from t group by a, (select 1)", "'select' in an order or a group"),
        ("select tags is null = true", "is null before '='"),
        ("select tags is not null < true", "is null before '<'"),
        ("select size from t limit 1.5", "a limit that is no whole number"),
        ("select * from t tablesample (1 rows)", "'tablesample'"),
        ("select 1; select 2", "the sign ';'"),
    ],
)
def test_what_the_engines_read_differently_is_refused_by_name(text: str, named: str) -> None:
    for translate in (for_spark, for_duckdb):
        with pytest.raises(BadRequest) as refused:
            translate(text)
        assert str(refused.value).startswith(f"sql does not take {named}"), refused.value


def test_the_functions_are_listed_in_order() -> None:
    with pytest.raises(BadRequest) as refused:
        for_spark("string_agg(tags)")
    assert refused.value.hint == f"the functions are {', '.join(sorted(FUNCTIONS))}"


@pytest.mark.parametrize(
    "text",
    [
        "select coalesce(null, 1)",
        "select coalesce(tags, null)",
        "select contains(coalesce(tags, null), 'x')",
        "select contains(coalesce(null, tags), 'x')",
        "select nullif(contains(tags, 'x'), null)",
        "select case when a then null else 1 end",
        "select null",
        "select a from t where tags is null and a = 1",
        "select a from t where tags is not null or a = 1",
        "select (tags is null) = true",
        "select a from t order by upper(a), b limit 1",
        "select sum(a) over (order by b) from t order by c",
        "select a from (select a from t group by a) order by a",
        "select a from t group by a union all select b from t",
        "select a from t order by a limit 3",
        "select date_trunc('DAY', t)",
        "select a . count from t",
        "with m (a) as (select 1) select a from m",
        "select a from (select 1) t (a)",
        "select sum(a) over (order by b), sum(c) over (order by d) from t",
        "select , a from t",
        "select from t",
    ],
)
def test_what_the_engines_read_alike_is_taken(text: str) -> None:
    for translate in (for_spark, for_duckdb):
        translate(text)


def test_more_than_five_casts_inside_casts_are_refused() -> None:
    nested = "a"
    for _ in range(5):
        nested = f"cast({nested} as int)"
    for translate in (for_spark, for_duckdb):
        translate(f"{nested} = {nested}")
        with pytest.raises(BadRequest, match="more than 5 casts inside casts"):
            translate(f"cast({nested} as string)")


# Tried with Spark 4.3 and DuckDB 2.0: each text is read by both, and gives the same value; None where both fail.
READ = {
    "int": {"7": 7, "-0": 0, "+5": 5, " 7\t": 7, "\n007\r": 7, "2147483647": 2147483647, "2147483648": None,
            "-2147483648": -2147483648, "-2147483649": None},
    "bigint": {"9223372036854775807": 9223372036854775807, "9223372036854775808": None, "-1": -1},
    "double": {"1.5": 1.5, "-.5": -0.5, "5.": 5.0, "1e3": 1000.0, "1E+3": 1000.0, " 7 ": 7.0, "-1e-400": -0.0},
    "boolean": {"t": True, "F": False, "tRUE": True, "no": False, "Y": True, "0": False, "1": True},
    "date": {"2024-02-29": "2024-02-29", "2023-02-29": None, "1000-01-01": "1000-01-01", "9999-12-31": "9999-12-31"},
    "timestamp": {"2024-01-05": "2024-01-05T00:00:00.000Z", "2024-01-05 10:00": "2024-01-05T10:00:00.000Z",
                  "2024-01-05T23:59:59.123456": "2024-01-05T23:59:59.123Z", "2024-01-05 23:60": None,
                  "2024-01-05 10:00:00+17:59": "2024-01-04T16:01:00.000Z",
                  "2024-01-05 10:00:00.5Z": "2024-01-05T10:00:00.500Z", "9999-12-31 23:59": "9999-12-31T23:59:00.000Z",
                  "9999-12-31 23:59:59Z": "9999-12-31T23:59:59.000Z",
                  "8999-12-31 23:00:00-10:00": "9000-01-01T09:00:00.000Z"},
}  # fmt: skip
NOT_READ = {
    "int": ("", " ", "1.5", "1e3", "1_000", "0x10", "0b1", "5.", "--5", "+-5", "- 5", "5a", "\x007", "\xa07", "٣", "t"),
    "bigint": ("1.0", ".5", "7\x00", "1L"),
    "double": ("", ".", "e5", "1_0.5", "1d", "1.5F", "0x1p3", "+-5", "+nan", "-nan", "infinit", "1,5"),
    "boolean": ("", " true ", "on", "off", "tr", "2", "1.0", "true\n"),
    "date": ("2024-1-5", "2024", "epoch", "now", "infinity", " 2024-01-05", "2024-01-05\n", "2024-01-05 10:00:00",
             "0999-01-01", "10000-01-01", "+2024-01-01", "2024/01/05"),
    "timestamp": ("2024", "epoch", "10:00:00", "2024-01-05 ", "2024-01-05 10", "2024-01-05 24:00", "2024-01-05 10:00Z",
                  "2024-01-05 10:00:00+18:00", "2024-01-05 10:00:00+10:60", "2024-01-05 10:00:00+01",
                  "2024-01-05 10:00:00 UTC", "2024-01-05 10:00:00.1234567", "infinity", "9000-01-01 00:00:00-01:00"),
}  # fmt: skip
"""One engine alone reads each text, or each reads another value."""


def test_texts_are_cast_by_the_rule_of_both_engines(engine: Engine) -> None:
    for kind, texts in READ.items():
        whole = {text: value for text, value in texts.items() if value is not None}
        for form in ("'{}'", "('{}')", "replace('{}', topic, '')"):
            casts = [f"cast({form.format(text)} as {kind}) c{number}" for number, text in enumerate(whole)]
            _, [row] = engine.query(f"select {', '.join(casts)} from messages", limit=1)
            assert list(map(repr, row.values())) == list(map(repr, whole.values())), kind
        for text in texts.keys() - whole:
            with pytest.raises(BadRequest, match="Conversion Error"):
                engine.query(f"select cast('{text}' as {kind})", limit=1)


@pytest.mark.parametrize("kind", NOT_READ)
def test_other_texts_are_cast_by_neither_engine(kind: str, engine: Engine) -> None:
    name, _, hint = WRITTEN[kind]
    for text in NOT_READ[kind]:
        refused = re.escape(f"sql does not take {text!r} as {name}: DuckDB and Spark do not read it alike")
        for translate in (for_spark, for_duckdb):
            with pytest.raises(BadRequest, match=refused):
                translate(f"cast('{text}' as {kind})")
        with pytest.raises(BadRequest, match=re.escape(f"as {name}: {hint}")):
            engine.query(f"select cast(replace('{text}', topic, '') as {kind}) from messages", limit=1)


TYPES_REFUSED = {
    "'1' + 1": "the query fails: Binder Error",
    "tags + 1": "the query fails: Binder Error",
    "upper(size)": "the query fails: Binder Error",
    "interval 1 day": "sql does not take the interval 'interval 1 day'",
    "store_timestamp - store_timestamp d": "sql does not take the interval 'd'",
    "true = 1": "sql does not take a boolean in place of a number",
    "size = '1'": "sql does not take text in place of a number",
    "size and true": "sql does not take a number in place of a boolean",
    "not size": "sql does not take a number in place of a boolean",
    "case when null then 1 end": "sql does not take null in place of a boolean",
    "sum(true)": "sql does not take sum of a boolean",
    "avg(date '2020-01-01')": "sql does not take a date in place of a number",
    "count_if(1)": "sql does not take a number in place of a boolean",
    "greatest(1, '2')": "sql does not take text in place of a number",
    "greatest(store_timestamp, '2020-01-01')": "sql does not take text in place of a time",
    "coalesce(size, true)": "sql does not take a boolean in place of a number",
    "date_trunc('day', 7)": "sql does not take a cast of a number to a time",
    "unix_millis(7)": "sql does not take epoch_ms of a number",
    "timestamp 'infinity'": "sql does not take 'infinity' as a time",
    "store_timestamp > 'now'": "sql does not take 'now' as a time",
    "date '2020-1-2'": "sql does not take '2020-1-2' as a date",
    "cast('2020-01-02 03:04:05' as date)": "sql does not take '2020-01-02 03:04:05' as a date",
    "substr(topic, true)": "the query fails: Binder Error",
    "topic || 1.5": "sql does not take a number in place of text",
    "'1' = interval 1 day": "sql does not take text in place of an interval",
    "date '2020-01-02' - date '2020-01-01'": "sql does not take a date - a date",
    "date '2020-01-02' + 1": "sql does not take a date + a number",
    "lag(size, size) over (order by size)": "sql does not take lag by a column",
    "cast(body as string)": "sql does not take a cast of bytes to text",
    "cast(m.property_bytes as string)": "sql does not take a cast of bytes to text",
    "cast(properties as string)": "sql does not take a cast of a map to text",
    "cast(keys as string)": "sql does not take a cast of a list to text",
    "cast(store_timestamp as int)": "sql does not take a cast of a time to a number",
    "max(properties)": "sql does not take an order or a comparison of a map",
    "count(distinct m.properties)": "sql does not take an order or a comparison of a map",
    "distinct `properties`": "sql does not take an order or a comparison of a map",
    "m.properties = properties": "sql does not take an order or a comparison of a map",
    "properties in (properties)": "sql does not take an order or a comparison of a map",
    "rank() over (partition by properties order by size)": "sql does not take an order or a comparison of a map",
    "size from messages union select topic from messages": "sql does not take a number in place of text",
    "properties from messages union select properties from messages": "sql does not take an order or a comparison",
    "size from messages where size": "sql does not take a number in place of a boolean",
    "size from messages order by properties": "sql does not take an order or a comparison of a map",
    "count(*) from messages group by properties": "sql does not take an order or a comparison of a map",
}
"""One engine alone would answer each."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine([str(golden("normal").store)]) as engine:
        yield engine


@pytest.mark.turns(8)
@pytest.mark.parametrize("text", TYPES_REFUSED)
def test_a_query_of_other_types_is_refused_before_any_engine_has_a_row(text: str, engine: Engine) -> None:
    asked = f"select {text}" if " messages" in text else f"select {text} from messages m"
    for ask in (check_binds, lambda query: engine.query(query, limit=1)):
        with pytest.raises(BadRequest) as refused:
            ask(asked)
        assert str(refused.value).startswith(TYPES_REFUSED[text]), refused.value


def test_a_query_binds_with_the_names_of_its_store_or_fleet() -> None:
    check_binds("select -size, size - 1, properties, cast(topic as string) || 'x' from messages")
    check_binds("select store, count(*) from `index` group by store", is_fleet=True)
    with pytest.raises(BadRequest, match='Referenced column "store" not found'):
        check_binds("select store from messages")


CALLS = {
    "abs(-2)": 2, "array_contains(keys, 'none')": False, "array_size(keys)": 3, "avg(1)": 1.0, "bool_and(true)": True,
    "bool_or(false)": False, "cardinality(keys) - 4": -1, "ceil(1.2)": 2, "char_length('ab')": 2,
    "coalesce(null, 1)": 1, "contains('abc', 'b')": True, "count(1)": 1, "count_if(false)": 0,
    "date_trunc('day', date '2020-01-02')": "2020-01-02T00:00:00.000Z", "day(date '2020-01-02')": 2,
    "dense_rank() over (order by 1)": 1, "endswith('abc', 'c')": True, "floor(-1.2)": -2, "get(keys, 0)": "order0",
    "greatest(1, null, 2)": 2, "hex('a')": "61", "hour(timestamp '2020-01-02 03:04:05')": 3, "if(true, 1, 2)": 1,
    "ifnull(null, 1)": 1, "lag(1) over (order by 1)": None, "lead(1) over (order by 1)": None, "least(1, null, 2)": 1,
    "length('ab')": 2, "lower('A')": "a", "ltrim(' a ')": "a ",
    "map_keys(properties)": ["p1", "TRACE_ON", "MSG_REGION", "KEYS", "unicode", "UNIQ_KEY"],
    "map_values(properties)": None, "max(1)": 1,
    "md5('a')": "0cc175b9c0f1b6a831c399e269772661", "min(1)": 1, "minute(timestamp '2020-01-02 03:04:05')": 4,
    "month(date '2020-01-02')": 1, "nullif(1, 1)": None, "nvl(null, 1)": 1, "octet_length(body)": None,
    "rank() over (order by 1)": 1, "replace('aa', 'a', 'b')": "bb", "round(1.25, 1)": 1.3, "round(1.75)": 2.0,
    "row_number() over (order by 1)": 1, "rtrim(' a ')": " a", "second(timestamp '2020-01-02 03:04:05')": 5,
    "size(keys) - 4": -1, "startswith('abc', 'a')": True, "substr('abc', 0, 2)": "ab", "substring('abc', -2)": "bc",
    "sum(1)": 1, "trim(' a ')": "a", "unix_millis(timestamp '1970-01-01 00:00:01')": 1000, "upper('a')": "A",
    "year(date '2020-01-02')": 2020,
}  # fmt: skip


AGGREGATES = ("avg(", "bool_and(", "bool_or(", "count(", "count_if(", "max(", "min(", "sum(")


JAVA_TEXTS = {
    "upper('straße')": "STRASSE", "upper('İı')": "İI", "upper('é')": "É", "lower('İ')": "i̇", "lower('ΑΣ')": "ας",
    "lower('ÀB')": "àb", "cast(1e20 as string)": "1.0E20", "cast(12345678e0 as string)": "1.2345678E7",
    "cast(1e7 as string)": "1.0E7", "cast(9999999e0 as string)": "9999999.0", "cast(1e-3 as string)": "0.001",
    "cast(9.9e-4 as string)": "9.9E-4", "cast(-1.5e-9 as string)": "-1.5E-9", "cast(0.0 as string)": "0.0",
    "cast(-12.25 as string)": "-12.25", "cast(cast('NaN' as double) as string)": "NaN",
    "cast(cast('-Infinity' as double) as string)": "-Infinity",
    "cast(cast('Infinity' as double) as string)": "Infinity",
    "abs(cast('nan' as double))": None, "cast(9223372036854775807e0 as bigint)": 9223372036854775807,
}  # fmt: skip
"""Tried with Spark 4.3 on Java 17; test_same_answers asks both engines."""


def test_texts_are_written_as_java_writes_them(engine: Engine) -> None:
    texts = ", ".join(f"{call} a{number}" for number, call in enumerate(JAVA_TEXTS))
    _, [row] = engine.query(f"select {texts}", limit=1)
    assert dict(zip(JAVA_TEXTS, row.values(), strict=True)) == JAVA_TEXTS


def test_every_function_that_is_offered_has_an_answer(engine: Engine) -> None:
    assert {call.partition("(")[0] for call in CALLS} == FUNCTIONS.keys()
    first = "(select * from messages where log_offset = 0) m"
    aggregates = [call for call in CALLS if call.startswith(AGGREGATES)]
    for calls in (aggregates, [call for call in CALLS if call not in aggregates]):
        names, [row] = engine.query(f"select {', '.join(calls)} from {first}", limit=1)
        assert names == calls
        assert {call: value for call, value in row.items() if CALLS[call] is not None} == {
            call: CALLS[call] for call in calls if CALLS[call] is not None
        }
