"""The store host of records that are put: message ids name it, and mqadmin queryMsgById asks there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import open_store
from tests.cli.running import rmqctl

LOCAL, OTHER = "127.0.0.1:10911", "10.0.0.7:30911"


def store_host(root: Path) -> str:
    with open_store(root) as store:
        (message,) = store.messages("T", 0)
        return str(message.store_host)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("words", "host"),
    [
        ([], LOCAL),
        (["--store-host", OTHER], OTHER),
        (["--store-host", "[::1]:5"], "[::1]:5"),
        (["--set", "brokerIP1=10.0.0.7"], "10.0.0.7:10911"),
        (["--set", "listenPort=30911"], "127.0.0.1:30911"),
        (["--set", "brokerIP1=10.0.0.7", "--set", "listenPort=30911"], OTHER),
        (["--set", "listenPort=30911", "--store-host", LOCAL], LOCAL),
    ],
)
def test_it_is_the_option_s_or_the_brokers(words: list[str], host: str, tmp_path: Path) -> None:
    assert rmqctl("put", "T", "body", *words, store=tmp_path / "store").code == 0
    assert store_host(tmp_path / "store") == host


@pytest.mark.parametrize(
    ("words", "host"),
    [([], OTHER), (["--store-host", LOCAL], LOCAL), (["--store-host", LOCAL, "--as-stored"], OTHER)],
)
def test_a_line_keeps_its_own_unless_another_is_given(words: list[str], host: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(json.dumps({"topic": "T", "body_text": "x", "store_host": OTHER}))
    assert rmqctl("put", "--from", lines, *words, store=tmp_path / "store").code == 0
    assert store_host(tmp_path / "store") == host
