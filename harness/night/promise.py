"""The order in which a night tries ops: where bugs are expected first.

1. What is new or has changed since it was last tried, by the sources that the op reaches, or else by its release.
2. What has open bugs: are they still there?
3. The rest, what was tried longest ago first, and of these what was tried least.

Among equals one device comes after the other: all ops on one device tell more than one op on all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.night.bug_history import BugHistory, NightHistory, Unit, UnitHistory
from harness.night.night_settings import SearchSettings
from harness.search.options import Options


class TurnReason(IntEnum):
    """Why an op has its turn; lower ones come first."""

    CHANGED = 0
    OPEN_BUGS = 1
    LONG_AGO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSearch:
    """One search of a night, with everything loaded."""

    settings: SearchSettings
    options: Options
    """Of all its ops on all its devices."""
    release: str
    """The libraries for a reader: `fla-core 0.6.0`."""
    digests: Mapping[str, str]
    """By op, of the sources that it reaches; without an entry its release decides."""

    @property
    def name(self) -> str:
        return self.settings.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisingUnit:
    """An op of a search on a device, and what earlier nights know of it."""

    search: NightSearch
    op: Op
    device: DeviceProfile
    reason: TurnReason
    known: UnitHistory
    open_bugs: tuple[BugHistory, ...] = ()
    promising: tuple[Case, ...] = ()
    """Cases of earlier nights, the most promising first."""

    @property
    def unit(self) -> Unit:
        return self.search.name, self.op.id, self.device.slug

    @property
    def digest(self) -> str:
        return self.search.digests.get(self.op.id, "")


def units_in_order(search: NightSearch, history: NightHistory) -> tuple[PromisingUnit, ...]:
    """Return all ops of a search on all its devices, the most promising first."""
    nights = [night.night for night in history.nights]
    units = [_unit(search, op, device, history) for device in search.options.devices for op in search.options.ops]

    def rank(unit: PromisingUnit) -> tuple[int, int, int]:
        age = nights.index(unit.known.last) if unit.known.last in nights else -1
        return unit.reason, age, unit.known.cases

    return tuple(sorted(units, key=rank))


def _unit(search: NightSearch, op: Op, device: DeviceProfile, history: NightHistory) -> PromisingUnit:
    key = (search.name, op.id, device.slug)
    known = history.units.get(key, UnitHistory(search=search.name, op=op.id, device=device.slug))
    bugs = tuple(bug for bug in history.bugs if bug.is_open and _was_seen(bug, key))
    digest = search.digests.get(op.id, "")
    changed = not known.nights or (digest != known.digest if digest else search.release != known.release)
    reason = TurnReason.CHANGED if changed else TurnReason.OPEN_BUGS if bugs else TurnReason.LONG_AGO
    kept = history.memory.units.get(key)
    promising = tuple(row.case for row in kept.promising) if kept else ()
    return PromisingUnit(
        search=search, op=op, device=device, reason=reason, known=known, open_bugs=bugs, promising=promising
    )


def _was_seen(bug: BugHistory, unit: Unit) -> bool:
    """Return True if the bug's smallest case is one of the op, and its search saw it on its device.

    Other ops may launch the same kernel, and show the bug too.
    """
    search, op, device = unit
    is_op = bug.finding is not None and bug.finding.case.op == op
    return is_op and any((look.search, look.device) == (search, device) for look in bug.seen)


def turns(searches: Sequence[Sequence[PromisingUnit]]) -> Iterator[tuple[PromisingUnit, int]]:
    """Yield units in their turns without end, each with the number of its turn in this night, from 0.

    A search with twice the share has twice the turns.  Each has its own units in order, and begins again at their end.
    """
    waiting = [units for units in searches if units]
    spent = [0.0] * len(waiting)
    taken = [0] * len(waiting)
    while waiting:
        place = min(range(len(waiting)), key=lambda at: (spent[at], at))
        units = waiting[place]
        yield units[taken[place] % len(units)], taken[place] // len(units)
        taken[place] += 1
        spent[place] += 1 / units[0].search.settings.share
