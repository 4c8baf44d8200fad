"""The public names of `store`: what they are, that their examples run, and that nothing in a folder hides them."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import store
from store import BadRequest, Change, StoreLocked, check, staged_store
from tests.support.snapshots import snapshot
from tests.support.stores import make_store

ROOT = Path(__file__).parents[1]
OBJECTS = {name: getattr(store, name) for name in store.__all__}
STUBS = sorted((ROOT / "store").rglob("__init__.pyi"))
MODULES = sorted({value.__module__ for value in OBJECTS.values() if hasattr(value, "__module__")})


def package_of(stub: Path) -> str:
    return ".".join(stub.parent.relative_to(ROOT).parts)


def test_what_a_program_needs_of_a_store_is_public() -> None:
    wanted = """Message Host StoredMessage open_store MessageStore WritableStore ServedStore check CheckOptions
        find simulate salvage export_arrow staged_store plan_recovery plan_rebuild plan_truncation plan_cleaning
        plan_checkpoint plan_delay_offsets
        plan_resolve plan_timer_rebuild Change errors StoreError __version__"""
    assert set(wanted.split()) <= set(store.__all__)
    assert {"messages", "get", "query"} <= set(dir(store.MessageStore))
    assert {"put", "put_many", "close"} <= set(dir(store.WritableStore))


@pytest.mark.parametrize("name", store.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert getattr(store, name).__doc__


def test_the_public_names_are_listed_before_anything_is_imported() -> None:
    code = "import store, sys; print(set(store.__all__) <= set(dir(store)), 'store.engine.open' in sys.modules)"
    assert _python("-c", code).split() == ["True", "False"]


@pytest.mark.parametrize("stub", STUBS, ids=package_of)
def test_a_room_gives_each_name_of_its_stub(stub: Path) -> None:
    room = import_module(package_of(stub))
    lines = [line for line in stub.read_text().splitlines() if line.startswith("from ")]
    assert sorted(line.split()[-1] for line in lines) == [name for name in room.__all__ if name != "__version__"]
    assert all(hasattr(room, name) for name in room.__all__)


@pytest.mark.parametrize("stub", STUBS, ids=package_of)
def test_no_public_name_is_hidden_by_a_module_of_its_room(stub: Path) -> None:
    for line in filter(re.compile("from ").match, stub.read_text().splitlines()):
        _, module, _, name, _, _ = line.split()
        is_module = (stub.with_name(f"{name}.py")).exists() or any(stub.with_name(name).glob("*.py"))
        assert not is_module or module == package_of(stub), line


@pytest.mark.parametrize("on_path", ["store.zip", "./store.zip"])
def test_rooms_are_read_from_a_zip_as_spark_ships_them(tmp_path: Path, on_path: str) -> None:
    with zipfile.ZipFile(tmp_path / "store.zip", "w") as archive:
        for path in (ROOT / "store").rglob("*.py*"):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, {on_path!r});"
        "from store.formats import Body; print(Body)"
    )
    assert _python("-I", "-c", code).strip() == "<class 'store.formats.body.Body'>"


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = store.nothing


@pytest.mark.parametrize("module", ["store", *MODULES])
def test_the_examples_of_the_public_modules_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failed, _ = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS)
    assert failed == 0


VERBS = [
    "open_store",
    "check",
    "find",
    "simulate",
    "salvage",
    "plan_recovery",
    "plan_rebuild",
    "plan_truncation",
    "plan_cleaning",
]


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_of_a_store_has_an_example_that_runs(name: str) -> None:
    """With those of its module, above."""
    module = OBJECTS[name].__module__
    assert module in MODULES
    found = {test.name: test.examples for test in doctest.DocTestFinder().find(import_module(module))}
    assert found[f"{module}.{name}"]


@pytest.mark.parametrize(
    "module", ["store", "store.reading.message_store", "store.engine.writable_store", "store.formats.message"]
)
def test_the_modules_that_a_user_meets_first_have_examples(module: str) -> None:
    assert any(test.examples for test in doctest.DocTestFinder().find(import_module(module)))


PLANS: dict[str, Callable[[str | Path], Change]] = {
    "plan_recovery": store.plan_recovery,
    "plan_rebuild": store.plan_rebuild,
    "plan_truncation": store.plan_truncation,
    "plan_cleaning": lambda root: store.plan_cleaning(root, now_ms=4_000_000_000_000, reserved_hours=0, force=True),
    "plan_checkpoint": store.plan_checkpoint,
    "plan_delay_offsets": lambda root: store.plan_delay_offsets(root, 4_000_000_000_000),
    "plan_resolve": lambda root: store.plan_resolve(root, "no such transaction", commit=True),
    "plan_timer_rebuild": store.plan_timer_rebuild,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with one message, whose checkpoint is lost."""
    root = make_store(tmp_path / "store", 1)
    (root / "checkpoint").unlink()
    return root


