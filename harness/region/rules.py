"""Rules that agree with every point: what tells the sizes that fail from those that pass, the simplest first.

A rule is a conjunction.  Only a condition that is true of every failing point can be part of one, so the search is for
the cheapest few of those that between them exclude every passing point: a weighted set cover, explored best first.
The same is done with the two sides exchanged, for rules that say where a kernel is spared ("fails unless ...").

Owns the vocabulary and the order of simplicity.  What no vocabulary of this size can express stays without a rule.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count, permutations

from harness.model.region import HOLDS, SMS, Condition, Point, Relation, Rounding, Rule, Sizes, Term
from harness.model.verdict import Outcome

MOST_CONDITIONS = 4
MOST_ALTERNATIVES = 12
"""How many rules are told apart by further points."""
ALIKE = 4
"""Conditions kept of those that exclude the same points."""
MOST_STEPS = 20_000

THRESHOLD, COMPARISON, DIVISION, POWER = 1.0, 1.1, 1.3, 1.7
DERIVED = 0.6
"""What a quotient or a product adds, for a reader has to compute it."""
SHARED = 1.0
"""The same where it has to compute two."""
ROUNDED_DOWN = 0.05
"""Kernels divide work rounding up more often than down."""
FACTOR = 0.3
UNNAMED = 0.4
"""What a number adds that is no tile size and no constant of the kernel in the smallest case."""
LOOSE = 0.02
"""A threshold as far out as the passing points let it be: not the one to state, but the one to try next."""
UNLESS = 1.5

ORDERS = (Relation.ABOVE, Relation.BELOW, Relation.AT_LEAST, Relation.AT_MOST)

COMMON = (2, 4, 8, 16, 32, 64, 128)
"""Multiples that compilers and kernels care for, whatever the tiles: 16 is what Triton specialises by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The numbers that a rule may speak of."""

    tiles: frozenset[int] = frozenset()
    """Tile sizes of the kernels in the smallest case."""
    tiles_elsewhere: frozenset[int] = frozenset()
    """Those that they have with other sizes alone."""
    labels: Mapping[int, str] = field(default_factory=dict[int, str])
    """What the kernel at fault calls a number: `{32: "BT"}`."""

    @property
    def named(self) -> frozenset[int]:
        """The numbers that the kernels use in the smallest case."""
        return self.tiles | frozenset(self.labels)

    @property
    def moduli(self) -> tuple[int, ...]:
        """All of them, those of the kernels in the smallest case first."""
        return (*sorted(self.named), *sorted({*COMMON, *self.tiles_elsewhere} - self.named))

    def cost(self, number: int) -> float:
        """What using the number adds to a condition."""
        return 0.0 if number in self.named else UNNAMED

    def constant(self, number: int) -> Term:
        """The number, with its name where it has one."""
        return Term(factor=number, label=self.labels.get(number, ""))


def rules(points: Iterable[Point], vocabulary: Vocabulary) -> tuple[Rule, ...]:
    """Up to `MOST_ALTERNATIVES` rules that agree with every point, the simplest first; abstained points say nothing."""
    judged = tuple(points)
    fails = [point.at for point in judged if point.outcome is Outcome.FAIL]
    passes = [point.at for point in judged if point.outcome is Outcome.PASS]
    if not passes:
        return (Rule(conditions=()),) if fails else ()
    if not fails:
        return ()
    found = [(cost, Rule(conditions=cover)) for cost, cover in _covers(fails, passes, vocabulary)]
    spared = ((cost, cover) for cost, cover in _covers(passes, fails, vocabulary))
    found += [(cost + UNLESS, Rule(conditions=cover, unless=True)) for cost, cover in spared]
    return tuple(rule for _, rule in sorted(found, key=lambda priced: (priced[0], str(priced[1])))[:MOST_ALTERNATIVES])


def agrees(rule: Rule, points: Iterable[Point]) -> bool:
    """Whether the rule says of every point what was seen there."""
    return all(
        point.outcome is Outcome.ABSTAIN or rule.fails(point.at) is (point.outcome is Outcome.FAIL) for point in points
    )


# --- the cover -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Priced:
    cost: float
    condition: Condition
    excludes: int
    """A bit for each point outside at which it is false."""


def _covers(
    inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary
) -> Iterator[tuple[float, tuple[Condition, ...]]]:
    """Conjunctions that hold at all points inside and at none outside, the cheapest first, each with its cost."""
    known = _useful(inside, outside, vocabulary)
    everything = (1 << len(outside)) - 1
    tie = count()
    waiting: list[tuple[float, int, tuple[_Priced, ...], int]] = [(0.0, next(tie), (), everything)]
    told = list[frozenset[Condition]]()
    names = tuple(inside[0])
    for _ in range(MOST_STEPS):
        if not waiting or len(told) == MOST_ALTERNATIVES:
            return
        cost, _, chosen, left = heapq.heappop(waiting)
        if not left:
            conditions = frozenset(one.condition for one in chosen)
            if not any(conditions >= simpler for simpler in told):
                told.append(conditions)
                yield cost, tuple(sorted(conditions, key=lambda one: _reading_order(one, names)))
        elif len(chosen) < MOST_CONDITIONS:
            hardest = min(_bits(left), key=lambda bit: sum(one.excludes >> bit & 1 for one in known))
            for one in known:
                if one.excludes >> hardest & 1:
                    heapq.heappush(waiting, (cost + one.cost, next(tie), (*chosen, one), left & ~one.excludes))


def _useful(inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary) -> list[_Priced]:
    """The conditions true of every point inside that exclude a point outside; a few of those that exclude the same."""
    within, without = _Column(inside), _Column(outside)
    priced = [
        _Priced(cost, condition, excludes)
        for cost, condition in _conditions(inside, outside, vocabulary)
        if within.all_hold(condition) and (excludes := without.where_broken(condition))
    ]
    priced.sort(key=lambda one: (one.cost, str(one.condition)))
    kept, alike = list[_Priced](), dict[int, int]()
    for one in priced:
        alike[one.excludes] = alike.get(one.excludes, 0) + 1
        if alike[one.excludes] <= ALIKE:
            kept.append(one)
    return kept


class _Column:
    """Points, and what each term is at all of them, computed once: hundreds of conditions share a few terms."""

    def __init__(self, points: Sequence[Sizes]) -> None:
        self._points = points
        self._values: dict[Term, tuple[int, ...]] = {}

    def all_hold(self, condition: Condition) -> bool:
        holds = HOLDS[condition.relation]
        return all(map(holds, self._of(condition.left), self._of(condition.right)))

    def where_broken(self, condition: Condition) -> int:
        """A bit for each point at which the condition is false."""
        holds = HOLDS[condition.relation]
        values = zip(self._of(condition.left), self._of(condition.right), strict=True)
        return sum(1 << bit for bit, (left, right) in enumerate(values) if not holds(left, right))

    def _of(self, term: Term) -> tuple[int, ...]:
        if term not in self._values:
            self._values[term] = tuple(term.of(sizes) for sizes in self._points)
        return self._values[term]


def _bits(number: int) -> Iterator[int]:
    return (bit for bit in range(number.bit_length()) if number >> bit & 1)


def _reading_order(condition: Condition, names: Sequence[str]) -> tuple[int, int, str]:
    """Thresholds of one size first, in the sizes' order; quotients last."""
    left, right = condition.left, condition.right
    return (2 * bool(left.over or left.times) + bool(right.size), names.index(left.size), str(condition))


