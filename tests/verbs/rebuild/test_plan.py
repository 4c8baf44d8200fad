"""The plan of a rebuild: its files, facts, losses and promises, by whole rows."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from store import Message, open_store, plan_rebuild
from store.config import StoreConfig
from store.errors import BadRequest, NotAStore, StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.checkpoint_page import CheckpointPage, decode_checkpoint
from store.formats.queue_unit import UNIT
from store.verbs.rebuild import expired, plan
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.publish import RebuildPlan, staged_files
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from tests.support.golden import copy_store
from tests.support.stores import SMALL, Clock, make_store
from tests.verbs.rebuild.stores import expired_store

OTHERS = ["consumequeue/T/0", "consumequeue/T/2"]
SIZE, COUNT = SMALL["mappedFileSizeCommitLog"], 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", COUNT)


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return copy_store(whole, tmp_path / "store")


def files_in(root: Path, *folders: str) -> list[str]:
    paths = (path for name in folders for path in (root / name).rglob("*") if path.is_file())
    return sorted(str(path.relative_to(root)) for path in paths)


def set_checkpoint(root: Path, **fields: int) -> CheckpointPage:
    """Change these fields of the checkpoint; gives the page."""
    path = root / "checkpoint"
    page = decode_checkpoint(path.read_bytes())._replace(**fields)
    path.write_bytes(page.encode())
    return page


@pytest.mark.parametrize(
    ("scope", "kept", "made"),
    [
        (RebuildScope(), [], ["consumequeue", "index"]),
        (RebuildScope(index=False), ["index"], ["consumequeue"]),
        (RebuildScope(queues=False), ["consumequeue"], ["index"]),
        (RebuildScope(index=False, topic="T", queue_id=1), [*OTHERS, "index"], ["consumequeue/T/1"]),
    ],
)
def test_the_files_of_the_scope_are_replaced_and_the_others_stay(
    scope: RebuildScope, kept: list[str], made: list[str], root: Path
) -> None:
    before = files_in(root, "consumequeue", "index")
    stay = files_in(root, *kept)
    with plan_rebuild(root, scope, settings=SMALL) as change:
        rows = [(row["action"], row["file"]) for row in change.rows() if row["file"] != "checkpoint"]
        report = change.report
    published = [file for action, file in rows if action != "remove"]
    removed = [file for action, file in rows if action == "remove"]
    assert published == sorted(published)
    assert {file for file in published if file.startswith("consumequeue")} == set(
        files_in(root, *(name for name in made if name != "index"))
    )
    assert set(removed) == set(before) - set(stay) - set(published)
    with open_store(root) as store:
        end = max(one.log_offset + one.size for number in range(3) for one in store.messages("T", number))
    assert report == RebuildPlan(0, end, report.stopped_by, COUNT)


@pytest.mark.parametrize(
    ("scope", "refusal"),
    [
        ({"topic": "U"}, "topic 'U' is in neither the log nor the queues"),
        ({"topic": "U", "queue_id": 1}, "queue_id 1 of topic 'U' is in neither the log nor the queues"),
        ({"topic": "T", "queue_id": 3}, "queue_id 3 of topic 'T' is in neither the log nor the queues"),
        ({"topic": "T", "queue_id": -1}, "queue_id -1 of topic 'T' is in neither the log nor the queues"),
        ({"topic": "T", "queue_id": 2}, None),
    ],
)
@pytest.mark.parametrize("has_queues", [True, False])
def test_a_queue_that_nothing_in_the_store_has_is_refused_by_its_name(
    scope: dict[str, Any], refusal: str | None, has_queues: bool, root: Path
) -> None:
    if not has_queues:
        shutil.rmtree(root / "consumequeue")
    for index in (True, False):
        given = RebuildScope(index=index, **scope)
        if refusal is None:
            plan_rebuild(root, given, settings=SMALL).close()
            continue
        with pytest.raises(BadRequest) as refused:
            plan_rebuild(root, given, settings=SMALL)
        assert (refused.value.reason, refused.value.code) == (refusal, "unknown-topic")


def test_an_empty_log_beside_queues_is_refused_and_loses_what_they_show(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    with pytest.raises(StoreError):
        plan_rebuild(root, settings=SMALL)
    with plan_rebuild(root, settings=SMALL, force_empty_log=True) as change:
        assert (change.lost, change.report.lost_messages) == ({"T": COUNT}, COUNT)
    for scope, lost in ((RebuildScope(topic="T", queue_id=1), 20), (RebuildScope(queues=False), 0)):
        with plan_rebuild(root, scope, settings=SMALL, force_empty_log=True) as change:
            assert sum(change.lost.values()) == lost


def test_a_dry_run_takes_no_lock_and_leaves_the_store_as_it_is(root: Path) -> None:
    before = files_in(root, ".")
    with plan_rebuild(root, settings=SMALL, dry_run=True), plan_rebuild(root, settings=SMALL, dry_run=True):
        assert files_in(root, ".") == before
    with plan_rebuild(root, settings=SMALL), pytest.raises(StoreError):
        plan_rebuild(root, settings=SMALL)


def test_another_engine_builds_the_files_in_place_of_this_process(root: Path) -> None:
    asked: list[Any] = []

    def build(staged: Path, config: StoreConfig, scope: RebuildScope, rules: Any) -> RebuildReport:
        asked.append(scope)
        return RebuildReport(7, "the test", 3, ("a finding",))

    with plan_rebuild(root, RebuildScope(topic="T", queue_id=2), settings=SMALL, rebuild=build) as change:
        assert change.report == RebuildPlan(20, 7, "the test", 3)
        assert change.notes[0] == "a finding"
    assert asked == [RebuildScope(topic="T", queue_id=2)]


@pytest.mark.parametrize(("later", "index_ms"), [(-1, -1), (0, 0), (1, 0), (99, 0)])
def test_the_checkpoint_is_lowered_to_the_full_files_of_the_new_index(
    later: int, index_ms: int, root: Path, tmp_path: Path
) -> None:
    report = rebuild_locally(
        StoreReader(str(root)),
        tmp_path / "new",
        StoreConfig().with_settings(SMALL),
        RebuildScope(queues=False),
        clock=Clock(),
    )
    full = sorted((tmp_path / "new/index").iterdir())[-2].read_bytes()
    reached = int.from_bytes(full[8:16], "big")
    before = set_checkpoint(root, index_ms=reached + later)
    for scope in (RebuildScope(index=False), RebuildScope()):
        with plan_rebuild(root, scope, settings=SMALL) as change:
            change.apply()
        page = decode_checkpoint((root / "checkpoint").read_bytes())
        assert page == (before._replace(index_ms=reached + index_ms) if scope.index else before)
    assert report.record_count == COUNT


def test_beside_an_empty_log_the_checkpoint_promises_nothing(root: Path) -> None:
    before = set_checkpoint(root, index_ms=5, physic_ms=6, logics_ms=7)
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    with plan_rebuild(root, RebuildScope(index=False), settings=SMALL, force_empty_log=True) as change:
        change.apply()
    page = decode_checkpoint((root / "checkpoint").read_bytes())
    assert page == before._replace(physic_ms=0, logics_ms=0, index_ms=0)


@pytest.mark.parametrize("start", [0, 1])
def test_progress_is_in_bytes_from_the_logs_start(start: int, tmp_path: Path) -> None:
    root = (expired_store if start else make_store)(tmp_path / "store", *([] if start else [200]))
    told: list[tuple[int, int]] = []
    report = rebuild_locally(
        StoreReader(str(root)), tmp_path / "new", StoreConfig().with_settings(SMALL), RebuildScope(), clock=Clock(),
        on_progress=lambda *both: told.append(both),
    )  # fmt: skip
    files = (root / "commitlog").iterdir()
    in_all = sum(file.stat().st_size for file in files)
    done, whole = told[-1]
    assert (told == sorted(told), done) == (True, report.log_end - start * SIZE)
    # The whole leaves out the hole at the log's end, which a tmpfs fills where a map is read.
    assert done <= whole <= in_all
    assert staged_files(tmp_path / "new", Filesystem()) == sorted(staged_files(tmp_path / "new", Filesystem()))


@pytest.mark.parametrize("records", [1, 7])
def test_records_beyond_the_confirmed_offset_get_no_units(records: int, root: Path, tmp_path: Path) -> None:
    with open_store(root) as store:
        ends = sorted(one.log_offset + one.size for number in range(3) for one in store.messages("T", number))
    config = StoreConfig().with_settings(SMALL)
    for confirmed, count in ((ends[records - 1] - 1, records - 1), (ends[records - 1], records), (10**9, COUNT)):
        new = tmp_path / str(confirmed)
        rebuild_locally(StoreReader(str(root)), new, config, RebuildScope(confirmed=confirmed), clock=Clock())
        data = b"".join((new / path).read_bytes() for path in files_in(new, "consumequeue"))
        assert sum(size > 0 for _, size, _ in UNIT.iter_unpack(data)) == count


def test_of_expired_queues_beside_an_empty_log_what_they_still_show_is_lost(tmp_path: Path) -> None:
    root = expired_store(tmp_path / "store")
    (root / "consumequeue/T/0" / f"{0:020d}").unlink()
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    with plan_rebuild(root, settings=SMALL, force_empty_log=True) as change:
        assert [*change.lost.items()] == [("Old", 30), ("T", 180)]


@pytest.mark.parametrize("force_empty_log", [True, False])
def test_a_folder_that_is_no_store_is_refused(force_empty_log: bool, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none/file").touch()

    def build(*_: Any) -> RebuildReport:
        return RebuildReport(0, "", 0)

    with pytest.raises(StoreError):
        plan_rebuild(tmp_path / "none", settings=SMALL, force_empty_log=force_empty_log, rebuild=build)
    with pytest.raises(NotAStore):
        rebuild_locally(
            StoreReader(str(tmp_path / "none")), tmp_path / "new", StoreConfig(), RebuildScope(), clock=Clock()
        )


@pytest.mark.parametrize(
    ("scope", "settings", "remarks"),
    [
        (RebuildScope(), {}, ["inferred", "assumed"]),
        (RebuildScope(topic="SCHEDULE_TOPIC_XXXX"), {}, ["inferred", "assumed"]),
        (RebuildScope(), {"messageDelayLevel": "1s 5s"}, ["inferred"]),
        (RebuildScope(topic="T"), {}, []),
        (RebuildScope(queues=False), {}, []),
    ],
)
def test_a_rebuild_of_delayed_queues_names_the_delays_that_it_takes(
    scope: RebuildScope, settings: dict[str, str], remarks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        for properties in (b"DELAY\x013\x02", b""):
            assert store.put(Message("T", b"x", 0, properties)).is_ok
    monkeypatch.setattr(plan, "describe_inferred_delays", lambda *_: ["inferred"])
    monkeypatch.setattr(plan, "describe_assumed_delays", lambda *_: ["assumed"])
    with plan_rebuild(tmp_path / "store", scope, settings={**SMALL, **settings}) as change:
        assert change.remarks == remarks


def test_segments_of_another_size_than_the_given_one_are_refused(root: Path) -> None:
    for size, is_refused in ((SIZE, False), (2 * SIZE, True)):
        settings = {**SMALL, "mappedFileSizeCommitLog": size}
        with nullcontext() if not is_refused else pytest.raises(StoreError):
            plan_rebuild(root, settings=settings).close()
        plan_rebuild(root, settings=settings, force_empty_log=True).close()


def test_an_expired_queue_whose_end_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = expired_store(tmp_path / "store")

    def fail(*_: object) -> None:
        raise StoreError("bad sector")

    monkeypatch.setattr(expired, "_stage_last", fail)
    files = StoreReader(str(root))
    found = expired.keep_expired_ends(files, tmp_path / "new", RebuildScope(topic="Old"), Filesystem())
    assert found == ["Old, queue 0: its next message gets another queue offset: bad sector"]
    assert expired.keep_expired_ends(files, tmp_path / "new", RebuildScope(queues=False), Filesystem()) == []


@pytest.mark.parametrize(
    ("settings", "scope", "has_index"),
    [
        ({}, RebuildScope(), True),
        ({"indexFileWriteEnable": "false"}, RebuildScope(), False),
        ({"messageIndexEnable": "false"}, RebuildScope(), False),
        ({"indexFileWriteEnable": "false"}, RebuildScope(queues=False), True),
        ({}, RebuildScope(index=False), False),
    ],
)
def test_beside_the_queues_an_index_is_built_where_the_broker_writes_one(
    settings: dict[str, str], scope: RebuildScope, has_index: bool, root: Path
) -> None:
    with plan_rebuild(root, scope, settings={**SMALL, **settings}) as change:
        written = {row["file"].split("/")[0] for row in change.rows() if row["action"] == "write"}
    assert ("index" in written) == has_index
