"""What a memory says of each bug: new, still there, back, flaky, gone or not looked for, and since when.

*Gone* is said only of what was looked for: the bug's own smallest case ran, on its device and in its search, and did
not show it.  A bug that comes and goes while the sources stay the same is flaky.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.documents.night_log import ChunkTried, NightSighting
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Severity, Signature
from harness.night.night_memory import NightMemory, NightRun

PATIENCE = 3
"""Nights in a row that a flaky bug must be looked for in vain before it is gone."""


class BugState(StrEnum):
    """What a night knows of a bug."""

    NEW = "new"
    """No night before had seen it."""
    BACK = "back"
    """It was gone."""
    STILL_THERE = "still there"
    FLAKY = "flaky"
    """It comes and goes while the sources stay the same."""
    GONE = "gone"
    """Since this night or an earlier one."""
    NOT_LOOKED_FOR = "not looked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One night that looked for a bug in one search on one device."""

    night: str
    search: str
    device: str
    release: str
    digest: str
    sighting: NightSighting | None
    """None if it did not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BugHistory:
    """One bug over all nights."""

    id: str
    signature: Signature | None
    """None if only its name is left, after damage."""
    message: str
    severity: Severity
    finding: Finding | None
    """The smallest case and all that is known of it; None if the memory has lost it."""
    state: BugState
    """In the latest night."""
    looks: tuple[Look, ...]
    """The oldest first."""
    gone_since: str = ""
    """The first night that looked for it in vain; empty unless it is gone."""
    gone_with: str = ""
    """The release of that night."""

    @property
    def seen(self) -> tuple[Look, ...]:
        return tuple(look for look in self.looks if look.sighting is not None)

    @property
    def nights(self) -> tuple[str, ...]:
        """The nights that saw it, the oldest first."""
        return tuple(dict.fromkeys(look.night for look in self.seen))

    @property
    def first(self) -> str:
        return self.nights[0] if self.nights else ""

    @property
    def last(self) -> str:
        return self.nights[-1] if self.nights else ""

    @property
    def nights_looked(self) -> int:
        """Nights that saw it or looked for it in vain."""
        return len({look.night for look in self.looks})

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that showed it, in the order of the nights."""
        return tuple(dict.fromkeys(look.release for look in self.seen if look.release))

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(sorted({look.device for look in self.seen}))

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(sorted({look.sighting.op for look in self.looks if look.sighting is not None}))

    @property
    def searches(self) -> tuple[str, ...]:
        return tuple(sorted({look.search for look in self.seen}))

    @property
    def is_confirmed(self) -> bool:
        return any(
            look.sighting is not None and look.sighting.confirmation is Confirmation.CONFIRMED for look in self.looks
        )

    @property
    def is_open(self) -> bool:
        """False if it is gone."""
        return self.state is not BugState.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitHistory:
    """One op of one search on one device over all nights."""

    search: str
    op: str
    device: str
    nights: int = 0
    """Nights that gave it cases."""
    last: str = ""
    cases: int = 0
    checked: int = 0
    seconds: float = 0.0
    digest: str = ""
    """Of the sources at the last try."""
    release: str = ""
    next_block: int = 0
    """The number of the first block of draws that no night has run."""
    abstain_reasons: Mapping[str, int] = field(default_factory=dict[str, int])


Unit = tuple[str, str, str]
"""Search, op, device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightTotals:
    """What one night did, on all its machines."""

    night: str
    began_at: str
    runs: tuple[NightRun, ...]
    cases: int
    checked: int
    failed: int
    seconds: float
    """Of searching, on all machines."""
    units: int
    """Units that got cases."""
    bugs: frozenset[str]
    """The ids of the bugs that it saw."""
    killed: int
    """Runs that did not come to their end."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts of a shared night of which no run is known: `2/8`."""
        begun = {run.begun.part for run in self.runs if run.begun}
        counts = sorted({int(part.partition("/")[2]) for part in begun})
        return tuple(
            f"{number}/{count}"
            for count in counts
            for number in range(1, count + 1)
            if f"{number}/{count}" not in begun
        )

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for run in self.runs if run.ended for line in run.ended.quarantined))

    @property
    def rate(self) -> float:
        """Cases per second of searching."""
        return self.cases / self.seconds if self.seconds else 0.0

    @property
    def hours(self) -> float:
        """Of searching, on all machines."""
        return self.seconds / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class NightHistory:
    """Everything that follows from a memory."""

    memory: NightMemory
    nights: tuple[NightTotals, ...]
    """The oldest first."""
    bugs: tuple[BugHistory, ...]
    """Those of the latest night first: new, back, still there, flaky; errors before warnings."""
    units: Mapping[Unit, UnitHistory]

    @property
    def latest(self) -> str:
        """The name of the latest night; empty if there was none."""
        return self.nights[-1].night if self.nights else ""

    def in_state(self, *states: BugState) -> tuple[BugHistory, ...]:
        return tuple(bug for bug in self.bugs if bug.state in states)

    @property
    def gone_now(self) -> tuple[BugHistory, ...]:
        """The bugs that are gone since the latest night."""
        return tuple(bug for bug in self.in_state(BugState.GONE) if bug.gone_since == self.latest)


