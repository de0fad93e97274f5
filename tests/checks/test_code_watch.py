"""A watched function is noticed by the place of its code."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checks.code_watch import Place, place_of, watch_of

SOURCE = """
def watched():
    return [1]

def caller():
    return sorted(watched())

def other():
    return 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "problem.py"
    path.write_text(SOURCE)
    return path


def _imported(file: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102 - the text above
    return names


def _place(file: Path) -> Place:
    return place_of(_imported(file)["watched"].__code__)


def _is_noticed(place: Place | None, call: Callable[[], object]) -> bool:
    watch = watch_of(place)
    watch.begin()
    try:
        call()
    finally:
        is_noticed = watch.end()
    return is_noticed


def test_a_call_is_noticed_under_another_import_of_the_file(file: Path) -> None:
    assert [_is_noticed(_place(file), _imported(file)[name]) for name in ("watched", "caller", "other")] == [
        True,
        True,
        False,
    ]


def test_a_call_in_a_thread_that_begins_meanwhile_is_noticed(file: Path) -> None:
    def in_thread() -> None:
        thread = threading.Thread(target=_imported(file)["caller"])
        thread.start()
        thread.join()

    assert _is_noticed(_place(file), in_thread)


def test_each_watch_begins_anew(file: Path) -> None:
    names, place = _imported(file), _place(file)
    assert [_is_noticed(place, names[name]) for name in ("caller", "other", "caller")] == [True, False, True]


def test_no_place_is_never_called(file: Path) -> None:
    assert not _is_noticed(None, _imported(file)["watched"])
