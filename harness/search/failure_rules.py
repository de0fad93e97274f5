"""Failure rules: what cases that fail have in common, and no other case has.

A rule is one condition on the axes of a case, such as `G > 1` or `dtype = bf16`, or two on different axes if one is not
enough.  Every known case that meets it fails.  The learner covers the failing cases with such rules, one after another:
simple conditions come before others, and among equals the one with the most failing cases.  A divisor or a comparison
of two sizes that covers several single sizes comes before them.

A rule needs enough cases.  Random failures may meet a condition by chance, with no passing case among them.
`_by_chance` returns the probability of that.  A rule is kept only if the probability is tiny.

Rules over the sizes around one smallest case are those of `harness.findings.region`, which can try any size it needs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import combinations, permutations, product
from math import comb
from typing import NamedTuple

from harness.model.case import Case
from harness.model.op import Op
from harness.model.region import Condition, Relation, Sizes, Term, sizes_of
from harness.model.verdict import Outcome

LEAST_CASES = 6
"""A rule is met by at least so many failing cases."""
CHANCE = 1e-5
"""The largest probability of a single condition by chance: a hundred conditions are tried after each batch."""
CHANCE_OF_TWO = 1e-7
"""The same for two conditions together: there are a hundred times as many."""
MAX_RULES = 8
MODULI = (16, 2, 4, 8, 32, 64, 128)
"""Divisors that matter to kernels, the likeliest first: Triton specialises integers on 16, the rest are tiles."""
COMPARISONS = (Relation.ABOVE, Relation.AT_LEAST)
SYMMETRIC_COMPARISONS = (Relation.EQUAL, Relation.DIFFERENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a case is on every axis of its op."""

    settings: Mapping[str, str]
    """By the name of the axis: `{"dtype": "bf16", "bias": "given"}`."""
    sizes: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCase:
    """A place and its outcome.  A case that shows too little abstains, and no rule depends on it."""

    at: Place
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingCondition:
    """A statement about an axis that has no order."""

    axis: str
    value: str
    is_other: bool = False
    """True if the setting must differ from the value."""

    @property
    def kind(self) -> str:
        return str(self)

    def holds(self, at: Place) -> bool:
        # An input that is absent has no layout, and a kernel that is not tuned has no config.
        return self.axis in at.settings and (at.settings[self.axis] == self.value) is not self.is_other

    def __str__(self) -> str:
        return f"{self.axis} {'is not' if self.is_other else '='} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCondition:
    """A statement about sizes."""

    condition: Condition

    @property
    def axis(self) -> str:
        return self.condition.left.size

    @property
    def kind(self) -> str:
        return f"{self.condition.left} {self.condition.relation}"

    def holds(self, at: Place) -> bool:
        return self.condition.holds(at.sizes)

    def __str__(self) -> str:
        return str(self.condition)


AxisCondition = SettingCondition | SizeCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """One or two conditions; every known case that meets all of them fails."""

    conditions: tuple[AxisCondition, ...]

    def holds(self, at: Place) -> bool:
        return all(condition.holds(at) for condition in self.conditions)

    @property
    def kind(self) -> str:
        """The rule without the bounds of sizes, which move as more cases are known."""
        return " and ".join(condition.kind for condition in self.conditions)

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


def place_of(op: Op, case: Case) -> Place:
    """Return the case's place on the axes of its op."""
    settings = op.settings(case)
    plain = {name: str(settings[name]) for name in op.options}
    plain |= {name: "absent" if name in case.absent else "given" for name in op.inputs}
    plain |= dict.fromkeys(case.frozen, "frozen")
    plain |= {
        f"layout of {name}": _word(case.layout_of(name)) for name in (*op.inputs, "grad") if name not in case.absent
    }
    wanted = op.wanted_gradients(case)
    plain |= {f"gradient of {name}": "wanted" if name in wanted else "not wanted" for name in op.differentiable(case)}
    plain |= {f"config of {kernel}": str(index) for kernel, index in case.configs.items()}
    plain |= dict.fromkeys((f"config of {function}" for function in op.host_configs), "its own")
    plain |= {f"config of {picked.function}": picked.config for picked in case.picked}
    plain |= dict.fromkeys(op.environment, "unset") | dict(case.environment)
    choices = {each.name: getattr(case, each.name) for each in fields(case)}
    plain |= {name: _word(choice) for name, choice in choices.items() if isinstance(choice, StrEnum)}
    plain["device"] = case.device.slug
    return Place(settings=plain, sizes=sizes_of(case))


