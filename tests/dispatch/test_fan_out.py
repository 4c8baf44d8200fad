"""What is built side by side is, byte for byte, what is built by one thread, whatever the log looks like."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import kernels
from store.dispatch.fan_out import FanOut
from tests.support.logs import log_of, mutations, parts
from tests.support.small_log import SmallLog, open_index, open_queues, tree
from tests.support.twice import KINDS

MAGIC = re.compile(rb"\xda\xa3\x20")


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers run in threads, which uncompiled kernels would not be worth."""
    monkeypatch.setattr(kernels, "COMPILED", True)


def built(log: SmallLog, *, in_threads: bool) -> dict[str, bytes]:
    """Every file of queues and index, of walks from each place that looks like a record: damage ends a walk."""
    starts = {0, *(found.start() - 4 for found in MAGIC.finditer(log.data, 4))}
    with tempfile.TemporaryDirectory() as folder:
        queues, index = open_queues(Path(folder)), open_index(Path(folder))
        with FanOut([queues, index], in_threads=in_threads) as builders:
            for start in sorted(starts):
                log.dispatch_to(builders, start=start)
        index.close()
        files = tree(Path(folder))
        queues.close()
    return files


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(parts, min_size=1, max_size=12), st.lists(mutations(), max_size=3))
def test_threads_build_of_a_damaged_log_what_one_thread_does(
    kind: str, log: list[dict[str, Any]], damages: list[Callable[[bytes], bytes]]
) -> None:
    damaged = SmallLog()
    damaged.data = log_of(log)
    for damage in damages:
        damaged.data = damage(damaged.data)
    with KINDS[kind]():
        assert built(damaged, in_threads=True) == built(damaged, in_threads=False)
