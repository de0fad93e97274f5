"""Rules that agree with every point: they separate the sizes that fail from those that pass, the simplest rule first.

A rule is a conjunction of conditions.  Each condition is true at all failing points, and together they exclude all
passing points.  The cheapest such set is a weighted set cover, which a best-first search finds.  Exchanging the two
sides gives rules of the form "fails unless ...".

Owns the vocabulary and the order of simplicity.  A region that the vocabulary cannot express has no rule.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count, permutations

from harness.model.region import HOLDS, SMS, Condition, Point, Relation, Rounding, Rule, Sizes, Term
from harness.model.verdict import Outcome

MAX_CONDITIONS = 4
MAX_ALTERNATIVES = 12
"""How many rules further points try to distinguish."""
MAX_EQUIVALENT = 4
"""How many conditions are kept that exclude the same points."""
MAX_STEPS = 20_000

THRESHOLD, COMPARISON, DIVISION, POWER = 1.0, 1.1, 1.3, 1.7
"""The costs of conditions; lower is simpler."""
DERIVED = 0.6
"""Added for a quotient or a product, which a reader has to compute."""
SHARED = 1.0
"""Added for two nested quotients."""
ROUNDED_DOWN = 0.05
"""Added for rounding down: kernels divide work rounding up more often."""
FACTOR = 0.3
UNNAMED = 0.4
"""Added for a number that is neither a tile size nor a constant of the kernel in the smallest case."""
LOOSE = 0.02
"""Added for a threshold at the nearest passing point.  It is not the one to state, but the one to try next."""
UNLESS = 1.5

ORDERS = (Relation.ABOVE, Relation.BELOW, Relation.AT_LEAST, Relation.AT_MOST)

COMMON = (2, 4, 8, 16, 32, 64, 128)
"""Multiples that matter whatever the tiles: Triton specialises integer arguments on divisibility by 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The numbers that a rule may mention."""

    tiles: frozenset[int] = frozenset()
    """Tile sizes of the kernels in the smallest case."""
    other_tiles: frozenset[int] = frozenset()
    """Tile sizes that they have only with other sizes."""
    labels: Mapping[int, str] = field(default_factory=dict[int, str])
    """The kernel's name for a number: `{32: "BT"}`."""

    @property
    def named(self) -> frozenset[int]:
        """The numbers that the kernels use in the smallest case."""
        return self.tiles | frozenset(self.labels)

    @property
    def moduli(self) -> tuple[int, ...]:
        """All numbers, with those of the kernels in the smallest case first."""
        return (*sorted(self.named), *sorted({*COMMON, *self.other_tiles} - self.named))

    def cost(self, number: int) -> float:
        """Return what the number adds to the cost of a condition."""
        return 0.0 if number in self.named else UNNAMED

    def constant(self, number: int) -> Term:
        """Return the number as a term, with its name if it has one."""
        return Term(factor=number, label=self.labels.get(number, ""))


def rules(points: Iterable[Point], vocabulary: Vocabulary) -> tuple[Rule, ...]:
    """Return up to `MAX_ALTERNATIVES` rules that agree with every point, the simplest first.

    Abstained points are ignored.
    """
    known = tuple(points)
    fails = [point.sizes for point in known if point.outcome is Outcome.FAIL]
    passes = [point.sizes for point in known if point.outcome is Outcome.PASS]
    if not passes:
        return (Rule(conditions=()),) if fails else ()
    if not fails:
        return ()
    priced_rules = [(cost, Rule(conditions=cover)) for cost, cover in _covers(fails, passes, vocabulary)]
    exceptions = ((cost, cover) for cost, cover in _covers(passes, fails, vocabulary))
    priced_rules += [(cost + UNLESS, Rule(conditions=cover, unless=True)) for cost, cover in exceptions]
    ranked = sorted(priced_rules, key=lambda priced: (priced[0], str(priced[1])))
    return tuple(rule for _, rule in ranked[:MAX_ALTERNATIVES])


def agrees(rule: Rule, points: Iterable[Point]) -> bool:
    """Return True if the rule predicts the outcome of every point that did not abstain."""
    return all(
        point.outcome is Outcome.ABSTAIN or rule.fails(point.sizes) is (point.outcome is Outcome.FAIL)
        for point in points
    )


# --- the cover -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PricedCondition:
    cost: float
    condition: Condition
    excludes: int
    """Bit mask of the outside points at which the condition is false."""


def _covers(
    inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary
) -> Iterator[tuple[float, tuple[Condition, ...]]]:
    """Yield conjunctions that hold at all inside points and at no outside point, the cheapest first, with costs."""
    usable = _useful(inside, outside, vocabulary)
    everything = (1 << len(outside)) - 1
    tie = count()  # equal costs pop in the order of insertion; conditions have no order
    waiting: list[tuple[float, int, tuple[_PricedCondition, ...], int]] = [(0.0, next(tie), (), everything)]
    yielded = list[frozenset[Condition]]()
    names = tuple(inside[0])
    for _ in range(MAX_STEPS):
        if not waiting or len(yielded) == MAX_ALTERNATIVES:
            return
        cost, _, chosen, left = heapq.heappop(waiting)
        if not left:
            conditions = frozenset(priced.condition for priced in chosen)
            if not any(conditions >= simpler for simpler in yielded):
                yielded.append(conditions)
                yield cost, tuple(sorted(conditions, key=lambda condition: _reading_order(condition, names)))
        elif len(chosen) < MAX_CONDITIONS:
            # Branch on the point that the fewest conditions exclude: any cover needs one of those few.
            hardest = min(_bits(left), key=lambda bit: sum(priced.excludes >> bit & 1 for priced in usable))
            for priced in usable:
                if priced.excludes >> hardest & 1:
                    heapq.heappush(waiting, (cost + priced.cost, next(tie), (*chosen, priced), left & ~priced.excludes))


