"""Which calls an autotuner's key tells apart, and which it does not: decided from calls in which no kernel runs.

`harness.engines.triton.key_survey` makes such calls.  This file chooses the cases, and reads the keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from harness.engines.triton.key_survey import SurveyedCall
from harness.model.case import Case
from harness.model.input_spec import Tensor
from harness.model.op import Op
from harness.model.tuning import KeySweep

Calls = Mapping[str, SurveyedCall]
"""The first call of each autotuned kernel, by the kernel's name."""
_Sizes = Sequence[tuple[int, SurveyedCall]]
"""The calls of one kernel by the size that is swept, ascending."""

IN_A_ROW = 12
"""Sizes one after another in a sweep."""
FEW = 8
"""With fewer sizes in a row it shows too little that each has a key of its own."""
LEAST_TOLD = 4
"""Calls of a sweep: the two extremes, and two sizes in a row."""
MOST_SWEPT_ELEMENTS, MOST_ELEMENTS = 2**20, 2**16
"""Elements of the largest input of a call in which no kernel runs, and of one in which kernels run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A case that shares an entry of a cache with another case, and a config that it may leave there."""

    kernel: str
    case: Case
    config: Any
    mine: SurveyedCall
    its: SurveyedCall

    @property
    def is_pruned(self) -> bool:
        return str(self.config) not in map(str, self.mine.usable)

    @property
    def differing(self) -> tuple[str, ...]:
        there, here = self.its.settings, self.mine.settings
        return tuple(
            f"{name}: {there[name]} there, {here[name]} here"
            for name in here
            if name in there and there[name] != here[name] and name not in self.mine.unused
        )


def sweep(op: Op, case: Case, dim: str) -> tuple[Case, ...]:
    """Return the case at sizes of the dim one after another, and at powers of two, ascending."""
    declared = op.dims[dim]
    first = max(declared.low, min(case.dims[dim], declared.high - IN_A_ROW + 1))
    powers = (2**power for power in range(21) if declared.grows or 2**power <= declared.high)
    sizes = sorted({*range(first, first + IN_A_ROW), *powers})
    swept = (replace(case, dims={**case.dims, dim: size}) for size in sizes if size >= declared.low)
    return tuple(near for near in swept if _elements(op, near) <= MOST_SWEPT_ELEMENTS and _is_legal(op, near, dim))


