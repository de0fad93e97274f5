"""The region of a finding in sentences, and its file: `region.json` in the folder of the finding.

Each sentence reports what was found at the points that were tried, and their number.  None claims a proof.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness.documents import files
from harness.documents.finding import RegionDocument
from harness.findings.store import FINDING
from harness.model.region import Axis, AxisKind, Beyond, Bound, Ended, Region, RegionEdge, Setting
from harness.model.verdict import Outcome
from harness.wording import counted

FILE = "region.json"
REASONS = 3


def sentences(region: Region) -> tuple[str, ...]:
    """Return the rule, the bounds of each axis, the settings, what could not be checked, and why the map ended."""
    if region.stop_reason is Ended.NOT_SHOWN:
        (point,) = region.points
        why = f": {point.reason}" if point.reason else ""
        return (f"The smallest case does not show {region.signature}{why}. There is no region to map.",)
    return (
        f"{region.signature} {_rule(region)}.",
        *(_bound(bound) for bound in region.bounds if bound.axis.low < bound.axis.high),
        *_settings(region.settings),
        *_remarks(region),
    )


def region_document(region: Region) -> RegionDocument:
    """Return the document of a region."""
    return RegionDocument(sentences=sentences(region), region=region)


def save(region: Region, source: Path, folder: Path) -> Path:
    """Write the region into the folder of the finding, if one is kept under `folder`; else next to the source file.

    A new folder under `folder` would look like a finding that lost its file.
    """
    place = source.parent if source.name == FINDING else folder / region.finding
    path = place / FILE if (place / FINDING).is_file() else source.parent / f"{region.finding}.{FILE}"
    files.write(region_document(region), path)
    return path


def load(place: Path) -> Region | None:
    """Read the region in the folder of a finding; None if it was not mapped.

    Raises:
        ReplayError: the file is damaged; the text names it.
    """
    path = place / FILE
    return files.read(path, RegionDocument).region if path.is_file() else None


# --- sentences -------------------------------------------------------------------------------------------------------


def _rule(region: Region) -> str:
    fails, passes = region.count(Outcome.FAIL), region.count(Outcome.PASS)
    if region.rule is None:
        return f"follows no simple rule: of the sizes tried, {fails} fail and {passes} pass"
    if not passes:
        return f"fails at each of the {counted(fails, 'size')} tried"
    return f"{region.rule}: true of all {counted(fails + passes, 'size')} tried ({fails} fail, {passes} pass)"


def _bound(bound: Bound) -> str:
    axis, below, above = bound.axis, bound.below, bound.above
    if bound.tried == 1:
        return f"{axis.name}: only {below.last} was tried."
    reach = f"at {below.last}"
    if below.last != above.last:
        reach = f"from {below.last} to {_last(axis, above)}"
    at_edges = sum(edge.beyond is Beyond.PASSES for edge in (below, above))
    counted = f"{bound.tried} values tried" + (f", {bound.passed} pass" if bound.passed > at_edges else "")
    parts = [f"fails {reach}", *_sides(axis, below, above)]
    return f"{axis.name}: {'; '.join(parts)} ({counted})."


def _last(axis: Axis, edge: RegionEdge) -> str:
    """Return the upper end of the failing sizes, and how certain it is."""
    if edge.beyond is Beyond.UNTRIED or (edge.beyond is Beyond.NOTHING and axis.is_open):
        return f"at least {edge.last}"
    return f"{edge.last}, the op's most" if edge.beyond is Beyond.NOTHING else str(edge.last)


def _sides(axis: Axis, below: RegionEdge, above: RegionEdge) -> tuple[str, ...]:
    """Return what lies beyond the two ends."""
    plain = below.beyond is above.beyond is Beyond.PASSES
    if plain and all(axis.adjacent(edge.last, edge.next) for edge in (below, above)):
        return (f"{below.next} and {above.next} pass",)
    return tuple(_side(axis, edge) for edge in (below, above) if edge.beyond in _VERBS)


_VERBS = {Beyond.PASSES: "passes", Beyond.ABSTAINS: "cannot be checked"}


def _side(axis: Axis, edge: RegionEdge) -> str:
    gap = "" if axis.adjacent(edge.last, edge.next) else ", sizes between were not tried"
    return f"{edge.next} {_VERBS[edge.beyond]}{gap}"


SUBJECTS = {
    AxisKind.CONFIG: "configs of {}",
    AxisKind.OPTION: "option {}",
    AxisKind.ABSENT: "input {}",
    AxisKind.GRADIENT: "gradient of {}",
    AxisKind.LAYOUT: "layout of {}",
    AxisKind.ENVIRONMENT: "environment variable {}",
}


def _settings(settings: Sequence[Setting]) -> Iterator[str]:
    """Yield a sentence for each setting that matters, and one for all that do not."""
    irrelevant: list[str] = []
    for axis, group in groupby(settings, key=lambda setting: setting.axis):
        tried = list(group)
        subject = SUBJECTS.get(axis.kind, "{}").format(axis.name)
        if any(setting.outcome is not Outcome.FAIL for setting in tried):
            yield f"{subject}: {_outcomes(axis, tried)}."
        elif len(tried) > 1:
            all_ = (
                f"all {len(tried)}" if axis.kind is AxisKind.CONFIG else ", ".join(setting.value for setting in tried)
            )
            irrelevant.append(f"{subject} ({all_})")
    if irrelevant:
        yield f"Fails with every choice of {_listed(irrelevant)}."


def _outcomes(axis: Axis, tried: Sequence[Setting]) -> str:
    fails, passes, unchecked = (
        [setting.value for setting in tried if setting.outcome is outcome]
        for outcome in (Outcome.FAIL, Outcome.PASS, Outcome.ABSTAIN)
    )
    parts = [f"cannot be checked with {_listed(unchecked)}"] if unchecked else []
    if axis.kind is AxisKind.CONFIG and (difference := _difference(fails, passes)):
        count = f"{len(fails)} of {len(tried)}"
        return "; ".join([f"fails where {difference} ({count}), passes with the others", *parts])
    outcomes = [f"{verb} with {_listed(values)}" for verb, values in (("fails", fails), ("passes", passes)) if values]
    return "; ".join([*outcomes, *parts])


def _difference(fails: Sequence[str], passes: Sequence[str]) -> str:
    """Return the first parameter whose values separate failing from passing configs; empty if there is none."""
    failing, passing = ([dict(_parameters(config)) for config in configs] for configs in (fails, passes))
    if not failing or not passing:
        return ""
    for name in failing[0]:
        bad = list(dict.fromkeys(config.get(name, "") for config in failing))
        if not {config.get(name, "") for config in passing} & set(bad):
            return f"{name} is {' or '.join(bad)}"
    return ""


def _parameters(config: str) -> Iterator[tuple[str, str]]:
    for part in config.split(", "):
        name, _, value = part.partition(": ")
        yield name, value


def _remarks(region: Region) -> Iterator[str]:
    unchecked = Counter(point.reason for point in region.points if point.outcome is Outcome.ABSTAIN)
    if unchecked:
        most = [f"{reason} ({counted(count, 'time')})" for reason, count in unchecked.most_common(REASONS)]
        yield f"{counted(unchecked.total(), 'size')} could not be checked: {'; '.join(most)}."
    if region.compared_sm_counts:
        counts = [counted(count, "SM") for count in region.compared_sm_counts]
        yield f"Every point was compared with the same dims on {_listed(counts)}."
    seconds = f"{region.seconds:.0f} s"
    match region.stop_reason:
        case Ended.SECONDS:
            yield f"The map ended early, after {seconds}: more time may show more."
        case Ended.POINTS:
            yield f"The map ended early, at the limit of points ({seconds}): more points may show more."
        case Ended.INTERRUPTED:
            yield f"The map was interrupted after {seconds}."
        case Ended.COMPLETE | Ended.NOT_SHOWN:
            yield f"Mapped in {seconds}."


def _listed(values: Sequence[str]) -> str:
    """Join with commas, or with semicolons if a value contains commas."""
    separator = "; " if any(", " in value for value in values) else ", "
    return separator.join(values[:-1]) + (" and " if len(values) > 1 else "") + values[-1]
