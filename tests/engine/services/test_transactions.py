"""transaction show: the verdict on every transaction, of real brokers' stores and of each verdict's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.formats.topics import HALF_TOPIC
from tests.cli.running import rmqctl
from tests.engine.services.stores import DISCARD_TOPIC, NAMES, Builder, build, show, unpack

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
