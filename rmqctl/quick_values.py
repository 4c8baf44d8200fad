"""Converting the values of options without pydantic, which Typer uses and whose import takes half of a quick run.

Only a value that is plainly right is converted here: text, a whole number in its range, a choice by its name, a path.
Everything else, and so every message about a wrong value, is left to Typer.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NOT_PLAIN = object()


def convert_quickly(parameters: list[Any]) -> list[Any]:
    """The same parameters of a command, with conversion prepared; those of a Typer that works otherwise stay alone."""
    for parameter in parameters:
        if hasattr(parameter, "_runtime_param") and hasattr(parameter, "type_descriptor"):
            parameter._runtime_param = _QuickConversion()
    return parameters


class _QuickConversion:
    """What Typer asks to convert a parameter's value."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        annotation, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if is_list and get_origin(annotation) is list and not isinstance(value, str):
            (inner,) = get_args(annotation)
            converted: Any = [_convert(one, inner, info) for one in value]
            is_plain = all(one is not _NOT_PLAIN for one in converted)
        else:
            converted = _convert(value, annotation, info)
            is_plain = converted is not _NOT_PLAIN
        return converted if is_plain else _convert_by_typer(value, param, ctx)


def _convert(value: Any, annotation: Any, info: Any) -> Any:
    if annotation is str:
        return value if isinstance(value, str) else _NOT_PLAIN
    if annotation is int:
        return _convert_integer(value, info)
    if annotation is Path:
        is_plain = isinstance(value, str | Path) and not info.exists and not info.resolve_path
        return Path(value) if is_plain else _NOT_PLAIN
    if annotation is float:
        # Defaults only: what a user gives is Typer's to judge.
        return float(value) if isinstance(value, int | float) else _NOT_PLAIN
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next((one for one in annotation if value is one or value == one.value), _NOT_PLAIN)
    return _NOT_PLAIN


def _convert_integer(value: Any, info: Any) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    is_plain = isinstance(value, int) and not isinstance(value, bool)
    too_low = is_plain and info.min is not None and value < info.min
    too_high = is_plain and info.max is not None and value > info.max
    return value if is_plain and not too_low and not too_high else _NOT_PLAIN


def _convert_by_typer(value: Any, param: Any, ctx: Any) -> Any:
    param._runtime_param = None
    return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
