"""Words of memory that should stay as they are: each change shows, and none shows where nothing changed."""

from collections.abc import Callable
from types import CellType
from typing import Any

import pytest

from harness.checks.kept_words import KeptWords, can_keep

pytestmark = pytest.mark.skipif(not can_keep(), reason="this Python keeps references elsewhere")


class Owner:
    """A class with methods, whose dictionary may move."""

    def first(self) -> int:
        return 1

    def second(self, value: int = 2, *, other: int = 3) -> int:
        return value + other


def _of(note: Callable[[KeptWords], bool]) -> KeptWords:
    words = KeptWords()
    assert note(words)
    words.prepare()
    return words


@pytest.mark.parametrize("name", ["__code__", "__defaults__", "__kwdefaults__"])
def test_another_part_of_a_function_shows(name: str) -> None:
    def function(value: object = "one", *, other: object = "two") -> object:
        return value, other

    words = _of(lambda words: words.note_function(function))
    kept, other = getattr(function, name), getattr(Owner.second, name)
    for value, is_changed in ((kept, False), (other, True), (kept, False)):
        setattr(function, name, value)
        assert words.is_changed == is_changed


def test_another_content_of_a_cell_shows() -> None:
    cell, content = CellType("one"), "one"
    words = _of(lambda words: words.note_cell(cell))
    for value, is_changed in ((content, False), ("two", True), (content, False)):
        cell.cell_contents = value
        assert words.is_changed == is_changed


@pytest.mark.parametrize("owner", [dict(vars(Owner)), vars(Owner)])
def test_a_noted_entry_that_is_replaced_or_deleted_shows(owner: Any) -> None:
    kept = dict(owner)

    def put(name: str, value: object) -> None:
        owner.update({name: value}) if isinstance(owner, dict) else setattr(Owner, name, value)

    words = _of(lambda words: words.note_entries(owner, ["first"], counts=False))
    put("second", None)
    assert not words.is_changed
    put("first", None)
    assert words.is_changed
    put("second", kept["second"])
    put("first", kept["first"])
    assert not words.is_changed


@pytest.mark.parametrize("counts", [False, True])
def test_a_new_entry_shows_only_where_entries_are_counted(*, counts: bool) -> None:
    entries = {f"name {at}": object() for at in range(6)}
    words = _of(lambda words: words.note_entries(entries, ["name 1"], counts=counts))
    entries["another"] = object()
    assert words.is_changed == counts


def test_a_dictionary_that_has_moved_shows() -> None:
    entries: dict[str, object] = {"one": object()}
    words = _of(lambda words: words.note_entries(entries, entries, counts=False))
    entries.update({f"name {at}": None for at in range(100)})
    assert words.is_changed
    assert not _of(lambda words: words.note_entries(entries, ["one"], counts=False)).is_changed


def test_entries_of_instances_are_not_noted() -> None:
    class Instance:
        def __init__(self) -> None:
            self.one = object()

    instance = Instance()
    assert not KeptWords().note_entries(vars(instance), ["one"], counts=False)
