"""Shell completion from the store: topics, queue ids, consumer groups, changes that can be undone.

Only names of folders and small files are read, no engine is imported; a store that cannot be read completes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import typer

from rmqctl.options import DEFAULT_STORE


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return topics with a folder in consumequeue/."""
    return _chosen(_names(_root(ctx) / "consumequeue"), incomplete)


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Queue ids of the topic that was given."""
    topics = set(_names(_root(ctx) / "consumequeue"))
    # Words before an option that has no value yet are not parsed: the words themselves name the topic.
    topic = ctx.params.get("topic") or next((word for word in _words() if word in topics), None)
    return _chosen(_names(_root(ctx) / "consumequeue" / topic), incomplete) if topic else []


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return consumer groups of config/subscriptionGroup.json and config/consumerOffset.json."""
    config = _root(ctx) / "config"
    groups = set(_table(config / "subscriptionGroup.json", "subscriptionGroupTable"))
    groups |= {name.partition("@")[2] for name in _table(config / "consumerOffset.json", "offsetTable")}
    return _chosen(groups, incomplete)


def complete_change(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of the changes in the store's quarantine."""
    return _chosen(_names(_root(ctx) / ".rmqctl" / "quarantine"), incomplete)


def _words() -> list[str]:
    """Return the command line so far: bash hands it over under one name, the other shells under Typer's."""
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()


def _root(ctx: typer.Context) -> Path:
    """Return the store of --store, wherever it was given, or of the environment."""
    given = ctx.params.get("global_store")
    root = ctx.find_root().params.get("store")
    default = os.environ.get("RMQCTL_STORE") or DEFAULT_STORE
    chosen = given if given and given != DEFAULT_STORE else root
    return Path(chosen or default).expanduser()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _table(file: Path, name: str) -> Iterable[str]:
    try:
        return list(json.loads(file.read_text("utf-8")).get(name) or ())
    except (OSError, ValueError, AttributeError, TypeError):
        return []


def _chosen(names: Iterable[str], incomplete: str) -> list[str]:
    """Name a shell can take back: a name with control characters is left out."""
    return sorted((name for name in names if name.startswith(incomplete) and name.isprintable()), key=_natural)


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 62, name)
