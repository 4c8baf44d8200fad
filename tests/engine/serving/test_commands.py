"""serve, stats, flush and stop, and the commands that ask a served store, as processes beside each other."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmqctl.commands import serve, transaction
from rmqctl.given_store import GivenStore
from store import Message, WritableStore, open_store
from store.engine.live.running_flags import RunningFlag
from store.engine.serving import ControlServer, StoreClient
from store.formats import OP_TOPIC
from store.kernels.native import clock_ms
from tests.cli.running import rmqctl
from tests.support.processes import REPOSITORY, command_line, next_line, running
from tests.support.slaves import Slave
from tests.support.stores import FOR_PROCESSES, SMALL, text_message
from tests.support.threads import PATIENCE_S, eventually

SETTINGS = [word for name, value in (SMALL | FOR_PROCESSES).items() for word in ("--set", f"{name}={value}")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@contextmanager
def serving(root: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with running([*command_line(root, "serve", "--ready", "--format", "plain", *SETTINGS, *words)]) as process:
        assert next_line(process) == "ready\n"
        yield process


@contextmanager
def served_here(root: Path) -> Iterator[WritableStore]:
    """In this process, so that a command line costs no start of another one."""
    with (
        open_store(root, read_only=False, services=["statistics", "transactions"], settings=SMALL) as store,
        ControlServer(store),
    ):
        yield store


def test_a_store_is_served_from_an_empty_folder_to_the_stop(root: Path) -> None:
    with serving(root) as process:
        put = rmqctl("put", "T", "hello", "--key", "k1", "--format", "json", store=root)
        assert (put.code, put.json["results"][0]["queue_offset"]) == (0, 0)
        assert f"process {process.pid} serves this store" in put.err
        assert (root / "abort").exists()
        stopped = rmqctl("stop", "--format", "json", store=root)
        assert (stopped.code, stopped.json) == (
            0, {"schema": "rmqctl.stop/1", "process_id": process.pid, "is_closed": True},
        )  # fmt: skip
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        assert process.stdout.readline() == "closed by rmqctl stop, 1 message taken, 0 gets answered\n"
    assert not (root / "abort").exists()
    assert not (root / ".rmqctl" / "control.sock").exists()


@pytest.mark.turns(3)
def test_the_program_of_the_library_page_puts_and_ends_a_transaction_at_a_served_store(root: Path) -> None:
    page = (REPOSITORY / "man/rmqctl-library.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n((?:(?!```).)*?StoreClient.*?)```", page, re.DOTALL)
    with serving(root) as process:
        exec(compile(program.replace("/tmp/store", str(root)), "rmqctl-library.md", "exec"), {})
        rows = [rmqctl("get", topic, "-f", "json", store=root).json["messages"] for topic in ("OrderTopic", "Payments")]
        assert [(row["body"], row["keys"], row["queue_offset"]) for found in rows for row in found] == [
            (b64encode(b"hello").decode(), ["order-4711"], 0), (b64encode(b"42").decode(), [], 0),
        ]  # fmt: skip
        assert rmqctl("stop", store=root).code == 0
        assert process.wait(PATIENCE_S) == 0
    shown = rmqctl("transaction", "show", "-f", "json", store=root)
    assert (shown.code, [(row["state"], row["producer_group"]) for row in shown.json["transactions"]]) == (
        0, [("committed", "payers")],
    )  # fmt: skip
    assert {name: count for name, count in shown.json["counts"].items() if count} == {"committed": 1}


def test_a_finding_reaches_the_log_when_it_comes_up_and_once_until_it_passes() -> None:
    rounds = iter([[], ["full"], ["full"], ["full", "failed"], [], ["full"], None])
    now: list[str] | None = []
    warned: list[tuple[str, ...]] = []

    def wait(_seconds: float) -> bool:
        nonlocal now
        now = next(rounds)
        warned.append(())
        return now is None

    def warn(text: str) -> None:
        warned[-1] += (text,)

    session = SimpleNamespace(
        interrupts=SimpleNamespace(allowed=contextlib.nullcontext), warn=warn, repeats_full_disk=lambda finding: False
    )
    session.store = GivenStore(session)
    opened = SimpleNamespace(opening_findings=["damage"], describe_findings=lambda: ["damage", *(now or [])])
    serve._serve(session, opened, SimpleNamespace(stop_asked=SimpleNamespace(wait=wait)), ready=False)
    assert warned == [(), ("full",), (), ("failed",), (), ("full",), ()]


@pytest.mark.turns(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_store_cleanly(number: signal.Signals, root: Path) -> None:
    with serving(root) as process, StoreClient.connect(root) as client:
        client.put_all([text_message(n) for n in range(200)])
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert not (root / "abort").exists()
    with open_store(root) as store:
        assert store.max_offset("T", 0) == 200


@pytest.mark.turns(3)
def test_a_killed_owner_leaves_a_store_that_recovers_with_every_message(root: Path) -> None:
    with serving(root) as process, StoreClient.connect(root) as client:
        client.put_all([text_message(n) for n in range(300)])
        process.kill()
        process.wait(PATIENCE_S)
    assert (root / "abort").exists()
    refused = rmqctl("put", "T", "x", store=root)
    assert refused.code == 4
    with serving(root, "--recover") as process, StoreClient.connect(root) as client:
        assert [one.body for one in client.messages("T", 0)] == [text_message(n).body for n in range(300)]
        assert client.put(text_message(300)).queue_offset == 300
        assert client.stop(PATIENCE_S)


def test_a_store_that_is_served_is_not_served_twice(root: Path) -> None:
    with served_here(root):
        again = rmqctl("serve", *SETTINGS, store=root)
        assert again.code == 3


def test_get_and_index_query_ask_the_owner(root: Path) -> None:
    with served_here(root) as store:
        with StoreClient.connect(root) as client:
            client.put_all([text_message(n) for n in range(5)])
        store.catch_up()
        got = rmqctl("get", "T", "--offset", "2", "--tags", "tag0 || tag1", "--format", "json", store=root)
        assert [one["queue_offset"] for one in got.json["messages"]] == [3, 4]
        assert "requests go through its control socket" in got.err
        found = rmqctl("index-query", "T", "k3", "--format", "json", store=root)
        assert [one["queue_offset"] for one in found.json["messages"]] == [3]
        one = rmqctl("get", "--log-offset", "0", "--format", "json", store=root)
        assert one.json["messages"][0]["queue_offset"] == 0
        raw = rmqctl("get", "T", "--max", "1", "--raw", store=root)
        assert len(raw.data) == one.json["messages"][0]["size"]


@pytest.mark.turns(3)
def test_put_from_a_file_goes_through_the_socket(root: Path, tmp_path: Path) -> None:
    lines = tmp_path / "messages.jsonl"
    lines.write_text("".join(json.dumps({"topic": "T", "body_text": f"b{n}"}) + "\n" for n in range(5000)))
    with served_here(root):
        done = rmqctl("put", "--from", lines, "--format", "json", store=root)
        assert (done.code, done.json["counts"]) == (0, {"PUT_OK": 5000})
        kept = rmqctl("put", "--from", lines, "--keep-times", "--as-stored", "--format", "json", store=root)
        assert (kept.code, kept.json["counts"]) == (0, {"PUT_OK": 5000})


def test_settings_of_a_put_are_refused_where_the_owner_has_its_own(root: Path) -> None:
    with served_here(root):
        refused = rmqctl("put", "T", "x", "--flush", "sync", store=root)
        assert refused.code == 2
        assert "rmqctl stop" in refused.err


def test_stats_show_the_counters_and_the_flags(root: Path) -> None:
    with (
        open_store(root, read_only=False, services=["statistics", "transactions"], settings=SMALL) as store,
        ControlServer(store),
    ):
        store.put(Message.of("T", "x"))
        shown = rmqctl("stats", "--format", "json", store=root)
        assert (shown.code, shown.json["flags"], shown.json["process_id"]) == (0, [], os.getpid())
        counters = {(one["set"], one["key"]): one["total"] for one in shown.json["counters"]}
        assert counters["TOPIC_PUT_NUMS", "T"] == 1
        assert rmqctl("stats", store=root).out.startswith(f"process {os.getpid()} has taken 1 message; no flag is set")
        store.flags.set(RunningFlag.DISK_FULL)
        full = rmqctl("stats", "--format", "json", store=root)
        assert (full.code, full.json["flags"]) == (1, ["DISK_FULL"])
        store.flags.clear(RunningFlag.DISK_FULL)


def test_stats_show_what_is_to_be_done_and_for_whom(root: Path) -> None:
    with served_here(root) as store:
        store.transactions.prepare(Message.of("Pay", "x", uniq_key="A"), "PG")
        shown = rmqctl("stats", "--format", "json", store=root).json
    names = ("push_to_slave_max_offset", "halves_in_doubt", "halves_given_up", "slaves", "delay_levels", "listeners")
    assert {name: shown[name] for name in names} == {
        "push_to_slave_max_offset": None,
        "halves_in_doubt": 1,
        "halves_given_up": 0,
        "slaves": [],
        "delay_levels": [],
        "listeners": [{"listener": "control socket", "open_connections": 1, "limit": 100, "ended": 0}],
    }


def test_stats_show_slaves_and_levels_by_rows(root: Path) -> None:
    options = {"services": ["schedule"], "settings": SMALL, "listen": "127.0.0.1:0"}
    with open_store(root, read_only=False, **options) as store, ControlServer(store):
        store.put(Message.of("T", "x", delay_level=18))
        store.catch_up()
        master = store._services.ha.master
        assert master is not None
        slave = Slave(master, 1)
        assert eventually(lambda: master.push_to_slave_max_offset == 1)
        shown = rmqctl("stats", "--format", "json", store=root).json
        address, end = master.slaves()[0].slave, store.max_log_offset
        del slave
    assert shown["slaves"] == [{"slave": address, "acknowledged_offset": 1, "behind_bytes": end - 1}]
    assert shown["delay_levels"] == [{"level": 18, "delay_ms": 7_200_000, "waiting": 1, "overdue": 0, "overdue_ms": 0}]


def test_serve_ends_with_0_where_halves_were_given_up(root: Path) -> None:
    rules = {"transactionCheckInterval": 100, "transactionTimeOut": 1, "transactionCheckMax": 1}
    words = [word for name, value in rules.items() for word in ("--set", f"{name}={value}")]
    with serving(root, *words) as process, StoreClient.connect(root) as client:
        client.transactions.prepare(Message.of("Pay", "x", uniq_key="A"), "PG")
        assert eventually(lambda: client.stats()["halves_given_up"] == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("command", ["stats", "flush", "stop"])
def test_without_an_owner_the_command_says_so(command: str, root: Path) -> None:
    with served_here(root):
        pass
    said = rmqctl(command, store=root)
    assert (said.code, said.out) == (2, "")
    assert "no process serves this store; `rmqctl serve` serves one" in said.err


def test_flush_says_what_is_durable(root: Path) -> None:
    with served_here(root):
        rmqctl("put", "T", "x", store=root)
        flushed = rmqctl("flush", "--format", "json", store=root)
        assert (flushed.code, flushed.json["log_end"] > 0) == (0, True)


def test_ports_are_on_the_loopback_unless_a_host_is_given(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(root, "--ha-listen", "0", "--metrics", "0", "--format", "json") as process:
        rmqctl("put", "T", "x", store=root)
        rmqctl("stop", store=root)
        out, _ = process.communicate(timeout=PATIENCE_S)
    facts = json.loads(out)
    assert facts["ha_address"].startswith("127.0.0.1:")
    assert facts["metrics_address"].startswith("127.0.0.1:")
    assert facts["services"] == ["cleaning", "schedule", "statistics", "transactions"]
    assert capfd.readouterr().err.splitlines()[:3] == [
        f"note: serving {root} with cleaning, schedule, statistics, transactions",
        f"note: slaves find the log at {facts['ha_address']}",
        f"note: metrics are at http://{facts['metrics_address']}/metrics",
    ]


@pytest.mark.parametrize(("option", "given"), [("--ha-listen", "foo"), ("--metrics", "99999"), ("--metrics", ":1")])
def test_a_wrong_port_is_said_before_a_store_is_made(option: str, given: str, root: Path) -> None:
    said = rmqctl("serve", option, given, store=root)
    assert (said.code, f"{given!r} is not [HOST:]PORT" in said.err, root.exists()) == (2, True, False)


def test_no_clean_leaves_the_cleaning_out(root: Path) -> None:
    with serving(root, "--no-clean"), StoreClient.connect(root) as client:
        assert client.services == ["schedule", "statistics", "transactions"]
        assert client.stop(PATIENCE_S)


@contextmanager
def following(root: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with running(command_line(root, "get", "T", "--follow", "--format", "jsonl", *words)) as process:
        yield process


def test_follow_of_a_served_store_is_woken_by_the_owner(root: Path) -> None:
    with served_here(root), StoreClient.connect(root) as client:
        client.put(text_message(0))
        with following(root) as process:
            assert json.loads(next_line(process))["queue_offset"] == 0
            for number in (1, 2, 3):
                # The follower waits by then; half a second of polling would show in the sum.
                time.sleep(0.2)
                began = time.monotonic()
                client.put(text_message(number))
                assert json.loads(next_line(process))["queue_offset"] == number
                assert time.monotonic() - began < PATIENCE_S


def test_follow_by_key_shows_the_messages_that_have_it(root: Path) -> None:
    with served_here(root), StoreClient.connect(root) as client, following(root, "--key", "k2") as process:
        for number in range(3):
            client.put(text_message(number))
        assert json.loads(next_line(process))["queue_offset"] == 2


def test_follow_goes_on_by_the_files_when_the_owner_has_ended(root: Path) -> None:
    with contextlib.ExitStack() as ended:
        with served_here(root) as store:
            store.put(text_message(0))
            store.catch_up()
            follower = ended.enter_context(following(root))
            assert json.loads(next_line(follower))["queue_offset"] == 0
        assert rmqctl("put", "T", "behind the owner's end", store=root).code == 0
        assert json.loads(next_line(follower))["queue_offset"] == 1


@pytest.mark.turns(3)
@pytest.mark.parametrize("has_watchfiles", [True, False])
def test_follow_beside_another_owner_watches_its_files(has_watchfiles: bool, root: Path, tmp_path: Path) -> None:
    words = command_line(root, "get", "T", "--follow", "--format", "jsonl")
    if not has_watchfiles:
        hidden = (
            "import sys; sys.modules['watchfiles'] = None; from rmqctl.app import main; sys.exit(main(sys.argv[1:]))"
        )
        words = [sys.executable, "-c", hidden, *words[3:]]
    with open_store(root, read_only=False, settings=SMALL) as store:
        store.put(text_message(0))
        store.catch_up()
        with running(words) as process:
            assert json.loads(next_line(process))["queue_offset"] == 0
            for number in range(1, 200):
                store.put(text_message(number))
            assert [json.loads(next_line(process))["queue_offset"] for _ in range(1, 200)] == list(range(1, 200))


# Transactions and filters.


def later() -> int:
    """A clock that is ahead of that of the command line in tests."""
    return clock_ms() + 200_000_000_000


@pytest.fixture
def halves(root: Path) -> Iterator[None]:
    """A served store with the halves U1 and U2 of the group payers."""
    with served_here(root):
        for key in ("U1", "U2"):
            assert rmqctl("put", "Pay", "42", "--uniq-key", key, "--half", "payers", store=root).code == 0
        yield


def states(root: Path) -> dict[str, str]:
    found = rmqctl("--format", "json", "transaction", "show", store=root).json["transactions"]
    return {one["uniq_key"]: one["state"] for one in found}


@pytest.mark.usefixtures("halves")
def test_the_process_that_serves_ends_transactions(root: Path) -> None:
    commit = rmqctl("--format", "json", "transaction", "resolve", "U1", "--commit", "--yes", store=root)
    assert (commit.code, [row["topic"] for row in commit.json["appended"]]) == (0, ["Pay", OP_TOPIC])
    rollback = rmqctl("--format", "json", "transaction", "resolve", "U2", "--rollback", "--yes", store=root)
    assert (rollback.code, [row["topic"] for row in rollback.json["appended"]]) == (0, [OP_TOPIC])
    with open_store(root) as store:
        (op,) = (store.lookup(row["log_offset"]) for row in rollback.json["appended"])
        assert op is not None
        assert op.body == b"1"
    assert states(root) == {"U1": "committed", "U2": "rolled-back"}
    again = rmqctl("transaction", "resolve", "U2", "--commit", "--yes", store=root)
    assert (again.code, "is rolled-back already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("interval_ms", "how", "topics"),
    [
        (100, "--commit", ["Pay", OP_TOPIC]),
        (100, "--rollback", [OP_TOPIC]),
        (600_000, "--commit", ["Pay"]),
        (600_000, "--rollback", []),
    ],
)
def test_an_op_record_that_a_5_x_store_gathers_is_waited_for(
    interval_ms: int, how: str, topics: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end is an answer to a check, which comes after the half's immunity too."""
    is_waited_for = OP_TOPIC in topics
    monkeypatch.setattr(transaction, "OP_WAIT_S", PATIENCE_S if is_waited_for else 0.1)
    settings = {**SMALL, "transactionOpBatchInterval": interval_ms, "transactionTimeOut": 0}
    half = (
        "put",
        "Pay",
        "42",
        "--uniq-key",
        "U1",
        "--half",
        "payers",
        "--property",
        "CHECK_IMMUNITY_TIME_IN_SECONDS=0",
    )
    with (
        open_store(
            root, read_only=False, services=["transactions"], settings=settings, compat="5.3", clock=later
        ) as store,
        ControlServer(store),
    ):
        assert rmqctl(*half, store=root).code == 0
        run = rmqctl("--format", "json", "transaction", "resolve", "U1", how, "--yes", store=root)
        assert (run.code, [row["topic"] for row in run.json["appended"]]) == (0, topics), run.err
        assert ("writes the op record later" in run.err) != is_waited_for


