"""Index files of any geometry: a sound store has no findings, with and without settings that name the geometry."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.findings import INDEX_HEADER, Finding
from store.structures.index.geometry import Geometry
from store.verbs.check.check import SurveyRules, check_files, survey_share
from store.verbs.check.listing import Listing
from tests.support.quickly import one_of
from tests.support.stores import make_store

SEEDS = range(40)


def random_settings(seed: int) -> dict[str, int]:
    """A slot count and an entry count drawn by lot: few slots, many slots, few entries, many entries."""
    random = Random(seed)
    slots = random.choice([1, 2, 5, 63, 64, 65, 100, 499, 500, 501, random.randrange(1, 5000)])
    return {"maxHashSlotNum": slots, "maxIndexNum": random.choice([2, 3, 7, 40, random.randrange(2, 3000)])}


@pytest.mark.parametrize("seed", one_of(9, SEEDS))
def test_a_store_with_any_index_geometry_has_no_findings(seed: int, tmp_path: Path) -> None:
    random = Random(f"messages {seed}")
    root = make_store(tmp_path / "s", random.randrange(1, 60), **random_settings(seed))
    assert list(check_files(StoreReader(str(root)))) == []


FEW_SLOTS, MANY_SLOTS = Geometry(50, 100), Geometry(55, 99)
"""Of one size, 2240 bytes."""


def index_of(geometry: Geometry, root: Path) -> bytes:
    made = make_store(root, 20, queues=1, maxHashSlotNum=geometry.slot_count, maxIndexNum=geometry.entry_count)
    return next((made / "index").iterdir()).read_bytes()


@pytest.mark.parametrize(
    ("order", "settings", "geometry"),
    [
        ([FEW_SLOTS], {}, FEW_SLOTS),
        ([FEW_SLOTS, MANY_SLOTS], {}, FEW_SLOTS),
        ([MANY_SLOTS, FEW_SLOTS], {}, MANY_SLOTS),
        ([None, MANY_SLOTS, FEW_SLOTS], {}, MANY_SLOTS),
        ([FEW_SLOTS], {"maxHashSlotNum": 55}, MANY_SLOTS),
        ([FEW_SLOTS], {"maxHashSlotNum": 56}, FEW_SLOTS),
        ([None], {"maxIndexNum": 100}, FEW_SLOTS),
        ([None], {}, None),
    ],
)
def test_index_files_of_a_size_have_the_geometry_of_the_settings_or_of_the_first_that_tells(
    order: list[Geometry | None], settings: dict[str, object], geometry: Geometry | None, tmp_path: Path
) -> None:
    (tmp_path / "store/index").mkdir(parents=True)
    (tmp_path / "store/index/20260101000000000").write_bytes(bytes(40))
    for number, one in enumerate(order):
        data = index_of(one, tmp_path / str(number)) if one is not None else bytes(FEW_SLOTS.file_size)
        (tmp_path / f"store/index/2026010100000000{number + 1}").write_bytes(data)
    found = Listing.of(StoreReader(str(tmp_path / "store")), settings).index_geometries
    assert found == ({FEW_SLOTS.file_size: geometry} if geometry else {})


def test_the_header_of_the_file_that_a_writer_puts_to_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    data = bytearray(index_of(FEW_SLOTS, tmp_path / "made"))
    data[16:24] = (1).to_bytes(8, "big")
    names = ["index/20260101000000001", "index/20260101000000002"]
    for name in names:
        (tmp_path / name).write_bytes(data)
    rules = SurveyRules(0, {}, [], written_index=names[1])
    files = StoreReader(str(tmp_path))
    found = [survey_share(files, rules, StoredFile(name, 1, len(data), 0)).findings for name in names]
    detail = "begin log offset is 1, the entries make it 0"
    expected = Finding(INDEX_HEADER, str(tmp_path / names[0]), 0, detail=detail)
    assert [[one for one in each if one.kind == INDEX_HEADER] for each in found] == [[expected], []]
