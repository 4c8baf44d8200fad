"""Fastjson's text: read whatever a broker writes, write what it would have written."""

from __future__ import annotations

import pytest

from store.structures.tables.fastjson import Json, parse_fastjson, write_fastjson

OFFSETS = '{\n\t"offsetTable":{"T@G":{0:7,1:9\n\t\t}\n\t}\n}'.replace('{"T@G"', '{\n\t\t"T@G"')
DELAYS = '{\n\t"offsetTable":{1:5,2:3\n\t}\n}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"offsetTable": {"T@G": {0: 7, 1: 9}}}, OFFSETS),
        ({"offsetTable": {1: 5, 2: 3}}, DELAYS),
        ({"groupTopicMap": {"G": ["A", "B"]}}, '{\n\t"groupTopicMap":{\n\t\t"G":["A","B"]\n\t}\n}'),
        (
            {"attributes": {}, "order": False, "a": "名/"},
            '{\n\t"attributes":{},\n\t"order":false,\n\t"a":"名/"\n}',
        ),
    ],
)
def test_documents_are_written_as_a_broker_writes_them(value: Json, text: str) -> None:
    assert write_fastjson(value) == text


def test_integer_keys_are_read_with_and_without_quotes() -> None:
    assert parse_fastjson(OFFSETS) == parse_fastjson('{"offsetTable":{"T@G":{"0":7,"1":9}}}')


def test_text_that_looks_like_a_bare_key_stays_text() -> None:
    assert parse_fastjson('{"a":"{1:2,3:","b":{-1:2}}') == {"a": "{1:2,3:", "b": {"-1": 2}}


@pytest.mark.parametrize("text", ['{"a":', '{"a":1}x', '{"a":1}\0\0', "[" * 100_000])
def test_text_that_a_broker_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_fastjson(text)


@pytest.mark.parametrize(
    "text",
    [
        '{a:{"T@G":{0:4}}}',
        "{'a':{'T@G':{0:4}}}",
        '{"a":{"T@G":{0:4,}},}',
        '{"a":{,"T@G":{0:4,,}},,}',
        '{"a":{"T@G":{0:4L}}}',
        '/* by hand */{"a": // offsets\n{"T@G":{0:4}}}',
    ],
)
def test_a_document_edited_by_hand_is_read_as_fastjson_reads_it(text: str) -> None:
    assert parse_fastjson(text) == {"a": {"T@G": {"0": 4}}}


@pytest.mark.parametrize("text", ["{'a':{", "{'a':1} x", "{'a", '{"a":b}', "{a:1 b:2}", "/* {}"])
def test_what_fastjson_refuses_stays_damaged_also_with_single_quotes(text: str) -> None:
    with pytest.raises(ValueError):
        parse_fastjson(text)


def test_single_quotes_hold_double_ones_and_escapes() -> None:
    assert parse_fastjson(r"""{'say "hi"':'it\'s \"x\" // no comment'}""") == {'say "hi"': 'it\'s "x" // no comment'}


def test_half_of_a_surrogate_pair_is_a_question_mark_as_in_java() -> None:
    assert parse_fastjson(r'{"a\ud83d":["\ud83d\ude00", "名\udc00"]}') == {"a?": ["\U0001f600", "名?"]}