@pytest.mark.usefixtures("halves")
def test_a_dry_run_of_an_end_asks_the_process_for_nothing(root: Path) -> None:
    assert rmqctl("transaction", "resolve", "U1", "--commit", "--dry-run", store=root).code == 0
    assert states(root) == {"U1": "in-doubt", "U2": "in-doubt"}
    kept = rmqctl("transaction", "resolve", "U1", "--commit", "--yes", "--no-quarantine", store=root)
    assert (kept.code, "nothing is removed from a served store" in kept.err) == (2, True)


@pytest.mark.usefixtures("halves")
def test_transactions_of_an_unknown_group_and_a_wrong_age_are_said(root: Path) -> None:
    nobody = rmqctl("transaction", "show", "--group", "nobody", store=root)
    assert (nobody.code, "of the producer group 'nobody'; there are payers" in nobody.err) == (0, True)
    wrong = rmqctl("transaction", "show", "--older-than", "old", store=root)
    assert (wrong.code, "'old' is not an age; write 30s" in wrong.err) == (2, True)


def test_a_half_is_put_into_a_store_that_nobody_serves(root: Path) -> None:
    settings = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    put = rmqctl(*settings, "--format", "json", "put", "Pay", "42", "--uniq-key", "U1", "--half", "payers", store=root)
    assert (put.code, put.json["results"][0]["topic"]) == (0, "RMQ_SYS_TRANS_HALF_TOPIC")
    assert states(root) == {"U1": "in-doubt"}


