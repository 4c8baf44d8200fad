"""Values of settings: parse the texts of a broker.conf, and check their limits."""

from __future__ import annotations

import functools
import math
import os
import re
from operator import index
from pathlib import PurePath

from store.errors import BadRequest, WrongKind, shown

SettingValue = str | int | float | bool | None

# Java maps a file with an int for its size, and keeps times in longs.
MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
_DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# A store time plus a delay stays a long for some 100 million years.
MAX_DELAY_MS = 1 << 61
_MAX_DELAY_DIGITS = len(str(MAX_DELAY_MS))
_HOUR = re.compile(r"0{0,8}(?:[0-9]|1[0-9]|2[0-3])")
_INT = re.compile(r"[+-]?[0-9]+")
_WANTED = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text"}


@functools.cache
def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return `1s 5s 2h` as milliseconds: units s, m, h, d, one space between, as a broker requires.

    Empty text means no levels, as 4.9.8 has during recovery.
    """
    levels = []
    for word in text.split(" ") if text else ():
        unit, number = _DELAY_UNITS_MS.get(word[-1:]), word[:-1]
        if unit is None or not (number.isascii() and number.isdigit()):
            raise BadRequest(f"messageDelayLevel holds {word[:20]!r}, which is not a number with s, m, h or d")
        if len(number) > _MAX_DELAY_DIGITS or int(number) * unit > MAX_DELAY_MS:
            raise BadRequest(f"messageDelayLevel holds {word[:40]}, the limit is {MAX_DELAY_MS} ms")
        levels.append(int(number) * unit)
    return tuple(levels)


@functools.cache
def parse_hours(text: str) -> tuple[int, ...]:
    """Return `04;16` as hours of the day."""
    words = [word.strip() for word in text.split(";") if word.strip()]
    if not words or not all(_HOUR.fullmatch(word) for word in words):
        raise BadRequest(f"deleteWhen needs hours from 00 to 23 with semicolons, not {text[:40]!r}")
    return tuple(int(word) for word in words)


def check_value(name: str, value: object, choices: tuple[str, ...], least: int, most: int) -> None:
    """Raise BadRequest for a value outside of a field's choices or limits."""
    if choices and value not in choices:
        raise BadRequest(f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, not {str(value)[:40]}")
    if type(value) is int and not least <= value <= most:
        raise BadRequest(f"{name} lies between {least} and {most}, not {shown(value)}")


def check_type(name: str, type_name: str, value: object) -> SettingValue:
    """Return a value of a setting's type; WrongKind, naming the setting, for another one."""
    if type_name == "str" and isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, bool):
        if type_name == "bool":
            return value
    elif type_name == "int" and hasattr(value, "__index__"):
        return index(value)
    # Infinity and NaN minus themselves are NaN.
    elif type_name == "float" and isinstance(value, int | float) and value - value == 0:
        return value
    raise WrongKind(f"setting {name} needs {_WANTED[type_name]}, not {shown(value)}")


def convert_value(name: str, type_name: str, value: object) -> SettingValue:
    """Parse a text as its type; BadRequest, naming the setting, for another text, WrongKind for no text."""
    if not isinstance(value, str):
        return check_type(name, type_name, value)
    text = value.strip()
    try:
        if type_name == "bool":
            return {"true": True, "false": False}[text.lower()]
        if type_name == "int":
            if not _INT.fullmatch(text):
                raise ValueError
            # Python refuses thousands of digits with a ValueError.
            return int(text)
        if type_name == "float":
            number = float(text)
            if not math.isfinite(number):
                raise ValueError
            return number
    except (KeyError, ValueError):
        raise BadRequest(f"setting {name} needs {_WANTED[type_name]}, not {value[:40]!r}") from None
    if "\0" in text:
        # No path can contain a zero byte.
        raise BadRequest(f"setting {name} holds a zero byte: {value[:40]!r}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise BadRequest(f"setting {name} holds half of a character: {value[:40]!r}") from None
    return text
