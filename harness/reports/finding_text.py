"""The text of a finding: message, source line, smallest case, meaning, and the command that replays it.

It is eighty columns wide and complete without colour.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path

from rich.text import Text

from harness.documents.campaign import KnownFinding
from harness.model.case import (
    LAYOUTS_OF_ROWS,
    RARE_LAYOUTS,
    CallContext,
    Case,
    GradMode,
    LaneFill,
    Layout,
    ProgramOrder,
    Scale,
    ValueDistribution,
)
from harness.model.finding import Confirmation, Excerpt, Finding, Symptom
from harness.model.miscompilation import Miscompilation
from harness.model.run import Launch, Source
from harness.model.verdict import ORIGIN, Severity
from harness.wording import counted, visible

WIDTH = 80
MOST_ORIGINS = 4
ROWS_DEMAND = 'contiguous rows, declare contiguous="rows"'
WHOLE_DEMAND = "a contiguous tensor, declare contiguous=True"
INDENT = "  "
LABEL = 15
CONTEXT = 2
KEPT_CONTEXT = 8
MOST_SYMPTOMS = 12
"""The most symptoms in a terminal; finding.json and the HTML page have all."""
SCALES = {
    Scale.LONG: "long (past the usual range of a dim)",
    Scale.OVERSIZED: "oversized (a few programs of each launch)",
}
COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The folders that may hold the source files of kernels."""

    roots: tuple[Path, ...] = ()

    def lines(self, source: Source) -> Sequence[str]:
        """Return the lines of the file; none if it is not on this machine."""
        for path in (Path(source.file), *(root / source.file for root in self.roots)):
            try:
                return path.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                continue
        return ()

    def excerpt(self, source: Source) -> Excerpt | None:
        """Return the line and its context, more than a terminal shows; None if the file is not on this machine."""
        lines = self.lines(source)
        if not 0 < source.line <= len(lines):
            return None
        first, last = max(1, source.line - KEPT_CONTEXT), min(len(lines), source.line + KEPT_CONTEXT)
        return Excerpt(file=self.short(source.file), first=first, lines=tuple(lines[first - 1 : last]))

    def short(self, file: str) -> str:
        """Return the path below its library, `fla/modules/layernorm.py`, or below the current folder."""
        for root in (*self.roots, *(Path(entry) for entry in sys.path if "-packages" in entry), Path.cwd()):
            if Path(file).is_relative_to(root):
                return str(Path(file).relative_to(root))
        return file


def quoted(findings: Iterable[Finding], sources: Sources) -> tuple[Finding, ...]:
    """Add to each finding the source around the line at fault."""
    return tuple(
        replace(finding, excerpt=sources.excerpt(finding.fail.source)) if finding.fail.source else finding
        for finding in findings
    )


def render(finding: Finding, sources: Sources, known: Iterable[KnownFinding] = ()) -> Text:
    """Return the text of the finding with colours; `.plain` has none.  Escapes in it are visible."""
    link = next((issue.link for issue in known if issue.finding == finding.id), None)
    severity = finding.severity
    text = Text()
    text.append(f"{_heading(finding)}\n", style=COLOURS[severity])
    text.append(f"{'─' * WIDTH}\n", style="dim")
    for line in textwrap.wrap(finding.fail.message, WIDTH, break_long_words=False, break_on_hyphens=False):
        text.append(f"{line}\n", style="bold")
    if finding.hardware_blame is not None:
        for line in textwrap.wrap(finding.hardware_blame.verdict, WIDTH, break_on_hyphens=False):
            text.append(f"{line}\n", style="bold")
    if finding.fail.source:
        text.append("\n")
        for line, at_fault in _excerpt(finding.fail.source, sources):
            text.append(f"{line}\n", style="bold" if at_fault else "dim")
    text.append("\n")
    for label, value in (*facts(finding), *_symptoms(finding), *((("known", link),) if link else ())):
        for number, line in enumerate(_wrapped(value)):
            text.append(f"{INDENT}{label if number == 0 else '':<{LABEL}}", style="cyan")
            text.append(f"{line}\n")
    text.append("\n")
    for line in textwrap.wrap(finding.fail.meaning, WIDTH):
        text.append(f"{line}\n")
    text.append(f"\n{INDENT}{'replay':<{LABEL}}", style="cyan")
    text.append(f"{finding.replay_command}\n", style="bold")
    text.append(f"{INDENT}{'explain':<{LABEL}}", style="cyan")
    text.append(f"{explain_command(finding)}\n", style="bold")
    text.plain = visible(text.plain)
    return text


def explain_command(finding: Finding) -> str:
    """Return the command that prints the page of the finding's oracle."""
    return f"harness findings --explain {finding.fail.oracle}"


