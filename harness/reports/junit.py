"""The report as JUnit XML for CI systems: a test for each op, which fails if the op has findings."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.finding_text import Sources, render
from harness.reports.html.oracle_grid import OracleGridRow, grid_of

SUITE = "kernel-harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property of a test, which CI systems can filter by."""

    name: str
    value: str


def properties(finding: Finding) -> tuple[Property, ...]:
    """Return what identifies a finding and its case; the pytest plugin attaches the same."""
    case = finding.case
    return (
        Property(name="finding", value=finding.id),
        Property(name="signature", value=str(finding.fail.signature)),
        Property(name="severity", value=str(finding.severity)),
        Property(name="confirmation", value=str(finding.confirmation)),
        Property(name="device", value=case.device.slug),
        Property(name="sm_count", value=str(case.device.sm_count)),
        Property(name="seed", value=str(case.seed)),
        Property(name="case", value=case.digest),
        *(Property(name="symptom", value=str(symptom.signature)) for symptom in finding.symptoms),
    )


def junit(contents: ReportContents) -> str:
    """Return the XML: a test for each op, whose name stays the same from search to search.

    An op is a failed test if it has a finding that is not known.  Ops with only known findings and unchecked ops are
    skipped tests.  Missing shards are errors.
    """
    suite = ET.Element("testsuite", {"name": SUITE})
    suite.extend(_op_tests(contents))
    suite.extend(_missing_test(part) for part in contents.together.missing)
    failures = len(suite.findall("testcase/failure"))
    skipped = len(suite.findall("testcase/skipped"))
    counts = {"tests": str(len(suite)), "failures": str(failures)}
    counts |= {"errors": str(len(contents.together.missing)), "skipped": str(skipped)}
    suite.attrib.update({**counts, "time": f"{contents.together.seconds:.3f}"})
    if contents.damaged:
        ET.SubElement(suite, "system-err").text = _clean("\n".join(contents.damaged))
    suites = ET.Element("testsuites", {"name": SUITE, **counts})
    suites.append(suite)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _op_tests(contents: ReportContents) -> Iterator[ET.Element]:
    bugs: dict[str, list[ReportedBug]] = {}
    for bug in contents.bugs:
        bugs.setdefault(_op_of(bug.finding), []).append(bug)
    grid = grid_of(contents.verdicts)
    rows: dict[str, list[OracleGridRow]] = {}
    for row in grid.rows:
        rows.setdefault(row.op, []).append(row)
    unchecked = {target.op: target.reason for target in contents.together.unchecked if not target.device}
    for op in dict.fromkeys((*bugs, *rows, *unchecked)):
        yield _op_test(op, bugs.get(op, ()), grid.oracles, rows.get(op, ()), unchecked.get(op, ""))


def _op_of(finding: Finding) -> str:
    return (finding.first_case if finding.watched else finding.case).op


def _op_test(
    op: str, bugs: Sequence[ReportedBug], oracles: Sequence[str], rows: Sequence[OracleGridRow], unchecked: str
) -> ET.Element:
    test = _test(op)
    if bugs:
        listed = ET.SubElement(test, "properties")
        for fact in (fact for bug in bugs for fact in properties(bug.finding)):
            ET.SubElement(listed, "property", {"name": fact.name, "value": _clean(fact.value)})
    if new := [bug.finding for bug in bugs if not bug.link]:
        worst = Severity.ERROR if any(one.severity is Severity.ERROR for one in new) else Severity.WARNING
        message = "; ".join(f"{one.fail.oracle}: {one.fail.message} [{one.id}]" for one in new)
        failure = ET.SubElement(test, "failure", {"message": _clean(message), "type": str(worst)})
        failure.text = _clean("\n".join(render(one, Sources()).plain for one in new))
    elif reason := _why_skipped(bugs, rows, unchecked):
        ET.SubElement(test, "skipped", {"message": _clean(reason)})
    if counts := "\n".join(_counts(oracles, rows)):
        ET.SubElement(test, "system-out").text = _clean(counts)
    return test


def _why_skipped(bugs: Sequence[ReportedBug], rows: Sequence[OracleGridRow], unchecked: str) -> str:
    """Return why an op without a new finding has not passed; empty if it has."""
    if bugs:
        return f"known: {', '.join(dict.fromkeys(bug.link for bug in bugs))}"
    squares = [square for row in rows for square in row.squares]
    if any(square.failed for square in squares):
        return "the findings of its failed cases are those of other ops"
    return unchecked or ("" if any(square.passed for square in squares) else "no case could be checked")


def _counts(oracles: Sequence[str], rows: Sequence[OracleGridRow]) -> Iterator[str]:
    """Yield what each oracle saw on each device: `write-overlap on b200: 3 failed, 20 passed`."""
    for row in rows:
        for oracle, square in zip(oracles, row.squares, strict=True):
            if square.passed or square.failed or square.abstained:
                yield f"{oracle} on {row.device}: {square.words}"


def _missing_test(part: str) -> ET.Element:
    test = ET.Element("testcase", {"classname": SUITE, "name": _clean(part), "time": "0"})
    ET.SubElement(test, "error", {"message": "did not report", "type": "missing"})
    return test


def _test(op: str) -> ET.Element:
    """Return the test of an op, named as the test functions of pytest are: by its file, and by itself."""
    file, _, function = op.rpartition(":")
    group = file.removesuffix(".py").replace("/", ".").strip(".") or SUITE
    return ET.Element("testcase", {"classname": _clean(group), "name": _clean(function), "time": "0"})


def _clean(text: str) -> str:
    """Remove characters that XML has not even as escapes: control characters and lone surrogates."""
    return re.sub("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
