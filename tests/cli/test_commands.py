"""The commands on stores that real brokers wrote: what they answer, what they change, and what they leave alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from store import Message, open_store
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.processes import command_line, running
from tests.support.stores import make_store
from tests.support.threads import eventually


def copy_of(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden(name).store, tmp_path / name, copy_function=shutil.copy2))


def look(store: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mtime of every file, rmqctl's own and the lock left out."""
    files = (path for path in store.rglob("*") if path.is_file() and ".rmqctl" not in path.parts)
    return {
        str(path.relative_to(store)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in files
        if path.name != "lock"
    }


@pytest.fixture
def new_store(tmp_path: Path) -> Path:
    """A store of three messages in small files."""
    store = tmp_path / "new"
    sizes = (
        "mappedFileSizeCommitLog=65536",
        "mappedFileSizeConsumeQueue=400",
        "maxHashSlotNum=50",
        "maxIndexNum=100",
    )
    options = [word for size in sizes for word in ("--set", size)]
    for number in range(3):
        run = rmqctl(
            *options,
            "put",
            "T",
            f"body {number}",
            "--tags",
            "AB"[number % 2],
            "--key",
            f"k{number}",
            store=store,
        )
        assert run.code == 0, run.err
    return store


def test_a_put_says_where_the_message_is(new_store: Path) -> None:
    run = rmqctl("--format", "json", "put", "T", "four", "--queue", "2", store=new_store)
    row = run.json["results"][0]
    assert run.json["schema"] == "rmqctl.put/1"
    assert (row["status"], row["queue_id"], row["queue_offset"]) == ("PUT_OK", 2, 0)
    found = rmqctl("--format", "json", "get", "--msg-id", row["msg_id"], store=new_store).json["messages"][0]
    assert base64.b64decode(found["body"]) == b"four"
    assert found["log_offset"] == row["log_offset"]


def test_get_shows_every_name_of_the_message_object(new_store: Path) -> None:
    row = rmqctl("--format", "json", "get", "T", "--max", "1", store=new_store).json["messages"][0]
    names = """topic queue_id queue_offset log_offset size msg_id uniq_key keys tags flag sys_flag born_timestamp_ms
        born_host store_timestamp_ms store_host reconsume_times prepared_transaction_offset body_crc crc_ok
        compression body_state body body_encoding properties"""
    assert list(row) == names.split()


def places(store: Path, *words: object) -> list[tuple[int, int]]:
    """Queue and queue offset of each message that get gives."""
    rows = rmqctl("--format", "jsonl", "get", "T", *words, store=store).rows
    return [(row["queue_id"], row["queue_offset"]) for row in rows]


@pytest.fixture(scope="module")
def three_queues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two messages in each of three queues, a second apart, put in the order of WRITTEN."""
    root, times = tmp_path_factory.mktemp("three") / "store", iter(range(1_800_000_000_000, 1_900_000_000_000, 1000))
    with open_store(root, read_only=False, clock=lambda: next(times)) as store:
        for queue, _ in WRITTEN:
            store.put(Message.of("T", "x", queue_id=queue, tags="even" if queue != 1 else "odd", born_timestamp_ms=1))
    return root


WRITTEN = [(3, 0), (0, 0), (1, 0), (1, 1), (3, 1), (0, 1)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), WRITTEN),
        (("--max", 2), WRITTEN[:2]),
        (("--limit", 5), WRITTEN[:5]),
        (("--last", 1), WRITTEN[-1:]),
        (("--last", 4), WRITTEN[-4:]),
        (("--last", 100), WRITTEN),
        (("--last", 2, "--tags", "odd"), [(1, 0), (1, 1)]),
        (("--last", 1, "--tags", "odd"), [(1, 1)]),
        (("--queue", 3), [(3, 0), (3, 1)]),
        (("--queue", 3, "--last", 1), [(3, 1)]),
        (("--offset", 1), [(0, 1)]),
        (("--from", 1), [(0, 1)]),
        (("--to", 0), [(0, 0)]),
        (("--queue", 3, "--to", 0), [(3, 0)]),
        (("--queue", 3, "--from", 1, "--to", 1), [(3, 1)]),
    ],
)
def test_get_reads_all_queues_in_store_time(
    words: tuple[object, ...], wanted: list[tuple[int, int]], three_queues: Path
) -> None:
    assert places(three_queues, *words) == wanted


@pytest.mark.parametrize(("words", "count"), [("", 32), ("--to 38", 39), ("--to 38 --limit 38", 38), ("--from 1", 32)])
def test_get_has_no_limit_of_its_own_beside_an_end(words: str, count: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "s", 120)
    run = rmqctl("--format", "jsonl", "get", "T", "--queue", 0, *words.split(), store=root)
    assert len(run.rows) == count


def test_a_range_without_a_queue_is_of_the_first(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False) as store:
        for queue in (4, 2, 4):
            store.put(Message.of("T", "x", queue_id=queue))
    assert places(tmp_path / "s", "--from", 0) == places(tmp_path / "s", "--to", 5) == [(2, 0)]


def test_an_end_before_the_begin_is_refused(three_queues: Path) -> None:
    run = rmqctl("get", "T", "--from", 2, "--to", 1, store=three_queues)
    assert (run.code, "--to is less than --from" in run.err) == (2, True)


@pytest.mark.parametrize(("before", "count"), [(-1, 2), (0, 3), (1, 3)])
def test_get_ends_at_a_time(before: int, count: int, three_queues: Path) -> None:
    rows = rmqctl("--format", "jsonl", "get", "T", store=three_queues).rows
    until = rows[2]["store_timestamp_ms"] + before
    assert places(three_queues, "--until", until) == WRITTEN[:count]
    first = rows[1]["store_timestamp_ms"]
    assert places(three_queues, "--since", first, "--until", until) == WRITTEN[1:count]


def test_people_see_the_queue_of_each_message_of_several(three_queues: Path) -> None:
    assert "queue_id  queue_offset" in rmqctl("get", "T", store=three_queues).out
    assert "queue_id" not in rmqctl("get", "T", "--queue", 3, store=three_queues).out


def test_filters_choose_by_tags_and_by_sql(new_store: Path) -> None:
    def bodies(*options: str) -> list[str]:
        run = rmqctl("--format", "jsonl", "get", "T", "--body", "utf8", *options, store=new_store)
        return [row["body"] for row in run.rows]

    assert bodies("--tags", "A") == ["body 0", "body 2"]
    assert bodies("--tags", "A || B") == ["body 0", "body 1", "body 2"]
    assert bodies("--sql", "KEYS = 'k1'") == ["body 1"]
    assert bodies("--sql", "missing > 1") == []


def test_nothing_found_is_exit_1_with_the_brokers_status(new_store: Path) -> None:
    run = rmqctl("--format", "json", "get", "T", "--offset", "99", store=new_store)
    assert run.code == 1
    assert (run.json["status"], run.json["next_offset"]) == ("OFFSET_OVERFLOW_BADLY", 3)


def test_index_query_finds_by_key(new_store: Path) -> None:
    run = rmqctl("--format", "json", "index-query", "T", "k1", store=new_store)
    assert [row["queue_offset"] for row in run.json["messages"]] == [1]
    assert len(run.json["index_files"]) == 1
    assert rmqctl("index-query", "T", "k9", store=new_store).code == 1


@pytest.mark.parametrize(("key", "offsets"), [("k1", [1]), ("k9", [])])
def test_get_by_key_gives_what_the_index_gives(key: str, offsets: list[int], new_store: Path) -> None:
    run = rmqctl("--format", "json", "get", "T", "--key", key, store=new_store)
    assert [row["queue_offset"] for row in run.json["messages"]] == offsets
    assert (run.code, run.json["status"]) == ((0, "FOUND") if offsets else (1, "NOT_FOUND"))


def test_get_by_key_gives_no_more_than_the_index_does(new_store: Path) -> None:
    assert rmqctl("get", "T", "--key", "k1", "--limit", "64", store=new_store).code == 0
    run = rmqctl("get", "T", "--key", "k1", "--limit", "65", store=new_store)
    assert (run.code, "at most 64 messages" in run.err) == (2, True)


@pytest.mark.turns(2)
@pytest.mark.parametrize(("words", "count"), [(["--since", "-1h"], 3), (["--until", "-1h"], 0), (["--from", "1"], 2)])
def test_dump_takes_times_and_offsets(words: list[str], count: int, new_store: Path) -> None:
    run = rmqctl("--format", "json", "dump", "commitlog", *words, store=new_store)
    assert [row["kind"] for row in run.json["entries"]].count("record") == count


def test_messages_come_from_json_lines_and_go_back_into_them(new_store: Path, tmp_path: Path) -> None:
    lines = rmqctl("--format", "jsonl", "get", "T", store=new_store).out
    copy = tmp_path / "copy"
    small = (
        "--set",
        "mappedFileSizeCommitLog=65536",
        "--set",
        "maxHashSlotNum=50",
        "--set",
        "maxIndexNum=100",
    )
    run = rmqctl(*small, "--format", "jsonl", "put", "--from", "-", store=copy, stdin=lines.encode())
    assert [row["status"] for row in run.rows] == ["PUT_OK"] * 3
    again = [json.loads(line) for line in rmqctl("--format", "jsonl", "get", "T", store=copy).out.splitlines()]
    assert [(row["body"], row["properties"]) for row in again] == [
        (row["body"], row["properties"]) for row in map(json.loads, lines.splitlines())
    ]


def test_a_bad_line_is_named_and_what_stood_before_it_is_stored(new_store: Path) -> None:
    stdin = b'{"topic": "T", "body_text": "good"}\n{"topic": "T", "boddy": "bad"}\n'
    run = rmqctl("put", "--from", "-", store=new_store, stdin=stdin)
    assert run.code == 2
    assert "line 2: unknown name 'boddy'" in run.err
    assert rmqctl("--format", "json", "get", "T", "--offset", "3", store=new_store).json["next_offset"] == 4


def test_a_refused_put_is_exit_1_with_its_reason(new_store: Path) -> None:
    run = rmqctl("--format", "json", "put", "t" * 128, "x", store=new_store)
    assert run.code == 1
    assert run.json["results"][0]["status"] == "MESSAGE_ILLEGAL"


def test_raw_writes_the_stored_records(new_store: Path) -> None:
    words = [sys.executable, "-m", "rmqctl", "--store", str(new_store), "get", "T", "--raw"]
    raw = subprocess.run(words, capture_output=True, check=True).stdout
    assert raw == (new_store / "commitlog" / ("0" * 20)).read_bytes()[: len(raw)]
    assert raw.count(b"body ") == 3


def test_an_unclean_store_is_refused_for_putting_and_names_the_way_out(tmp_path: Path) -> None:
    run = rmqctl("put", "T", "x", store=copy_of("aborted", tmp_path))
    assert run.code == 4
    assert "recover --abnormal" in run.err


@pytest.mark.turns(3)
def test_a_dry_run_and_reading_change_nothing(tmp_path: Path) -> None:
    store = copy_of("corrupt-mid", tmp_path)
    before = look(store)
    for words in (
        ["recover", "--abnormal", "--dry-run"],
        ["truncate-dirty", "--dry-run"],
        ["clean-expired", "--force", "--reserved-hours", "0", "--dry-run"],
        ["checkpoint", "rewrite", "--dry-run"],
        ["checkpoint", "show"],
        ["get", "TopicA"],
        ["index-query", "TopicA", "order0"],
        ["quarantine", "list"],
    ):
        assert rmqctl(*words, store=store).code == 0, words
    assert look(store) == before
    assert not (store / ".rmqctl").exists()


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    "words",
    [
        ["recover", "--abnormal"],
        ["truncate-dirty"],
        ["clean-expired", "--force", "--reserved-hours", "0"],
        ["checkpoint", "rewrite"],
    ],
    ids=" ".join,
)
def test_undo_gives_back_every_byte_and_time(words: list[str], tmp_path: Path) -> None:
    store = copy_of("corrupt-mid", tmp_path)
    before = look(store)
    applied = rmqctl("--format", "json", *words, "--yes", store=store)
    assert applied.code == 0, applied.err
    assert applied.json["applied"] is True
    assert look(store) != before
    assert rmqctl("undo", applied.json["change_id"], store=store).code == 0
    assert look(store) == before


@pytest.mark.parametrize(
    ("options", "is_noted"),
    [(("--yes",), True), (("--yes", "--no-quarantine"), False), (("--dry-run",), False)],
)
def test_cleaning_into_the_quarantine_says_with_what_the_space_is_free(
    options: tuple[str, ...], is_noted: bool, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store")
    run = rmqctl("clean-expired", "--force", "--reserved-hours", "0", *options, store=root)
    note = "the space is free once `rmqctl quarantine purge` has run"
    assert [one for one in run.err.splitlines() if not one.startswith("undo with:")] == [note] * is_noted, run.err


@pytest.mark.parametrize(("offsets", "unconsumed"), [({}, "none"), ({"T@G": {0: 1, 1: 400, 2: 400}}, "28")])
def test_cleaning_says_how_many_of_the_messages_that_go_are_unconsumed(
    offsets: dict[str, dict[int, int]], unconsumed: str, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store")
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    run = rmqctl("clean-expired", "--force", "--reserved-hours", "0", "--dry-run", store=root)
    verdict = f"87 messages no longer shown, {unconsumed} of them known to be unconsumed"
    assert verdict in " ".join(run.out.split())


def test_the_plan_names_the_messages_that_would_be_lost(tmp_path: Path) -> None:
    run = rmqctl("--format", "json", "recover", "--abnormal", "--dry-run", store=copy_of("corrupt-mid", tmp_path))
    assert run.json["applied"] is False
    assert run.json["log_end"] == 66765
    assert "bad body CRC" in run.json["stopped_by"]
    assert sum(row["message_count"] for row in run.json["lost"]) > 200


@pytest.mark.turns(2)
@pytest.mark.parametrize(("answer", "applied"), [(b"y\n", True), (b"n\n", False), (b"", False)])
def test_on_a_terminal_the_plan_is_shown_and_asked_for(answer: bytes, applied: bool, tmp_path: Path) -> None:
    store = copy_of("aborted", tmp_path)
    run = rmqctl("recover", "--abnormal", store=store, terminal=True, stdin=answer)
    assert "Apply these" in run.err
    assert (store / "abort").exists() is not applied
    assert run.code == (0 if applied else 6)


def test_quarantine_lists_and_purges(tmp_path: Path) -> None:
    store = copy_of("aborted", tmp_path)
    rmqctl("recover", "--yes", store=store)
    listed = rmqctl("--format", "json", "quarantine", "list", store=store).json["changes"]
    assert [row["state"] for row in listed] == ["applied"]
    purged = rmqctl("--format", "json", "quarantine", "purge", listed[0]["change_id"], "--yes", store=store)
    assert purged.json["freed_bytes"] == listed[0]["size_bytes"] > 0
    assert rmqctl("--format", "json", "quarantine", "list", store=store).json["changes"] == []
    assert rmqctl("undo", listed[0]["change_id"], store=store).code == 2


def test_checkpoint_show_tells_where_an_abnormal_recovery_would_start() -> None:
    document = rmqctl("--format", "json", "checkpoint", "show", store=golden("crash-async-checkpoint0").store).json
    verdicts = {row["field"]: row["verdict"] for row in document["times"]}
    assert verdicts["physic"] == "never set"
    assert document["start_segment"] == 0


def test_a_checkpoint_ahead_of_the_files_is_a_finding_and_rewriting_mends_it(tmp_path: Path) -> None:
    store = copy_of("normal", tmp_path)
    page = (store / "checkpoint").read_bytes()
    (store / "checkpoint").write_bytes((1 << 60).to_bytes(8, "big") + page[8:])
    assert rmqctl("checkpoint", "show", store=store).code == 1
    assert rmqctl("checkpoint", "rewrite", "--yes", store=store).code == 0
    assert rmqctl("checkpoint", "show", store=store).code == 0


@pytest.mark.parametrize(
    ("damage", "code", "says"),
    [
        (shutil.rmtree, 4, "no such folder"),
        (lambda store: os.truncate(store / "commitlog" / ("0" * 20), 100), 4, "00000000000000000000"),
    ],
    ids=["gone", "wrong length"],
)
def test_bad_input_is_one_sentence_and_its_exit_code(damage: object, code: int, says: str, tmp_path: Path) -> None:
    store = copy_of("normal", tmp_path)
    damage(store)  # type: ignore[operator]
    for words in (["get", "TopicA"], ["recover", "--dry-run"], ["put", "T", "x"]):
        if words[0] == "put" and not store.exists():
            continue
        run = rmqctl(*words, store=store)
        assert says in run.err
        if words[0] == "get" and store.exists():
            # Reading goes on without the segment.
            assert (run.code, "note: left out" in run.err) == (0, True), run.err
            continue
        assert run.code == code, (words, run.err)
        assert run.err.count("\n") == 1


@pytest.mark.turns(3)
def test_a_second_writer_is_refused_while_the_first_holds_the_lock(new_store: Path) -> None:
    with running(command_line(new_store, "put", "--from", "-")) as holder:
        assert eventually((new_store / "abort").exists)
        second = subprocess.run(
            [sys.executable, "-m", "rmqctl", "--store", str(new_store), "put", "T", "x"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert second.returncode == 3, second.stderr
        assert rmqctl("get", "T", store=new_store).code == 0
        holder.communicate("", timeout=120)
        assert holder.returncode == 0


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "SIGTERM", "a lost terminal"]
)
def test_an_interrupted_put_closes_the_store_cleanly(number: signal.Signals, new_store: Path) -> None:
    words = [sys.executable, "-m", "rmqctl", "--store", str(new_store), "put", "T", "--from", "-"]
    with running(words, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write('{"body_text": "one"}\n' * 2000)
        process.stdin.flush()
        assert eventually(lambda: rmqctl("get", "T", "--offset", "3", store=new_store).code == 0)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; the store is consistent" in err
    assert "Traceback" not in err
    assert not (new_store / "abort").exists()
    assert rmqctl("get", "T", "--offset", "3", store=new_store).code == 0


@pytest.mark.turns(3)
def test_a_reader_that_goes_away_is_no_error(new_store: Path) -> None:
    line = f"{sys.executable} -m rmqctl --store {new_store} --format jsonl get T --max 3 | head -n 1 >/dev/null"
    run = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.turns(4)
def test_flush_bench_takes_sizes_from_the_store_and_settings_from_the_command_line(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    run = rmqctl("--format", "json", "flush-bench", "--messages", "50", "--mode", "async", store=root)
    assert run.json["segment_size_bytes"] == 16384
    words = ("--set", "mappedFileSizeCommitLog=65536", "--set", f"storePathCommitLog={tmp_path / 'elsewhere'}")
    run = rmqctl(*words, "--format", "json", "flush-bench", "--messages", "50", "--mode", "async", store=root)
    assert run.json["segment_size_bytes"] == 65536
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.turns(3)
def test_flush_bench_prints_rates_against_limits_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = rmqctl("--format", "json", "flush-bench", "--messages", "50", "--threads", "2", store=tmp_path / "store")
    assert run.code == 0, run.err
    assert [row["mode"] for row in run.json["modes"]] == ["async", "sync", "transient"]
    assert all(row["messages_per_s"] > 0 < row["ratio"] for row in run.json["modes"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["find x", "stale", "dump commitlog", "config check", "config show"])
def test_a_folder_that_is_no_store_is_not_called_sound(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path, tmp_path / "file", tmp_path / "absent"):
        run = rmqctl(*command.split(), store=root)
        assert (run.code, run.out) == (4, "")
        assert str(root) in run.err
