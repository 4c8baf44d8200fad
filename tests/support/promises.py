"""What rmqctl promises to keep, one promise a line, and the lines of tests/promises.txt that hold it to them.

python -m tests.support.promises     records what was added; refuses what was taken away without a deprecation

They are commands with their options, aliases, exit codes, variables, names of JSON documents, and names of `store`.
A promise says what a caller relies on, so that a line goes where a caller breaks, and stays where something is added.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import store
from rmqctl import exit_codes
from rmqctl.app import app
from rmqctl.commands import ALIASES, COMMANDS, DOCUMENTS
from rmqctl.deprecated import DEPRECATED
from rmqctl.manpages import ENVIRONMENT
from rmqctl.schema import load_schema

MADE_BY_CALLERS = ("Message", "Host", "StoreConfig", "CheckOptions", "RebuildScope", "ScanRules", "MessageColumns")
"""The classes whose constructors are promises; what else is public, a function or a method returns."""
INTERNAL = ("opened",)
"""Attributes that public classes have for the engine."""
RECORDED = Path(__file__).resolve().parents[1] / "promises.txt"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def promises() -> set[str]:
    """Return every promise of the present code."""
    found = {f"exit {value} {name}" for name, value in vars(exit_codes).items() if isinstance(value, int)}
    found |= {f"alias {alias} is {words}" for alias, words in ALIASES.items()}
    found |= {f"variable {name}" for names in ENVIRONMENT for name in names.split(", ") if name != "..."}
    root: Any = typer.main.get_command(app)
    found |= set(_of_parameters("global", root.params))
    for place in COMMANDS:
        found |= {f"command {place.path}", *_of_parameters(f"command {place.path}", _find(root, place.path).params)}
    for name in DOCUMENTS:
        found |= set(_of_document(name))
    for name in store.__all__:
        found |= set(_of_name(f"store {name}", getattr(store, name)))
    return found


def recorded() -> list[str]:
    return RECORDED.read_text("utf-8").splitlines()


def broken(
    before: Collection[str], now: Collection[str], deprecated: Mapping[str, tuple[str, str]], version: str
) -> list[str]:
    """Return the broken promises that no earlier minor version deprecated.

    A document's number goes up with the first name that it loses, and not before.
    """
    names = {_name_of(line): _types_of(line) for line in now if line.startswith("document ")}
    narrowed = {line for line in before if line.startswith("document ") and _is_narrowed(line, names)}
    lost = sorted(line for line in set(before) - set(now) if not _is_kept_by_alias(line, now) and line not in narrowed)
    may_go = {line for line in lost if any(_covers(key, line) for key in _expired(deprecated, version))}
    losers = {line.split(" names ")[0] for line in may_go if line.startswith("document ")}
    numbers = {line for line in before if line.startswith("document ") and " is rmqctl." in line}
    left = [line for line in lost if line not in may_go and not (line in numbers and line.split(" is ")[0] in losers)]
    same = [line for line in sorted(numbers & set(now)) if line.split(" is ")[0] in losers]
    return left + [f"{line}: its number has to go up, as a name went" for line in same]


def _is_kept_by_alias(line: str, now: Collection[str]) -> bool:
    """Return whether the old name of a renamed command still works."""
    aliases = (words.removeprefix("alias ").split(" is ") for words in now if words.startswith("alias "))
    return any(
        f"command {new}{line.removeprefix(f'command {old}')}" in now
        for old, new in aliases
        if _covers(f"command {old}", line)
    )


def _name_of(line: str) -> str:
    return line.rpartition(": ")[0]


def _types_of(line: str) -> set[str]:
    return set(line.rpartition(": ")[2].split(" or "))


def _is_narrowed(line: str, names: Mapping[str, set[str]]) -> bool:
    """Whether a name has fewer types now, or is always there: a caller that met the former meets nothing new."""
    name, types = _name_of(line), _types_of(line)
    always = name.removesuffix("?")
    now = names.get(name) or names.get(always) or set()
    return bool(now) and ("any" in types or now <= types)


def _expired(deprecated: Mapping[str, tuple[str, str]], version: str) -> list[str]:
    return [key for key, (since, _) in deprecated.items() if _minor(since) < _minor(version)]


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _covers(key: str, line: str) -> bool:
    return line == key or line.startswith(tuple(f"{key}{end}" for end in " .[:?"))


def _find(command: Any, path: str) -> Any:
    for word in path.split():
        command = command.commands[word]
    return command


def _of_parameters(of: str, parameters: Collection[Any]) -> Iterator[str]:
    """Yield a command's options with their kinds of values, its arguments with positions, and the required ones."""
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    needed = [
        (one.opts[0] if one.param_type_name == "option" else one.name.upper()) for one in parameters if one.required
    ]
    yield f"{of} needs {', '.join(sorted(needed)) or 'nothing'}"
    for place, one in enumerate(arguments, 1):
        yield f"{of} takes {one.name.upper()} as {place}"
    for one in parameters:
        names = [one.name.upper()] if one in arguments else [*one.opts, *one.secondary_opts]
        is_flag = getattr(one, "is_flag", False)
        for name in names:
            if one not in arguments:
                yield f"{of} {name} {'is a flag' if is_flag else 'takes a value'}"
            yield from (f"{of} {name} may be {choice}" for choice in getattr(one.type, "choices", ()))
            if one.nargs == -1 or getattr(one, "multiple", False):
                yield f"{of} {name} may be repeated"
        if not is_flag and isinstance(one.default, int | float | str) and not isinstance(one.default, bool):
            yield f"{of} {names[0]} is {one.default} by default"


