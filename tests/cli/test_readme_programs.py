"""The README's program and lines of SQL: each runs as it stands there, but for the folders."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden import golden

TEXT = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")


def test_the_program_prints_the_message_that_it_found(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("/tmp/orders", str(tmp_path / "orders"))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[b'hello']\n", "")


@pytest.mark.turns(4)
def test_the_lines_of_sql_answer_and_export(tmp_path: Path) -> None:
    section = TEXT.split("\n## SQL, here and on Spark\n")[1]
    lines = section.partition("```sh\n")[2].partition("```")[0].splitlines()
    here = [line for line in lines if "--master" not in line]
    places = {"/mnt/a": golden("normal").store, "/mnt/b": tmp_path / "b", "/data": tmp_path}
    codes = []
    for line in here:
        for name, place in places.items():
            line = line.replace(name, str(place))
        line = line.replace("rmqctl ", f"{sys.executable} -m rmqctl ")
        codes.append(subprocess.run(["sh", "-c", line], capture_output=True, timeout=120, check=False).returncode)
    assert (len(lines), codes) == (4, [0, 0, 0])
    assert list((tmp_path / "orders").iterdir())
    assert list((tmp_path / "b/commitlog").iterdir())
