"""The judge: runs a case and the paired runs that oracles request, and collects the verdicts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.op import Op
from harness.model.paired_run import (
    PairedRun,
    PairedRunRequest,
    RunRequest,
    SecondRun,
    difference_of,
    launch_of,
    request_paired_run,
)
from harness.model.run import Completed, Launch, Run
from harness.model.verdict import Fail, Outcome, Signature, Verdict
from harness.oracles import registry
from harness.oracles.base import Oracle
from harness.oracles.run_comparison import disagreements
from harness.search.runner import NoResources, ResourceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """One run and all verdicts on it."""

    run: Run
    verdicts: tuple[Verdict, ...]
    second_runs: tuple[SecondRun, ...] = ()
    """What differed in each second run that completed."""

    @property
    def fails(self) -> tuple[Fail, ...]:
        return tuple(verdict for verdict in self.verdicts if isinstance(verdict, Fail))

    @property
    def outcome(self) -> Outcome:
        return registry.outcome(self.run, self.verdicts)

    def fail_with(self, signature: Signature) -> Fail | None:
        """Return the failure with this signature, or None if the run does not show it."""
        return next((fail for fail in self.fails if fail.signature == signature), None)

    def with_verdicts_of(self, later: "Examination") -> "Examination":
        """Return the examination with the verdicts of a later one in the place of those of the same oracles."""
        oracles = {verdict.oracle for verdict in later.verdicts}
        kept = (verdict for verdict in self.verdicts if verdict.oracle not in oracles)
        return replace(self, verdicts=(*kept, *later.verdicts))

    def launch_of(self, fail: Fail) -> Launch | None:
        """Return the launch at fault: the first one of the kernel that the signature names."""
        return launch_of(self.run.launches, fail.signature.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The oracles in use, and the source of kernel resources."""

    oracles: tuple[Oracle, ...] = registry.ALL
    resources: ResourceSource = field(default_factory=NoResources)

    def only(self, *oracles: str) -> "Judge":
        """Return a judge with only these oracles, which requests no paired runs for others."""
        return replace(self, oracles=tuple(oracle for oracle in self.oracles if oracle.name in oracles))

    def paired_runs(self, op: Op, run: Run) -> tuple[PairedRunRequest, ...]:
        """Return the requests for all paired runs that the oracles need, each once."""
        return tuple(
            request_paired_run(run, case)
            for case in registry.paired_runs(run, registry.promised(op.waives, self.oracles))
        )

    @staticmethod
    def needing_full_run(run: Run, paired_runs: Mapping[str, Run]) -> tuple[Case, ...]:
        """Return the cases of paired runs that differ from the run by more than its tolerance.

        They are run again in full, to get tolerances of their own.  Those may be wider: a result that is far from the
        reference is allowed the error that more random rounding explains.
        """
        differing = (one for one in paired_runs.values() if isinstance(one, PairedRun) and disagreements(run, one))
        return tuple(one.case for one in differing if isinstance(one.ending, Completed))

    def judge(self, op: Op, run: Run, paired_runs: Mapping[str, Run]) -> Examination:
        """Collect the verdict of each oracle; `paired_runs` are keyed by the digest of their case."""
        resources = self._known(run.launches)
        verdicts = registry.judge_all(run, paired_runs, resources, op.waives, self.oracles)
        if op.launches:
            verdicts = registry.without_unlaunched_passes(run, verdicts)
        return Examination(run=run, verdicts=verdicts, second_runs=tuple(_second_runs(run, paired_runs.values())))

    def examine(self, op: Op, case: Case, execute: Callable[[RunRequest], Run]) -> Examination:
        """Run the case and its paired runs through `execute`, one after another, and judge them."""
        run = execute(case)
        paired_runs = {request.case.digest: execute(request) for request in self.paired_runs(op, run)}
        full = {again.digest: execute(again) for again in self.needing_full_run(run, paired_runs)}
        return self.judge(op, run, paired_runs | full)

    def _known(self, launches: tuple[Launch, ...]) -> Mapping[str, Resources]:
        asked = {launch.build: self.resources.of(launch) for launch in launches}
        return {build: found for build, found in asked.items() if found is not None}


def _second_runs(run: Run, paired_runs: Iterable[Run]) -> Iterator[SecondRun]:
    for other in paired_runs:
        if isinstance(other.ending, Completed):
            yield difference_of(run.case, other.case)
    if run.refilled is not None and isinstance(run.refilled.ending, Completed):
        yield SecondRun.LANE_FILL
    if run.repeated is not None and isinstance(run.repeated.ending, Completed):
        yield SecondRun.REPETITION