def history_of(memory: NightMemory) -> NightHistory:
    """Return what follows from a memory."""
    nights = tuple(_totals(name, memory) for name in memory.nights)
    bugs = sorted(_bugs(memory), key=_rank)
    return NightHistory(memory=memory, nights=nights, bugs=tuple(bugs), units=_units(memory))


def _totals(night: str, memory: NightMemory) -> NightTotals:
    runs = tuple(run for run in memory.runs if run.night == night)
    tried = [chunk for run in runs for chunk in run.tried]
    return NightTotals(
        night=night,
        began_at=runs[0].began_at,
        runs=runs,
        cases=sum(chunk.cases for chunk in tried),
        checked=sum(chunk.checked for chunk in tried),
        failed=sum(chunk.failed for chunk in tried),
        seconds=round(sum(chunk.seconds for chunk in tried), 3),
        units=len({(chunk.search, chunk.op, chunk.device) for chunk in tried if chunk.cases}),
        bugs=frozenset(sighting.finding for run in runs for sighting in run.seen),
        killed=sum(run.ended is None for run in runs),
    )


def _units(memory: NightMemory) -> Mapping[Unit, UnitHistory]:
    by_unit: dict[Unit, list[tuple[str, ChunkTried]]] = {}
    for run in memory.runs:
        for chunk in run.tried:
            if not chunk.failure:
                by_unit.setdefault((chunk.search, chunk.op, chunk.device), []).append((run.night, chunk))
    return {unit: _unit(unit, tried) for unit, tried in by_unit.items()}


def _unit(unit: Unit, tried: Sequence[tuple[str, ChunkTried]]) -> UnitHistory:
    search, op, device = unit
    last_night, last = tried[-1]
    reasons: dict[str, int] = {}
    for _, chunk in tried:
        for reason, count in chunk.abstain_reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return UnitHistory(
        search=search,
        op=op,
        device=device,
        nights=len({night for night, _ in tried}),
        last=last_night,
        cases=sum(chunk.cases for _, chunk in tried),
        checked=sum(chunk.checked for _, chunk in tried),
        seconds=round(sum(chunk.seconds for _, chunk in tried), 3),
        digest=last.digest,
        release=last.release,
        next_block=1 + max(chunk.block for _, chunk in tried),
        abstain_reasons=reasons,
    )


# --- bugs ------------------------------------------------------------------------------------------------------------


def _bugs(memory: NightMemory) -> Iterator[BugHistory]:
    """Yield the history of each bug, also of one whose sightings are lost."""
    looks: dict[str, list[Look]] = {}
    known: dict[str, set[tuple[str, str]]] = {}
    """By id, the searches and devices that ever saw it."""
    for night in memory.nights:
        for identity, look in _looks_of(night, memory, known):
            looks.setdefault(identity, []).append(look)
    latest = memory.nights[-1] if memory.nights else ""
    absorbed = _absorbed(memory)
    order = {night: place for place, night in enumerate(memory.nights)}
    for identity, some in looks.items():
        last = max((order[look.night] for look in some if look.sighting is not None), default=-1)
        if absorbed.get(identity, -1) <= last:
            yield _bug(identity, tuple(some), memory.findings.get(identity), latest)
    for identity, finding in memory.findings.items():
        if identity not in looks and identity not in absorbed:
            yield _bug(identity, (), finding, latest)


def _absorbed(memory: NightMemory) -> Mapping[str, int]:
    """Return the bugs that turned out to be symptoms of others, each with the place of the last night that said so.

    A later night that sees such a bug by itself knows better.
    """
    absorbed: dict[str, int] = {}
    for place, night in enumerate(memory.nights):
        for run in memory.runs:
            if run.night == night:
                absorbed.update((symptom, place) for sighting in run.seen for symptom in sighting.symptoms)
    return absorbed


def _looks_of(night: str, memory: NightMemory, known: dict[str, set[tuple[str, str]]]) -> Iterator[tuple[str, Look]]:
    """Yield what a night says of each bug: each sighting, and each look in vain."""
    runs = [run for run in memory.runs if run.night == night]
    seen: dict[tuple[str, str, str], NightSighting] = {}
    for run in runs:
        for sighting in run.seen:
            seen[sighting.finding, sighting.search, sighting.device] = sighting
    tried = [chunk for run in runs for chunk in run.tried if not chunk.failure]
    digests = {(chunk.search, chunk.op, chunk.device): chunk.digest for chunk in tried}
    for (identity, search, device), sighting in seen.items():
        known.setdefault(identity, set()).add((search, device))
        digest = digests.get((search, sighting.op, device), "")
        yield identity, _look(night, (search, device, sighting.release, digest), sighting)
    in_vain: dict[tuple[str, str, str], ChunkTried] = {}
    for chunk in tried:
        for identity in chunk.replayed:
            if chunk.checked and (chunk.search, chunk.device) in known.get(identity, ()):
                in_vain.setdefault((identity, chunk.search, chunk.device), chunk)
    for (identity, search, device), chunk in in_vain.items():
        if (identity, search, device) not in seen:
            yield identity, _look(night, (search, device, chunk.release, chunk.digest), None)


