"""A served store through its control socket: the same answers as in its own process, and its errors."""

from __future__ import annotations

import contextlib
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from store import BadRequest, Message, ServedStore, StoreClosed, open_store
from store.engine.ha import Limits
from store.engine.serving import ControlServer, StoreClient
from store.engine.serving.frames import SIZES, Frame, receive_frame, send_frame
from store.engine.serving.place import connect_to, listen_at, socket_path
from store.files import Filesystem
from store.formats.host import Host
from store.reading.filter import TagExpression, compile_sql
from store.structures.commitlog.put_result import PutStatus
from tests.support.stores import SMALL, text_message
from tests.support.threads import PATIENCE_S, end_threads, eventually, run_in_threads

WAIT_MS = 1000 * 2 * PATIENCE_S
"""What ends only then has waited for nothing."""
ALL = ("schedule", "transactions", "cleaning", "statistics")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@contextlib.contextmanager
def serving(root: Path, limits: Limits | None = None, **options: object) -> Iterator[tuple[ServedStore, ControlServer]]:
    opened = open_store(root, read_only=False, services=ALL, **{"settings": SMALL, **options})
    try:
        with ControlServer(opened, limits) as server:
            yield opened, server
    finally:
        opened.close()


@pytest.fixture
def served(root: Path) -> Iterator[ServedStore]:
    with serving(root) as (opened, _):
        yield opened


@pytest.fixture
def client(served: ServedStore) -> Iterator[StoreClient]:
    with StoreClient.connect(served.layout.root) as one:
        yield one


def test_a_client_learns_the_services_in_order(client: StoreClient) -> None:
    assert client.services == sorted(ALL)


def test_a_message_arrives_with_all_its_fields(served: ServedStore, client: StoreClient) -> None:
    message = Message(
        "Тема", b"\x00\xff body", 3, b"KEYS\x01a b\x02", 7, 1 << 5, 123456789, Host.parse("[::1]:80"),
        Host.parse("10.0.0.1:10911"), 4, 99,
    )  # fmt: skip
    answer = client.put(message)
    assert answer.is_ok
    stored = served.lookup(answer.log_offset)
    assert stored is not None
    assert (stored.topic, stored.body, stored.queue_id, stored.property_text) == (
        message.topic, message.body, 3, message.properties,
    )  # fmt: skip
    assert (stored.flag, stored.born_timestamp_ms, stored.born_host, stored.store_host) == (
        7, 123456789, message.born_host, message.store_host,
    )  # fmt: skip
    assert (stored.reconsume_times, stored.prepared_transaction_offset) == (4, 99)
    assert answer.msg_id == stored.msg_id


def test_many_messages_get_a_result_each(served: ServedStore, client: StoreClient) -> None:
    too_large = Message("T", b"x" * 20_000)
    results = client.put_all([text_message(0), too_large, text_message(1, queue_id=2)])
    assert [one.status for one in results] == [PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.PUT_OK]
    assert results[1].reason
    assert [one.queue_offset for one in results] == [0, -1, 0]
    served.catch_up()
    assert served.max_offset("T", 2) == 1


def test_gets_answer_as_in_the_owners_process(served: ServedStore, client: StoreClient) -> None:
    for number in range(100):
        served.put(text_message(number))
    served.catch_up()
    for offset, count, chosen in [
        (0, 32, None), (99, 5, None), (100, 1, None), (500, 1, None), (0, 9, TagExpression("tag1 || tag2")),
        (0, 9, compile_sql("TAGS = 'tag0'")),
    ]:  # fmt: skip
        here = served.get("T", 0, offset, count, chosen)
        there = client.get("T", 0, offset, count, chosen)
        assert (there.status, there.next_offset, there.messages) == (here.status, here.next_offset, here.messages)
        assert (there.min_offset, there.max_offset, there.size) == (here.min_offset, here.max_offset, here.size)
    assert [one.queue_offset for one in client.messages("T", 0, start=40)] == list(range(40, 100))
    assert client.query("T", "k7").messages == served.query("T", "k7").messages
    assert client.lookup(0) == served.lookup(0)
    assert client.lookup(1 << 40) is None
    assert (client.topics(), client.queue_ids("T"), client.max_offset("T", 0)) == (["T"], [0], 100)
    assert client.offset_by_time("T", 0, 0) == served.offset_by_time("T", 0, 0)


