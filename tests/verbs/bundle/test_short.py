"""With --short old segments are left out of a bundle as if they had expired, and its findings stay the store's."""

from __future__ import annotations

import json
import random
import tarfile
from pathlib import Path

import pytest

from rmqctl.exit_codes import FINDINGS, OK
from store.files.bundle_files import Archive, unpack_bundle
from store.formats.bundle import DOCUMENT
from tests.cli.running import rmqctl
from tests.support.bundled_stores import SEEDS, doctor
from tests.support.quickly import one_of
from tests.support.random_damage import MORE_KINDS, damage
from tests.support.stores import make_store

SEGMENT, MESSAGES = 16384, 600


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", MESSAGES)


def shortened(store: Path, target: Path) -> list[int]:
    """Bundle the store; the numbers of the segments that are left out."""
    run = rmqctl("--format", "json", "bundle", target, "--yes", "--short", store=store)
    assert (run.code, run.json["same_findings"]) == (OK, True), run.err
    assert doctor(target, unpack_bundle(str(target))[0])["diagnoses"] == doctor(store, store)["diagnoses"]
    left_out = [row["file"] for row in run.json["files"] if row["content"] == "left out"]
    assert run.json["size_bytes"] == sum(row["size_bytes"] for row in run.json["files"] if row["content"] != "left out")
    kept = {one.name for one in (unpack_bundle(str(target))[0] / "commitlog").iterdir()}
    assert kept == {one.name for one in (store / "commitlog").iterdir()} - {Path(one).name for one in left_out}
    with tarfile.open(fileobj=Archive(str(target))) as found:
        data = found.extractfile(DOCUMENT)
        assert data is not None
        document = json.load(data)
    assert [one["path"] for one in document["files"] if one["content"] == "left out"] == left_out
    return [int(Path(one).name) // SEGMENT for one in left_out]


@pytest.mark.parametrize(
    ("damaged", "left_out"),
    [
        pytest.param(0, [], marks=pytest.mark.slow),
        (1, []),
        (2, [0]),
        pytest.param(5, [0, 1, 2, 3], marks=pytest.mark.slow),
        (None, [0, 1, 2, 3, 4]),
    ],
)
def test_segments_before_the_neighbour_of_the_first_finding_are_left_out(
    damaged: int | None, left_out: list[int], store: Path, tmp_path: Path
) -> None:
    if damaged is not None:
        with (store / f"commitlog/{damaged * SEGMENT:020d}").open("r+b") as file:
            file.seek(5000)
            file.write(b"\1" * 60)
    assert shortened(store, tmp_path / "case.tar.zst") == left_out


def test_a_finding_that_needs_a_segment_that_is_left_out_is_reported(store: Path, tmp_path: Path) -> None:
    assert MORE_KINDS["no-index"](store, random.Random(1))
    run = rmqctl("bundle", tmp_path / "case.tar.zst", "--yes", "--short", store=store)
    assert (run.code, "in the bundle than in the store: they need files that are left out" in run.err) == (
        FINDINGS,
        True,
    )


@pytest.mark.parametrize("seed", one_of(6, SEEDS))
def test_doctor_gives_the_findings_of_damage_by_chance(seed: int, store: Path, tmp_path: Path) -> None:
    damage(store, random.Random(seed), MORE_KINDS)
    shortened(store, tmp_path / "case.tar.zst")


def test_a_dry_run_lists_what_is_left_out(store: Path, tmp_path: Path) -> None:
    run = rmqctl("--format", "json", "bundle", tmp_path / "x.tar.zst", "--dry-run", "--short", store=store)
    assert (run.code, sum(row["content"] == "left out" for row in run.json["files"])) == (OK, 5)
    assert not (tmp_path / "x.tar.zst").exists()