def failure_rules(cases: Iterable[KnownCase]) -> tuple[FailureRule, ...]:
    """Return up to `MAX_RULES` rules; simple ones come first, and among equals the one with the most failing cases.

    A passing case that meets a rule refutes it.
    """
    known = [case for case in cases if case.outcome is not Outcome.ABSTAIN]
    if sum(case.outcome is Outcome.FAIL for case in known) < LEAST_CASES:
        return ()
    table = _Table(known)
    left, chosen = table.fails, list[_Candidate]()
    for candidates, chance in ((table.simple, CHANCE), (table.derived, CHANCE), (table.pairs, CHANCE_OF_TWO)):
        while left.bit_count() >= LEAST_CASES and len(chosen) < MAX_RULES:
            best = _best(candidates(left), left, table.passes, chance)
            if best is None:
                break
            if best in table.sizes:  # rather one rule than a list of sizes
                wider = _best(table.derived(left), left, table.passes, chance)
                best = wider if wider and (wider.met & left).bit_count() > (best.met & left).bit_count() else best
            chosen.append(best)
            left &= ~best.met
    return tuple(FailureRule(conditions=rule.conditions) for rule in _without_special_cases(chosen, table.fails))


class _Candidate(NamedTuple):
    """Conditions, and the cases that meet all of them.  Sets of cases are bit masks."""

    conditions: tuple[AxisCondition, ...]
    met: int


def _best(candidates: Iterable[_Candidate], left: int, passes: int, chance: float) -> _Candidate | None:
    """Return the first candidate that covers the most of the failing cases `left`, and no passing case."""
    best, most = None, LEAST_CASES - 1
    failing, known = left.bit_count(), (left | passes).bit_count()
    for candidate in candidates:
        covered = (candidate.met & left).bit_count()
        if covered > most and not candidate.met & passes and _by_chance(covered, failing, known) <= chance:
            best, most = candidate, covered
    return best


def _by_chance(met: int, failing: int, known: int) -> float:
    """Return the probability that `met` of the `known` cases, picked at random, are all among the `failing` ones."""
    return comb(failing, met) / comb(known, met)


def _without_special_cases(rules: Sequence[_Candidate], fails: int) -> Iterator[_Candidate]:
    """Yield the rules except those whose failing cases a later rule covers too."""
    for number, rule in enumerate(rules):
        if all(rule.met & fails & ~later.met for later in rules[number + 1 :]):
            yield rule


