"""How values of several searches become one: each field names its rule, and `merged` applies the rules.

    cases: int = field(metadata=TOTAL)

A field without a rule names the subject of a row.  `merged` takes it from the first row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, TypeVar

from harness.model.executed_lines import summed_line_counts
from harness.model.promising import best_promising

R = TypeVar("R")
RULE = "merge"


def merged(rows: Sequence[R]) -> R:
    """Return one row for several."""
    first: Any = rows[0]
    rules = {each.name: each.metadata[RULE] for each in fields(first) if RULE in each.metadata}
    return replace(first, **{name: rule([getattr(row, name) for row in rows]) for name, rule in rules.items()})


def merged_rows(rows: Iterable[R]) -> tuple[R, ...]:
    """Return one row for each subject, in the order in which the subjects appear."""
    by_subject: dict[tuple[Any, ...], list[R]] = {}
    for row in rows:
        by_subject.setdefault(_subject(row), []).append(row)
    return tuple(map(merged, by_subject.values()))


def _subject(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, each.name) for each in fields(row) if RULE not in each.metadata)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums by name, also those that are 0."""
    sums: dict[str, int] = {}
    for name, count in chain.from_iterable(each.items() for each in counts):
        sums[name] = sums.get(name, 0) + count
    return sums


def largest_first(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums by name, the largest first."""
    return dict(sorted(summed(counts).items(), key=lambda item: (-item[1], item[0])))


def _releases(versions: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the releases by distribution; several of one are listed."""
    releases: dict[str, dict[str, None]] = {}
    for name, version in chain.from_iterable(each.items() for each in versions):
        releases.setdefault(name, {})[version] = None
    return {name: ", ".join(known) for name, known in releases.items()}


def _rule(rule: Callable[[Any], object]) -> Mapping[str, object]:
    return {RULE: rule}


TOTAL = _rule(lambda values: round(sum(values), 3))
ANY = _rule(any)
ALL = _rule(lambda values: tuple(chain.from_iterable(values)))
EACH_ONCE = _rule(lambda values: tuple(dict.fromkeys(chain.from_iterable(values))))
SORTED = _rule(lambda values: tuple(sorted({*chain.from_iterable(values)})))
ROWS = _rule(lambda values: merged_rows(chain.from_iterable(values)))
SUMS = _rule(summed)
LINE_SUMS = _rule(summed_line_counts)
PROMISING = _rule(lambda values: best_promising(chain.from_iterable(values)))
LARGEST_FIRST = _rule(largest_first)
RELEASES = _rule(_releases)
