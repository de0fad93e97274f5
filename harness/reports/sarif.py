"""The report as SARIF 2.1.0, for code scanning.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.model.finding import Finding
from harness.model.run import Source
from harness.model.verdict import Signature
from harness.oracles import registry
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.finding_text import describe
from harness.reports.report_history import stages

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The root of the repository, as GitHub names it."""
INSTALLED = frozenset({"site-packages", "dist-packages"})

Object = dict[str, Any]


def sarif(contents: ReportContents, project: Path) -> str:
    """Return the text.  Files below `project` are named relative to it, so that a reader finds them."""
    names = tuple(dict.fromkeys(bug.finding.fail.oracle for bug in contents.bugs))
    states = _baseline(contents)
    run = {
        "tool": {"driver": {"name": "kernel-harness", "version": __version__, "rules": list(map(_rule, names))}},
        "automationDetails": {"id": "kernel-harness/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(contents)],
        "results": [_result(bug, names, states, project) for bug in contents.bugs],
    }
    return f"{json.dumps({'$schema': SCHEMA, 'version': '2.1.0', 'runs': [run]}, indent=2)}\n"


def fault_place(finding: Finding, project: Path) -> tuple[str, int]:
    """Return the file and line at fault as a repository names them; without a line, those of the op in its suite."""
    source = finding.fail.source
    return _op_place(finding, project) if source is None else (_file(finding, source, project), source.line)


def _rule(oracle: str) -> Object:
    promise = next((known.promise for known in registry.ALL if known.name == oracle), oracle)
    return {
        "id": oracle,
        "shortDescription": {"text": promise},
        "fullDescription": {"text": promise},
        "help": {"text": f"{promise} The finding says what broke the promise, and replays it."},
        "properties": {"tags": ["gpu", "triton"], "precision": "high"},
    }


def _invocation(contents: ReportContents) -> Object:
    """Return what limits the report, so that silence about an op is not taken for a pass."""
    unchecked = (f"no case could be checked of {op}" for op in contents.together.unchecked)
    missing = tuple(f"{part} did not report" for part in contents.together.missing)
    lines = (*missing, *contents.damaged, *unchecked, *contents.notices)
    return {
        "executionSuccessful": not (missing or any(campaign.report.interrupted for campaign in contents.campaigns)),
        "toolExecutionNotifications": [{"level": "warning", "message": {"text": line}} for line in lines],
    }


def _result(bug: ReportedBug, rules: Sequence[str], states: Mapping[Signature, str], project: Path) -> Object:
    finding = bug.finding
    signature = finding.fail.signature
    result: Object = {
        "ruleId": signature.oracle,
        "ruleIndex": rules.index(signature.oracle),
        "kind": "fail",
        "level": str(finding.severity),
        "message": {"text": "\n".join(_message(finding))},
        "locations": [{"physicalLocation": _place(finding, project), "logicalLocations": list(_names(finding))}],
        "relatedLocations": [
            {"id": 1, "message": {"text": "the op that shows it"}, "physicalLocation": _op(finding, project)}
        ],
        "partialFingerprints": _fingerprints(signature),
        "properties": _properties(finding),
    }
    if bug.link:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": bug.link}]
    if signature in states:
        result["baselineState"] = states[signature]
    return result


def _message(finding: Finding) -> Iterator[str]:
    device = finding.case.device
    yield finding.fail.message
    yield finding.fail.meaning
    yield f"Smallest case: {describe(finding.case)}, on {device.slug} with {device.size}."
    yield f"Replay: {finding.replay_command}"


def _place(finding: Finding, project: Path) -> Object:
    """Return the line at fault; without one, that of the op in its suite."""
    source, excerpt = finding.fail.source, finding.excerpt
    if source is None:
        return _op(finding, project)
    region: Object = {"startLine": source.line}
    place: Object = {"artifactLocation": _artifact(_file(finding, source, project)), "region": region}
    if excerpt and 0 <= source.line - excerpt.first < len(excerpt.lines):
        last = excerpt.first + len(excerpt.lines) - 1
        region["snippet"] = {"text": excerpt.lines[source.line - excerpt.first]}
        text = "\n".join(excerpt.lines)
        place["contextRegion"] = {"startLine": excerpt.first, "endLine": last, "snippet": {"text": text}}
    return place


def _file(finding: Finding, source: Source, project: Path) -> str:
    """Return the path in the repository; of an installed library, the path below its folder of packages."""
    path = Path(source.file)
    if path.is_relative_to(project):
        inside = path.relative_to(project)
        if not INSTALLED & set(inside.parts):
            return inside.as_posix()
    if finding.excerpt and not Path(finding.excerpt.file).is_absolute():
        return finding.excerpt.file
    return path.name if path.is_absolute() else path.as_posix()


def _op(finding: Finding, project: Path) -> Object:
    """Return the definition of the op in its suite."""
    file, line = _op_place(finding, project)
    return {"artifactLocation": _artifact(file), "region": {"startLine": line}}


def _op_place(finding: Finding, project: Path) -> tuple[str, int]:
    suite, _, op = finding.case.op.rpartition(":")
    path = Path(suite)
    file = path if path.is_absolute() else project / path
    name = file.relative_to(project).as_posix() if file.is_relative_to(project) else path.name
    return name or suite, _line_of(file, op)


def _line_of(file: Path, op: str) -> int:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return 1
    definition = re.compile(rf"\s*def {re.escape(op)}\b")
    return next((number for number, line in enumerate(lines, 1) if definition.match(line)), 1)


def _artifact(file: str) -> Object:
    return {"uri": quote(file), "uriBaseId": ROOT}


def _names(finding: Finding) -> Iterator[Object]:
    if kernel := finding.fail.signature.kernel:
        yield {"name": kernel, "kind": "function"}
    yield {"name": finding.case.op_name, "fullyQualifiedName": finding.case.op, "kind": "function"}


def _fingerprints(signature: Signature) -> Object:
    """Return the identity of the bug: a reader takes results of several runs with one fingerprint for one alert."""
    parts = (signature.oracle, signature.op, signature.kernel, signature.place)
    return {"kernelHarnessSignature/v2": hashlib.sha256("\n".join(parts).encode()).hexdigest()}


def _properties(finding: Finding) -> Object:
    device = finding.case.device
    return {
        "finding": finding.id,
        "signature": str(finding.fail.signature),
        "confirmation": str(finding.confirmation),
        "flaky": finding.repeats.is_flaky,
        "device": device.slug,
        "smCount": device.sm_count,
        "seed": finding.case.seed,
        "sightings": finding.sightings,
        "symptoms": [str(symptom.signature) for symptom in finding.symptoms],
    }


def _baseline(contents: ReportContents) -> Mapping[Signature, str]:
    """Return which findings are new and which are not; none without an earlier report."""
    rows = stages(contents)
    if not rows:
        return {}
    return {**dict.fromkeys((*rows[-1].new, *rows[-1].back), "new"), **dict.fromkeys(rows[-1].still, "unchanged")}
