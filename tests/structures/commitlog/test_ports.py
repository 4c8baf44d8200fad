"""Ports that no Java client decodes: a new put refuses them, a log's own records keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store import Host, Message, MessageColumns, PutStatus, open_store
from store.formats.host import LOCALHOST, port_fault
from tests.cli.running import rmqctl
from tests.support.stores import SMALL
from tests.support.transactions import transactions

BEYOND = Host(bytes(4), 65536)
SETTINGS = [f"--set={name}={value}" for name, value in SMALL.items()]


@pytest.mark.parametrize(
    ("port", "is_refused"), [(-(1 << 31), True), (-1, True), (0, False), (65535, False), (65536, True)]
)
def test_a_port_that_a_client_decodes_has_16_bits(port: int, is_refused: bool) -> None:
    host = Host(bytes(4), port)
    fault = "the port of {} is not 0 to 65535: " + str(port)
    assert port_fault(host, LOCALHOST) == (fault.format("born_host") if is_refused else "")
    assert port_fault(LOCALHOST, host) == (fault.format("store_host") if is_refused else "")


def of_columns(message: Message) -> MessageColumns:
    return MessageColumns.of([message] * 2)


@pytest.mark.parametrize("compat", ["4.9", "5.3"])
@pytest.mark.parametrize("side", ["born_host", "store_host"])
@pytest.mark.parametrize(
    "put",
    [
        lambda store, message: [store.put(message)],
        lambda store, message: [store.put_batch([message])],
        lambda store, message: store.put_many([message] * 2).refused.values(),
        lambda store, message: [store.put_replayed(message, as_stored=False)],
        lambda store, message: store.put_many_replayed(of_columns(message), as_stored=False).refused.values(),
    ],
)
def test_each_new_put_refuses_it_by_the_field_s_name(
    put: Callable[[Any, Message], list[Any]], side: str, compat: str, tmp_path: Path
) -> None:
    message = replace(Message.of("T", "x"), **{side: BEYOND})
    with open_store(tmp_path / "s", read_only=False, settings=SMALL, compat=compat) as store:
        store.put(Message.of("T", "first"))
        end = store.max_log_offset
        reasons = {(one.status, one.reason) for one in put(store, message)}
        assert reasons == {(PutStatus.MESSAGE_ILLEGAL, f"the port of {side} is not 0 to 65535: 65536")}
        assert store.max_log_offset == end


def test_of_columns_only_rows_with_it_are_refused(tmp_path: Path) -> None:
    columns = MessageColumns.of([Message.of("T", "x", born_timestamp_ms=1)] * 3)
    columns.hosts, columns.hosts_of = [(LOCALHOST, LOCALHOST), (LOCALHOST, BEYOND)], np.array([0, 1, 0])
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        assert sorted(store.put_many(columns).refused) == [1]
        assert sorted(store.put_many_replayed(columns, as_stored=True).refused) == []


def test_hosts_of_a_record_put_as_stored_open_no_way_for_new_ones(tmp_path: Path) -> None:
    message = Message.of("T", "x", born_host=BEYOND)
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        kept = store.put_replayed(message, as_stored=True)
        assert store.put(message).status is PutStatus.MESSAGE_ILLEGAL
        found = store.lookup(kept.log_offset)
        assert found is not None
        assert found.born_host == BEYOND


def test_records_of_a_log_with_it_come_back_byte_for_byte(tmp_path: Path) -> None:
    first, second, new, lines = (tmp_path / name for name in ("first", "second", "new", "lines"))
    hosts = [BEYOND, Host(bytes(16), -1), LOCALHOST]
    with open_store(first, read_only=False, settings=SMALL) as store:
        for born in hosts:
            for stored in hosts:
                message = Message.of("T", "x", born_host=born, store_host=stored, born_timestamp_ms=1)
                assert store.put_replayed(message, as_stored=True, store_timestamp_ms=5).is_ok
    rmqctl("export", "--to", lines, "--as", "jsonl", store=first)
    assert rmqctl(*SETTINGS, "put", "--from", lines, "--as-stored", "--keep-times", store=second).code == 0
    name = f"commitlog/{0:020d}"
    assert (second / name).read_bytes() == (first / name).read_bytes()
    run = rmqctl("-f", "json", *SETTINGS, "put", "--from", lines, store=new)
    assert run.code == 2
    assert [row.get("reason") for row in run.json["results"]] == [
        *["the port of born_host is not 0 to 65535: 65536"] * 3, *["the port of born_host is not 0 to 65535: -1"] * 3,
        "the port of store_host is not 0 to 65535: 65536", "the port of store_host is not 0 to 65535: -1",
        None,
    ]  # fmt: skip


def test_a_check_passes_halves_with_it_as_a_broker_does(tmp_path: Path) -> None:
    with transactions(tmp_path / "s") as made:
        half = made.service.prepare(made.message("A"), "PG")
        found = made.store.lookup(half.log_offset)
        assert found is not None
        made.store.put_replayed(replace(found.as_put(), born_host=BEYOND), waits=False)
        made.service.prepare(made.message("B"), "PG")
        assert [one.properties["UNIQ_KEY"] for one in made.check(10_000_000).checked] == ["A", "B"]
