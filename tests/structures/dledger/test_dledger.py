"""DLedger logs: records in entries are read as the broker reads them, queues come back from them, damage is found."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from store import check, open_store
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.dledger import DLEDGER_HEADER
from store.opened.detect import make_layout
from store.structures.dledger.files import EntryIndex, read_member_state
from store.structures.dledger.show import describe
from store.structures.registry import Present
from tests.cli.running import rmqctl
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, lines
from tests.support.snapshots import contents

NAMES = ("dledger", "dledger-mixed")
DATA = "dledger-n0/data/00000000000000065536"


@pytest.mark.parametrize("kind", ["minmax", "get", "time", "query", "lookup"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_broker(name: str, kind: str) -> None:
    with open_store(five(name) / "store") as store:
        assert mismatches(store, asked(name, kind)) == []


@pytest.mark.parametrize("name", [*NAMES, "dledger-killed"])
def test_a_sound_log_has_no_findings(name: str) -> None:
    assert list(check(five(name) / "store")) == []


def test_the_index_names_the_entries_that_the_broker_lists() -> None:
    (_, answer), *_ = asked("dledger", "entries")
    index = EntryIndex(StoreReader(str(five("dledger") / "store")), "dledger-n0")
    units = index.units(0, answer["endIndex"] + 1)
    assert [[*unit] for unit in units[["index", "term", "pos", "size", "magic"]].tolist()] == [
        entry[:5] for entry in answer["entries"]
    ]


def test_a_dump_shows_each_entry_before_its_record() -> None:
    (_, answer), *_ = asked("dledger-mixed", "entries")
    run = rmqctl("--format", "json", "dump", "commitlog", store=five("dledger-mixed") / "store")
    rows = run.json["entries"]
    headers = [row for row in rows if row["kind"] == "dledger"]
    assert [(row["entry_index"], row["entry_offset"]) for row in headers] == [
        (entry[0], entry[2]) for entry in answer["entries"]
    ]
    assert [row["log_offset"] for row in rows if row["kind"] == "record"][-len(headers) :] == [
        entry[5] for entry in answer["entries"]
    ]


def test_what_a_member_remembers_is_read() -> None:
    state = read_member_state(StoreReader(str(five("dledger-killed") / "store")), "dledger-n0")
    assert (state.committed_index, state.end_index, state.term, state.vote_leader) == (233, 233, 0, "n0")


@pytest.mark.parametrize("name", NAMES)
def test_lost_queues_come_back_byte_by_byte(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    damage(root, {"remove": ["consumequeue"]})
    assert {finding.kind for finding in check(root)} >= {"missing-unit"}
    settings = ("--set", "mappedFileSizeConsumeQueue=400")
    assert rmqctl("rebuild", "--queues", "--yes", *settings, store=root).code == 0
    assert contents(root / "consumequeue") == contents(five(name) / "store/consumequeue")


def test_the_units_that_5_3_cuts_after_a_crash_are_foretold() -> None:
    run = rmqctl("--format", "json", "simulate", store=five("dledger-killed") / "store")
    queues = lines("dledger-killed", "load.json")[0]["load"]["queues"]
    loaded = {(queue["topic"], queue["queueId"]): queue["max"] for queue in queues}
    with open_store(five("dledger-killed") / "store", as_is=True) as store:
        before = {(queue.topic, queue.queue_id): queue.max_offset for queue in store.queues()}
    assert {(row["topic"], row["queue_id"]): row["message_count"] for row in run.json["lost"]} == {
        queue: before[queue] - loaded[queue] for queue in before
    }
    assert [trap["name"] for trap in run.json["traps"]] == ["dledger-queue-tails"]


def test_recover_completes_the_queues_of_a_killed_broker_and_leaves_the_entries(tmp_path: Path) -> None:
    root = copy_of_five("dledger-killed", tmp_path)
    damage(root, {"remove": ["consumequeue/DlA/1/00000000000000001600"]})
    entries = contents(root / "dledger-n0/data")
    assert rmqctl("recover", "--yes", store=root).code == 0
    assert contents(root / "dledger-n0/data") == entries
    assert not (root / "abort").exists()
    # The member's own files stay behind its entries until it starts.
    assert {finding.kind for finding in check(root)} <= {"missing-index-entry"}
    assert contents(root / "consumequeue") == contents(five("dledger-killed") / "store/consumequeue")


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("queues removed", {"missing-unit"}),
        ("index of dledger removed", {"dledger-index"}),
        ("checkpoint of dledger removed", {"dledger-state"}),
        ("currterm removed", {"dledger-state"}),
        ("second half of the last entry zero", {"bad-length", "unit-nowhere"}),
        ("header of the last entry zero", {"stale-tail"}),
        ("one index unit zero", {"dledger-index"}),
        ("magic of an entry 40 before the end wrong", {"bad-length", "dledger-entry", "dledger-index"}),
    ],
)
def test_each_damage_that_a_broker_met_is_found(case: str, kinds: set[str], tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    damage(root, next(line["damage"] for line in lines("dledger", "damaged.jsonl") if line["damage"]["name"] == case))
    assert {finding.kind for finding in check(root)} >= kinds


@pytest.mark.parametrize(("place", "detail"), [(15, "the index"), (23, "the term"), (31, "pos"), (39, "channel")])
def test_a_changed_field_of_a_header_is_found(place: int, detail: str, tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    second = DLEDGER_HEADER.unpack_from((root / DATA).read_bytes())[1]
    damage(root, {"bytes": [[DATA, second + place, "7f"]]})
    if place == 23:
        damage(root, {"bytes": [[DATA, place, "7f"]]})
        damage(root, {"bytes": [[DATA, second + place, "00"]]})
    found = [finding for finding in check(root) if finding.kind == "dledger-entry"]
    assert any(detail in finding.detail for finding in found), found


@pytest.mark.turns(3)
def test_random_damage_to_the_members_files_is_found(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    choice = random.Random(5)
    places = [("dledger-n0/data/00000000000000000000", 65000), (DATA, 27000), ("dledger-n0/index/" + "0" * 20, 8000)]
    for _ in range(30):
        name, size = choice.choice(places)
        at, path = choice.randrange(size), root / name
        with path.open("r+b") as file:
            file.seek(at)
            before = file.read(1)
            file.seek(at)
            file.write(bytes([before[0] ^ choice.randrange(1, 256)]))
        findings = list(check(root))
        with path.open("r+b") as file:
            file.seek(at)
            file.write(before)
        assert bool(findings) != _is_unchecked(path, at), (name, at)
    assert list(check(root)) == []


def _is_unchecked(path: Path, at: int) -> bool:
    """Whether the byte is of a record's born time and host, store host, reconsume times or prepared offset.

    Nothing says these twice.
    """
    if path.parent.name != "data":
        return False
    data, start = path.read_bytes(), 0
    while start + (size := int.from_bytes(data[start + 4 : start + 8], "big")) <= at:
        start += size
    return at - start - 48 in (*range(40, 56), *range(64, 84))


def test_only_the_group_writes_to_the_log() -> None:
    with pytest.raises(UnsupportedFormat, match="its group alone writes"):
        open_store(five("dledger") / "store", read_only=False)


def test_recover_refuses_to_cut_the_log(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    damage(root, {"bytes": [[DATA, 14920, "00000009"]], "create": []})
    run = rmqctl("recover", "--yes", store=root)
    assert (run.code, "only its group may cut" in run.err) == (4, True)


def test_an_entry_whose_record_ends_in_zeros_is_left_to_the_group(tmp_path: Path) -> None:
    root = copy_of_five("dledger-killed", tmp_path)
    segments = sorted((root / "dledger-n0/data").iterdir())
    newest = max((path for path in segments if any(path.read_bytes())), key=lambda path: path.name)
    end = len(newest.read_bytes().rstrip(b"\0"))
    damage(root, {"zero": [[f"dledger-n0/data/{newest.name}", end - 3, 3]]})
    run = rmqctl("recover", "--abnormal", "--yes", store=root)
    assert run.code == 0, run.err


def test_the_only_member_is_read_and_several_are_asked_for(tmp_path: Path) -> None:
    root = copy_of_five("dledger-mixed", tmp_path)
    (root / "dledger-n1/data").mkdir(parents=True)
    run = rmqctl("info", store=root)
    assert (run.code, "dLegerSelfId" in run.err) == (2, True)
    assert rmqctl("info", "--set", "dLegerSelfId=n0", store=root).code == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_messages_of_the_entries_are_salvaged_into_a_sound_plain_store(name: str, tmp_path: Path) -> None:
    root = five(name) / "store"
    assert rmqctl("salvage", "--to", tmp_path / "new", store=root).code == 0
    assert list(check(tmp_path / "new")) == []
    with open_store(root) as before, open_store(tmp_path / "new") as after:
        for queue in before.queues():
            place = queue.topic, queue.queue_id
            bodies = [message.body for message in before.messages(*place)]
            assert [message.body for message in after.messages(*place)] == bodies


def test_the_reports_over_the_whole_log_count_the_records_in_entries(tmp_path: Path) -> None:
    root, count = five("dledger") / "store", len(asked("dledger", "entries")[0][1]["entries"])
    assert rmqctl("--format", "json", "usage", store=root).json["message_count"] == count
    assert rmqctl("--format", "json", "timeline", store=root).json["message_count"] == count
    rows = rmqctl("--format", "json", "sql", "select count(*) as n from messages", store=root).json["rows"]
    assert list(rows[0].values()) == [count]
    assert rmqctl("export", "--to", tmp_path / "out", "--as", "jsonl", store=root).code == 0
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "out").glob("*")) == count


ELSEWHERE = [
    ("check",),
    ("get", "DlA", "--queue", "0", "--offset", "0", "--max", "100"),
    ("dump", "commitlog"),
    ("fingerprint",),
    ("find", "--where", "queue_id = 1"),
    ("timeline",),
    ("usage",),
]


def with_entries_elsewhere(name: str, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the store, and the folder that its entries were moved to."""
    root = copy_of_five(name, tmp_path)
    return root, (root / "dledger-n0/data").rename(tmp_path / "entries")