def _of_document(command: str) -> Iterator[str]:
    schema: Any = load_schema(command)
    yield f"document {command} is {schema['title']}"
    for path, said in _properties(schema, schema["$defs"]):
        types = said.get("type", "string" if "enum" in said else "any")
        yield f"document {command} names {path}: {types if isinstance(types, str) else ' or '.join(sorted(types))}"
        yield from (f"document {command} names {path} = {value}" for value in said.get("enum", ()))


def _properties(schema: Any, words: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each name of a document by its path, optional ones with a question mark."""
    for name, said in schema.get("properties", {}).items():
        said = words[said["$ref"].rpartition("/")[2]] if "$ref" in said else said
        path = f"{above}{name}{'' if name in schema.get('required', ()) else '?'}"
        if name != "schema":
            yield path, said
        yield from _properties(said, words, f"{path}.")
        yield from _properties(said.get("items", {}), words, f"{path}[].")


def _of_name(of: str, value: object) -> Iterator[str]:
    """Yield a public name; for a class and the module of errors also the public names in it."""
    yield of
    if isinstance(value, ModuleType):
        own = {name: one for name, one in vars(value).items() if getattr(one, "__module__", "") == value.__name__}
        for name in own:
            if not name.startswith("_"):
                yield f"{of}.{name}"
    elif isinstance(value, type):
        yield from _of_class(of, value)
    elif callable(value):
        yield from _of_function(of, value)


def _of_class(of: str, value: type) -> Iterator[str]:
    if value.__name__ in MADE_BY_CALLERS:
        yield from _of_function(of, value)
    outside = {name for one in value.__mro__ if not one.__module__.startswith("store") for name in dir(one)}
    names = {*dir(value), *getattr(value, "__dataclass_fields__", ())} - outside - {*INTERNAL}
    for name in sorted(name for name in names if not name.startswith("_")):
        yield f"{of}.{name}"
        member = inspect.getattr_static(value, name, None)
        if inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            yield from _of_function(f"{of}.{name}", getattr(value, name), is_method=inspect.isfunction(member))


def _of_function(of: str, function: Any, *, is_method: bool = False) -> Iterator[str]:
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in _VARIADIC]
    yield f"{of} needs {', '.join(sorted(needed)) or 'nothing'}"
    for place, one in enumerate(parameters, 1):
        yield f"{of} takes {one.name}{f' as {place}' if one.kind in _POSITIONAL else ''}"


def main() -> int:
    now = promises()
    before = recorded() if RECORDED.exists() else []
    if lost := broken(before, now, DEPRECATED, store.__version__):
        print("taken away or changed without a deprecation (see man/rmqctl-stability.md):", *lost, sep="\n  ")
        return 1
    RECORDED.write_text("\n".join(sorted(now)) + "\n", "utf-8")
    print(f"{len(now)} promises, {len(now - set(before))} new, {len(set(before) - now)} expired")
    return 0


if __name__ == "__main__":
    sys.exit(main())