@pytest.mark.parametrize(
    ("level", "queue_id", "err"),
    [
        (1, 0, ""),
        (18, 17, ""),
        (19, 17, "note: --delay-level 19 is above the greatest level of messageDelayLevel: 18 is used\n"),
    ],
)
@pytest.mark.parametrize("is_served", [True, False])
def test_a_delayed_message_is_put_where_it_waits(
    level: int, queue_id: int, err: str, is_served: bool, root: Path
) -> None:
    with served_here(root) if is_served else contextlib.nullcontext():
        put = rmqctl("--format", "json", "put", "T", "x", "--delay-level", str(level), store=root)
        (row,) = put.json["results"]
        assert (put.code, row["topic"], row["queue_id"]) == (0, "SCHEDULE_TOPIC_XXXX", queue_id)
        assert put.err.endswith(err)
        assert err or "delay" not in put.err


@pytest.mark.parametrize(
    "words", [("--half", ""), ("--half", "g", "--delay-level", "1"), ("--half", "g", "--from", "-")]
)
def test_a_half_is_one_message_of_a_producer_group(words: tuple[str, ...], root: Path) -> None:
    assert rmqctl("put", "Pay", "42", *words, store=root).code == 2
    assert not root.exists()


def test_a_group_gets_by_the_expression_that_was_registered(root: Path) -> None:
    with served_here(root):
        for amount in (3, 7):
            rmqctl("put", "Orders", str(amount), "--property", f"amount={amount}", store=root)
        taken = rmqctl("--format", "json", "filter", "register", "billing", "Orders", "amount > 5", store=root)
        assert (taken.code, taken.json["is_registered"]) == (0, True)
        found = rmqctl("--format", "json", "get", "Orders", "--group", "billing", "--body", "utf8", store=root)
        assert [one["body"] for one in found.json["messages"]] == ["7"]
        shown = rmqctl("--format", "json", "filter", "show", store=root).json["filters"]
        assert [(one["group"], one["expression"], one["is_dead"]) for one in shown] == [
            ("billing", "amount > 5", False)
        ]
        assert rmqctl("filter", "unregister", "billing", store=root).code == 0
        assert rmqctl("--format", "json", "filter", "show", store=root).json["filters"][0]["is_dead"] is True


def test_a_filter_needs_a_store_that_is_served(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL):
        pass
    assert rmqctl("filter", "register", "g", "T", "a > 5", store=root).code == 2
    assert rmqctl("--format", "json", "filter", "show", store=root).json["filters"] == []


def test_an_expression_that_does_not_compile_is_a_finding(root: Path) -> None:
    with open_store(root, read_only=False, settings=SMALL):
        pass
    (root / "config").mkdir()
    entry = '{"consumerGroup":"g","topic":"T","expression":"a >","expressionType":"SQL92","bornTime":5}'
    table = f'{{"filterDataByTopic":{{"T":{{"groupFilterData":{{"g":{entry}}},"topic":"T"}}}}}}'
    (root / "config" / "consumerFilter.json").write_text(table)
    shown = rmqctl("filter", "show", store=root)
    assert (shown.code, "does not compile" in shown.out) == (1, True)
