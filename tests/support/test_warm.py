"""Changed code in the place of live functions."""

from __future__ import annotations

import gc

import pytest

from tests.support.warm import put_in_place


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
