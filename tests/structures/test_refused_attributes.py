"""A topic's attribute that no 5.3 broker reads ends its dispatch: it is named with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import check
from tests.cli.running import rmqctl
from tests.support.stores import make_store


def store_with(root: Path, attributes: dict[str, str], *, was_killed: bool) -> Path:
    """A 5.3 store of the topic T with these attributes."""
    make_store(root, 3)
    (root / "config").mkdir(exist_ok=True)
    topics = {"topicConfigTable": {"T": {"topicName": "T", "attributes": attributes}}}
    (root / "config/topics.json").write_text(json.dumps(topics))
    (root / "abort.bak").touch()
    if was_killed:
        (root / "abort").write_text("1")
    return root


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_wrong_cleanup_policy_is_named_by_check_doctor_and_simulate(was_killed: bool, tmp_path: Path) -> None:
    root = store_with(tmp_path / "store", {"cleanup.policy": "compaction"}, was_killed=was_killed)
    [found] = check(root)
    assert (found.kind, found.offset, found.topic) == ("topic-attribute", 0, "T")
    assert found.detail.startswith("cleanup.policy is 'compaction', expected DELETE or COMPACTION; set it")
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert start["starts"] is not was_killed
    said = start["reason"] if was_killed else "".join(trap["detail"] for trap in start["traps"])
    assert "of topic T cleanup.policy is 'compaction'" in said
    assert "topic-attribute" in rmqctl("--format", "json", "doctor", store=root).out


def test_a_wrong_queue_type_is_named(tmp_path: Path) -> None:
    root = store_with(tmp_path / "store", {"queue.type": "Batch"}, was_killed=False)
    assert {found.kind for found in check(root)} == {"topic-attribute"}
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], "topics.json says Batch" in start["reason"]) == (False, True)


@pytest.mark.parametrize("attributes", [{}, {"cleanup.policy": "DELETE", "queue.type": "SimpleCQ"}])
def test_attributes_that_a_broker_reads_are_no_finding(attributes: dict[str, str], tmp_path: Path) -> None:
    root = store_with(tmp_path / "store", attributes, was_killed=True)
    assert list(check(root)) == []
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], "cleanup.policy" in json.dumps(start)) == (True, False)
