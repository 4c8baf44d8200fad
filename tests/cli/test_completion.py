"""What a shell completes from the store: names that begin with the word, from folders and small tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.completion import complete_change, complete_group, complete_queue, complete_topic
from rmqctl.options import DEFAULT_STORE


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RMQCTL_STORE", "COMP_WORDS", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    for name in ("TopicA/0", "TopicA/2", "TopicA/10", "TopicA/x", "TopicB/7", "a\x1bb/0"):
        (root / "consumequeue" / name).mkdir(parents=True)
    (root / "consumequeue/Topic-file").touch()
    for change in ("2026-undo", "2025-recover"):
        (root / ".rmqctl/quarantine" / change).mkdir(parents=True)
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"T@billing": {}, "T@audit": {}}}')
    (root / "config/subscriptionGroup.json").write_text('{"subscriptionGroupTable": {"audit": {}, "new": {}}}')
    return root


def context(store: Path | str | None = None, **params: Any) -> Any:
    """The context of a command after `rmqctl --store STORE`."""
    return SimpleNamespace(params=params, find_root=lambda: SimpleNamespace(params={"store": store}))


def test_names_of_topics_changes_and_groups_are_completed_in_their_order(store: Path) -> None:
    ctx = context(store)
    assert complete_topic(ctx, "") == ["TopicA", "TopicB"]
    assert complete_topic(ctx, "TopicB") == ["TopicB"]
    assert complete_change(ctx, "202") == ["2025-recover", "2026-undo"]
    assert complete_group(ctx, "") == ["audit", "billing", "new"]
    assert complete_group(ctx, "b") == ["billing"]


@pytest.mark.parametrize(
    ("params", "variables", "found"),
    [
        ({"topic": "TopicA"}, {}, ["0", "2", "10", "x"]),
        ({"topic": "TopicB"}, {"COMP_WORDS": "rmqctl get TopicA --queue"}, ["7"]),
        ({}, {"COMP_WORDS": "rmqctl get TopicA --queue"}, ["0", "2", "10", "x"]),
        ({}, {"_TYPER_COMPLETE_ARGS": "rmqctl get TopicB --queue"}, ["7"]),
        ({}, {"COMP_WORDS": "rmqctl get other --queue"}, []),
        ({}, {}, []),
    ],
)
def test_queues_are_those_of_the_topic_on_the_line(
    params: dict[str, str], variables: dict[str, str], found: list[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert complete_queue(context(store, **params), "") == found


@pytest.mark.parametrize(
    ("after", "before", "variable", "chosen"),
    [
        ("after", "before", "variable", "after"),
        (DEFAULT_STORE, "before", "variable", "before"),
        (None, "before", "variable", "before"),
        (None, None, "variable", "variable"),
        (None, None, None, "store"),
        (None, "~/before", None, "before"),
    ],
)
def test_the_store_is_given_after_the_command_before_it_or_by_the_variable(
    after: str | None, before: str | None, variable: str | None, chosen: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("after", "before", "variable", "store"):
        (tmp_path / name / "consumequeue" / name).mkdir(parents=True)
    if variable is not None:
        monkeypatch.setenv("RMQCTL_STORE", variable)
    assert complete_topic(context(before, global_store=after), "") == [chosen]


@pytest.mark.parametrize("text", ["", "[]", '{"offsetTable": 7}', '{"offsetTable": null}', "{}", "\xff"])
def test_a_table_that_can_not_be_read_completes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/consumerOffset.json").write_bytes(text.encode("latin-1"))
    assert complete_group(context(tmp_path), "") == []
    assert complete_topic(context(tmp_path), "") == []
