"""Advice for bytes that are no map."""

from __future__ import annotations

import pytest

from store.files.mapping import is_mapped, let_go, make_writable, populate


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, 1), (3, 2)])
def test_bytes_that_are_no_map_are_in_memory(start: int, stop: int) -> None:
    view = memoryview(b"abc")
    assert (is_mapped(view), populate(view, start, stop)) == (False, True)
    make_writable(view, start, stop)
    let_go(view, start, stop)
    assert bytes(view) == b"abc"
