"""Recovery with queues and index built elsewhere: what a local recovery makes of a store that has lost them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from store.change.change import Change
from store.config import StoreConfig
from store.files.store_reader import StoreReader
from store.formats.message import TRANSACTION_PREPARED
from store.query.spark.rebuild import rebuild_on_spark
from store.structures.commitlog.scan import ScanRules
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import Rebuild, RebuildReport, RebuildScope
from store.verbs.recover.plan import plan_recovery
from tests.support.golden import copy_store, golden
from tests.support.quickly import TURN, marks_of, one_of
from tests.support.snapshots import contents
from tests.support.spark_stores import forget_all_but_the_log, segment, sizes_of
from tests.support.stores import SMALL, Clock, overwrite, planning, text_message

GOLDEN = ("normal", "many", "batch", "ipv6", "aborted", "normal5", "preblank", "torn", "corrupt-mid")
CLOCK = Clock()


def local(store: Path, staging: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
    return rebuild_locally(StoreReader(str(store)), staging, config, scope, clock=CLOCK, rules=rules)


def on_spark(
    spark: Any, store: Path, staging: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules
) -> RebuildReport:
    return rebuild_on_spark(spark, str(store), staging, config, scope, now_ms=CLOCK(), rules=rules, parts_per_segment=2)


def recovered(root: Path, compat: str, settings: dict[str, Any], rebuild: Rebuild | None = None) -> Change:
    with planning(root, settings=settings, compat=compat, clock=CLOCK) as opened:
        change = plan_recovery(opened, mode="abnormal", rebuild=rebuild, force_empty_log=True)
        change.apply()
    return change


def assert_same_as_local(source: Path, tmp_path: Path, rebuild: Any, compat: str = "4.9", **settings: Any) -> Change:
    """Recovers two copies, one by `rebuild`; gives the plan of the other."""
    store = copy_store(source, tmp_path / "rebuilt")
    settings = {**sizes_of(source), **settings}
    change = recovered(store, compat, settings, partial(rebuild, store))
    other = forget_all_but_the_log(copy_store(source, tmp_path / "local"))
    wanted = recovered(other, compat, settings)
    for fact in ("record_count", "log_end", "stopped_by", "start_segment", "mode"):
        assert getattr(change.report, fact) == getattr(wanted.report, fact)
    assert change.lost == wanted.lost
    assert contents(store) == contents(other)
    return wanted


@pytest.fixture(scope="module")
def torn_apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten segments with prepared and delayed messages, and damage in the fourth."""
    root = tmp_path_factory.mktemp("torn") / "store"
    clock = Clock()
    with open_store(root, settings=SMALL, read_only=False, clock=clock) as store:
        for number in range(420):
            clock.now_ms += 1000
            message = text_message(number, f"Topic{number % 3}", number // 3 % 2, number * 37 % 300)
            message.sys_flag = TRANSACTION_PREPARED if number % 7 == 0 else 0
            message.properties += b"\x02DELAY\x013" if number % 11 == 0 else b""
            assert store.put(message).is_ok
    overwrite(root / "commitlog" / f"{3 * SMALL['mappedFileSizeCommitLog']:020d}", 5000, b"\xff" * 300)
    return root


def without_segments(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.unlink()


def without_a_segment_in_the_middle(root: Path) -> None:
    segment(root, 1).unlink()


def with_a_bad_crc(root: Path) -> None:
    overwrite(segment(root, 1), 100, b"~~")


def with_a_record_wrong_about_its_place(root: Path) -> None:
    overwrite(segment(root), 245 + 28, (77).to_bytes(8, "big"))


def with_a_topic_that_no_folder_can_have(root: Path) -> None:
    data = segment(root).read_bytes()
    overwrite(segment(root), data.index(b"TopicA"), b"../A/B")


def as_it_was(root: Path) -> None:
    pass


ODD: dict[str, tuple[Callable[[Path], None], str, str, dict[str, Any]]] = {
    "no segment": (without_segments, "normal", "4.9", {}),
    "a segment missing": (without_a_segment_in_the_middle, "normal", "4.9", {}),
    "a bad crc": (with_a_bad_crc, "normal", "4.9", {}),
    "a bad crc that nobody minds": (with_a_bad_crc, "normal", "4.9", {"checkCRCOnRecover": "false"}),
    "no index": (as_it_was, "normal", "4.9", {"messageIndexEnable": "false"}),
    "5.x records under a 4.9 broker": (as_it_was, "normal5", "4.9", {}),
    "a record wrong about its place": (with_a_record_wrong_about_its_place, "normal", "4.9", {}),
    "a topic that no folder can have": (with_a_topic_that_no_folder_can_have, "normal", "4.9", {}),
}


# check is not told that the store is set to have no index.
KINDS = [pytest.param(kind, marks=[pytest.mark.leaves_damage] if kind == "no index" else []) for kind in ODD]
ON_SPARK = [
    pytest.param(*kind.values, marks=[*kind.marks, *marks_of(number - TURN, 3)]) for number, kind in enumerate(KINDS)
]


def odd_store(kind: str, tmp_path: Path) -> Path:
    spoil, name, _, _ = ODD[kind]
    source = copy_store(golden(name).store, tmp_path / "odd")
    spoil(source)
    return source


@pytest.mark.turns(4)
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_store_is_recovered_as_by_a_local_walk(kind: str, tmp_path: Path) -> None:
    _, _, compat, settings = ODD[kind]
    assert_same_as_local(odd_store(kind, tmp_path), tmp_path, local, compat, **settings)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ON_SPARK)
def test_an_odd_store_is_recovered_on_spark_as_by_a_local_walk(spark: Any, kind: str, tmp_path: Path) -> None:
    _, _, compat, settings = ODD[kind]
    assert_same_as_local(odd_store(kind, tmp_path), tmp_path, partial(on_spark, spark), compat, **settings)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", GOLDEN)
def test_what_a_rebuild_says_is_enough_to_recover_by(name: str, tmp_path: Path) -> None:
    assert_same_as_local(golden(name).store, tmp_path, local, golden(name).compat)


def test_a_log_with_damage_in_the_middle_is_cut_and_what_is_lost_is_counted(torn_apart: Path, tmp_path: Path) -> None:
    change = assert_same_as_local(torn_apart, tmp_path, local)
    assert {"Topic0", "Topic1", "Topic2"} <= change.lost.keys()
    assert {action.verb for action in change.actions} == {"remove", "patch", "write"}


@pytest.mark.spark
@pytest.mark.parametrize("name", one_of(9, GOLDEN))
def test_spark_recovers_a_brokers_store_to_the_same_bytes(spark: Any, name: str, tmp_path: Path) -> None:
    assert_same_as_local(golden(name).store, tmp_path, partial(on_spark, spark), golden(name).compat)


@pytest.mark.turns(3)
@pytest.mark.spark
def test_spark_cuts_a_damaged_log_at_the_same_place(spark: Any, torn_apart: Path, tmp_path: Path) -> None:
    assert_same_as_local(torn_apart, tmp_path, partial(on_spark, spark))
