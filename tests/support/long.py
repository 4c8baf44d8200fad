"""Write long.txt: the functions that take most of the time of a run of all tests.

    pytest -m 'not slow and not other_turn' --junitxml RUN.xml
    python -m tests.support.long RUN.xml

The default run shows one in LONG_TURNS of their rows. Golden bytes and the rules of the house are in every run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

SHARE = 0.8
"""Of the time of all tests."""
ALWAYS = ("tests/golden/", "tests/test_tidy.py")

Case = tuple[str, str, float]
"""Module or class, name, seconds, as in a JUnit file."""


def long_functions(cases: Iterable[Case]) -> list[str]:
    """Return the functions with the greatest times that take SHARE of the time together, by name."""
    seconds = Counter[str]()
    for owner, name, took in cases:
        seconds[_nodeid(owner, name)] += took
    found, left = [], SHARE * seconds.total()
    for function, took in seconds.most_common():
        if left <= 0:
            break
        left -= took
        found += [] if function.startswith(ALWAYS) else [function]
    return sorted(found)


def _nodeid(owner: str, name: str) -> str:
    """Return a function as pytest names it, without its row; `owner` ends with the class of a method."""
    parts = owner.split(".")
    classes = [part for part in parts if part[0].isupper()]
    return "::".join(("/".join(parts[: len(parts) - len(classes)]) + ".py", *classes, name.split("[")[0]))


if __name__ == "__main__":
    run = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    lines = long_functions((case.attrib["classname"], case.attrib["name"], float(case.attrib["time"])) for case in run)
    Path(__file__).with_name("long.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
