"""Where the threads of a program wait for each other, from the assembly of a kernel whose TTIR has numbered lines.

The compiler adds barriers of its own: a reduction over several warps or a change of layout goes through shared memory.
Only the code that it makes shows them.  So the lines of a TTIR text become the source lines of its operations, and the
`.loc` before a barrier names the operation that it belongs to, in PTX and in AMD's assembly alike.
"""

import re
from dataclasses import dataclass

_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_BARRIER = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.(?:sync|red)|\bbarrier\.cluster\.wait|\bs_barrier(?:_wait)?\b")
_ACCESS = re.compile(
    r"\b(?:ld|st|atom|red)\.\S*global|\bcp\.async\.\w+\.shared|\b(?:global|buffer|flat)_(?:load|store|atomic)"
)
_NUMBERED = re.compile(r'loc\("ttir":(\d+):0\)')


def numbered_lines(ttir: str) -> str:
    """Return the TTIR text with `loc("ttir":N:0)` at the end of line N, for each operation that ends there."""
    lines = ttir.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(" ") and line.endswith(")") and " loc(" in line:
            lines[number] = f'{line[: line.rindex(" loc(")]} loc("ttir":{number + 1}:0)'
    return "\n".join(lines)


def line_of(location: str) -> int:
    """Return the line of a location that `numbered_lines` made; 0 for another one."""
    match = _NUMBERED.fullmatch(location)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class BarrierPoints:
    """The lines of operations with a barrier before and after their own accesses to global memory."""

    before: frozenset[int]
    after: frozenset[int]


@dataclass(slots=True)
class _Line:
    """The order of the accesses and barriers of one operation."""

    first_access: int = -1
    last_access: int = -1
    first_barrier: int = -1
    last_barrier: int = -1


def barrier_points(assembly: str) -> BarrierPoints:
    """Return where a kernel with numbered lines has barriers.

    A barrier between two accesses of one operation counts on both sides of it, as does one without a line, which the
    compiler merged.  So what may be ordered is taken for ordered.
    """
    lines: dict[int, _Line] = {}
    current, was_without = 0, False
    both: set[int] = set()
    for number, text in enumerate(assembly.splitlines()):
        if match := _LOC.match(text):
            line = int(match[1])
            was_without = not line
            current = line or current
        elif _BARRIER.search(text):
            if was_without:
                both.add(current)
            at = lines.setdefault(current, _Line())
            at.first_barrier = number if at.first_barrier < 0 else at.first_barrier
            at.last_barrier = number
        elif _ACCESS.search(text):
            at = lines.setdefault(current, _Line())
            at.first_access = number if at.first_access < 0 else at.first_access
            at.last_access = number
    return BarrierPoints(
        frozenset(both.union(line for line, at in lines.items() if _is_before(at))),
        frozenset(both.union(line for line, at in lines.items() if _is_after(at))),
    )


def _is_before(at: _Line) -> bool:
    return at.first_barrier >= 0 and (at.last_access < 0 or at.first_barrier < at.last_access)


def _is_after(at: _Line) -> bool:
    return at.last_barrier >= 0 and at.last_barrier > at.first_access
