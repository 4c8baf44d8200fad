"""Translates a query for each engine, and refuses words with different meanings in the two.

    text ──> tokens ──> names for columns ──> refused words, functions and signs ──> for_spark | for_duckdb

A column without a name gets its expression as its name. For DuckDB, functions are renamed if its name differs, and
replaced by MACROS and JAVA_TEXTS if their meaning differs. Tried with Spark 4.3 and DuckDB 2.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from store.errors import BadRequest, quoted

MACROS = (
    "unix_millis(moment) as epoch_ms(moment)",
    """size_of(x) as case when typeof(x) = 'BLOB' then octet_length(try_cast(x as blob))
        else len(cast(x as varchar)) end""",
    "entries_of(x) as cast(cardinality(x) as int)",
    "count_of(x) as count(case when x then 1 end)",
    "floor_of(x) as cast(floor(x) as bigint)",
    "ceil_of(x) as cast(ceil(x) as bigint)",
    """part_of(x, first) as substring(x, case when first = 0 then 1 else first end),
        (x, first, count) as substring(x, case when first = 0 then 1 else first end, count)""",
    "item_of(list, place) as case when place < 0 then null else list[place + 1] end",
    """to_string(x) as case when typeof(x) = 'TIMESTAMP WITH TIME ZONE' then cast(try_cast(x as timestamp) as varchar)
        when typeof(x) in ('DOUBLE', 'FLOAT') then double_text(try_cast(x as double)) else cast(x as varchar) end""",
    "upper_of(x) as case when strlen(x) = len(x) then upper(x) else upper_text(x) end",
    "lower_of(x) as case when strlen(x) = len(x) then lower(x) else lower_text(x) end",
    f"long_of(x) as case when x = {2**63} then {2**63 - 1} else cast(x as bigint) end",
    """to_bigint(x) as case when typeof(x) in ('DOUBLE', 'FLOAT') then long_of(trunc(try_cast(x as double)))
        else cast(x as bigint) end""",
    "to_int(x) as cast(to_bigint(x) as int)",
    "trunc_of(unit, x) as date_trunc(unit, cast(x as timestamptz))",
    '"/"(x, y) as case when y = 0 then error(\'division by zero\') else system.main."/"(x, y) end',
)
"""DuckDB macros with the meaning of Spark's functions."""


def double_text(value: float) -> str:
    """Return a double's text as in Java (Double.toString)."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        written = format(Decimal(repr(value)), "f")
        return written if "." in written else f"{written}.0"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{'-' if value < 0 else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


JAVA_TEXTS = (
    # DuckDB maps letter to letter, Java follows all of Unicode's rules: ß becomes SS.
    ("upper_text", str.upper, "VARCHAR"),
    ("lower_text", str.lower, "VARCHAR"),
    ("double_text", double_text, "DOUBLE"),
)
"""Functions of one argument for DuckDB: name, Python function and argument type; they return text."""

_SAME = """
    count sum avg min max bool_and bool_or row_number rank dense_rank lag lead unix_millis year
    month day hour minute second trim ltrim rtrim replace contains hex md5 abs round greatest least coalesce
    nullif ifnull if array_contains map_keys map_values octet_length
