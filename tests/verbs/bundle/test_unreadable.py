"""A store with an unreadable page is bundled all the same: the page is unreadable in the bundle too."""

from __future__ import annotations

import json
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from rmqctl.exit_codes import FINDINGS
from store.files.bundle_files import Archive, unpack_bundle
from store.formats.bundle import UNREADABLE
from tests.cli.running import rmqctl
from tests.support.bundled_stores import doctor
from tests.support.quickly import one_of
from tests.support.stores import make_store
from tests.support.unreadable_stores import MESSAGES, PLACES, SIZES, Sector, spoil

PAGE = 4096
TABLES = {
    "the checkpoint": Sector("checkpoint", 0),
    "the topics": Sector("config/topics.json", 0),
    "the consumer offsets": Sector("config/consumerOffset.json", 0),
}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("healthy") / "store", MESSAGES, **SIZES)
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text('{"topicConfigTable": {}}')
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {}}')
    return root


@pytest.mark.parametrize("place", one_of(5, [*PLACES, *TABLES]))
def test_doctor_finds_in_the_bundle_the_unreadable_page_of_the_store(
    place: str, healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = tmp_path / "store", tmp_path / "case.tar.zst"
    shutil.copytree(healthy, store)
    sector = {**Sector.all_of(store), **TABLES}[place]
    path = store / sector.path
    start, stop = sector.page * PAGE, min((sector.page + 1) * PAGE, path.stat().st_size)
    spoil(monkeypatch, path, sector.page)
    run = rmqctl("--format", "json", "bundle", target, "--yes", store=store)
    assert (run.code, run.err) == (FINDINGS, f"warning: {sector.path}: can't read bytes {start} to {stop}\n")
    assert run.json["same_findings"]
    assert doctor(target, unpack_bundle(str(target))[0]) == doctor(store, store)
    archive = Archive(str(target))
    with tarfile.open(fileobj=BytesIO(b"".join(archive.pieces(0, archive.size)))) as found:
        member, data = found.extractfile(UNREADABLE), found.extractfile(f"store/{sector.path}")
        assert member is not None
        assert data is not None
        assert json.load(member) == {sector.path: [[start, stop]]}
        assert not any(data.read()[start:stop])
