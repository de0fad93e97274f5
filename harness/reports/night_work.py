"""The work of the latest night: each search, what it could not check, what it did not try and what failed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.documents.night_log import ChunkTried
from harness.night.bug_history import NightHistory, Unit, UnitHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTotals:
    """One search of one night, on all machines."""

    search: str
    releases: tuple[str, ...]
    units: int
    """Pairs of op and device that got cases."""
    cases: int
    checked: int
    failed: int
    seconds: float

    @property
    def rate(self) -> float:
        """Cases per second of searching."""
        return self.cases / self.seconds if self.seconds else 0.0

    @property
    def hours(self) -> float:
        return self.seconds / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstainReason:
    """Why cases of the night could not be checked."""

    reason: str
    cases: int
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UntriedUnit:
    """An op of a search on a device that the night gave no case."""

    search: str
    op: str
    device: str
    last: str
    """The latest night that gave it cases; empty if none has."""
    nights_ago: int
    """How long ago that was; 0 if no night has tried it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedChunks:
    """Chunks of one op on one device that have no result, for one reason."""

    search: str
    op: str
    device: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NightWork:
    """What the latest night did."""

    searches: tuple[SearchTotals, ...]
    abstained: tuple[AbstainReason, ...]
    """The most frequent first."""
    unchecked: tuple[UnitHistory, ...]
    """Units that got cases in the night and of which no night has checked any."""
    untried: tuple[UntriedUnit, ...]
    """The longest untried first."""
    failed: tuple[FailedChunks, ...]


def rate_text(rate: float) -> str:
    """Return cases per second with two digits at least: `0.018`, `12.5`."""
    return f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def work_of(history: NightHistory, units: Iterable[Unit] = ()) -> NightWork:
    """Return what the latest night did.

    Args:
        history: that of all nights.
        units: all that a night may try; those of earlier nights if there are none.
    """
    tried = [chunk for totals in history.nights[-1:] for run in totals.runs for chunk in run.tried]
    whole = [chunk for chunk in tried if not chunk.failure]
    of_tonight = {(chunk.search, chunk.op, chunk.device) for chunk in whole if chunk.cases}
    return NightWork(
        searches=tuple(_searches(whole)),
        abstained=tuple(_abstained(whole)),
        unchecked=tuple(unit for key, unit in sorted(history.units.items()) if key in of_tonight and not unit.checked),
        untried=tuple(sorted(_untried(history, of_tonight, units), key=_longest_first)),
        failed=tuple(_failed(tried)),
    )


def _searches(tried: Sequence[ChunkTried]) -> Iterator[SearchTotals]:
    for search in sorted({chunk.search for chunk in tried}):
        own = [chunk for chunk in tried if chunk.search == search]
        yield SearchTotals(
            search=search,
            releases=tuple(dict.fromkeys(chunk.release for chunk in own if chunk.release)),
            units=len({(chunk.op, chunk.device) for chunk in own if chunk.cases}),
            cases=sum(chunk.cases for chunk in own),
            checked=sum(chunk.checked for chunk in own),
            failed=sum(chunk.failed for chunk in own),
            seconds=sum(chunk.seconds for chunk in own),
        )


def _abstained(tried: Iterable[ChunkTried]) -> Iterator[AbstainReason]:
    cases: dict[str, int] = defaultdict(int)
    ops: dict[str, set[str]] = defaultdict(set)
    for chunk in tried:
        for reason, count in chunk.abstain_reasons.items():
            cases[reason] += count
            ops[reason].add(chunk.op)
    for reason in sorted(cases, key=lambda reason: (-cases[reason], reason)):
        yield AbstainReason(reason=reason, cases=cases[reason], ops=tuple(sorted(ops[reason])))


def _untried(history: NightHistory, of_tonight: set[Unit], units: Iterable[Unit]) -> Iterator[UntriedUnit]:
    ago = {totals.night: number for number, totals in enumerate(reversed(history.nights))}
    for unit in {*units} or {*history.units}:
        if unit not in of_tonight:
            search, op, device = unit
            known = history.units.get(unit)
            last = known.last if known else ""
            yield UntriedUnit(search=search, op=op, device=device, last=last, nights_ago=ago.get(last, 0))


def _longest_first(unit: UntriedUnit) -> tuple[bool, int, str, str, str]:
    return bool(unit.last), -unit.nights_ago, unit.search, unit.op, unit.device


def _failed(tried: Iterable[ChunkTried]) -> Iterator[FailedChunks]:
    counts: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for chunk in tried:
        if chunk.failure:
            counts[chunk.search, chunk.op, chunk.device, chunk.failure] += 1
    for (search, op, device, reason), count in sorted(counts.items()):
        yield FailedChunks(search=search, op=op, device=device, reason=reason, count=count)