def _heading(finding: Finding) -> str:
    """Return `WARNING  write-overlap  layer_norm_bwd_kernel  in layer_norm      7f3a09c1`."""
    signature = finding.fail.signature
    op = (finding.first_case if finding.watched else finding.case).op_name
    subject = f"{signature.kernel}  in {op}" if signature.kernel else op
    left = f"{finding.severity.upper()}  {signature.oracle}  {subject}"
    return f"{left}{finding.id:>{max(WIDTH - len(left), len(finding.id) + 2)}}"


def _excerpt(source: Source, sources: Sources) -> Iterator[tuple[str, bool]]:
    """Yield the lines around the one at fault, each with True for that one."""
    lines = sources.lines(source)
    if not 0 < source.line <= len(lines):
        yield f"{INDENT}{sources.short(source.file)}:{source.line}", True
        return
    first, last = max(source.line - CONTEXT, 1), min(source.line + CONTEXT, len(lines))
    while last > source.line and not lines[last - 1].strip():
        last -= 1
    numbers = range(first, last + 1)
    shown = textwrap.dedent("\n".join(lines[number - 1] for number in numbers)).split("\n")
    yield f"{INDENT}{sources.short(source.file)}", False
    # The file of a generated kernel begins with the lines of the program that the kernel comes from.
    origins = takewhile(lambda line: line.startswith(ORIGIN), lines)
    yield from ((f"{INDENT}{line.removeprefix('# ')}", False) for line in islice(origins, MOST_ORIGINS))
    for number, line in zip(numbers, shown, strict=True):
        at_fault = number == source.line
        yield f"{'>' if at_fault else ' ':>4} {number:>5} │ {line}".rstrip(), at_fault