def test_a_topic_without_queues_is_refused_as_in_the_owners_process(served: ServedStore, client: StoreClient) -> None:
    errors = []
    for store in (served, client):
        with pytest.raises(BadRequest) as caught:
            store.messages("None", 0)
        errors.append((str(caught.value), caught.value.code))
    assert errors == [("no topic is called 'None'; topics() lists those that have queues", "unknown-topic")] * 2


def test_a_group_that_gets_is_counted(client: StoreClient) -> None:
    client.put(text_message(1))
    assert client.wait_for_message("T", 0, 0, WAIT_MS)
    client.get("T", 0, 0, group="G")
    stats = client.stats()
    assert ["GROUP_GET_NUMS", "T@G", 1] in [row[:3] for row in stats["items"]]
    assert stats["runtime"]["putMessageTimesTotal"] == "1"
    assert (stats["flags"], stats["findings"]) == ([], [])


def test_a_wait_ends_with_the_message_or_with_its_time(served: ServedStore, client: StoreClient) -> None:
    assert client.wait_for_message("T", 0, 0, 20) is False
    timer = threading.Timer(0.05, lambda: served.put(text_message(1)))
    timer.start()
    began = time.monotonic()
    assert client.wait_for_message("T", 0, 0, WAIT_MS) is True
    assert time.monotonic() - began < PATIENCE_S
    timer.join()


def test_a_flush_makes_everything_durable(served: ServedStore, client: StoreClient) -> None:
    client.put(text_message(1))
    assert client.flush() == served.max_log_offset == served.opened.log.segments.flushed_where


def test_a_flush_waits_for_lent_buffers(root: Path) -> None:
    settings = {**SMALL, "transientStorePoolEnable": True, "commitIntervalCommitLog": 60_000}
    with serving(root, settings=settings), StoreClient.connect(root) as client:
        size = client.put(text_message(1)).size
        assert client.flush() == size


def test_an_error_of_the_owner_is_raised_here(client: StoreClient) -> None:
    with pytest.raises(BadRequest, match="max_count is less than 1: 0"):
        client._call({"call": "get", "topic": "T", "queue_id": 0, "offset": 0, "max_count": 0})
    with pytest.raises(BadRequest, match="no call 'nonsense'"):
        client._call({"call": "nonsense"})
    with pytest.raises(BadRequest, match="wrong arguments"):
        client._call({"call": "get", "topic": "T"})
    assert client.put(text_message(1)).is_ok


def test_only_the_owners_user_may_connect(served: ServedStore) -> None:
    mode = socket_path(served.layout.root).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_store_with_a_long_path_can_be_served(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6) / "store"
    with serving(root), StoreClient.connect(root) as client:
        assert client.put(text_message(1)).is_ok


def test_without_an_owner_there_is_no_connection(root: Path) -> None:
    with serving(root):
        pass
    assert not socket_path(root).exists()
    assert StoreClient.find(root) is None
    with pytest.raises(BadRequest, match="no process serves this store"):
        StoreClient.connect(root)


def test_a_socket_that_a_killed_owner_left_is_replaced(root: Path) -> None:
    with serving(root):
        pass
    with contextlib.chdir(socket_path(root).parent), socket.socket(socket.AF_UNIX) as left:
        # A socket's path holds 107 bytes.
        left.bind(socket_path(root).name)
    assert StoreClient.find(root) is None
    with serving(root), StoreClient.connect(root) as client:
        assert client.put(text_message(1)).is_ok


