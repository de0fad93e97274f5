"""The region of a finding in sentences and as JSON, and where it is kept: `region.json` beside the finding.

Every sentence says what was found at the points that were tried, and how many they are; none says that it is proven.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.errors import ReplayError
from harness.findings.store import FINDING
from harness.model.region import Axis, AxisKind, Beyond, Bound, Ended, Region, RegionEdge, Setting
from harness.model.verdict import Outcome
from harness.wire import from_json, to_json

FORMAT = "kernel-harness-region/1"
FILE = "region.json"
REASONS = 3


def sentences(region: Region) -> tuple[str, ...]:
    """What the map says: the rule, how far each axis fails, each setting, what was not judged and why it ended."""
    if region.ended is Ended.NOT_SHOWN:
        (point,) = region.points
        why = f": {point.reason}" if point.reason else ""
        return (f"The smallest case does not show {region.signature}{why}. There is no region to map.",)
    return (
        f"{region.signature} {_rule(region)}.",
        *(_bound(bound) for bound in region.bounds if bound.axis.low < bound.axis.high),
        *_settings(region.settings),
        *_remarks(region),
    )


def region_document(region: Region) -> dict[str, Any]:
    """The region as plain JSON values."""
    return {"format": FORMAT, "sentences": list(sentences(region)), "region": json.loads(to_json(region))}


def read_region(text: str) -> Region:
    """The region that a document holds.

    Raises:
        ReplayError: it is none, or of another format.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"not readable as JSON: {error}") from None
    match document:
        case {"format": str(given), "region": _} if given == FORMAT:
            return from_json(json.dumps(document["region"]), Region)
        case {"format": str(given)}:
            raise ReplayError(f"its format is {given!r}, and this release reads {FORMAT!r}: map it again")
        case _:
            raise ReplayError("not a region (`format`, `region`)")


def save(region: Region, source: Path, folder: Path) -> Path:
    """Write the region into the folder of the finding, if one is kept under `folder`; else beside the file it is from.

    A folder of its own would look like a finding that lost its file.
    """
    place = source.parent if source.name == FINDING else folder / region.finding
    path = place / FILE if (place / FINDING).is_file() else source.parent / f"{region.finding}.{FILE}"
    path.write_text(json.dumps(region_document(region), indent=2) + "\n", encoding="utf-8")
    return path


