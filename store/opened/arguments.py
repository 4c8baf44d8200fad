"""Checks of the arguments of public functions, before a store is opened or a file is written.

A parameter has the same name and kind in each function, so one table has the check of each name. None passes where it
is the default. A wrong kind raises WrongKind, a wrong value of the right kind BadRequest.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from store.broker_line import broker_line
from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.given import (
    check_call,
    check_flag,
    check_kind,
    check_names,
    check_number,
    check_path,
    check_real,
    check_text,
)
from store.structures.registry import AS_BROKER, CHANGES

P = ParamSpec("P")
T = TypeVar("T")


def checks_arguments(call: Callable[P, T]) -> Callable[P, T]:
    """Let a function check its arguments by their names."""
    parameters = inspect.signature(call).parameters
    names, defaults = list(parameters), {name: one.default for name, one in parameters.items()}

    @wraps(call)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        for name, value in (*zip(names, args, strict=False), *options.items()):
            check = _CHECKS.get(name)
            if check is not None and (value is not None or defaults.get(name, value) is not None):
                check(name, value)
        return call(*args, **options)

    return checked


def _check_settings(name: str, value: object) -> None:
    check_kind(name, value, Mapping)
    assert isinstance(value, Mapping)
    StoreConfig().with_settings(value)


def _check_line(name: str, value: object) -> None:
    broker_line(check_text(name, value))


def _check_mode(name: str, value: object) -> None:
    if check_text(name, value) not in _MODES:
        raise BadRequest(f"{name} is {', '.join(_MODES)}, not {value}")


def _check_store(name: str, value: object) -> None:
    # The library loads it for plans alone.
    from store.opened.opened_store import OpenedStore

    if not isinstance(value, OpenedStore):
        check_path(name, value)


def _check_verb(name: str, value: object) -> None:
    if value is not None and check_text(name, value) not in CHANGES | {AS_BROKER}:
        raise BadRequest(f"{name} is {', '.join(sorted(CHANGES | {AS_BROKER}))} or None, not {value}")


_MODES = ("auto", "normal", "abnormal")
_FLAGS = (
    "read_only recover force_empty_log as_is dry_run keep_index as_broker keep_offsets force commit one_call "
    "only_sound outer must_exist is_answer"
)
_Check = Callable[[str, object], object]


def _each(names: str, check: _Check) -> dict[str, _Check]:
    return dict.fromkeys(names.split(), check)


_CHECKS: dict[str, _Check] = {
    **_each("root path scratch", check_path),
    **_each("clock note progress rebuild refuse", check_call),
    **_each(_FLAGS, check_flag),
    **_each("listen master text transaction_id table topic ring group expression producer_group", check_text),
    **_each("services columns", check_names),
    **_each("queue_id", check_number),
    **_each("now_ms time_ms timeout_ms client_version", partial(check_number, bits=64)),
    **_each("offset start end half_log_offset", partial(check_number, bits=64)),
    **_each("log_offset free_bytes max_count count", partial(check_number, bits=64, least=0)),
    **_each("reserved_hours size", partial(check_number, least=0)),
    **_each("most passes roll_window_slots", partial(check_number, least=1)),
    "disk_used_percent": partial(check_real, most=100),
    "timeout_s": partial(check_real, least=-math.inf),
    "opened": _check_store,
    "fs": lambda name, value: check_kind(name, value, Filesystem),
    "settings": _check_settings,
    "config": lambda name, value: check_kind(name, value, StoreConfig),
    "compat": _check_line,
    "mode": _check_mode,
    "verb": _check_verb,
}