"""
FUNCTIONS = {name: name for name in _SAME.split()} | {
    "count_if": "count_of", "cardinality": "entries_of", "size": "entries_of", "array_size": "array_length",
    "length": "size_of", "char_length": "len", "nvl": "ifnull", "floor": "floor_of", "ceil": "ceil_of",
    "substr": "part_of", "substring": "part_of", "get": "item_of", "startswith": "starts_with", "endswith": "ends_with",
    "upper": "upper_of", "lower": "lower_of", "date_trunc": "trunc_of",
}  # fmt: skip
"""The functions that queries may call, each with its name in DuckDB."""

_CASTS = {"string": "to_string", "int": "to_int", "bigint": "to_bigint"}
"""The types with a macro of DuckDB for their casts."""
_MOST_CASTS = 5
"""The most casts inside casts: an engine gets the value of each several times."""

_DAY = "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_MINUTE = "([01][0-9]|2[0-3]):[0-9]{2}"
_SECOND = f"{_MINUTE}:[0-9]{{2}}([.][0-9]{{1,6}})?"
# A zone may move 9999-12-31 to a year of five digits, which is no date in Spark; years with a zone end at 8999.
_ZONED = f"[1-8]{_DAY.removeprefix('[1-9]')}[ T]{_SECOND}[+-](0[0-9]|1[0-7]):[0-5][0-9]"
_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)|(?i:nan)"
_BLANKS = r"[ \t\r\n]*"
_WHOLE = "a whole number", f"{_BLANKS}[+-]?[0-9]+{_BLANKS}", "write digits alone"
_WRITE_TIMES = "write YYYY-MM-DD, and HH:MM:SS after a blank"
WRITTEN = {
    "int": _WHOLE,
    "bigint": _WHOLE,
    "double": ("a number", f"{_BLANKS}({_NUMBER}){_BLANKS}", "write digits, a point and an exponent alone"),
    "boolean": ("a boolean", "(?i:true|false|t|f|yes|no|y|n|1|0)", "write true or false"),
    "date": ("a date", _DAY, _WRITE_TIMES),
    "timestamp": ("a time", f"({_DAY}([ T]({_MINUTE}|{_SECOND}Z?))?|{_ZONED})", _WRITE_TIMES),
}
"""The texts of a type that both engines read alike: the type in words, the pattern and the hint of a refusal."""
_GUARD_ON_SPARK = (
    r"if ( typeof ( {0} ) = 'string' and not cast ( {0} as string ) rlike r'^{1}\z' , raise_error ( {2} ) , {0} )"
)
_GUARD_IN_DUCKDB = (
    "case when typeof ( {0} ) = 'VARCHAR' and not regexp_full_match ( cast ( {0} as varchar ) , '{1}' ) "
    "then error ( {2} ) else {0} end"
)
_COMPARISONS = frozenset(("=", "<>", "!=", "<", ">", "<=", ">="))
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_OPERATORS = frozenset(("+", "-", "*", "/", "%", "&", "||", "in"))
_BEFORE_BRACKETS = frozenset((
    "all", "and", "any", "as", "between", "by", "case", "cast", "distinct", "else", "except", "exists", "extract",
    "filter", "from", "having", "in", "intersect", "interval", "is", "join", "like", "limit", "not", "on", "or",
    "order", "over", "select", "then", "union", "using", "when", "where", "with",
))  # fmt: skip
_REFUSED = frozenset((
    "anti", "asof", "at", "cluster", "collate", "distribute", "div", "exclude", "fetch", "for", "glob", "isnull",
    "lateral", "notnull", "pivot", "positional", "qualify", "regexp", "rlike", "sample", "semi", "similar",
    "summarize", "tablesample", "unpivot", "values",
))  # fmt: skip
_NO_OPERAND = _BEFORE_BRACKETS | {"escape", "date", "timestamp"}
_NO_NAME = frozenset(("end", "null", "true", "false"))
_LIST_ENDS = ("from", "where", "group", "having", "order", "limit", "union", "except", "intersect", "window")
_HINTS = {
    '"': "write texts in single quotes and names in backquotes",
    ":": "write cast(x as type)",
    "[": "write get(keys, 0)",
}

_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | --[^\r\n]* | /\*.*?\*/ )
    | (?P<text> '(?:[^'\\]|'')*' )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?(?!\w) )
    | (?P<word> [^\W\d]\w*(?!') )
    | (?P<sign> <> | != | <=(?!>) | >= | \|\| | [-+*/%=<>&](?![=<>/*&|@!~^]) | \[(?=\s*') | [(),.\]] )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class _Token(NamedTuple):
    """A token of the text; `kind` is a group of _TOKEN."""

    kind: str
    text: str
    start: int = 0

    @property
    def word(self) -> str:
        """The token in lower case, empty for quoted texts and names."""
        return "" if self.kind in ("text", "name") else self.text.lower()


def for_spark(text: str) -> str:
    """Translate a query or condition for Spark; BadRequest for one with another meaning in DuckDB."""
    tokens = _checked(text)
    is_short = ["." in token.text and "e" not in token.word and token.kind == "number" for token in tokens]
    words = [f"{token.text}e0" if short else token.text for token, short in zip(tokens, is_short, strict=True)]
    return _guarded(tokens, words, _GUARD_ON_SPARK, "string")


def for_duckdb(text: str) -> str:
    """Translate a query or condition for DuckDB; BadRequest for one with another meaning in Spark."""
    tokens = _checked(text)
    return _guarded(tokens, _in_duckdb(tokens), _GUARD_IN_DUCKDB, "varchar")


def check_written(text: str, kind: str) -> None:
    """Raise BadRequest unless both engines read the text alike as this type of WRITTEN."""
    name, pattern, hint = WRITTEN[kind]
    if not re.fullmatch(pattern, text):
        raise refusal(f"{quoted(text)} as {name}", hint)


def for_types(text: str) -> str:
    """Translate a query for DuckDB to bind alone: its casts become TRY_CASTs, and no null is a constant."""
    words = list(filter(None, _in_duckdb(_checked(text))))
    for place, (before, word, after) in enumerate(zip(["", *words], words, [*words[1:], ""], strict=False)):
        if word in ("date", "timestamptz") and after.startswith("'"):
            words[place : place + 2] = "", f"try_cast({after} as {word})"
        elif word.lower() == "null" and before.lower() not in ("is", "not"):
            words[place] = "error('')"
    return " ".join("try_cast" if word.lower() == "cast" else word for word in words)


def _checked(text: str) -> list[_Token]:
    tokens = _named(text, list(_tokens(text.rstrip().removesuffix(";"))))
    for place, token in enumerate(tokens):
        before, after = _word(tokens, place - 1), _word(tokens, place + 1)
        if token.kind != "word" or before == ".":
            continue
        is_call = after == "(" and token.word not in _BEFORE_BRACKETS and before not in (")", "with")
        if token.word in _REFUSED:
            raise refusal(repr(token.text))
        if is_call and token.word not in FUNCTIONS:
            raise refusal(f"the function {token.text}", f"the functions are {', '.join(sorted(FUNCTIONS))}")
        if token.word == "null" and _is_operand(tokens, place):
            raise refusal("null as an operand")
        if token.word == "limit" and not after.isdigit():
            raise refusal("a limit that is no whole number")
        if token.word == "null" and before in ("is", "not") and after in _COMPARISONS:
            raise refusal(f"is null before {after!r}", "write (x is null)")
        if token.word == "date_trunc" and after == "(" and _text(tokens, place + 2).strip("'").lower() not in _UNITS:
            raise refusal("date_trunc by another unit", f"the units are {', '.join(_UNITS)}")
        if token.word == "by" and before in ("order", "group") and (word := _foreign(tokens, place)):
            raise refusal(f"{word!r} in an order or a group", "give it a name in a query in brackets")
    casts = list(_casts(tokens))
    for place, stop in casts:
        kind = _word(tokens, stop - 1)
        if kind not in (*WRITTEN, "string"):
            raise refusal(f"a cast to {kind}", f"cast to string, {', '.join(WRITTEN)}")
        if kind in WRITTEN and _is_of_text(tokens, place):
            check_written(tokens[place + 2].text[1:-1].replace("''", "'"), kind)
        if sum(first <= place < last for first, last in casts) > _MOST_CASTS:
            raise BadRequest(f"more than {_MOST_CASTS} casts inside casts", hint="take some of them away")
    return tokens


def _is_of_text(tokens: Sequence[_Token], cast: int) -> bool:
    return tokens[cast + 2].kind == "text" and _word(tokens, cast + 3) == "as"


def _foreign(tokens: Sequence[_Token], by: int) -> str:
    """Return the first word of a window or query in an order or group; "" without one."""
    depth = 0
    for token in tokens[by + 1 :]:
        depth += (token.word == "(") - (token.word == ")")
        if depth < 0 or (depth == 0 and token.word in _LIST_ENDS):
            return ""
        if token.word in ("over", "select"):
            return token.text
    return ""


def _is_operand(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a value is computed with, or searched in another."""
    depth, at = 0, place - 1
    while at >= 0 and (depth or tokens[at].word != "("):
        depth += (tokens[at].word == ")") - (tokens[at].word == "(")
        at -= 1
    around = _word(tokens, place - 1), _word(tokens, place + 1)
    return not _OPERATORS.isdisjoint(around) or _word(tokens, at - 1) in ("contains", "array_contains")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            what = "a text with a backslash, or without its end" if text[at] == "'" else f"the sign {text[at]!r} here"
            raise refusal(what, _HINTS.get(text[at]))
        if found.lastgroup != "blank":
            yield _Token(str(found.lastgroup), found.group(), at)
        at = found.end()


