"""A finding as the text of an issue: Markdown to paste into the tracker of a library.

It is for maintainers who have never seen the harness.  Paths of libraries under test are left out.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import PurePath

from harness.documents import files
from harness.documents.finding import regression_document
from harness.findings.region.record import sentences
from harness.model.device import DeviceProfile
from harness.model.finding import Excerpt, Finding
from harness.model.run import Source
from harness.model.verdict import Severity
from harness.reports.contents import Attached, ReportedBug
from harness.reports.finding_text import describe_symptom, facts, name_symptom
from harness.reports.markdown import escaped

CONTEXT = 4
"""Lines of source around the one at fault."""
MOST_SYMPTOMS = 8
TITLE_WIDTH = 120
ELSEWHERE = frozenset({"device", "with"})
"""Labels of facts that have a section of their own."""
COUNTED = frozenset({"confirmed", "fails for", "first seen", "seen"})
"""Labels of facts that differ from search to search."""
SEVERITIES = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning: benign as it stands, or dependent on undefined behaviour of hardware",
}


def issue_title(bug: ReportedBug) -> str:
    """Return one line of plain text."""
    fail = bug.finding.fail
    subject = fail.signature.kernel or bug.finding.case.op_name
    return textwrap.shorten(f"{subject}: {fail.message}", TITLE_WIDTH, placeholder=" …")


def issue_text(bug: ReportedBug) -> str:
    """Return the title as a heading, and the body."""
    return f"# {escaped(issue_title(bug))}\n\n{issue_body(bug)}"


def issue_body(bug: ReportedBug, nights: Sequence[str] = ()) -> str:
    """Return what was seen, where, the smallest case, its region, releases, devices, and how to see it again.

    Args:
        bug: what it is about.
        nights: paragraphs on the nights that saw it.  The text then leaves out what each search counts anew, so that
            it stays the same as long as the bug does.
    """
    parts = (
        *_what(bug.finding, with_counts=not nights),
        *nights,
        *_where(bug.finding),
        *_case(bug, COUNTED if nights else frozenset()),
        *_releases(bug),
        *_devices(bug.finding),
        *_reproducer(bug),
    )
    return "\n\n".join(parts) + "\n"


def _what(finding: Finding, *, with_counts: bool) -> Iterator[str]:
    fail = finding.fail
    yield f"**{escaped(fail.message)}**"
    if finding.hardware_blame:
        yield escaped(finding.hardware_blame.verdict)
    yield escaped(fail.meaning)
    yield f"Broken promise: {_code(fail.oracle)} ({SEVERITIES[finding.severity]})."
    if finding.symptoms:
        describe = describe_symptom if with_counts else name_symptom
        listed = [escaped(describe(symptom)) for symptom in finding.symptoms[:MOST_SYMPTOMS]]
        more = len(finding.symptoms) - MOST_SYMPTOMS
        yield "Other failures of the same cause:"
        yield _list((*listed, f"and {more} more") if more > 0 else listed)


def _where(finding: Finding) -> Iterator[str]:
    fail = finding.fail
    kernel = f"Kernel {_code(fail.signature.kernel)}, called by" if fail.signature.kernel else "Called by"
    yield "### Where"
    yield f"{kernel} {_code(finding.case.op_name)}."
    if finding.excerpt and fail.source:
        yield f"{_code(f'{finding.excerpt.file}:{fail.source.line}')}:"
        yield _fenced(_marked(finding.excerpt, fail.source))
    elif fail.source:
        yield f"{_code(f'{PurePath(fail.source.file).name}:{fail.source.line}')} (source not available)."


def _marked(excerpt: Excerpt, source: Source) -> str:
    """Return the lines around the one at fault, with numbers and a mark."""
    lines = dict(enumerate(excerpt.lines, excerpt.first))
    numbers = [number for number in lines if abs(number - source.line) <= CONTEXT]
    text = textwrap.dedent("\n".join(lines[number] for number in numbers)).split("\n")
    return "\n".join(
        f"{'>' if number == source.line else ' '} {number:>5} | {line}".rstrip()
        for number, line in zip(numbers, text, strict=True)
    )


def _case(bug: ReportedBug, omitted: frozenset[str]) -> Iterator[str]:
    yield "### Smallest case"
    shown = [(label, value) for label, value in facts(bug.finding) if label not in ELSEWHERE | omitted]
    yield _list(f"{label}: {escaped(value)}" for label, value in shown)
    if bug.region:
        yield "Where else it shows:"
        yield _list(map(escaped, sentences(bug.region)))


def _releases(bug: ReportedBug) -> Iterator[str]:
    yield "### Releases"
    libraries = [
        f"{escaped(PurePath(library).name)} (under test{', a file or folder' if _is_local(library) else ''})"
        for library in bug.finding.libraries
    ]
    versions = [f"{escaped(name)} {escaped(release)}" for name, release in bug.versions.items()]
    yield _list((*libraries, *versions) or ("not recorded",))
    for bisection in bug.bisections:
        yield escaped(bisection.conclusion)
        yield _list(
            f"{escaped(bisection.subject)} {escaped(member.name)}: {member.result}" for member in bisection.checked
        )


def _is_local(library: str) -> bool:
    """Return True for a wheel or a folder, which `--with` names by an absolute path."""
    return PurePath(library).is_absolute()


def _model(device: DeviceProfile) -> tuple[str, str, str]:
    return device.name, device.arch_name, device.multiprocessor


def _devices(finding: Finding) -> Iterator[str]:
    first = finding.case.device
    counts: dict[tuple[str, str, str], set[int]] = {_model(first): {first.sm_count}}
    for device in (case.device for case in finding.cases):
        counts.setdefault(_model(device), set()).add(device.sm_count)
    yield "### Devices"
    yield f"The smallest case is on {escaped(first.name)} with {first.size}. The search saw it on:"
    yield _list(
        f"{escaped(name)} ({escaped(arch)}), with {', '.join(map(str, sorted(sms)))} {unit}s"
        for (name, arch, unit), sms in counts.items()
    )
    if finding.engine_options:
        yield f"Found with {_code(' '.join(finding.engine_options))}."
    else:
        yield (
            "Found without a GPU: the library believes that it runs on this one, Triton compiles the kernel for it, "
            "and the compiler's TTIR is executed on the CPU with every memory access checked."
        )


def _reproducer(bug: ReportedBug) -> Iterator[str]:
    finding = bug.finding
    first, *more = bug.files or (None,)
    yield "### Reproducer"
    if first:
        yield f"{_code(first.name)} is one file. Run it with {_code(f'python {first.name}')}."
        yield _fenced(first.text.rstrip(), "python")
    for other in more:
        if other:
            yield _folded(f"{other.name}: the same with the kernel alone", other)
    name = f"{finding.id}.json"
    replayed = finding.replay_command.replace(finding.id, name, 1)
    yield f"With the harness, {_code(replayed)} runs the case again. It takes this file:"
    released = tuple(library for library in finding.libraries if not _is_local(library))
    document = replace(regression_document(finding, ()), libraries=released)
    yield _folded(name, Attached(name=name, text=files.dumps(document)))


def _folded(summary: str, file: Attached) -> str:
    language = "json" if file.name.endswith(".json") else "python"
    return f"<details>\n<summary>{escape(summary)}</summary>\n\n{_fenced(file.text.rstrip(), language)}\n\n</details>"


def _fenced(text: str, language: str = "text") -> str:
    """Return a block of code, with a fence that the text does not hold."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """Return code inside a sentence."""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