@pytest.mark.turns(4)
@pytest.mark.parametrize("words", ELSEWHERE, ids=" ".join)
@pytest.mark.parametrize("name", [*NAMES, "dledger-killed"])
def test_entries_in_another_folder_are_read_as_those_below_the_member(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    root, entries = with_entries_elsewhere(name, tmp_path)
    (tmp_path / "broker.conf").write_text(f"storePathDLedgerCommitLog={entries}\n")
    expected = rmqctl("-f", "json", *words, store=five(name) / "store")
    run = rmqctl("-f", "json", "--broker-conf", str(tmp_path / "broker.conf"), *words, store=root)
    assert (run.code, run.out) == (expected.code, expected.out)


def test_queues_are_rebuilt_from_entries_in_another_folder(tmp_path: Path) -> None:
    root, entries = with_entries_elsewhere("dledger-mixed", tmp_path)
    damage(root, {"remove": ["consumequeue"]})
    settings = ("--set", "mappedFileSizeConsumeQueue=400", "--set", f"storePathDLedgerCommitLog={entries}")
    assert rmqctl("rebuild", "--queues", "--yes", *settings, store=root).code == 0
    assert contents(root / "consumequeue") == contents(five("dledger-mixed") / "store/consumequeue")


def test_the_files_of_each_member_are_counted_where_they_are(tmp_path: Path) -> None:
    root, entries = with_entries_elsewhere("dledger", tmp_path)
    (root / "dledger-n1/data/folder").mkdir(parents=True)
    (root / "dledger-n1/data/file").write_bytes(bytes(5))
    (root / "dledger-n2").write_bytes(b"no folder")
    layout = make_layout(root, {"storePathDLedgerCommitLog": str(entries), "dLegerSelfId": "n0"}, Filesystem())
    sizes = [path.stat().st_size for path in entries.iterdir()]
    assert sorted(describe(layout, Filesystem()), key=lambda one: one.file) == [
        Present("DLedger commit log", "dledger-n0", f"{len(sizes)} data files, {sum(sizes):,} bytes"),
        Present("DLedger commit log", "dledger-n1", "1 data file, 5 bytes"),
    ]


def test_entries_of_several_folders_make_one_log(tmp_path: Path) -> None:
    root, entries = with_entries_elsewhere("dledger", tmp_path)
    more = tmp_path / "more"
    more.mkdir()
    (entries / Path(DATA).name).rename(more / Path(DATA).name)
    run = rmqctl("-f", "json", "--set", f"storePathDLedgerCommitLog={entries},{more}", "check", store=root)
    assert (run.code, run.json["findings"]) == (0, [])


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_setting_without_a_group_s_folder_counts_where_the_mode_is_on(is_enabled: bool, tmp_path: Path) -> None:
    root, entries = with_entries_elsewhere("dledger", tmp_path)
    damage(root, {"remove": ["dledger-n0"]})
    settings = {"storePathDLedgerCommitLog": entries} | ({"enableDLegerCommitLog": "true"} if is_enabled else {})
    layout = make_layout(root, settings, Filesystem())
    assert layout.commitlog == (entries if is_enabled else root / "commitlog")


def test_simulate_says_first_that_readers_wait_without_the_member_s_checkpoint(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    damage(root, {"remove": ["dledger-n0/checkpoint"]})
    run = rmqctl("simulate", store=root)
    assert run.code == 1
    assert run.out.startswith("a 5.3 broker starts and loses nothing; readers get nothing until the next put")


def append_entry_of_a_newer_dledger(root: Path, magic: int, body: bytes, *, with_message: bool) -> tuple[int, int]:
    """Put an entry without a message behind the last one, and the last message once more; gives places of both."""
    (_, answer), *_ = asked("dledger", "entries")
    index, term, pos, size, *_ = answer["entries"][-1]
    data = (root / DATA).read_bytes()
    at, last = pos - 65536 + size, data[pos - 65536 + 48 : pos - 65536 + size]
    place = pos + size
    entries = [(magic, body)]
    if with_message:
        second = place + 48 + len(body)
        numbered = (int.from_bytes(last[20:28], "big") + 1).to_bytes(8, "big")
        entries.append((1, last[:20] + numbered + (second + 48).to_bytes(8, "big") + last[36:]))
    for step, (kind, contents_of) in enumerate(entries, 1):
        where = 65536 + at
        header = (kind, 48 + len(contents_of), index + step, term, where, 0, 0, 0, len(contents_of))
        unit = struct.pack(">iqiqq", kind, where, 48 + len(contents_of), index + step, term)
        damage(root, {"bytes": [[DATA, at, (DLEDGER_HEADER.pack(*header) + contents_of).hex()]]})
        damage(root, {"bytes": [["dledger-n0/index/" + "0" * 20, (index + step) * 32, unit.hex()]]})
        at += 48 + len(contents_of)
    end = index + len(entries)
    (root / "dledger-n0/checkpoint").write_text(f"committedIndex={end}\nendIndex={end}\n")
    return place, 65536 + at


@pytest.mark.parametrize(("magic", "body"), [(2, b""), (3, b'{"peers":"n0-localhost:1"}')])
def test_entries_of_a_newer_dledger_are_passed_over_and_the_store_is_only_read(
    magic: int, body: bytes, tmp_path: Path
) -> None:
    root = copy_of_five("dledger", tmp_path)
    place, end = append_entry_of_a_newer_dledger(root, magic, body, with_message=True)
    found = {finding.kind: finding for finding in check(root)}
    assert set(found) == {"newer", "missing-unit", "missing-index-entry"}
    assert f"magic {magic}, log offset {place}" in found["newer"].detail
    assert rmqctl("--format", "json", "usage", store=root).json["message_count"] == 275
    run = rmqctl("rebuild", "--queues", "--yes", store=root)
    assert (run.code, "newer than 0.3.1.2" in run.err) == (4, True)
    shown = rmqctl("--format", "json", "checkpoint", "show", store=root)
    assert (shown.code, shown.json["log_end"]) == (0, end)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["log_end"], start["lost"]["messages"]) == (place, 1)


def test_an_entry_of_a_newer_dledger_at_the_logs_end_is_no_damage(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    append_entry_of_a_newer_dledger(root, 2, b"", with_message=False)
    assert [finding.kind for finding in check(root)] == ["newer"]


def test_a_wrong_index_behind_an_entry_of_a_newer_dledger_is_found(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    place, _ = append_entry_of_a_newer_dledger(root, 2, b"", with_message=True)
    damage(root, {"bytes": [[DATA, place - 65536 + 48 + 15, "7f"]]})
    assert "dledger-entry" in {finding.kind for finding in check(root)}


def test_check_names_no_command_that_a_dledger_log_refuses(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    case = "header of the last entry zero"
    damage(root, next(line["damage"] for line in lines("dledger", "damaged.jsonl") if line["damage"]["name"] == case))
    run = rmqctl("--format", "json", "check", store=root)
    named = {row["kind"]: row["mended_by"] for row in run.json["findings"]}
    assert named["stale-tail"] is None
    assert "truncate-dirty" not in run.err


def test_check_names_no_command_for_what_a_newer_dledger_wrote(tmp_path: Path) -> None:
    root = copy_of_five("dledger", tmp_path)
    append_entry_of_a_newer_dledger(root, 2, b"", with_message=True)
    run = rmqctl("--format", "json", "check", store=root)
    assert {row["mended_by"] for row in run.json["findings"]} == {None}
    assert "mend with" not in run.err