def interval_refusal(column: str) -> BadRequest:
    """Return the refusal of an interval column."""
    return refusal(f"the interval {column!r}", "subtract unix_millis(TIME) of both times")


def refusal(what: str, hint: str | None = None) -> BadRequest:
    """Return the refusal of words with two meanings."""
    return BadRequest(f"sql does not take {what}: DuckDB and Spark do not read it alike", hint=hint)


def _word(tokens: Sequence[_Token], place: int) -> str:
    return tokens[place].word if 0 <= place < len(tokens) else ""


def _text(tokens: Sequence[_Token], place: int) -> str:
    return tokens[place].text if place < len(tokens) else ""


def _named(text: str, tokens: list[_Token]) -> list[_Token]:
    """Return the tokens, with a quoted name after each selected column that is an expression."""
    names: dict[int, list[_Token]] = {}
    for first, stop in _columns(tokens):
        item = tokens[first:stop]
        is_plain = all(token.kind == "name" or re.fullmatch(r"[a-z_]\w*|\.", token.text) for token in item)
        if item[-1].word == "*" or (len(item) == 1 and is_plain and item[0].word not in _NO_NAME):
            continue
        if len(item) > 1 and (item[-2].word == "as" or _ends_with_name(item)):
            kept = tokens[stop - 2 : stop - 1] if item[-2].word != "as" else []
            names[stop - 2], names[stop - 1] = kept, _name(item[-1].text.strip("`"))
        elif not (len(item) > 1 and is_plain and item[-2].word == "."):
            written = text[item[0].start : item[-1].start + len(item[-1].text)]
            names[stop - 1] = [item[-1], *_name(" ".join(written.split()))]
    return [made for place, token in enumerate(tokens) for made in names.get(place, [token])]


