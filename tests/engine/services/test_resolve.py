"""transaction resolve: byte for byte what an open store's service puts, refused where nothing is in doubt, undone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.engine.services.resolve import plan_resolve
from store.engine.services.transaction_service import TransactionalMessageService
from store.errors import UncleanStore
from tests.cli.running import rmqctl
from tests.engine.services.stores import Builder, build, show, unpack
from tests.support.refstore import LINES, SETTINGS, SIZES, needs_refstore, refstore
from tests.support.stores import LATER_MS, Clock, planning

INDEX_AND_QUEUES = ("commitlog", "consumequeue", "index")


def files(root: Path) -> dict[str, bytes]:
    """The bytes of log, queues and index; index files by their order, because their names are times."""
    found = {}
    for folder in INDEX_AND_QUEUES:
        paths = sorted(path for path in (root / folder).rglob("*") if path.is_file())
        for number, path in enumerate(paths):
            found[f"index/{number}" if folder == "index" else str(path.relative_to(root))] = path.read_bytes()
    return found


def in_doubt(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = show(root, "transaction", "show", "--state", "in-doubt")["transactions"]
    return found


def resolve(root: Path, transaction_id: str, how: str, clock: Clock) -> None:
    with planning(root, clock=clock) as opened:
        plan_resolve(opened, transaction_id, commit=how == "commit").apply()


def test_a_log_with_damage_in_front_of_messages_is_refused(tmp_path: Path) -> None:
    root, _ = unpack("services", tmp_path)
    transaction = in_doubt(root)[0]
    damaged = transaction["halves"][-1]["log_offset"] + 200
    with min((root / "commitlog").iterdir()).open("r+b") as log:
        log.seek(damaged)
        log.write(b"\xff" * 100)
    before = files(root)
    with pytest.raises(UncleanStore, match="behind it would be given up") as refused:
        resolve(root, transaction["uniq_key"], "commit", Clock(LATER_MS))
    assert refused.value.code == "damaged-log"
    assert files(root) == before


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["services", "services5"])
@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_the_store_is_the_one_that_a_brokers_answer_leaves(name: str, how: str, tmp_path: Path) -> None:
    root, _ = unpack(name, tmp_path)
    transaction = in_doubt(root)[0]
    other = shutil.copytree(root, tmp_path / "other")
    clock = Clock(LATER_MS)
    with open_store(other, read_only=False, clock=clock) as store:
        service = TransactionalMessageService(store, clock)
        half, group = transaction["halves"][-1]["log_offset"], transaction["producer_group"]
        (service.commit if how == "commit" else service.rollback)(half, group)
        service.write_ops()
    resolve(root, transaction["uniq_key"], how, clock)
    assert files(root) == files(other)
    (after,) = [
        one for one in show(root, "transaction", "show")["transactions"] if one["uniq_key"] == transaction["uniq_key"]
    ]
    assert after["state"] == {"commit": "committed", "rollback": "rolled-back"}[how]
    assert after["warnings"] == []


@pytest.mark.turns(5)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("how", ["commit", "rollback"])
@pytest.mark.parametrize("name", ["services", "services5"])
@pytest.mark.parametrize(
    ("after_ms", "kinds"), [(-5000, ["time-backwards"]), (-1, ["time-backwards"]), (0, []), (1, [])]
)
def test_the_checkpoint_promises_no_more_than_the_last_record_whatever_the_clock_shows(
    after_ms: int, kinds: list[str], name: str, how: str, tmp_path: Path
) -> None:
    root, _ = unpack(name, tmp_path)
    newest_ms = show(root, "checkpoint", "show")["times"][0]["reached_ms"]
    resolve(root, in_doubt(root)[0]["uniq_key"], how, Clock(newest_ms + after_ms))
    checked = show(root, "check", code=1 if kinds else 0)["findings"]
    assert [one["kind"] for one in checked] == kinds
    verdicts = [one["verdict"] for one in show(root, "checkpoint", "show")["times"][:2]]
    assert verdicts == ["ok", "ok"]


def test_every_transaction_in_doubt_is_resolved_and_check_finds_nothing(tmp_path: Path) -> None:
    """The last segment fills up on the way, so that a new one is begun."""
    root = build(
        tmp_path / "s", lambda builder: [builder.half(f"K{number}", PAD="x" * 3000) for number in range(8)] and None
    )
    before = len(list((root / "commitlog").iterdir()))
    clock = Clock(LATER_MS)
    for number in range(8):
        resolve(root, f"K{number}", "commit" if number % 2 else "rollback", clock)
    counts = show(root, "transaction", "show")["counts"]
    assert (counts["committed"], counts["rolled-back"], counts["in-doubt"]) == (4, 4, 0)
    assert len(list((root / "commitlog").iterdir())) > before
    assert rmqctl("check", store=root).code == 0
    assert len(in_doubt(root)) == 0


def test_what_was_behind_the_logs_end_does_not_come_back(tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None)
    with open_store(root) as store:
        end = store.max_log_offset
    (segment,) = (root / "commitlog").iterdir()
    data = bytearray(segment.read_bytes())
    data[end + 8 : end + 4000] = b"\xff" * 3992
    segment.write_bytes(data)
    resolve(root, "A", "commit", Clock(LATER_MS))
    assert rmqctl("check", store=root).code == 0
    assert show(root, "transaction", "show")["counts"]["committed"] == 1


def committed_without_op(builder: Builder) -> None:
    builder.commit("A", builder.half("A"))


def test_a_commit_without_an_op_record_gets_only_that(tmp_path: Path) -> None:
    root = build(tmp_path / "s", committed_without_op)
    run = rmqctl("--format", "json", "transaction", "resolve", "A", "--commit", "--yes", store=root)
    assert [one["topic"] for one in run.json["appended"]] == ["RMQ_SYS_TRANS_OP_HALF_TOPIC"]
    (transaction,) = show(root, "transaction", "show")["transactions"]
    assert (transaction["state"], transaction["warnings"]) == ("committed", [])
    assert rmqctl("transaction", "resolve", "A", "--rollback", "--yes", store=root).code == 2


def test_every_copy_ahead_of_the_check_pass_is_named(tmp_path: Path) -> None:
    """A killed broker checks both again: a copy that is not named would be committed twice."""

    def steps(builder: Builder) -> None:
        builder.half("A")
        builder.half("A", TRANSACTION_CHECK_TIMES="1")

    root = build(tmp_path / "s", steps)
    assert rmqctl("transaction", "resolve", "A", "--rollback", "--yes", store=root).code == 0
    (transaction,) = show(root, "transaction", "show")["transactions"]
    assert [half["has_op"] for half in transaction["halves"]] == [True, True]


def test_an_inconsistent_transaction_can_be_ended(tmp_path: Path) -> None:
    offsets = {"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": 1}}
    config = {"consumerOffset.json": {"offsetTable": offsets}}
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None, config)
    assert show(root, "transaction", "show", code=1)["counts"]["inconsistent"] == 1
    assert rmqctl("transaction", "resolve", "A", "--commit", "--yes", store=root).code == 0
    assert show(root, "transaction", "show")["counts"]["committed"] == 1


def test_a_transaction_is_found_by_its_halfs_message_id(tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None)
    with open_store(root) as store:
        (half,) = store.messages("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert rmqctl("transaction", "resolve", half.msg_id, "--commit", "--yes", store=root).code == 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("B", "--commit", "--yes"), 2, "no half message has the UNIQ_KEY or message id B"),
        (("B" * 80 + "C", "--commit", "--yes"), 2, f"UNIQ_KEY or message id {'B' * 80};"),
        (("A", "--yes"), 2, "give one of --commit and --rollback"),
        (("A", "--commit", "--rollback", "--yes"), 2, "--commit and --rollback do not go together"),
        (("A", "--commit"), 2, "give --yes"),
    ],
)
def test_a_wrong_call_is_refused(words: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None)
    before = files(root)
    run = rmqctl("transaction", "resolve", *words, store=root)
    assert (run.code, text in run.err) == (code, True), run.err
    assert files(root) == before


def test_a_dry_run_changes_nothing_and_an_undo_brings_all_back(tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None)
    before = files(root)
    assert rmqctl("transaction", "resolve", "A", "--commit", "--dry-run", store=root).code == 0
    assert files(root) == before
    run = rmqctl("--format", "json", "transaction", "resolve", "A", "--commit", "--yes", store=root)
    assert files(root) != before
    assert rmqctl("undo", run.json["change_id"], store=root).code == 0
    assert files(root) == before


def test_an_unclean_store_is_recovered_first(tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A") and None)
    (root / "abort").touch()
    run = rmqctl("transaction", "resolve", "A", "--commit", "--yes", store=root)
    assert (run.code, "recover --abnormal" in run.err) == (4, True)


@needs_refstore
@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_the_real_store_delivers_the_committed_message(line: str, tmp_path: Path) -> None:
    root = build(tmp_path / "s", lambda builder: builder.half("A", TAGS="t") and None, **SETTINGS)
    resolve(root, "A", "commit", Clock())
    place = ("--topic", "Pay", "--queue", 1, "--offset", 0, "--max", 2)
    with refstore(line, "get", "--store", root, *SIZES, *place) as real:
        out, _ = real.communicate(timeout=120)
    assert '"status":"FOUND"' in out.replace(" ", "")