def _look(night: str, subject: tuple[str, str, str, str], sighting: NightSighting | None) -> Look:
    search, device, release, digest = subject
    return Look(night=night, search=search, device=device, release=release, digest=digest, sighting=sighting)


def _bug(identity: str, looks: tuple[Look, ...], finding: Finding | None, latest: str) -> BugHistory:
    last = next((look.sighting for look in reversed(looks) if look.sighting is not None), None)
    state, gone = _state(looks, finding, latest)
    signature = last.signature if last else finding.fail.signature if finding else None
    severity = last.severity if last else finding.severity if finding else Severity.ERROR
    return BugHistory(
        id=identity,
        signature=signature,
        message=last.message if last else finding.fail.message if finding else "",
        severity=finding.severity if finding else severity,
        finding=finding,
        state=state,
        looks=looks,
        gone_since=gone.night if gone else "",
        gone_with=gone.release if gone else "",
    )


def _state(looks: Sequence[Look], finding: Finding | None, latest: str) -> tuple[BugState, Look | None]:
    """Return the state of a bug in the latest night, and the first look in vain if it is gone.

    A bug is there as long as one of its searches on one of its devices shows it.
    """
    tracks: dict[tuple[str, str], list[Look]] = {}
    for look in looks:
        tracks.setdefault((look.search, look.device), []).append(look)
    ended = [(_track_end(track, finding), track) for track in tracks.values()]
    if ended and all(end is not None for end, _ in ended):
        last = max((end for end, _ in ended if end is not None), key=lambda look: _order(looks, look))
        return BugState.GONE, last
    now = [look for look in looks if look.night == latest]
    shows = any(look.sighting is not None for look in now)
    if not now:
        return BugState.NOT_LOOKED_FOR, None
    if not shows:
        open_now = [track for end, track in ended if end is None and track[-1].night == latest]
        return (BugState.FLAKY if open_now else BugState.NOT_LOOKED_FOR), None
    if all(look.night == latest for look in looks if look.sighting is not None):
        return BugState.NEW, None
    if any(_is_flaky(track) for track in tracks.values()):
        return BugState.FLAKY, None
    return (BugState.BACK if _was_gone(tracks.values(), finding, latest) else BugState.STILL_THERE), None


def _order(looks: Sequence[Look], look: Look) -> int:
    return next(place for place, each in enumerate(looks) if each is look)


def _track_end(track: Sequence[Look], finding: Finding | None) -> Look | None:
    """Return the first look in vain after the last sighting, if there are enough of them to call the bug gone."""
    in_vain: list[Look] = []
    for look in reversed(track):
        if look.sighting is not None:
            break
        in_vain.insert(0, look)
    needed = PATIENCE if _is_flaky(track) or _repeats_at_times(track, finding) else 1
    return in_vain[0] if len(in_vain) >= needed else None


def _repeats_at_times(track: Iterable[Look], finding: Finding | None) -> bool:
    """Return True if the smallest case does not show the bug each time that it runs alone."""
    shown = [look.sighting for look in track if look.sighting is not None]
    flaky = any(0 < sighting.shown < sighting.runs for sighting in shown)
    return flaky or (finding is not None and (finding.repeats.is_flaky or not finding.confirmed))


def _is_flaky(track: Sequence[Look]) -> bool:
    """Return True if a look in vain stands between two sightings, and the sources were the same in all three."""
    for look in track:
        if look.sighting is not None or not look.digest:
            continue
        same = [each for each in track if (each.digest, each.release) == (look.digest, look.release)]
        at = next(place for place, each in enumerate(same) if each is look)
        before, after = same[:at], same[at + 1 :]
        if any(each.sighting for each in before) and any(each.sighting for each in after):
            return True
    return False


def _was_gone(tracks: Iterable[Sequence[Look]], finding: Finding | None, latest: str) -> bool:
    """Return True if the bug was gone before this night, on every track that it had."""
    earlier = [[look for look in track if look.night != latest] for track in tracks]
    return all(_track_end(track, finding) is not None for track in earlier if track)


def _rank(bug: BugHistory) -> tuple[int, bool, str, str]:
    order = (
        BugState.NEW,
        BugState.BACK,
        BugState.STILL_THERE,
        BugState.FLAKY,
        BugState.NOT_LOOKED_FOR,
        BugState.GONE,
    )
    return order.index(bug.state), bug.severity is Severity.WARNING, bug.last, str(bug.signature or bug.id)
