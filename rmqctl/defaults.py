"""Defaults of the global options, from ~/.config/rmqctl.toml and from variables.

    store = "/data/rocketmq/store"
    format = "plain"
    [set]
    maxMessageSize = 8388608

The file is in XDG_CONFIG_HOME if that is set. A variable overrides the file, and the command line both.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

import typer

from rmqctl.options import global_options
from rmqctl.show import did_you_mean

FILE_NAME = "rmqctl.toml"
_NOT_OPTIONS = {"ctx", "version"}
_NAMES = {"settings": "set"}


def option_names() -> dict[str, str]:
    """Return the parameter of each global option by its name in the file, such as remote-retries."""
    parameters = [name for name in inspect.signature(global_options).parameters if name not in _NOT_OPTIONS]
    return {_NAMES.get(name, name).replace("_", "-"): name for name in parameters}


def read_defaults(variables: Mapping[str, str]) -> dict[str, object]:
    """Return the defaults by parameter.

    Raise a usage error for an unreadable file, and for a name that is no global option.
    """
    names = option_names()
    found = {names[name]: value for name, value in _of_file(variables, names).items()}
    for name, parameter in names.items():
        text = variables.get("RMQCTL_" + name.replace("-", "_").upper())
        if text:
            found[parameter] = text.split() if parameter == "settings" else text
    return found


def _of_file(variables: Mapping[str, str], names: Mapping[str, str]) -> dict[str, object]:
    folder = variables.get("XDG_CONFIG_HOME") or (f"{variables['HOME']}/.config" if variables.get("HOME") else "")
    path = Path(folder or ".", FILE_NAME)
    if not folder or not path.is_file():
        return {}
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} can't be read: {error}") from None
    for name in table.keys() - names.keys():
        raise typer.BadParameter(f"{path}: {name!r} is no global option{did_you_mean(name, names)}")
    if isinstance(table.get("set"), dict):
        table["set"] = [f"{name}={_text(value)}" for name, value in table["set"].items()]
    elif not isinstance(table.get("set", []), list):
        raise typer.BadParameter(f"{path}: write the settings as a table [set], or set as a list of NAME=VALUE")
    return table


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
