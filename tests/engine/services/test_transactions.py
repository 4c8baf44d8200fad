"""transaction show: the verdict on every transaction, of real brokers' stores and of each verdict's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.services import transactions as reviews
from store.engine.services.transactions import CHECK_GROUP, TransactionQueues
from store.formats.topics import HALF_TOPIC, OP_TOPIC
from tests.cli.running import rmqctl
from tests.engine.services.stores import DISCARD_TOPIC, NAMES, Builder, build, show, unpack
from tests.support.stores import overwrite

STATES = {"committed": "committed", "rolledback": "rolled-back", "indoubt": "in-doubt"}


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_on_every_transaction_is_the_one_its_writer_knows(name: str, tmp_path: Path) -> None:
    root, expected = unpack(name, tmp_path)
    found = {one["uniq_key"]: one for one in show(root, "transaction", "show")["transactions"]}
    assert len(found) == len(expected["transactions"])
    for one in expected["transactions"]:
        row = found[one["uniqKey"]]
        assert row["state"] == STATES[one["state"]]
        assert (row["topic"], row["queue_id"]) == (one["realTopic"], one["realQueueId"])
        assert row["producer_group"] == one["producerGroup"]
        assert row["committed_log_offset"] == one["committedOffset"]
        assert row["halves"] == [
            {
                "queue_offset": half["queueOffset"],
                "log_offset": half["commitLogOffset"],
                "check_times": None if half["checkTimes"] is None else int(half["checkTimes"]),
                "has_op": half["hasOp"],
            }
            for half in one["halves"]
        ]


Steps = Callable[[Builder], Any]


def checked(half: int = 0, op: int = 0) -> dict[str, Any]:
    table = {
        "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": half},
        "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": op},
    }
    return {"consumerOffset.json": {"offsetTable": table}}


def half(builder: Builder) -> None:
    builder.half("A")


def committed(builder: Builder) -> None:
    builder.commit("A", builder.half("A"))
    builder.end("0")


def committed_without_op(builder: Builder) -> None:
    builder.commit("A", builder.half("A"))


def committed_twice(builder: Builder) -> None:
    place = builder.half("A")
    builder.commit("A", place)
    builder.commit("A", place)
    builder.end("0,0,")


def committed_by_its_copy(builder: Builder) -> None:
    builder.half("A")
    builder.commit("A", builder.half("A", TRANSACTION_CHECK_TIMES="1"))
    builder.end("1")


def committed_with_delay(builder: Builder) -> None:
    builder.put(
        "SCHEDULE_TOPIC_XXXX",
        {"UNIQ_KEY": "A", "REAL_TOPIC": "Pay", "REAL_QID": "1"},
        sys_flag=0x8,
        prepared_transaction_offset=builder.half("A"),
    )
    builder.end("0")


def rolled_back(builder: Builder) -> None:
    builder.half("A")
    builder.end("0")


def rolled_back_5(builder: Builder) -> None:
    builder.half("A")
    builder.end("7,0,")


def discarded(builder: Builder) -> None:
    builder.half("A")
    builder.discard("A")


def ended_by_another_number(builder: Builder) -> None:
    builder.half("A")
    builder.end("1")


def nameless(builder: Builder, topic: str = HALF_TOPIC, **properties: str) -> None:
    builder.put(topic, {"REAL_TOPIC": "Pay", "REAL_QID": "1", "PGROUP": "PG", **properties})


def put_back_without_key(builder: Builder) -> None:
    nameless(builder)
    nameless(builder, TRANSACTION_CHECK_TIMES="1")


def discarded_without_key(builder: Builder) -> None:
    nameless(builder)
    nameless(builder, DISCARD_TOPIC)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("steps", "checked_to", "state", "warning"),
    [
        (half, 0, "in-doubt", None),
        (half, None, "in-doubt", None),
        (half, 1, "inconsistent", "op records are lost"),
        (committed, 0, "committed", None),
        (committed, 1, "committed", None),
        (committed_without_op, 0, "committed", "will be checked again"),
        (committed_twice, 1, "committed", "committed 2 times"),
        (committed_by_its_copy, 0, "committed", None),
        (committed_with_delay, 0, "committed", None),
        (rolled_back, 0, "rolled-back", None),
        (rolled_back_5, 0, "rolled-back", None),
        (discarded, 1, "discarded", None),
        (ended_by_another_number, 0, "in-doubt", None),
        (put_back_without_key, 1, "in-doubt", None),
        (discarded_without_key, 1, "discarded", None),
    ],
)
def test_the_verdict_on_one_transaction(
    steps: Steps, checked_to: int | None, state: str, warning: str | None, tmp_path: Path
) -> None:
    root = build(tmp_path / "store", steps, {} if checked_to is None else checked(checked_to))
    # The two are of broken stores: their op queue and the offsets of config/ warn by themselves.
    is_wrong = warning is not None or steps in (rolled_back_5, ended_by_another_number)
    (transaction,) = show(root, "transaction", "show", code=int(is_wrong))["transactions"]
    assert transaction["state"] == state
    assert bool(transaction["warnings"]) == (warning is not None)
    assert warning is None or warning in transaction["warnings"][0]


def test_a_message_that_was_committed_twice_is_at_its_first_place(tmp_path: Path) -> None:
    places = []
    for name, steps, code in (("once", committed, 0), ("twice", committed_twice, 1)):
        root = build(tmp_path / name, steps, checked(1))
        (transaction,) = show(root, "transaction", "show", code=code)["transactions"]
        places.append(transaction["committed_log_offset"])
    assert places[0] == places[1] > 0


@pytest.mark.parametrize(
    ("steps", "warning"),
    [
        (lambda builder: builder.end("5"), "names half 5, the half queue ends at 0"),
        (lambda builder: builder.end("0"), "names half 0, the half queue ends at 0"),
        (lambda builder: builder.end("x"), "names 'x', which is no queue offset"),
        (lambda builder: builder.end("-1"), "names '-1', which is no queue offset"),
        (lambda builder: builder.end("x" * 41), f"names '{'x' * 40}', which is no queue offset"),
        (lambda builder: builder.end("", tag="e"), "has the tag e, not d"),
    ],
)
def test_a_wrong_op_record_is_said_and_is_a_finding(steps: Steps, warning: str, tmp_path: Path) -> None:
    run = rmqctl("transaction", "show", store=build(tmp_path / "store", steps))
    assert run.code == 1
    assert warning in run.err


def test_queues_that_no_message_came_to_end_at_0(tmp_path: Path) -> None:
    found = show(build(tmp_path / "store", lambda builder: builder.delay("A") and None), "transaction", "show")
    assert found["half_and_op_queues"] == {
        "half_offset": None, "half_min_offset": 0, "half_max_offset": 0,
        "op_offset": None, "op_min_offset": 0, "op_max_offset": 0,
    }  # fmt: skip
    assert (found["half_backlog"], found["op_backlog"]) == (0, 0)


def test_the_backlog_of_both_queues_is_told(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        for number in range(5):
            builder.half(f"K{number}")
            builder.end(str(number))

    found = show(build(tmp_path / "store", steps, checked(half=2, op=1)), "transaction", "show")
    assert (found["half_backlog"], found["op_backlog"]) == (3, 4)


def test_group_age_and_state_choose_transactions(tmp_path: Path) -> None:
    def steps(builder: Builder) -> None:
        builder.half("A")
        builder.half("B", PGROUP="Other")
        builder.end("1")

    root = build(tmp_path / "store", steps)

    def keys(*words: object) -> list[str]:
        return [one["uniq_key"] for one in show(root, "transaction", "show", *words)["transactions"]]

    assert keys("--group", "Other") == ["B"]
    assert keys("--state", "in-doubt") == ["A"]
    assert keys("--older-than", "1d") == ["A", "B"]
    assert keys("--older-than", "10000d") == []
    places = [(one["committed_log_offset"], one["discarded_log_offset"])
              for one in show(root, "transaction", "show")["transactions"]]  # fmt: skip
    assert places == [(None, None), (None, None)]
    assert rmqctl("transaction", "show", "--older-than", "soon", store=root).code == 2


def test_offsets_that_a_broker_would_not_load_are_said(tmp_path: Path) -> None:
    closed, _ = unpack("services", tmp_path)
    (closed / "config" / "consumerOffset.json").write_text("{")
    assert "consumerOffset.json is damaged" in rmqctl("transaction", "show", store=closed).err


def record(log_offset: int, body: bytes = b"", tags: str | None = "d", checks: str | None = None) -> Any:
    """A record as the verdicts read it."""
    checked = {"TRANSACTION_CHECK_TIMES": checks} if checks is not None else {}
    real = {"REAL_TOPIC": "Pay", "REAL_QID": "2", "PGROUP": "PG"}
    return SimpleNamespace(
        log_offset=log_offset, body=body, tags=tags, uniq_key="U", born_timestamp_ms=9, properties={**real, **checked}
    )


def test_the_queues_of_halves_and_ops_have_their_ends_and_what_the_check_saved() -> None:
    queues = {
        (HALF_TOPIC, 0): SimpleNamespace(min_offset=2, max_offset=6),
        (OP_TOPIC, 0): SimpleNamespace(min_offset=3, max_offset=9),
    }
    opened: Any = SimpleNamespace(queues=SimpleNamespace(find=lambda *key: queues.get(key)))
    saved = {(HALF_TOPIC, CHECK_GROUP): {0: 4, 1: 40}, (OP_TOPIC, CHECK_GROUP): {0: 5, 1: 50}}
    assert reviews._queues(opened, saved) == TransactionQueues(4, 2, 6, 5, 3, 9)
    queues.clear()
    assert reviews._queues(opened, {}) == TransactionQueues(None, 0, 0, None, 0, 0)


def test_each_fault_of_an_op_record_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [record(0, b"0,5,"), None, record(0, b"1", "x"), record(0, b"-1,y,6,7"), record(0, b"", None)]
    find = lambda *key: {(OP_TOPIC, 0): "queue"}.get(key)  # noqa: E731
    opened: Any = SimpleNamespace(queues=SimpleNamespace(find=find), log="log")
    rows = [(30 + number, None, one) for number, one in enumerate(ops)]
    monkeypatch.setattr(reviews, "queue_records", lambda log, queue: {("log", "queue"): rows}[log, queue])
    past = "the half queue ends at 6: the half log was cut"
    assert reviews._read_ops(opened, TransactionQueues(None, 0, 6, None, 0, 9)) == (
        {0, 1, 5, 6, 7},
        [
            "op record 31 cannot be read",
            "op record 32 has the tag x, not d",
            "op record 33 names '-1', which is no queue offset",
            "op record 33 names 'y', which is no queue offset",
            f"op record 33 names half 6, {past}",
            f"op record 33 names half 7, {past}",
            "op record 34 has the tag None, not d",
        ],
    )


AGAIN = "committed, but no op record says so: the half will be checked again"
PASSED = "the check has passed the half message, and no record shows its end: op records are lost, or H was moved"


@pytest.mark.parametrize(
    ("ops", "commits", "discarded", "state", "places", "warnings"),
    [
        ({4}, {100: [310], 200: [300]}, None, "committed", (300, -1),
         ["committed 2 times, at the log offsets 300, 310"]),
        ({3}, {200: [300]}, 900, "committed", (300, 900), []),
        (set(), {100: [0]}, None, "committed", (0, -1), [AGAIN]),
        ({4}, {}, 900, "rolled-back", (-1, 900), []),
        (set(), {999: [300]}, 0, "discarded", (-1, 0), []),
        (set(), {}, None, "in-doubt", (-1, -1), []),
    ],
)  # fmt: skip
def test_the_verdict_follows_commits_ops_and_what_was_given_up(
    ops: set[int],
    commits: dict[int, list[int]],
    discarded: int | None,
    state: str,
    places: tuple[int, int],
    warnings: list[str],
) -> None:
    copy = record(200, checks="2")
    copy.born_timestamp_ms, copy.properties["REAL_TOPIC"] = 10, "Copy"
    halves = [(3, record(100)), (4, copy)]
    found = reviews._judge(
        halves,
        ops,
        {half: [record(one) for one in made] for half, made in commits.items()},
        record(discarded) if discarded is not None else None,
        TransactionQueues(4, 0, 6, None, 0, 0),
    )
    assert (found.state.value, found.committed_log_offset, found.discarded_log_offset) == (state, *places)
    assert found.warnings == warnings
    assert (found.topic, found.queue_id, found.producer_group, found.born_timestamp_ms) == ("Pay", "2", "PG", 9)
    assert [(one.queue_offset, one.log_offset, one.check_times, one.has_op) for one in found.halves] == [
        (3, 100, None, 3 in ops), (4, 200, 2, 4 in ops),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("checked_to", "state", "warnings"),
    [(4, "in-doubt", []), (5, "inconsistent", [PASSED]), (3, "in-doubt", [])],
)
def test_a_half_that_the_check_has_passed_without_an_end_is_inconsistent(
    checked_to: int, state: str, warnings: list[str]
) -> None:
    halves = [(3, record(100)), (4, record(200))]
    found = reviews._judge(halves, set(), {}, None, TransactionQueues(checked_to, 0, 6, None, 0, 0))
    assert (found.state.value, found.warnings) == (state, warnings)


def placeholders_of_salvage(builder: Builder) -> None:
    lost = {"RMQCTL_LOST": "true"}
    builder.put(HALF_TOPIC, lost, b"\0")
    builder.put(OP_TOPIC, {"TAGS": "d", **lost}, b"\0")
    builder.half("A")
    builder.end("1")


def test_a_placeholder_of_a_salvage_is_no_transaction_and_ends_none(tmp_path: Path) -> None:
    root = build(tmp_path / "store", placeholders_of_salvage, checked(half=2, op=2))
    answer = show(root, "transaction", "show")
    assert [(one["uniq_key"], one["state"]) for one in answer["transactions"]] == [("A", "rolled-back")]
    assert answer["warnings"] == []


@pytest.mark.leaves_damage
def test_a_salvage_leaves_no_half_message_inconsistent(tmp_path: Path) -> None:
    root, _ = unpack("services", tmp_path)
    rows = show(root, "transaction", "show")["transactions"]
    lost = next(one for one in rows if len(one["halves"]) == 1)
    at = lost["halves"][0]["log_offset"]
    overwrite(root / "commitlog" / f"{0:020d}", at + 4, b"\1\1\1\1")
    assert rmqctl("salvage", "--to", tmp_path / "new", store=root).code == 1
    found = rmqctl("--format", "json", "transaction", "show", store=tmp_path / "new").json
    assert (found["counts"]["inconsistent"], found["warnings"]) == (0, [])
    left = [one["uniq_key"] for one in rows if one is not lost]
    assert [one["uniq_key"] for one in found["transactions"]] == left