def _fault(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield what is known of hardware or a compiler that is at fault."""
    if finding.hardware_blame is not None:
        yield "evidence", "; ".join(finding.hardware_blame.evidence)
    seen = finding.miscompilation or Miscompilation()
    if seen.first is not None:
        yield "first value", str(seen.first)
    elif seen.first_unknown:
        yield "first value", f"not known: {seen.first_unknown}"
    if seen.passes is not None:
        yield "blamed pass", str(seen.passes)
    elif seen.passes_unknown:
        yield "blamed pass", f"not known: {seen.passes_unknown}"


def facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield label and value of each fact besides the message."""
    case = finding.case
    yield from _subject(finding)
    if demands := "; ".join(_possible_demands(finding)):
        yield "contiguity", demands
    device = case.device
    yield (
        "device",
        f"{device.slug}: {device.size}, {device.arch_name} ({device.name})",
    )
    if finding.launch:
        yield "launch", _launch(finding.launch)
    if finding.first_case.digest != case.digest and finding.watched is None:
        first = finding.first_case
        elsewhere = "" if first.device == device else f" on {first.device}"
        yield "first seen", f"{describe(first)}{elsewhere}"
    yield "confirmed", _confirmation(finding)
    yield from _fault(finding)
    if seen := "; ".join(_seen(finding)):
        yield "seen", seen
    if finding.rule:
        yield "fails for", finding.rule
    if finding.preceding_case is not None:
        yield "runs after", describe(finding.preceding_case)
    if finding.fail.idiom:
        yield "idiom", finding.fail.idiom
    if finding.libraries:
        yield "with", ", ".join(finding.libraries)


def _subject(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the case; for a launch that `harness run` saw, its test and the line that led to it."""
    if finding.watched is None:
        yield "smallest case" if finding.confirmed else "case", describe(finding.case)
        return
    yield "test", finding.watched.test
    if line := finding.watched.called_from:
        yield "called from", f"{line.file}:{line.line}"
    if line := finding.watched.captured_at:
        yield "captured at", f"{line.file}:{line.line}"


def _possible_demands(finding: Finding) -> Iterator[str]:
    """Yield what to declare if the library demands a layout that the smallest case lacks."""
    if not finding.confirmed or finding.watched is not None:
        return
    layouts = {name: layout for name, layout in finding.case.layouts.items() if name != "grad"}
    for kinds, demand in ((RARE_LAYOUTS, ROWS_DEMAND), (LAYOUTS_OF_ROWS, WHOLE_DEMAND)):
        if texts := [f"{name} {layout}" for name, layout in layouts.items() if layout in kinds]:
            yield f"{_listed(texts)}: if the library demands {demand}"


def _symptoms(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield a row for each symptom; only the first has a label."""
    for number, symptom in enumerate(finding.symptoms[:MOST_SYMPTOMS]):
        yield "" if number else "same cause", describe_symptom(symptom)
    if (more := len(finding.symptoms) - MOST_SYMPTOMS) > 0:
        yield "", f"and {more} more: see finding.json"


def describe_symptom(symptom: Symptom) -> str:
    """Return for example `error, float64-values: norm_kernel y (in 12 cases)`."""
    return f"{name_symptom(symptom)} (in {counted(symptom.sightings, 'case')})"


def name_symptom(symptom: Symptom) -> str:
    """Return for example `error, float64-values: norm_kernel y`: what every search says of it."""
    place = symptom.source
    at = f" at {place}" if place and str(place) not in symptom.signature.place else ""
    return f"{symptom.signature.severity}, {symptom.signature}{at}"


def symptom_count(finding: Finding) -> str:
    """Return `1 symptom`, or `8 symptoms`."""
    return counted(len(finding.symptoms), "symptom")


def _of(finding: Finding) -> str:
    return " of the search" if finding.watched is None else " of the command"


def _seen(finding: Finding) -> Iterator[str]:
    if finding.sightings > 1:
        yield f"in {counted(finding.sightings, 'case' if finding.watched is None else 'test')}{_of(finding)}"
    if finding.first_seen is not None:
        yield f"first in case {finding.first_seen.case_number:,}, after {finding.first_seen.seconds:g} s"


def describe(case: Case) -> str:
    """Return the case without its device; except for dims and dtype, defaults are left out."""
    dims = " ".join(f"{name}={size}" for name, size in case.dims.items())
    parts = [f"{case.op_name}  {dims}  {case.dtype}"]
    parts += [f"{name}={setting}" for name, setting in case.options.items()]
    if case.absent:
        parts.append(f"no {_listed(case.absent)}")
    parts += [f"{name} {layout}" for name, layout in case.layouts.items() if layout is not Layout.CONTIGUOUS]
    if case.values is not ValueDistribution.NORMAL:
        parts.append(f"values {case.values}")
    parts += [f"{kernel} config {index}" for kernel, index in case.configs.items() if index]
    parts += map(str, case.picked)
    if case.lane_fill is not LaneFill.ZERO:
        parts.append(f"undefined lanes {case.lane_fill}")
    if case.order is not ProgramOrder.FORWARD:
        parts.append(f"programs {case.order}")
    if case.scale is not Scale.USUAL:
        parts.append(SCALES[case.scale])
    if case.grad_mode is GradMode.NO_GRAD:
        parts.append("under torch.no_grad()")
    if case.frozen:
        parts.append(f"no gradient wanted of {_listed(case.frozen)}")
    parts += _surroundings(case)
    if case.seed:
        parts.append(f"seed {case.seed}")
    return ", ".join(parts)


def _surroundings(case: Case) -> Iterator[str]:
    if case.context is not CallContext.MAIN:
        yield case.context.where
    if case.environment:
        yield f"with {' '.join(f'{name}={value}' for name, value in case.environment)}"


def _launch(launch: Launch) -> str:
    grid = " x ".join(map(str, launch.grid))
    parts = [f"grid {grid}"]
    if launch.config:
        which = f" (config {launch.config_index + 1} of {launch.config_count})" if launch.config_count > 1 else ""
        skipped = f", after {len(launch.refused)} that this GPU refuses" if launch.refused else ""
        parts.append(f"{_without_unset(launch.config)}{which}{skipped}")
    return "; ".join(parts)


def _without_unset(config: str) -> str:
    """Return the config without unset options, which Triton prints too (`maxnreg: None`)."""
    return ", ".join(part for part in config.split(", ") if not part.endswith(": None"))


def _confirmation(finding: Finding) -> str:
    repeats = finding.repeats
    if repeats.is_flaky:
        return f"FLAKY: {repeats}; other runs: {repeats.other_result}"
    match finding.confirmation:
        case Confirmation.NOT_TRIED if finding.watched is not None:
            return "not repeated alone: the launch was not recorded, or does not show it by itself"
        case Confirmation.NOT_TRIED:
            return (
                "NOT TRIED: the case did not run alone, since time was up, the search was interrupted, or its op was "
                "set aside"
            )
        case Confirmation.NOT_CONFIRMED:
            return f"NOT CONFIRMED: it did not repeat in a fresh process: {repeats}"
        case Confirmation.CONFIRMED if finding.preceding_case is not None:
            return "in a fresh process, after the case below"
        case Confirmation.CONFIRMED:
            often = f": {repeats.shown} of {counted(repeats.runs, 'time')}" if repeats.runs else ""
            return f"alone, in a fresh process{often}" if often else "in a fresh process"


def _wrapped(value: str) -> list[str]:
    width = WIDTH - len(INDENT) - LABEL
    return textwrap.wrap(value, width, break_long_words=False, break_on_hyphens=False, drop_whitespace=True) or [""]


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
