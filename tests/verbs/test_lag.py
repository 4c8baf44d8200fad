"""Consumer offsets held against their queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import open_store
from store.formats.queue_unit import BatchUnit
from store.verbs.lag import GroupLag, LagReport, QueueLag, review_lag
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.five_stores import five
from tests.support.golden import copy_store, golden
from tests.support.stores import SMALL, Clock, make_store, text_message
from tests.verbs.rebuild.stores import expired_store


def with_offsets(root: Path, offsets: dict[str, dict[int, int]], **config: object) -> LagReport:
    """The lag of a store whose consumerOffset.json holds these offsets."""
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    for name, value in config.items():
        (root / f"config/{name}.json").write_text(json.dumps(value))
    with open_store(root) as store:
        return review_lag(store)


@pytest.mark.parametrize(("beyond", "state", "lag"), [(-5, "behind", 5), (0, "ok", 0), (2, "beyond-max", -2)])
def test_an_offset_is_held_against_its_queue(copy_of: CopyOf, beyond: int, state: str, lag: int) -> None:
    _, root = copy_of("normal")
    with open_store(root) as store:
        top = store.max_offset("TopicA", 0)
    (row,) = with_offsets(root, {"TopicA@G": {0: top + beyond}}).queues
    assert (row.state, row.lag) == (state, lag)


def test_lag_is_counted_in_messages_bytes_and_time(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    with open_store(root) as store:
        top = store.max_offset("TopicA", 0)
        left = store.get("TopicA", 0, top - 3).messages
    (row,) = with_offsets(root, {"TopicA@G": {0: top - 3}}).queues
    assert (row.lag, row.lag_bytes) == (3, sum(message.size for message in left))
    assert row.first_unconsumed_ms == left[0].store_timestamp_ms
    assert row.lag_seconds == (left[-1].store_timestamp_ms - left[0].store_timestamp_ms) / 1000


def test_messages_deleted_before_they_were_consumed_are_counted(copy_of: CopyOf) -> None:
    _, root = copy_of("preblank")
    with open_store(root) as store:
        queue = next(one for one in store.queues() if one.min_offset)
    (row,) = with_offsets(root, {f"{queue.topic}@G": {queue.queue_id: 0}}).queues
    assert (row.state, row.deleted) == ("below-min", queue.min_offset)


@pytest.mark.parametrize(("consumed", "state"), [(-1, "no-queue"), (0, "ok"), (1, "no-queue"), (77, "no-queue")])
def test_a_queue_that_is_not_there_is_named_by_a_group_that_is_not_at_its_beginning(
    consumed: int, state: str, copy_of: CopyOf
) -> None:
    _, root = copy_of("normal")
    (row,) = with_offsets(root, {"%RETRY%G@G": {0: consumed}}).queues
    assert (row.state, row.consumed_offset, row.lag) == (state, consumed, 0)


def test_a_retry_topic_that_was_never_written_is_no_finding(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    with_offsets(root, {"%RETRY%G@G": {0: 0}})
    run = rmqctl("lag", store=root)
    assert (run.code, run.out.splitlines()[0]) == (0, "0 of 1 group behind; all offsets are in their queues")


@pytest.mark.parametrize(
    ("consumed", "state", "lag", "deleted"),
    [(0, "below-min", 0, 30), (29, "below-min", 0, 1), (30, "ok", 0, 0), (31, "beyond-max", -1, 0)],
)
def test_messages_of_a_queue_that_have_all_expired_are_counted(
    consumed: int, state: str, lag: int, deleted: int, tmp_path: Path
) -> None:
    root = expired_store(tmp_path / "store")
    with_offsets(root, {"Old@G": {0: consumed}})
    with open_store(root, compat="5.3", settings=SMALL) as store:
        (row,) = review_lag(store).queues
    assert (row.state, row.lag, row.deleted) == (state, lag, deleted)


def test_groups_without_an_offset_never_consumed(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    report = with_offsets(root, {"TopicA@G": {0: 1}}, subscriptionGroup={"subscriptionGroupTable": {"G": {}, "H": {}}})
    assert report.never_consumed == ["H"]


def test_a_store_without_groups_shows_people_no_zeros() -> None:
    store = golden("corrupt-mid").store
    run = rmqctl("--quiet", "lag", store=store)
    assert (run.code, run.out) == (0, "no consumer group has an offset\n\ngroups:\nno groups\n")
    facts = rmqctl("--quiet", "--format", "json", "lag", store=store).json
    assert (facts["group_count"], facts["lag_messages"], facts["groups"]) == (0, 0, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "Billin"], "no consumer group is called 'Billin'; did you mean 'Billing'?"),
        (["--topic", "topica"], "no topic is called 'topica'; did you mean 'TopicA'?"),
        (["--group", "zzz"], "no consumer group is called 'zzz'; known are Billing"),
    ],
)
def test_an_unknown_group_or_topic_is_a_finding(words: list[str], said: str, copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    with_offsets(root, {"TopicA@Billing": {0: 1}})
    run = rmqctl("lag", *words, store=root)
    assert (run.code, said in run.err) == (1, True)
    assert run.out.splitlines()[0] == said.split(";")[0]


def test_offsets_that_only_tmp_holds_are_shown_and_said_to_be_ignored_by_a_broker(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    (root / "config").mkdir()
    (root / "config/consumerOffset.json.tmp").write_text('{"offsetTable":{"TopicA@G":{0:1}}}')
    run = rmqctl("--format", "json", "lag", store=root)
    assert (run.json["offsets_file"], run.json["group_count"]) == ("consumerOffset.json.tmp", 1)
    assert "which it ignores" in run.err


def test_a_group_has_one_row_and_the_worst_comes_first(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    with open_store(root) as store:
        tops = {queue: store.max_offset("TopicA", queue) for queue in (0, 1)}
    report = with_offsets(
        root,
        {
            "TopicA@even": tops,
            "TopicA@little": {0: tops[0] - 1, 1: tops[1]},
            "TopicA@much": {0: tops[0] - 3, 1: tops[1] - 2},
            "TopicA@beyond": {0: tops[0] + 1, 1: tops[1] - 9},
            "TopicA@far": {0: tops[0] + 7},
            "Gone@gone": {0: 5},
        },
    )
    rows = [(one.group, one.state, one.lag, one.wrong_offset_count, one.queue_count) for one in report.by_group()]
    assert rows == [
        ("gone", "no-queue", 0, 1, 1),
        ("beyond", "beyond-max", 9, 1, 2),
        ("far", "beyond-max", 0, 1, 1),
        ("much", "behind", 5, 0, 2),
        ("little", "behind", 1, 0, 2),
        ("even", "ok", 0, 0, 2),
    ]
    queues = [(one.group, one.queue_id) for one in report.by_queue()]
    assert queues == [
        ("gone", 0),
        ("far", 0),
        ("beyond", 0),
        ("beyond", 1),
        ("much", 0),
        ("much", 1),
        ("little", 0),
        ("even", 0),
        ("even", 1),
        ("little", 1),
    ]
    much = next(one for one in report.by_group() if one.group == "much")
    of_much = [one for one in report.queues if one.group == "much"]
    assert (much.lag_bytes, much.lag_seconds) == (
        sum(one.lag_bytes for one in of_much),
        max(one.lag_seconds for one in of_much),
    )


def test_queues_are_listed_on_demand(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    with_offsets(root, {"TopicA@G": {0: 1, 1: 1}})
    by_group = [json.loads(line) for line in rmqctl("-f", "jsonl", "lag", store=root).out.splitlines()]
    by_queue = [json.loads(line) for line in rmqctl("-f", "jsonl", "lag", "--queues", store=root).out.splitlines()]
    assert [(row["group"], row["queue_count"]) for row in by_group] == [("G", 2)]
    assert [(row["group"], row["queue_id"]) for row in by_queue] == [("G", 1), ("G", 0)], "the worst first"


FIRST_MS = 1_700_000_001_000


@pytest.mark.parametrize("consumed", [0, 5, 19, 20, 39, 40, 49])
def test_a_row_sums_up_what_is_left_over_several_queue_files(consumed: int, tmp_path: Path) -> None:
    """50 messages one second apart, 20 entries a file."""
    root = make_store(tmp_path / "store", 50, queues=1)
    with open_store(root) as store:
        sizes = [store.get("T", 0, at).messages[0].size for at in range(50)]
    left = sum(sizes[consumed:])
    first_ms, seconds = FIRST_MS + 1000 * consumed, 49.0 - consumed
    report = with_offsets(root, {"T@G": {0: consumed}})
    assert report.queues == [
        QueueLag("G", "T", 0, consumed, 0, 50, "behind", 50 - consumed, left, seconds, 0, first_ms)
    ]
    assert report.by_group() == [GroupLag("G", "behind", 50 - consumed, left, seconds, 0, 0, 1, 1)]


@pytest.mark.parametrize("consumed", [0, 1, 7, 8, 14, 15, 168])
def test_the_bytes_of_a_batch_queue_are_those_of_records_with_a_message_left(consumed: int, tmp_path: Path) -> None:
    root = copy_store(five("bcq") / "store", tmp_path / "store")
    with open_store(root) as store:
        queue = store.opened.queues.find("BatchA", 0)
        assert queue is not None
        units: list[BatchUnit] = []
        while (end := units[-1].next_queue_offset if units else 0) < 169:
            units += queue.units_from(end) or ()
    (row,) = with_offsets(root, {"BatchA@G": {0: consumed}}).queues
    assert (row.state, row.lag) == ("behind", 169 - consumed)
    assert row.lag_bytes == sum(unit.size for unit in units if unit.next_queue_offset > consumed)


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("step_ms", "lag_seconds"), [(-1000, 0.0), (0, 0.0), (1000, 3.0)])
def test_a_clock_that_was_set_back_gives_no_negative_time(step_ms: int, lag_seconds: float, tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(4):
            store.put(text_message(number))
            clock.now_ms += step_ms
    (row,) = with_offsets(tmp_path / "store", {"T@G": {0: 0}}).queues
    assert (row.lag, row.lag_seconds) == (4, lag_seconds)


def test_a_group_sums_up_its_queues(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60, queues=3)
    report = with_offsets(root, {"T@G": {0: 19, 1: 15, 2: 21}, "Gone@G": {0: 3}})
    gone, first, second, beyond = report.queues
    assert gone == QueueLag("G", "Gone", 0, 3, 0, 0, "no-queue")
    assert beyond == QueueLag("G", "T", 2, 21, 0, 20, "beyond-max", -1)
    assert (first.lag_seconds, second.lag_seconds) == (0.0, 12.0)
    assert report.by_group() == [
        GroupLag("G", "no-queue", 6, first.lag_bytes + second.lag_bytes, 12.0, 0, 2, 2, 4),
    ]


def test_retry_and_dead_letter_topics_are_counted_and_all_names_are_told(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        for topic, count in (("%RETRY%G", 2), ("%DLQ%G", 3), ("T", 1)):
            for number in range(count):
                store.put(text_message(number, topic, queue_id=number % 2))
    report = with_offsets(
        root, {"T@G": {0: 1}, "Gone@H": {0: 1}}, subscriptionGroup={"subscriptionGroupTable": {"N": {}}}
    )
    assert (report.retry, report.dead_letter, report.never_consumed) == ({"%RETRY%G": 2}, {"%DLQ%G": 3}, ["N"])
    assert (report.groups, report.topics) == ({"G", "H", "N"}, {"T", "Gone", "%RETRY%G", "%DLQ%G"})
    assert report.is_loaded
    with open_store(root) as store:
        of_group, of_topic = review_lag(store, group="H"), review_lag(store, topic="T")
    assert ([row.group for row in of_group.queues], of_group.never_consumed) == (["H"], [])
    assert [row.topic for row in of_topic.queues] == ["T"]
