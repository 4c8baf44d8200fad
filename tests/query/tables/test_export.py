"""An export: refused before an engine starts, and published as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.errors import BadRequest
from store.query.tables.export import Export, check_export, published


@pytest.mark.parametrize(
    ("target", "fields", "stores", "reason"),
    [
        ("new", {"kind": "xml"}, 1, "no export is called 'xml'"),
        ("s3://bucket/x", {}, 1, "an export goes to a folder of this machine, not to s3:/bucket/x"),
        ("new", {"where": "(" * 501 + "1" + ")" * 501}, 1, "more than 500 brackets inside brackets"),
        ("new", {"where": "(" * 500 + "1" + ")" * 500}, 1, None),
        ("-", {"kind": "parquet"}, 1, "only JSON lines go to stdout, undivided"),
        ("-", {"kind": "jsonl", "partition_by": ["topic"]}, 1, "only JSON lines go to stdout, undivided"),
        ("-", {"kind": "jsonl"}, 1, None),
        (".", {}, 1, "the target already exists"),
        ("new", {}, 1, None),
        ("new", {"partition_by": ["topic", "day"]}, 1, None),
        ("new", {"partition_by": ["store"]}, 1, "cannot partition by store"),
        ("new", {"partition_by": ["store"]}, 2, None),
        ("new", {"partition_by": ["x", "body", "a"]}, 1, "cannot partition by a, body, x"),
        ("new", {"partition_by": ["topic", "topic"]}, 1, "a column to partition by is named twice"),
    ],
)  # fmt: skip
def test_an_export_that_must_fail_is_refused_first(
    target: str, fields: dict[str, Any], stores: int, reason: str | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    export = Export(**{"kind": "parquet", **fields})
    if reason is None:
        check_export(Path(target), export, stores)
    else:
        with pytest.raises(BadRequest, match=reason):
            check_export(Path(target), export, stores)


@pytest.mark.parametrize(("with_body", "left_out"), [(True, set()), (False, {"body", "body_problem"})])
def test_an_export_without_bodies_has_no_column_of_them(with_body: bool, left_out: set[str]) -> None:
    whole = Export("parquet").columns.keys()
    assert whole - Export("parquet", with_body=with_body).columns.keys() == left_out


def test_an_export_is_published_whole_and_nothing_is_left_of_a_failed_or_killed_one(tmp_path: Path) -> None:
    target, staged = tmp_path / "a/new", tmp_path / "a/.new.part"
    staged.mkdir(parents=True)
    (staged / "killed").touch()
    with published(target) as folder:
        assert (folder, staged.exists()) == (staged, False)
        folder.mkdir()
        (folder / "part").touch()
    assert ([path.name for path in target.iterdir()], staged.exists()) == (["part"], False)

    with published(tmp_path / "b/c/new") as folder:
        folder.mkdir()
    assert (tmp_path / "b/c/new").is_dir()

    def fail() -> None:
        with published(tmp_path / "a/other") as folder:
            folder.mkdir()
            raise BadRequest("no")

    with pytest.raises(BadRequest):
        fail()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["new"]
