"""The report as JUnit XML for CI systems: findings are failed tests, and oracles that passed are passed ones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from harness.documents.op_checks import UncheckedOp
from harness.model.finding import Finding
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
    """Return the XML.

    Known findings, oracles that only abstained and unchecked ops are skipped tests.  Missing shards are errors.
    """
    suite = ET.Element("testsuite", {"name": SUITE})
    for bug in contents.bugs:
        suite.append(_finding(bug))
    grid = grid_of(contents.verdicts)
    for row in grid.rows:
        suite.extend(_oracle_tests(grid.oracles, row))
    suite.extend(_unchecked_test(unchecked) for unchecked in contents.together.unchecked)
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


def _finding(bug: ReportedBug) -> ET.Element:
    finding = bug.finding
    name = f"{finding.fail.signature} [{finding.id}]"
    test = _test(finding.case.op, name)
    listed = ET.SubElement(test, "properties")
    for fact in properties(finding):
        ET.SubElement(listed, "property", {"name": fact.name, "value": _clean(fact.value)})
    if bug.link:
        ET.SubElement(test, "skipped", {"message": _clean(f"known: {bug.link}")})
    else:
        kind = str(finding.severity)
        failure = ET.SubElement(test, "failure", {"message": _clean(finding.fail.message), "type": kind})
        failure.text = _clean(render(finding, Sources()).plain)
    return test


def _oracle_tests(oracles: Sequence[str], row: OracleGridRow) -> Iterator[ET.Element]:
    """Yield a test for each oracle without a failure; the findings are the tests of the others."""
    for oracle, square in zip(oracles, row.squares, strict=True):
        if square.failed or not (square.passed or square.abstained):
            continue
        test = _test(row.op, f"{oracle}[{row.device}]")
        if not square.passed:
            ET.SubElement(test, "skipped", {"message": square.words})
        yield test


def _unchecked_test(op: UncheckedOp) -> ET.Element:
    test = _test(op.op, f"checked[{op.device}]" if op.device else "checked")
    ET.SubElement(test, "skipped", {"message": _clean(op.reason)})
    return test


def _missing_test(part: str) -> ET.Element:
    test = _test(SUITE, part)
    ET.SubElement(test, "error", {"message": "did not report", "type": "missing"})
    return test


def _test(op: str, name: str) -> ET.Element:
    file, _, function = op.rpartition(":")
    group = ".".join(part for part in (file.removesuffix(".py").replace("/", "."), function) if part)
    return ET.Element("testcase", {"classname": _clean(group.strip(".")), "name": _clean(name), "time": "0"})


def _clean(text: str) -> str:
    """Remove characters that XML has not even as escapes: control characters and lone surrogates."""
    return re.sub("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
