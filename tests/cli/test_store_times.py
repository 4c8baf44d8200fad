"""--since and --until take both ends in, in every command that counts or copies messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from rmqctl.exit_codes import USAGE
from rmqctl.store_times import and_store_times, store_times
from store import Message, open_store
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.sessions import session
from tests.support.stores import SMALL

TIMES = (1_000, 2_000, 2_001, 3_000)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with a message at each of TIMES."""
    root = tmp_path_factory.mktemp("times")
    with open_store(root, read_only=False, settings=SMALL) as store:
        for time_ms in TIMES:
            store.put_replayed(Message.of("T", str(time_ms)), as_stored=True, store_timestamp_ms=time_ms)
    return root


def counted(root: Path, *words: str) -> int:
    return int(json.loads(rmqctl("--format", "json", *words, store=root).out)["message_count"])


def exported(root: Path, *words: str) -> int:
    return len(rmqctl("export", "--to", "-", "--as", "jsonl", *words, store=root).out.splitlines())


RANGES = [
    ("", 4),
    ("--since 1999", 3),
    ("--since 2000", 3),
    ("--since 2001", 2),
    ("--since 3001", 0),
    ("--until 1999", 1),
    ("--until 2000", 2),
    ("--until 2001", 3),
    ("--since 2000 --until 2000", 1),
    ("--since 1001 --until 1999", 0),
]


@pytest.mark.turns(4)
@pytest.mark.parametrize(("words", "wanted"), RANGES)
def test_both_ends_of_the_time_are_taken_in(root: Path, words: str, wanted: int) -> None:
    numbers = [counted(root, command, *words.split()) for command in ("usage", "timeline")]
    assert [*numbers, exported(root, *words.split())] == [wanted] * 3


def test_a_condition_holds_beside_the_times(root: Path) -> None:
    assert exported(root, "--since", "2000", "--where", "queue_offset = 0 or queue_offset = 2") == 1


@pytest.mark.parametrize("command", ["usage", "timeline", "export --to -", "get T", "index-query T K"])
def test_an_end_before_the_beginning_is_a_wrong_use(root: Path, command: str) -> None:
    run = rmqctl(*command.split(), "--since", "2", "--until", "1", store=root)
    assert (run.code, "--since is later than --until" in run.err) == (USAGE, True)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--since -1h", "OFFSET_OVERFLOW_ONE"),
        ("--queue 0 --since -1h", "OFFSET_OVERFLOW_ONE"),
        ("--queue 0 --last 2 --since -1h", "OFFSET_OVERFLOW_ONE"),
        ("--until 2020-01-01T00:00:00Z", "NO_MATCHED_MESSAGE"),
        ("--queue 0 --until 2020-01-01T00:00:00Z", "NO_MATCHED_MESSAGE"),
    ],
)
def test_where_no_message_is_of_the_time_the_status_is_not_found(words: str, status: str) -> None:
    run = rmqctl("get", "TopicA", *words.split(), "--format", "json", store=golden("normal").store)
    assert (run.code, run.json["status"], run.json["messages"]) == (1, status, [])


@pytest.mark.parametrize(
    ("since", "until", "times"),
    [
        (None, None, (0, (1 << 63) - 1)),
        ("5", None, (5, (1 << 63) - 1)),
        (None, "5", (0, 5)),
        ("5", "5", (5, 5)),
        ("6", "5", None),
    ],
)
def test_limits_of_store_time_may_be_the_same_and_all_times_are_between_none(
    since: str | None, until: str | None, times: tuple[int, int] | None
) -> None:
    if times is None:
        with pytest.raises(typer.BadParameter, match="--since is later than --until"):
            store_times(session(), since, until)
    else:
        assert store_times(session(), since, until) == times


def test_a_limit_is_a_moment_in_milliseconds() -> None:
    assert and_store_times(session(), "a", "1700000000999", "1700000001000") == (
        "(a\n) and store_timestamp >= timestamp '2023-11-14 22:13:20.999Z'"
        " and store_timestamp <= timestamp '2023-11-14 22:13:21.000Z'"
    )
    assert and_store_times(session(), None, None, None) is None
