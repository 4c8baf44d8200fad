"""The settings of --store, with the source of each value."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.context import Session


def values_and_sources(session: Session) -> Mapping[str, tuple[object, str]]:
    """Return value and source (set, file, inferred) by name, for settings that are given or inferred."""
    from store.config import check_settings
    from store.opened import infer_settings, make_layout

    given = check_settings(session.store.settings())
    root, fs = session.store.reached
    return with_sources(session, infer_settings(make_layout(root, given, fs), given, fs))


def with_sources(session: Session, inferred: Mapping[str, object]) -> Mapping[str, tuple[object, str]]:
    """Return the same, for a caller that has inferred the settings."""
    from store.config import StoreConfig, check_settings

    given = check_settings(session.store.settings())
    StoreConfig().with_settings({**inferred, **given})
    values = {name: (value, "inferred") for name, value in inferred.items()}
    for name, value in given.items():
        values[name] = (value, "set" if name in session.options.settings else "file")
    return values