def is_free(root: Path) -> bool:
    try:
        with staged_store(root):
            return True
    except StoreLocked:
        return False


def test_each_public_plan_is_in_the_table() -> None:
    assert set(PLANS) == {name for name in store.__all__ if name.startswith("plan_")}


@pytest.mark.parametrize("name", sorted({*PLANS} - {"plan_resolve"}))
@pytest.mark.parametrize("make_path", [Path, str])
def test_a_plan_by_path_holds_the_lock_and_stages_until_it_is_closed(
    name: str, make_path: Callable[[Path], str | Path], root: Path
) -> None:
    before = snapshot(root)
    with PLANS[name](make_path(root)) as change:
        assert change.rows() is not None
        assert not is_free(root)
    assert is_free(root)
    assert snapshot(root) == before
    assert not (root / ".rmqctl/staging").exists()


def test_a_plan_by_path_is_applied_and_leaves_a_sound_store(root: Path) -> None:
    (root / "abort").touch()
    assert {finding.kind for finding in check(root)} == {"checkpoint-invalid"}
    change = store.plan_recovery(root)
    assert change.apply() is not None
    assert is_free(root)
    assert list(check(root)) == []
    assert not (root / ".rmqctl/staging").exists()
    change.close()


def test_a_change_that_fails_gives_the_lock_back(root: Path) -> None:
    def fail(action: object) -> None:
        raise InterruptedError(action)

    before = snapshot(root)
    with pytest.raises(InterruptedError):
        store.plan_checkpoint(root).apply(on_action=fail)
    assert is_free(root)
    assert snapshot(root) == before


def test_a_plan_by_path_that_fails_gives_the_lock_back(root: Path) -> None:
    before = snapshot(root)
    with pytest.raises(BadRequest) as caught:
        PLANS["plan_resolve"](root)
    assert caught.value.code == "no-transaction"
    assert is_free(root)
    assert snapshot(root) == before


def test_the_signature_of_a_plan_shows_that_it_takes_a_path() -> None:
    assert "str | pathlib" in str(inspect.signature(store.plan_recovery).parameters["opened"])


@pytest.mark.parametrize("name", ["open_store", "find", "salvage", "staged_store", "export_arrow"])
def test_a_public_function_names_each_of_its_parameters(name: str) -> None:
    kinds = {parameter.kind for parameter in inspect.signature(OBJECTS[name]).parameters.values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def test_the_command_line_takes_nothing_from_the_file_sets_of_a_store() -> None:
    """They are the engine's own, and change with it."""
    for path in (ROOT / "rmqctl").rglob("*.py"):
        named = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)]
        assert [node.lineno for node in named if node.attr == "opened"] == [], path


@pytest.mark.parametrize("package", ["store", "rmqctl"])
def test_both_packages_say_that_they_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("shadow", ["store.py", "store/__init__.py"])
def test_rmqctl_runs_in_a_folder_that_holds_a_module_named_store(tmp_path: Path, shadow: str) -> None:
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("raise SystemExit('the wrong module')")
    assert _python("-m", "rmqctl", "--version", cwd=tmp_path).startswith("rmqctl ")


def _python(*arguments: str, cwd: Path = ROOT) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
