"""Defaults of the global options, from ~/.config/rmqctl.toml and from variables.

    store = "/data/rocketmq/store"
    format = "plain"
    [set]
    maxMessageSize = 8388608

The file is in XDG_CONFIG_HOME if that is set. A variable overrides the file, and the command line both.
"""

from __future__ import annotations

import inspect
import re
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
        text = variables.get(_variable(name))
        if text:
            found[parameter] = text.split() if parameter == "settings" else text
    return found


def origin_of_default(parameter: str, variables: Mapping[str, str]) -> str | None:
    """Name the variable or the file with the default of a parameter; None for one without."""
    name = next((name for name, each in option_names().items() if each == parameter), None)
    if name is None:
        return None
    return _variable(name) if variables.get(_variable(name)) else str(_file(variables))


def default_in(text: str, defaults: Mapping[str, object]) -> str | None:
    """Return the parameter whose default an error's text begins with or complains of; None without one."""
    for parameter, value in defaults.items():
        if parameter == "settings" and isinstance(value, list):
            names = [str(setting).partition("=")[0] for setting in value]
            is_shown = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)
        else:
            path = Path(str(value)).expanduser()
            begins = (f"{path}:", f"{path.absolute()}:", f"{value}:", f"Invalid value for --{parameter}:")
            is_shown = text.startswith(begins)
        if is_shown:
            return parameter
    return None


def _variable(name: str) -> str:
    return "RMQCTL_" + name.replace("-", "_").upper()


def _file(variables: Mapping[str, str]) -> Path | None:
    folder = variables.get("XDG_CONFIG_HOME") or (f"{variables['HOME']}/.config" if variables.get("HOME") else "")
    return Path(folder, FILE_NAME) if folder else None


def _of_file(variables: Mapping[str, str], names: Mapping[str, str]) -> dict[str, object]:
    path = _file(variables)
    if path is None or not path.is_file():
        return {}
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} can't be read: {error}") from None
    for name in table.keys() - names.keys():
        raise typer.BadParameter(f"{path}: {name!r} is no global option{did_you_mean(name, names)}")
    try:
        return {
            name: _settings(value) if name == "set" else _value(name, names, value) for name, value in table.items()
        }
    except ValueError as error:
        raise typer.BadParameter(f"{path}: {error}") from None


def _settings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={_text(name, each)}" for name, each in value.items()]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("write the settings as a table [set], or set as a list of NAME=VALUE")
    return value


def _value(name: str, names: Mapping[str, str], value: object) -> object:
    """Return a flag as it is, and the text of any other value, as on a command line."""
    if isinstance(inspect.signature(global_options).parameters[names[name]].default, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is neither true nor false: {value!r}")
        return value
    if isinstance(value, bool):
        raise ValueError(f"{name} is neither a text nor a number: {_text(name, value)}")
    return _text(name, value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"{name} is neither a text nor a number: {value}")
    return str(value).lower() if isinstance(value, bool) else str(value)
