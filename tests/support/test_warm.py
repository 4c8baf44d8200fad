"""Changed code in the place of live functions."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

from store.formats.disguise import disguise
from tests.support.warm import Recorder, put_in_place


@pytest.mark.parametrize("is_frozen", [False, True])
def test_live_functions_get_the_changed_code_even_if_the_collector_has_them_frozen(is_frozen: bool) -> None:
    codes = [compile(f"def answer(): return {number}", "changed.py", "exec") for number in (1, 2)]
    names: dict[str, object] = {}
    exec(codes[0], names)
    if is_frozen:
        gc.freeze()
    try:
        assert put_in_place(*codes)
    finally:
        gc.unfreeze()
    assert names["answer"]() == 2  # type: ignore[operator]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_test_is_noted_for_a_function_whose_answer_an_earlier_test_got(is_frozen: bool) -> None:
    recorder = Recorder(str(Path(__file__).parents[2]))
    if is_frozen:
        gc.freeze()
    for name in ("first", "second"):
        recorder.pytest_runtest_logstart()
        disguise("order-4711", b"salt")
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        recorder.pytest_runtest_logfinish(name)
    functions = [set(recorder.reached[name].lines) for name in ("first", "second")]
    assert "store/formats/disguise.py::disguise" in functions[0] & functions[1]
