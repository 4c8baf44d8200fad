"""Past their number the oldest file is returned to be released, if it still lives."""

from __future__ import annotations

from store.files.newest import Newest


class File:
    pass


def test_the_oldest_of_too_many_files_is_returned() -> None:
    newest: Newest[File] = Newest(2)
    first, second, third, fourth = File(), File(), File(), File()
    assert [newest.add(first), newest.add(second)] == [None, None]
    assert newest.add(third) is first
    del second
    assert newest.add(fourth) is None
    assert newest.add(first) is third