def _name(text: str) -> list[_Token]:
    return [_Token("word", "as"), _Token("name", "`" + text.replace("`", "``") + "`")]


def _ends_with_name(item: Sequence[_Token]) -> bool:
    """Return whether the last word is a name for the expression before it."""
    before, last = item[-2:]
    if last.kind not in ("word", "name") or last.word in _NO_NAME or _word(item, len(item) - 3) == "interval":
        return False
    ends_value = before.kind in ("text", "name", "number") or before.word in (")", "]")
    return ends_value or (before.kind == "word" and before.word not in _NO_OPERAND)


def _columns(tokens: Sequence[_Token]) -> Iterator[tuple[int, int]]:
    """Yield first and stop of every column of every select."""
    for place, token in enumerate(tokens):
        if token.word == "select":
            first = place + 1 + (_word(tokens, place + 1) in ("distinct", "all"))
            depth, at = 0, first
            while at < len(tokens) and depth >= 0 and not (depth == 0 and tokens[at].word in _LIST_ENDS):
                depth += (tokens[at].word in ("(", "[")) - (tokens[at].word in (")", "]"))
                if depth == 0 and tokens[at].word == ",":
                    if first < at:
                        yield first, at
                    first = at + 1
                at += 1
            stop = at - (depth < 0)
            if first < stop:
                yield first, stop


def _casts(tokens: Sequence[_Token]) -> Iterator[tuple[int, int]]:
    """Yield place and closing bracket of every complete cast."""
    for place, token in enumerate(tokens):
        if token.word == "cast" and _word(tokens, place + 1) == "(":
            depth = 0
            for at in range(place + 1, len(tokens)):
                depth += (tokens[at].word == "(") - (tokens[at].word == ")")
                if depth == 0:
                    yield place, at
                    break


def _guarded(tokens: Sequence[_Token], words: list[str], guard: str, text_type: str) -> str:
    """Return the joined words, whose casts fail for texts that the engines do not read alike."""
    for place, stop in reversed(list(_casts(tokens))):
        kind = _word(tokens, stop - 1)
        if kind in WRITTEN and not _is_of_text(tokens, place):
            name, pattern, hint = WRITTEN[kind]
            value = " ".join(filter(None, words[place + 2 : stop - 2]))
            failure = f"'sql does not take ''' || cast ( {value} as {text_type} ) || ''' as {name}: {hint}'"
            words[place + 2 : stop - 2] = [guard.format(value, pattern, failure), *[""] * (stop - place - 5)]
    return " ".join(filter(None, words))


def _in_duckdb(tokens: Sequence[_Token]) -> list[str]:
    words = [_word_in_duckdb(tokens, place) for place in range(len(tokens))]
    for place, stop in _casts(tokens):
        if macro := _CASTS.get(_word(tokens, stop - 1)):
            words[place], words[stop - 2], words[stop - 1] = macro, "", ""
    return words


def _word_in_duckdb(tokens: Sequence[_Token], place: int) -> str:
    token = tokens[place]
    if token.kind == "name":
        return '"' + token.text[1:-1].replace("``", "`").replace('"', '""') + '"'
    if token.kind == "number" and "." in token.text and "e" not in token.word:
        return f"{token.text}e0"
    if token.word == "timestamp":
        return "timestamptz"
    return FUNCTIONS.get(token.word, token.text) if _word(tokens, place + 1) == "(" else token.text