@pytest.mark.parametrize(
    ("hellos", "reason"),
    [
        ((7, 7), None),
        ((7, 8), "another process serves the store"),
        ((7, None), "another process serves the store"),
        ((7,), "the connection was closed"),
    ],
)
def test_a_connection_that_its_owner_ended_is_made_again_to_the_same_process_alone(
    hellos: tuple[int | None, ...], reason: str | None, root: Path
) -> None:
    """An owner that answers each connection's hello with a process id, or ends it without, and then one call."""
    listener = listen_at(socket_path(root), Filesystem())

    def serve() -> None:
        for number, process_id in enumerate(hellos):
            connection, _ = listener.accept()
            with connection:
                receive_frame(connection)
                if process_id is None:
                    break
                hello = {"process_id": process_id, "line": "4.9", "services": [], "delay_level_count": 18}
                send_frame(connection, Frame(hello))
                if number and receive_frame(connection) is not None:
                    send_frame(connection, Frame({"max_offset": 3}))
        listener.close()

    owner = threading.Thread(target=serve, daemon=True)
    owner.start()
    client = StoreClient.connect(root)
    if len(hellos) == 1:
        owner.join(PATIENCE_S)
    assert client._connection.recv(1, socket.MSG_PEEK) == b""
    if reason is None:
        assert client.max_offset("T", 0) == 3
    else:
        with pytest.raises(StoreClosed, match=reason):
            client.max_offset("T", 0)
    client.close()
    owner.join(PATIENCE_S)


def test_stop_ends_the_serving_and_says_when_the_store_is_closed(root: Path) -> None:
    opened = open_store(root, read_only=False, services=ALL, settings=SMALL)
    server = ControlServer(opened)
    server.start()

    def own() -> None:
        server.stop_asked.wait(PATIENCE_S)
        server.stop()
        opened.close()

    owner = threading.Thread(target=own, daemon=True)
    owner.start()
    with StoreClient.connect(root) as client:
        client.put(text_message(1))
        assert client.stop(PATIENCE_S) is True
        with pytest.raises(StoreClosed, match="does not answer"):
            client.put(text_message(2))
    end_threads(owner)
    assert not (root / "abort").exists()


def test_the_end_of_the_serving_releases_held_gets_and_idle_clients(root: Path) -> None:
    answers: list[object] = []

    def wait() -> None:
        with StoreClient.connect(root) as client, contextlib.suppress(StoreClosed):
            answers.append(client.wait_for_message("T", 0, 0, WAIT_MS))

    with serving(root) as (opened, server):
        idle = StoreClient.connect(root)
        held = threading.Thread(target=wait, daemon=True)
        held.start()
        assert eventually(lambda: opened.held_count == 1)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < PATIENCE_S
        end_threads(held)
    assert answers == [False]
    with pytest.raises(StoreClosed):
        idle.topics()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">II", 1 << 31, 0),
        struct.pack(">II", 4, 1 << 31) + b"{}  ",
        struct.pack(">II", 10, 0) + b"{}",
    ],
)
def test_what_is_no_frame_ends_the_connection_and_nothing_else(served: ServedStore, sent: bytes) -> None:
    hostile = connect_to(socket_path(served.layout.root))
    assert hostile is not None
    with hostile, contextlib.suppress(ConnectionResetError):
        hostile.settimeout(PATIENCE_S)
        hostile.sendall(sent)
        hostile.shutdown(socket.SHUT_WR)
        assert hostile.recv(1) == b""
    with StoreClient.connect(served.layout.root) as client:
        assert client.put(text_message(1)).is_ok


def test_a_frame_goes_through_a_socket_unchanged() -> None:
    one, other = socket.socketpair()
    frame = Frame({"call": "put", "n": 1 << 62, "text": "é\u2028\x00"}, bytes(range(256)) * 5000)
    sender = threading.Thread(target=send_frame, args=(one, frame))
    sender.start()
    assert receive_frame(other) == frame
    sender.join()
    one.close()
    assert receive_frame(other) is None
    other.close()


