"""Which logs take a usual message byte by byte as it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store

LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}


@pytest.mark.parametrize(
    ("compat", "settings", "is_verbatim"),
    [("4.9", {}, True), ("5.3", {}, False), ("4.9", LIGHT, False), ("5.3", LIGHT, False)],
)
def test_a_4_9_broker_without_light_queues_changes_no_properties(
    compat: str, settings: dict[str, str], is_verbatim: bool, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[], compat=compat, settings=settings) as store:
        assert store.opened.log._is_verbatim is is_verbatim
