"""The findings and the report of a watched command, from what its processes recorded."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from harness.documents.campaign import CampaignReport, VerdictCount
from harness.documents.op_checks import OpChecks
from harness.findings.known_issues import KnownIssues
from harness.findings.versions import versions
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding, Symptom, WatchedLaunch
from harness.model.verdict import Outcome, Signature
from harness.search.causes import Suspect, causes_of
from harness.watched.build_checks import FITS, BuildVerdicts
from harness.watched.command_process import CommandEnd
from harness.watched.watch_records import LaunchFailure, TestChecks

REASONS = 5
PYTEST = ("pytest", "py.test")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCommand:
    """A command, and how `harness run` ran it."""

    words: tuple[str, ...]
    device: DeviceProfile
    options: tuple[str, ...]
    """The options of `harness run`, as they were given."""
    libraries: tuple[str, ...] = ()
    """As given to `--with`."""
    engine_options: tuple[str, ...] = ()
    """`("--engine", "cuda")` for a hardware GPU; empty for the virtual GPU."""

    def repeating(self, test: str) -> tuple[str, ...]:
        """Return the command that repeats one test; the whole command if it does not run pytest."""
        if self.words[0].rpartition("/")[2] in PYTEST:
            words = (self.words[0], test)
        elif self.words[1:3] == ("-m", "pytest"):
            words = (*self.words[:3], test)
        else:
            words = self.words
        return ("harness", "run", *self.options, "--", *words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything that the processes of a command recorded."""

    checks: tuple[TestChecks, ...]
    failures: tuple[LaunchFailure, ...]
    builds: BuildVerdicts = field(default_factory=BuildVerdicts)
    uncompiled: Mapping[str, int] = field(default_factory=dict[str, int])
    """Programs of `torch.compile` that ran uncompiled, by reason."""

    @property
    def launches(self) -> int:
        return sum(checks.launches for checks in self.checks)

    @property
    def tests(self) -> dict[str, Outcome]:
        """The outcome of each test that launched a kernel: of all its launches, in whatever process."""
        failed = {failure.test for failure in self.failures}
        outcomes: dict[str, Outcome] = {}
        for checks in self.checks:
            is_checked = sum(checks.unchecked.values()) < checks.launches or outcomes.get(checks.test) is Outcome.PASS
            outcomes[checks.test] = Outcome.PASS if is_checked else Outcome.ABSTAIN
        return outcomes | dict.fromkeys(failed, Outcome.FAIL)


@dataclass(frozen=True, slots=True)
class WatchedFinding:
    """A finding, and the recording of its launch."""

    finding: Finding
    recording: str
    """The name of a file in the folder of the command; empty if the launch cannot be repeated by itself."""


def findings_of(seen: Seen, command: WatchedCommand) -> tuple[WatchedFinding, ...]:
    """Return one finding for each cause."""
    by_signature: dict[Signature, list[LaunchFailure]] = defaultdict(list)
    for failure in seen.failures:
        by_signature[failure.fail.signature].append(failure)
    suspects = [
        Suspect(fail=_simplest(same).fail, cases={failure.test for failure in same}) for same in by_signature.values()
    ]
    watched: list[WatchedFinding] = []
    for cause in causes_of(suspects):
        same = by_signature[cause.head]
        symptoms = tuple(_symptom(by_signature[signature]) for signature in cause.symptoms)
        finding = replace(_finding(same, command), symptoms=symptoms)
        watched.append(WatchedFinding(finding, _simplest(same).recording))
    return tuple(watched)


def report_of_watch(
    seen: Seen,
    command: WatchedCommand,
    findings: Iterable[Finding],
    issues: KnownIssues,
    end: CommandEnd,
) -> CampaignReport:
    """Return the report of a command.  Its cases are the tests that launched a kernel."""
    reported = tuple(findings)
    outcomes, kernels = seen.tests, sorted({kernel for checks in seen.checks for kernel in checks.kernels})
    count, slug = Counter(outcomes.values()), command.device.slug
    verdicts, reasons = Counter[tuple[str, Outcome]](), Counter[str]()
    for checks in seen.checks:
        for oracle in checks.judged:
            verdicts[oracle, Outcome.FAIL if checks.failed.get(oracle) else Outcome.PASS] += 1
        reasons.update(checks.unchecked)
    verdicts.update((FITS.name, outcome) for outcome in seen.builds.outcomes)
    name = " ".join(command.words)
    return CampaignReport(
        findings=reported,
        cases=len(outcomes),
        passed=count[Outcome.PASS],
        failed=count[Outcome.FAIL],
        abstained=count[Outcome.ABSTAIN],
        abstain_reasons=dict(reasons.most_common()),
        seconds=round(end.seconds, 3),
        seed=0,
        devices=(str(command.device),),
        versions=versions(),
        libraries=command.libraries,
        interrupted=end.was_interrupted,
        kernels=tuple(kernels),
        builds=seen.builds.builds,
        compiled_builds=seen.builds.compiled,
        uncompiled=dict(seen.uncompiled),
        known_findings=issues.among(reported),
        notices=issues.notices(reported, kernels, ()),
        verdicts=tuple(
            VerdictCount(op=name, device=slug, oracle=oracle, outcome=outcome, cases=cases)
            for (oracle, outcome), cases in sorted(verdicts.items())
        ),
        op_checks=(
            OpChecks(
                op=name,
                device=slug,
                passed=count[Outcome.PASS],
                failed=count[Outcome.FAIL],
                abstained=count[Outcome.ABSTAIN],
                abstain_reasons=dict(reasons.most_common(REASONS)),
            ),
        ),
    )


def _simplest(same: Sequence[LaunchFailure]) -> LaunchFailure:
    """Return the failure with the smallest grid, among those whose launch was recorded if there are any."""

    def key(failure: LaunchFailure) -> tuple[bool, int, int, str]:
        programs = prod(failure.launch.grid) if failure.launch else 0
        return not failure.recording, programs, len(failure.test), failure.test

    return min(same, key=key)


def _finding(same: Sequence[LaunchFailure], command: WatchedCommand) -> Finding:
    simplest = _simplest(same)
    tests = dict.fromkeys((simplest.test, *(failure.test for failure in same)))
    cases = tuple(Case(op=test, dims={}, dtype=simplest.dtype, device=command.device) for test in tests)
    return Finding(
        fail=simplest.fail,
        case=cases[0],
        launch=simplest.launch,
        first_case=cases[0],
        sightings=len(cases),
        confirmed=simplest.fail.signature.oracle == FITS.name,  # a process of its own has compiled the kernel
        cases=cases,
        libraries=command.libraries,
        engine_options=command.engine_options,
        watched=WatchedLaunch(
            command=command.repeating(simplest.test),
            test=simplest.test,
            called_from=simplest.called_from,
            captured_at=simplest.captured_at,
        ),
    )


def _symptom(same: Sequence[LaunchFailure]) -> Symptom:
    simplest = _simplest(same)
    return Symptom(
        signature=simplest.fail.signature,
        message=simplest.fail.message,
        source=simplest.fail.source,
        sightings=len({failure.test for failure in same}),
    )