class _Table:
    """Known cases, and the conditions that could explain their outcomes."""

    def __init__(self, known: Sequence[KnownCase]) -> None:
        self._places = [case.at for case in known]
        self.fails = _mask(case.outcome is Outcome.FAIL for case in known)
        self.passes = _mask(case.outcome is Outcome.PASS for case in known)
        settings = sorted({item for at in self._places for item in at.settings.items()})
        self._settings = [self._met(SettingCondition(axis=axis, value=value)) for axis, value in settings]
        self._other_settings = [
            self._met(SettingCondition(axis=axis, value=value, is_other=True)) for axis, value in settings
        ]
        self._columns = {name: self._column(name) for name in self._places[0].sizes}
        self.sizes = [
            _Candidate((_bound(name, Relation.EQUAL, size),), met)
            for name, column in self._columns.items()
            for size, met in column
            if (met & self.fails).bit_count() >= LEAST_CASES
        ]
        self._divisors = [
            self._met(_of_sizes(Condition(left=Term(size=name), relation=relation, right=Term(factor=number))))
            for name in self._columns
            for number, relation in product(MODULI, (Relation.MULTIPLE, Relation.NO_MULTIPLE))
        ]

    def simple(self, fails: int) -> Iterator[_Candidate]:
        """Yield one setting, size or bound each."""
        return self._simple(fails, self.passes)

    def derived(self, fails: int) -> Iterator[_Candidate]:
        """Yield divisors, powers of two, and comparisons of two sizes."""
        del fails
        yield from self._divisors
        for name, relation in product(self._columns, (Relation.POWER, Relation.NO_POWER)):
            yield self._met(_of_sizes(Condition(left=Term(size=name), relation=relation)))
        for pairs, relations in (
            (permutations(self._columns, 2), COMPARISONS),
            (combinations(self._columns, 2), SYMMETRIC_COMPARISONS),
        ):
            for (first, second), relation in product(pairs, relations):
                yield self._met(_of_sizes(Condition(left=Term(size=first), relation=relation, right=Term(size=second))))

    def pairs(self, fails: int) -> Iterator[_Candidate]:
        """Yield two conditions on different axes; the second excludes the passing cases that meet the first."""
        seen = set[int]()
        for first in (*self._settings, *self._round_bounds(), *self._other_settings, *self._divisors):
            passes = first.met & self.passes
            enough = (first.met & fails).bit_count() >= LEAST_CASES
            if not enough or passes in {0, self.passes} or first.met in seen:
                continue
            seen.add(first.met)
            for second in self._simple(first.met & fails, passes):
                conditions = (*first.conditions, *second.conditions)
                if conditions[0].axis != conditions[1].axis:
                    yield _Candidate(conditions, first.met & second.met)

    def _simple(self, fails: int, passes: int) -> Iterator[_Candidate]:
        yield from self._settings
        yield from self.sizes
        for name, column in self._columns.items():
            yield from _bounds(name, column, fails, passes)
        yield from self._other_settings

    def _round_bounds(self) -> Iterator[_Candidate]:
        """Yield bounds at powers of two."""
        for name, column in self._columns.items():
            for power, relation in product(range(column[-1][0].bit_length()), (Relation.ABOVE, Relation.BELOW)):
                yield self._met(_bound(name, relation, 1 << power))

    def _column(self, name: str) -> list[tuple[int, int]]:
        """Return each size of that name, ascending, with the cases that have it."""
        met = defaultdict[int, int](int)
        for bit, at in enumerate(self._places):
            met[at.sizes[name]] |= 1 << bit
        return sorted(met.items())

    def _met(self, condition: AxisCondition) -> _Candidate:
        return _Candidate((condition,), _mask(map(condition.holds, self._places)))


def _bounds(name: str, column: Sequence[tuple[int, int]], fails: int, passes: int) -> Iterator[_Candidate]:
    """Yield the bounds beyond which a case fails and none passes, as near to the failing cases as possible."""
    for relation, outermost_first, step in ((Relation.ABOVE, reversed(column), -1), (Relation.BELOW, column, 1)):
        met, bound = 0, None
        for size, having_it in outermost_first:
            if having_it & passes:
                break
            if having_it & fails:
                bound = size + step
                met |= having_it
            # Sizes of other cases beyond the bound meet it too.
            elif bound is not None:
                met |= having_it
        if bound is not None:
            yield _Candidate((_bound(name, relation, bound),), met)


def _bound(name: str, relation: Relation, size: int) -> SizeCondition:
    return _of_sizes(Condition(left=Term(size=name), relation=relation, right=Term(factor=size)))


def _of_sizes(condition: Condition) -> SizeCondition:
    return SizeCondition(condition=condition)


def _mask(members: Iterable[bool]) -> int:
    """Return the bit mask of the members that are true."""
    digits = "".join("1" if member else "0" for member in members)
    return int(digits[::-1] or "0", 2)


def _word(choice: StrEnum) -> str:
    """Return the name of a choice; its value may be an old word that only files keep."""
    return choice.name.lower().replace("_", "-")