def load(place: Path) -> Region | None:
    """The region in the folder of a finding; None where it was not mapped.

    Raises:
        ReplayError: the file is damaged; the text names it.
    """
    path = place / FILE
    if not path.is_file():
        return None
    try:
        return read_region(path.read_text(encoding="utf-8"))
    except (ReplayError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: {error}") from None


# --- sentences -------------------------------------------------------------------------------------------------------


def _rule(region: Region) -> str:
    fails, passes = region.count(Outcome.FAIL), region.count(Outcome.PASS)
    if region.rule is None:
        return f"follows no simple rule: of the sizes tried, {fails} fail and {passes} pass"
    if not passes:
        return f"fails at each of the {fails} sizes tried"
    return f"{region.rule}: true of all {fails + passes} sizes tried ({fails} fail, {passes} pass)"


def _bound(bound: Bound) -> str:
    axis, below, above = bound.axis, bound.below, bound.above
    if bound.tried == 1:
        return f"{axis.name}: nothing but {below.last} was tried."
    reach = f"at {below.last}"
    if below.last != above.last:
        reach = f"from {below.last} to {_last(axis, above)}"
    beside = sum(edge.beyond is Beyond.PASSES for edge in (below, above))
    counted = f"{bound.tried} values tried" + (f", {bound.passed} pass" if bound.passed > beside else "")
    parts = [f"fails {reach}", *_sides(axis, below, above)]
    return f"{axis.name}: {'; '.join(parts)} ({counted})."


def _last(axis: Axis, edge: RegionEdge) -> str:
    """The upper end, and whether it is one."""
    if edge.beyond is Beyond.UNTRIED or (edge.beyond is Beyond.NOTHING and axis.is_open):
        return f"at least {edge.last}"
    return f"{edge.last}, the op's most" if edge.beyond is Beyond.NOTHING else str(edge.last)


def _sides(axis: Axis, below: RegionEdge, above: RegionEdge) -> tuple[str, ...]:
    """What lies beyond both ends, where something does."""
    plain = below.beyond is above.beyond is Beyond.PASSES
    if plain and all(axis.adjacent(edge.last, edge.next) for edge in (below, above)):
        return (f"{below.next} and {above.next} pass",)
    return tuple(_side(axis, edge) for edge in (below, above) if edge.beyond in _SAID)


_SAID = {Beyond.PASSES: "passes", Beyond.ABSTAINS: "cannot be judged"}


def _side(axis: Axis, edge: RegionEdge) -> str:
    gap = "" if axis.adjacent(edge.last, edge.next) else ", and what lies between was not tried"
    return f"{edge.next} {_SAID[edge.beyond]}{gap}"


SUBJECTS = {
    AxisKind.CONFIG: "configs of {}",
    AxisKind.OPTION: "option {}",
    AxisKind.ABSENT: "input {}",
    AxisKind.LAYOUT: "layout of {}",
}


def _settings(settings: Sequence[Setting]) -> Iterator[str]:
    """A sentence for each setting that matters, and one for all that do not."""
    idle: list[str] = []
    for axis, group in groupby(settings, key=lambda setting: setting.axis):
        tried = list(group)
        subject = SUBJECTS.get(axis.kind, "{}").format(axis.name)
        if any(setting.outcome is not Outcome.FAIL for setting in tried):
            yield f"{subject}: {_outcomes(axis, tried)}."
        elif len(tried) > 1:
            all_ = (
                f"all {len(tried)}" if axis.kind is AxisKind.CONFIG else ", ".join(setting.value for setting in tried)
            )
            idle.append(f"{subject} ({all_})")
    if idle:
        yield f"Fails whatever is chosen of {_listed(idle)}."


def _outcomes(axis: Axis, tried: Sequence[Setting]) -> str:
    fails, passes, unjudged = (
        [setting.value for setting in tried if setting.outcome is outcome]
        for outcome in (Outcome.FAIL, Outcome.PASS, Outcome.ABSTAIN)
    )
    parts = [f"cannot be judged with {_listed(unjudged)}"] if unjudged else []
    if axis.kind is AxisKind.CONFIG and (telling := _telling(fails, passes)):
        count = f"{len(fails)} of {len(tried)}"
        return "; ".join([f"fails where {telling} ({count}), passes with the others", *parts])
    told = [f"{verb} with {_listed(values)}" for verb, values in (("fails", fails), ("passes", passes)) if values]
    return "; ".join([*told, *parts])


def _telling(fails: Sequence[str], passes: Sequence[str]) -> str:
    """The one parameter that has other values in the configs that fail than in those that pass; empty if none has."""
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
    unjudged = Counter(point.reason for point in region.points if point.outcome is Outcome.ABSTAIN)
    if unjudged:
        most = [f"{reason} ({count} times)" for reason, count in unjudged.most_common(REASONS)]
        yield f"{unjudged.total()} sizes could not be judged: {'; '.join(most)}."
    if region.compared_with:
        counts = [f"{count} SM{'' if count == 1 else 's'}" for count in region.compared_with]
        yield f"Every point was compared with the same dims on {_listed(counts)}."
    seconds = f"{region.seconds:.0f} s"
    match region.ended:
        case Ended.SECONDS:
            yield f"The map ended early, after {seconds}: more time may tell more."
        case Ended.POINTS:
            yield f"The map ended early, as many points as allowed were tried ({seconds}): more may tell more."
        case Ended.INTERRUPTED:
            yield f"The map was interrupted after {seconds}."
        case Ended.COMPLETE | Ended.NOT_SHOWN:
            yield f"Mapped in {seconds}."


def _listed(values: Sequence[str]) -> str:
    """With commas, or semicolons where a value has commas itself."""
    separator = "; " if any(", " in value for value in values) else ", "
    return separator.join(values[:-1]) + (" and " if len(values) > 1 else "") + values[-1]
