"""Words of this process's memory that should stay as they are, compared without a line of Python for each.

A word is a reference: what an entry of a dictionary, a function or a cell refers to.  It is noted only where CPython
keeps it as expected: the address is that of the object that Python names.  Whatever has no words is left to the caller.
"""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from operator import attrgetter
from types import CellType, FunctionType
from typing import Any

import numpy as np

from harness.engines.virtual.native import llvm_jit

PARTS = ("__code__", "__defaults__", "__kwdefaults__")
"""What a function is made of, and a program may replace; nobody can replace a closure, but what its cells hold."""
WORD = 8
COUNT = 2 * WORD
"""Where a dictionary has the number of its entries."""
NAME = "first_change"
COMPARE = f"""
define i64 @{NAME}(i64 %count, ptr %addresses, ptr %kept) {{
entry:
  br label %check
check:
  %at = phi i64 [ 0, %entry ], [ %next, %same ]
  %is_done = icmp eq i64 %at, %count
  br i1 %is_done, label %end, label %compare
compare:
  %place = getelementptr i64, ptr %addresses, i64 %at
  %address = load i64, ptr %place
  %pointer = inttoptr i64 %address to ptr
  %now = load i64, ptr %pointer
  %other = getelementptr i64, ptr %kept, i64 %at
  %then = load i64, ptr %other
  %is_same = icmp eq i64 %now, %then
  br i1 %is_same, label %same, label %end
same:
  %next = add i64 %at, 1
  br label %check
end:
  ret i64 %at
}}
"""


_parts_of = attrgetter(*PARTS)


@dataclass(slots=True)
class KeptWords:
    """Words that are noted by `note_…`.  The caller keeps the objects whose words they are, and those referred to."""

    _tables: dict[int, int] = field(default_factory=dict[int, int])
    """By address, the words that say where others are: they are compared first."""
    _words: dict[int, int] = field(default_factory=dict[int, int])
    _compared: tuple[Any, Any] | None = None

    def note_function(self, function: FunctionType) -> bool:
        """Note code and defaults; return False if they are not where they are expected."""
        return self._note(id(function), _function_offsets(), _parts_of(function))

    def note_cell(self, cell: CellType) -> bool:
        """Note the content of a cell that is not empty; return False if it is not where it is expected."""
        return self._note(id(cell), _cell_offsets(), (cell.cell_contents,))

    def note_entries(self, entries: Mapping[str, Any], names: Iterable[str], *, counts: bool) -> bool:
        """Note some entries of a dictionary, and their number if it `counts`; return False if they are not found."""
        (table,) = [entries] if isinstance(entries, dict) else gc.get_referents(entries)
        begin = id(table) + dict.__basicsize__
        keys, values = _word(begin - 2 * WORD), _word(begin - WORD)
        if values or _word(id(table) + COUNT) != len(table):  # those of instances stand apart from their keys
            return False
        names = frozenset(names)
        wanted = {id(name): id(value) for name, value in table.items() if name in names}
        size = table.__sizeof__() - dict.__basicsize__
        block = memoryview(ctypes.string_at(keys, size - size % WORD)).cast("Q")
        places = [at for at, word in enumerate(block[:-1]) if word in wanted and block[at + 1] == wanted[word]]
        if len(places) != len(names):
            return False
        self._tables[begin - 2 * WORD] = keys
        if counts:
            self._words[id(table) + COUNT] = len(table)
        for at in chain.from_iterable((at, at + 1) for at in places):
            self._words[keys + at * WORD] = block[at]
        return True

    def _note(self, address: int, offsets: Sequence[int], parts: Iterable[Any]) -> bool:
        words = {address + offset: _word(address + offset) for offset in offsets}
        expected = [(id(part), 0 if part is None else id(part)) for part in parts]
        if len(words) != len(expected) or any(
            word not in either for word, either in zip(words.values(), expected, strict=True)
        ):
            return False
        self._words |= words
        return True

    def prepare(self) -> None:
        """Do now what the first comparison would do, for children of this process."""
        self._compared = (
            np.array([*self._tables, *self._words], np.uint64),
            np.array([*self._tables.values(), *self._words.values()], np.uint64),
        )
        _first_change()

    @property
    def is_changed(self) -> bool:
        """True if any word differs from what was noted when it was prepared."""
        assert self._compared is not None, "it is prepared first"
        addresses, words = self._compared
        return _first_change()(len(words), addresses.ctypes.data, words.ctypes.data) != len(words)


def can_keep() -> bool:
    """Return True if this Python may keep references where they are expected."""
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == WORD and is_locked


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _places(value: object, parts: Sequence[object]) -> tuple[int, ...]:
    """Return where the object has the address of each of its parts; nothing unless each has one place."""
    offsets = range(0, type(value).__basicsize__, WORD)
    found = [[offset for offset in offsets if _word(id(value) + offset) == id(part)] for part in parts]
    return tuple(chain.from_iterable(found)) if all(len(places) == 1 for places in found) else ()


@cache
def _function_offsets() -> tuple[int, ...]:
    def probe(value: object = "default", *, other: object = "keyword") -> None: ...

    return _places(probe, _parts_of(probe))


@cache
def _cell_offsets() -> tuple[int, ...]:
    content = object()
    return _places(CellType(content), (content,))


@cache
def _first_change() -> Callable[[int, int, int], int]:
    """Return the native code; children of this process share it."""
    code = llvm_jit.Code(llvm_jit.compile_object(COMPARE), NAME)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code.address)
    function.code = code  # pyright: ignore[reportAttributeAccessIssue] - it lives as long
    return function