def telling(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a sweep of which `may_be_needless` needs calls: the two extremes, then those in a row."""
    return tuple(dict.fromkeys((*sizes[:1], *sizes[-1:], *(sizes[at] for at in _row(sizes)))))


def may_be_needless(surveyed: Mapping[int, Calls], sizes: Sequence[int], buckets: Sequence[str]) -> bool:
    """Return False if `needless` yields nothing for a sweep of these sizes, as far as the calls so far tell.

    They tell nothing before there are `LEAST_TOLD`.  A value of a key that is the same for these sizes is taken for the
    same for all.
    """
    if len(surveyed) < min(LEAST_TOLD, len(sizes)):
        return True
    row = frozenset(sizes[at] for at in _row(sizes))

    def is_doubtful(argument: str, seen: _Sizes) -> bool:
        if len({call.key.get(argument) for _, call in seen}) == 1:
            return False
        in_row = [call for size, call in seen if size in row]
        return all(argument in call.unused for _, call in seen) or _is_new(argument, in_row, len(row))

    return any(is_doubtful(argument, seen) for _, argument, seen in _keyed(sorted(surveyed.items()), buckets))


def needless(dim: str, surveyed: Sequence[tuple[int, Calls]], buckets: Sequence[str]) -> Iterator[KeySweep]:
    """Yield the arguments of keys that change in a sweep and decide nothing."""
    for kernel, argument, seen in _keyed(surveyed, buckets):
        if needless_argument := _needless(dim, kernel, argument, seen):
            yield needless_argument


def neighbours(op: Op, case: Case) -> Iterator[Case]:
    """Yield cases that differ from this one in one size, option or optional input."""
    for name, dim in op.dims.items():
        size = case.dims[name]
        for other in dict.fromkeys(dim.choices or (2 * size, size // 2, dim.low, dim.high)):
            yield replace(case, dims={**case.dims, name: other})
    for name, choices in op.options.items():
        for setting in choices:
            yield replace(case, options={**case.options, name: setting})
    for name in op.optional:
        yield replace(case, absent=tuple(sorted({*case.absent} ^ {name})))


def legal_neighbours(op: Op, case: Case) -> tuple[Case, ...]:
    """Return the neighbours that are legal and small, each once."""
    legal = {
        near.digest: near for near in neighbours(op, case) if op.allows(near) and _elements(op, near) <= MOST_ELEMENTS
    }
    return tuple(near for near in legal.values() if near != case)


def difference(case: Case, other: Case) -> str:
    """Return what the other case has in place of this one's settings."""
    changed = [f"{name}={size}" for name, size in other.dims.items() if size != case.dims[name]]
    changed += [f"{name}={value}" for name, value in other.options.items() if value != case.options.get(name)]
    changed += [f"no {name}" for name in other.absent if name not in case.absent]
    changed += [f"with {name}" for name in case.absent if name not in other.absent]
    return ", ".join(changed)


def sharing(mine: Calls, near: Sequence[tuple[Case, Calls]]) -> Candidate | None:
    """Return the most doubtful case that shares a key: one with a config that pruning excludes here, or else small.

    A small case may well choose a config that is too large for this one.
    """
    candidates = [
        candidate
        for case, calls in near
        for kernel, call in calls.items()
        if kernel in mine and (candidate := _candidate(case, mine[kernel], call)) is not None
    ]

    def doubt(candidate: Candidate) -> tuple[bool, int]:
        return not candidate.is_pruned, prod(candidate.case.dims.values())

    return min(candidates, key=doubt, default=None)


def _candidate(case: Case, mine: SurveyedCall, its: SurveyedCall) -> Candidate | None:
    if its.whole_key != mine.whole_key or its.code == mine.code:
        return None
    here = set(map(str, mine.usable))
    excluded = [config for config in its.usable if str(config) not in here]
    configs = excluded or [config for config in its.usable if _constants(its) != _constants(mine)]
    if not configs:
        return None
    return Candidate(kernel=mine.kernel, case=case, config=max(configs, key=_tile), mine=mine, its=its)


def _constants(call: SurveyedCall) -> tuple[object, ...]:
    return tuple(part for part in call.code if isinstance(part, tuple) and len(part) == 2)


def _tile(config: Any) -> int:
    """Return about how much memory a config takes, relative to others."""
    return prod(abs(value) or 1 for value in config.kwargs.values() if isinstance(value, int)) * config.num_stages


def _keyed(surveyed: Sequence[tuple[int, Calls]], buckets: Sequence[str]) -> Iterator[tuple[str, str, _Sizes]]:
    """Yield each kernel with each argument of its key that stands for no class of sizes, and its calls."""
    for kernel in dict.fromkeys(kernel for _, calls in surveyed for kernel in calls):
        seen = [(size, calls[kernel]) for size, calls in surveyed if kernel in calls]
        yield from ((kernel, argument, seen) for argument in seen[0][1].key if argument not in buckets)


def _needless(dim: str, kernel: str, argument: str, seen: _Sizes) -> KeySweep | None:
    """Return the sweep if the argument changes in it and the tunings exceed what decides; None if it is needed."""
    sizes, values = [size for size, _ in seen], [call.key.get(argument, "") for _, call in seen]
    is_unused = all(argument in call.unused for _, call in seen)
    deciding = [_deciding(call, argument, is_unused=is_unused) for _, call in seen]
    tunings, needed = len({call.whole_key for _, call in seen}), len(set(deciding))
    if len(set(values)) == 1 or needed >= tunings:
        return None
    if not is_unused and not _is_new_in_row(argument, seen):
        return None
    return KeySweep(
        kernel=kernel,
        argument=argument,
        dim=dim,
        sizes=tuple(sizes),
        tunings=tunings,
        needed=needed,
        is_unused=is_unused,
    )


def _deciding(call: SurveyedCall, argument: str, *, is_unused: bool) -> tuple[object, ...]:
    """Return what decides about the code of a call besides the argument.

    Other code may change with the size as well, but not by an argument that the code does not use.
    """
    rest = tuple((name, value) for name, value in call.key.items() if name != argument)
    return (tuple(map(str, call.usable)) if is_unused else call.code, *rest)


def _is_new_in_row(argument: str, seen: _Sizes) -> bool:
    """Return True if each of enough sizes in a row has a value of its own, and what decides changes at half at most."""
    row = [seen[at][1] for at in _row([size for size, _ in seen])]
    return _is_new(argument, row, len(row))


def _is_new(argument: str, row: Sequence[SurveyedCall], sizes: int) -> bool:
    """Return True if each call has a value of its own, and what decides changes at half of the sizes in a row at most.

    The calls may be a part of those sizes.
    """
    if sizes < FEW or len({call.key.get(argument, "") for call in row}) < len(row):
        return False
    return 2 * len({_deciding(call, argument, is_unused=False) for call in row}) <= sizes


def _row(sizes: Sequence[int]) -> list[int]:
    """Return the positions of the longest run of sizes one after another."""
    rows: list[list[int]] = [[]]
    for at, size in enumerate(sizes):
        if at and size != sizes[at - 1] + 1:
            rows.append([])
        rows[-1].append(at)
    return max(rows, key=len)


def _is_legal(op: Op, case: Case, dim: str) -> bool:
    """Return True if the case is legal but for the range of a dim that grows."""
    size, high = case.dims[dim], op.dims[dim].high
    if size <= high:
        return op.allows(case)
    return op.dims[dim].grows and op.allows(replace(case, dims={**case.dims, dim: high}))


def _elements(op: Op, case: Case) -> int:
    tensors = (declared for declared in op.inputs.values() if isinstance(declared, Tensor))
    return max((prod(tensor.extents(case.dims)) for tensor in tensors), default=0)
