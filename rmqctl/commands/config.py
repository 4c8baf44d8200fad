"""config: what RocketMQ's settings are for the store at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.result import Result, Table
from rmqctl.settings import values_and_sources

if TYPE_CHECKING:
    from store.config import Setting

EXAMPLES = {
    "config settings": (
        "rmqctl --store /data/store config settings",
        "rmqctl --store /data/store --broker-conf broker.conf config settings flush --effective",
    ),
}
SEE_ALSO = ("check",)
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
    values = values_and_sources(session)
    shown = (lambda value: value) if session.format.is_for_programs else _as_written
    rows = [
        _row(setting, values, shown)
        for setting in all_settings().values()
        if pattern.lower() in setting.name.lower() and (setting.effect or not effective)
    ]
    return Result("config settings", {}, [Table("settings", rows, SHOWN)])


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