def _useful(inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary) -> list[_PricedCondition]:
    """Return the conditions that hold at all inside points and exclude an outside point.

    Of conditions that exclude the same points, only the cheapest few are kept.
    """
    within, without = _Column(inside), _Column(outside)
    priced = [
        _PricedCondition(cost, condition, excludes)
        for cost, condition in _conditions(inside, outside, vocabulary)
        if within.all_hold(condition) and (excludes := without.broken_mask(condition))
    ]
    priced.sort(key=lambda candidate: (candidate.cost, str(candidate.condition)))
    kept, equivalent = list[_PricedCondition](), dict[int, int]()
    for candidate in priced:
        equivalent[candidate.excludes] = equivalent.get(candidate.excludes, 0) + 1
        if equivalent[candidate.excludes] <= MAX_EQUIVALENT:
            kept.append(candidate)
    return kept


class _Column:
    """Points with a cache of each term's values at them, since hundreds of conditions share a few terms."""

    def __init__(self, points: Sequence[Sizes]) -> None:
        self._points = points
        self._values: dict[Term, tuple[int, ...]] = {}

    def all_hold(self, condition: Condition) -> bool:
        holds = HOLDS[condition.relation]
        return all(map(holds, self._values_of(condition.left), self._values_of(condition.right)))

    def broken_mask(self, condition: Condition) -> int:
        """Return a bit mask of the points at which the condition is false."""
        holds = HOLDS[condition.relation]
        values = zip(self._values_of(condition.left), self._values_of(condition.right), strict=True)
        return sum(1 << bit for bit, (left, right) in enumerate(values) if not holds(left, right))

    def _values_of(self, term: Term) -> tuple[int, ...]:
        if term not in self._values:
            self._values[term] = tuple(term.of(sizes) for sizes in self._points)
        return self._values[term]


def _bits(number: int) -> Iterator[int]:
    return (bit for bit in range(number.bit_length()) if number >> bit & 1)


def _reading_order(condition: Condition, names: Sequence[str]) -> tuple[int, int, str]:
    """Return a key that sorts thresholds of one size first, in the order of the sizes, and quotients last."""
    left, right = condition.left, condition.right
    return (2 * bool(left.over or left.times) + bool(right.size), names.index(left.size), str(condition))


# --- the vocabulary, in conditions -----------------------------------------------------------------------------------


def _conditions(
    inside: Sequence[Sizes], outside: Sequence[Sizes], vocabulary: Vocabulary
) -> Iterator[tuple[float, Condition]]:
    """Yield every condition of the vocabulary that may hold at the inside points, with its cost."""
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
    for first, second in combinations(names, 2):
        yield from _comparisons(first, second)
    for first, second in permutations(names, 2):
        yield from _scaled(first, second, vocabulary)


def _terms(names: Sequence[str]) -> Iterator[tuple[float, Term]]:
    for name in names:
        yield 0.0, Term(size=name)
    for first, second in permutations(names, 2):
        yield DERIVED, Term(size=first, over=second)
        yield DERIVED + ROUNDED_DOWN, Term(size=first, over=second, rounding=Rounding.DOWN)
    for first, second in combinations(names, 2):
        yield DERIVED, Term(size=first, times=second)
    if SMS in names:
        for first, second in permutations([name for name in names if name != SMS], 2):
            yield SHARED, Term(size=first, over=SMS, shared_by=second)


def _thresholds(
    cost: float, term: Term, inside: Sequence[Sizes], outside: Sequence[Sizes]
) -> Iterator[tuple[float, Condition]]:
    """Yield the tightest threshold that holds at all inside points, and the loosest that excludes as much."""
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


def _comparisons(first: str, second: str) -> Iterator[tuple[float, Condition]]:
    for relation in (*ORDERS, Relation.EQUAL):
        yield COMPARISON, Condition(left=Term(size=first), relation=relation, right=Term(size=second))


def _scaled(first: str, second: str, vocabulary: Vocabulary) -> Iterator[tuple[float, Condition]]:
    """Yield comparisons of one size with multiples of another."""
    left = Term(size=first)
    for relation in (Relation.MULTIPLE, Relation.NO_MULTIPLE):
        yield DIVISION, Condition(left=left, relation=relation, right=Term(size=second))
    for number in vocabulary.moduli:
        right = Term(factor=number, size=second, label=vocabulary.labels.get(number, ""))
        for relation in ORDERS:
            yield COMPARISON + FACTOR + vocabulary.cost(number), Condition(left=left, relation=relation, right=right)