def test_eight_writers_and_four_readers_see_every_message_once(root: Path) -> None:
    settings = {**SMALL, "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 6000}
    with serving(root, settings=settings):
        seen: dict[int, list[bytes]] = {}

        def write(queue_id: int) -> None:
            with StoreClient.connect(root) as client:
                for number in range(50):
                    assert client.put(text_message(number, queue_id=queue_id)).queue_offset == number

        def read(queue_id: int) -> None:
            with StoreClient.connect(root) as client:
                # Before its first message the topic is unknown.
                assert client.wait_for_message("T", queue_id, 0, WAIT_MS)
                reader, bodies = client.messages("T", queue_id, start=0), []
                while len(bodies) < 50 and client.wait_for_message("T", queue_id, reader.next_offset, WAIT_MS):
                    bodies += [one.body for one in reader]
                seen[queue_id] = bodies

        run_in_threads(*(partial(write, n) for n in range(8)), *(partial(read, n) for n in range(4)))
        assert seen == {n: [text_message(number).body for number in range(50)] for n in range(4)}


# Transactions and filters.


def test_a_half_that_another_process_puts_is_committed_or_rolled_back_by_it(
    served: ServedStore, client: StoreClient
) -> None:
    first, second = (client.transactions.prepare(text_message(n), "payers") for n in range(2))
    assert (first.is_ok, first.queue_offset, second.queue_offset) == (True, 0, 1)
    committed = client.transactions.commit(first.log_offset, "payers")
    client.transactions.rollback(second.log_offset, "payers")
    served.catch_up()
    (message,) = served.messages("T", 0)
    assert (message.log_offset, message.prepared_transaction_offset) == (committed.log_offset, first.log_offset)
    assert [op.body for op in served.messages("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)] == [b"0", b"1"]


def test_a_half_of_another_group_is_not_ended(client: StoreClient) -> None:
    half = client.transactions.prepare(text_message(1), "payers")
    with pytest.raises(BadRequest, match="the half is of the producer group payers, not thieves"):
        client.transactions.commit(half.log_offset, "thieves")


def test_a_filter_that_another_process_registers_is_in_the_file_at_once(
    served: ServedStore, client: StoreClient
) -> None:
    path = served.layout.root / "config" / "consumerFilter.json"
    assert client.filters.register("G", "T", "a > 5", 7) is True
    assert '"expression":"a > 5"' in path.read_text()
    assert client.filters.register("G", "T", "a > 6", 6) is False
    client.filters.unregister("G")
    assert '"dead":true' in path.read_text()
    with pytest.raises(BadRequest, match="ends too early"):
        client.filters.register("G", "T", "a >")


# Connections.


def test_a_client_that_was_quiet_for_too_long_connects_again(root: Path) -> None:
    with serving(root) as (_, server), StoreClient.connect(root) as client:
        (peer,) = server._listener._peers
        peer.end("quiet")
        assert eventually(lambda: server.connection_count == 0)
        assert [client.put(text_message(n)).queue_offset for n in range(2)] == [0, 1]


def test_a_frame_that_trickles_in_ends_its_connection(root: Path) -> None:
    with serving(root, limits=Limits(idle_s=0.4)) as (opened, server):
        hostile = connect_to(socket_path(root))
        assert hostile is not None

        def is_ended() -> bool:
            with contextlib.suppress(OSError):
                hostile.send(b" ")
            return server.connection_count == 0

        with hostile:
            hostile.send(SIZES.pack(1 << 16, 0))
            assert eventually(lambda: server.connection_count == 1)
            assert eventually(is_ended)
        assert opened.listeners[0].state().ended == {"idle": 1}


def test_a_client_is_told_that_the_owner_works_for_others(root: Path) -> None:
    with serving(root, limits=Limits(2)) as (opened, _):
        clients = [StoreClient.connect(root) for _ in range(2)]
        waits = [partial(client.wait_for_message, "T", 0, 0, WAIT_MS) for client in clients]
        threads = [threading.Thread(target=wait, daemon=True) for wait in waits]
        for thread in threads:
            thread.start()
        assert eventually(lambda: opened.held_count == 2)
        with pytest.raises(StoreClosed, match="works for as many others as it may"):
            StoreClient.connect(root)
        opened.put(text_message(1))
        end_threads(*threads)
        with StoreClient.connect(root) as again:
            assert again.topics() == ["T"]
