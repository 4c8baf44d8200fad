"""config: what RocketMQ's settings are for the store at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.result import Result, Table

if TYPE_CHECKING:
    from store.config import Setting

EXAMPLES = {
    "config settings": (
        "rmqctl --store /data/store config settings",
        "rmqctl --store /data/store --broker-conf broker.conf config settings flush --effective",
    ),
}
SHOWN = ("name", "value", "source", "effect")


def run_settings(
    ctx: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[TEXT]", help="Only names that contain it.")] = "",
    effective: Annotated[bool, typer.Option("--effective", help="Only settings with an effect.")] = False,
) -> Result:
    """List a broker's settings and where they come from.

    Each with its value here and what it changes. Sources: set (--set), file (--broker-conf), inferred (read off the
    store's files), default. A setting without an effect is one that nothing here depends on; a name that no broker
    knows is refused.
    """
    from store.config import all_settings

    session: Session = ctx.obj
    values = _values(session)
    shown = (lambda value: value) if session.format.is_for_programs else _as_written
    rows = [
        _row(setting, values, shown)
        for setting in all_settings().values()
        if pattern.lower() in setting.name.lower() and (setting.effect or not effective)
    ]
    return Result("config settings", {}, [Table("settings", rows, SHOWN)])


def _values(session: Session) -> Mapping[str, tuple[Any, str]]:
    """Value and source by name, for settings that are not at their default."""
    from store.config import StoreConfig, check_settings
    from store.disk.filesystem import Filesystem
    from store.opened.detect import infer_settings, make_layout

    given = check_settings(session.settings())
    inferred = infer_settings(make_layout(session.root, given), given, Filesystem())
    StoreConfig().with_settings({**inferred, **given})
    values = {name: (value, "inferred") for name, value in inferred.items()}
    for name, value in given.items():
        values[name] = (value, "set" if name in session.options.settings else "file")
    return values


def _as_written(value: Any) -> Any:
    """The value as --set takes it."""
    return str(value).lower() if isinstance(value, bool) else value


def _row(setting: Setting, values: Mapping[str, tuple[Any, str]], shown: Callable[[Any], Any]) -> dict[str, Any]:
    value, source = values.get(setting.name, (setting.default, "default"))
    return {
        "name": setting.name,
        "value": shown(value),
        "source": source,
        "default": shown(setting.default),
        "type": setting.type,
        "effect": setting.effect or "none",
        "owner": setting.owner,
    }