# --- the vocabulary, in conditions -----------------------------------------------------------------------------------


def _conditions(
    inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary
) -> Iterator[tuple[float, Condition]]:
    """Every condition of the vocabulary that may be true inside, with its cost."""
    everywhere = (*inside, *outside)
    names = [name for name in everywhere[0] if len({sizes[name] for sizes in everywhere}) > 1]
    for cost, term in _terms(names):
        yield from _thresholds(cost, term, inside, outside)
        for number in vocabulary.moduli:
            constant = vocabulary.constant(number)
            priced = cost + DIVISION + vocabulary.cost(number)
            yield priced, Condition(left=term, relation=Relation.MULTIPLE, right=constant)
            yield priced, Condition(left=term, relation=Relation.NO_MULTIPLE, right=constant)
        for relation in (Relation.POWER, Relation.NO_POWER):
            yield cost + POWER, Condition(left=term, relation=relation)
    for one, other in combinations(names, 2):
        yield from _comparisons(one, other)
    for one, other in permutations(names, 2):
        yield from _scaled(one, other, vocabulary)


def _terms(names: Sequence[str]) -> Iterator[tuple[float, Term]]:
    for name in names:
        yield 0.0, Term(size=name)
    for one, other in permutations(names, 2):
        yield DERIVED, Term(size=one, over=other)
        yield DERIVED + ROUNDED_DOWN, Term(size=one, over=other, rounding=Rounding.DOWN)
    for one, other in combinations(names, 2):
        yield DERIVED, Term(size=one, times=other)
    if SMS in names:
        for one, other in permutations([name for name in names if name != SMS], 2):
            yield SHARED, Term(size=one, over=SMS, shared_by=other)


def _thresholds(
    cost: float, term: Term, inside: Sequence[Sizes], outside: Sequence[Sizes]
) -> Iterator[tuple[float, Condition]]:
    """The closest threshold that lets every point inside through, and the one farthest out that excludes as much."""
    within = [term.of(sizes) for sizes in inside]
    without = [term.of(sizes) for sizes in outside]
    least, most = min(within), max(within)
    if least == most:
        yield cost + THRESHOLD, Condition(left=term, relation=Relation.EQUAL, right=Term(factor=least))
    under = max((value for value in without if value < least), default=least - 1)
    over = min((value for value in without if value > most), default=most + 1)
    for relation, close, far in ((Relation.ABOVE, least - 1, under), (Relation.BELOW, most + 1, over)):
        yield cost + THRESHOLD, Condition(left=term, relation=relation, right=Term(factor=close))
        if far != close:
            yield cost + THRESHOLD + LOOSE, Condition(left=term, relation=relation, right=Term(factor=far))


def _comparisons(one: str, other: str) -> Iterator[tuple[float, Condition]]:
    for relation in (*ORDERS, Relation.EQUAL):
        yield COMPARISON, Condition(left=Term(size=one), relation=relation, right=Term(size=other))


def _scaled(one: str, other: str, vocabulary: Vocabulary) -> Iterator[tuple[float, Condition]]:
    """What one size is beside a multiple of another."""
    left = Term(size=one)
    for relation in (Relation.MULTIPLE, Relation.NO_MULTIPLE):
        yield DIVISION, Condition(left=left, relation=relation, right=Term(size=other))
    for number in vocabulary.moduli:
        right = Term(factor=number, size=other, label=vocabulary.labels.get(number, ""))
        for relation in ORDERS:
            yield COMPARISON + FACTOR + vocabulary.cost(number), Condition(left=left, relation=relation, right=right)
