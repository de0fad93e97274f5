"""Merges the failures of one miscompilation: they show in many results and kernels, and are one finding."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from harness.model.finding import Confirmation, Finding, Symptom
from harness.model.hardware_blame import HardwareBlame
from harness.model.verdict import Severity, Signature


def merged_miscompilations(findings: Mapping[Signature, Finding]) -> dict[Signature, Finding]:
    """Return one finding for each miscompilation with several; the others are its symptoms.

    The keys are the signatures under which the search saw the failures.
    """
    by_cause: dict[str, dict[Signature, Finding]] = {}
    for signature, finding in findings.items():
        if (blame := finding.hardware_blame) is not None and blame.cause:
            by_cause.setdefault(blame.cause, {})[signature] = finding
    return dict(_merged(alike) for alike in by_cause.values() if len(alike) > 1)


def _merged(alike: Mapping[Signature, Finding]) -> tuple[Signature, Finding]:
    """Return the finding of which most is known, with the others as symptoms."""
    head = max(alike, key=lambda signature: _rank(alike[signature]))
    cases = {case.digest: case for finding in alike.values() for case in finding.cases}
    merged = replace(
        alike[head],
        cases=tuple(cases.values()),
        sightings=max(len(cases), *(finding.sightings for finding in alike.values())),
        symptoms=tuple(_symptoms(head, alike)),
        hardware_blame=_blame(alike[head], alike.values()),
    )
    return head, merged


def _rank(finding: Finding) -> tuple[bool, bool, bool, int]:
    is_error = finding.fail.signature.severity is Severity.ERROR
    names_kernels = finding.hardware_blame is not None and bool(finding.hardware_blame.kernels)
    return is_error, finding.confirmation is Confirmation.CONFIRMED, names_kernels, finding.repeats.runs


def _symptoms(head: Signature, alike: Mapping[Signature, Finding]) -> Iterator[Symptom]:
    yield from alike[head].symptoms
    for signature, finding in alike.items():
        if signature != head:
            fail, count = finding.fail, finding.sightings
            yield Symptom(signature=signature, message=fail.message, source=fail.source, sightings=count)
            yield from finding.symptoms


def _blame(head: Finding, alike: Iterable[Finding]) -> HardwareBlame | None:
    if head.hardware_blame is None:
        return None
    blames = [finding.hardware_blame for finding in alike if finding.hardware_blame]
    kernels = dict.fromkeys(kernel for blame in blames for kernel in blame.kernels)
    ways = dict.fromkeys((*head.hardware_blame.mended_by, *(way for blame in blames for way in blame.mended_by)))
    return replace(head.hardware_blame, kernels=tuple(kernels), mended_by=tuple(ways))
