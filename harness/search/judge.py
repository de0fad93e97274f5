"""The judge: runs a case and the paired runs that oracles request, and collects the verdicts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.execution.paired_run_policy import is_sampled
from harness.model.case import Case, Scale
from harness.model.kernel_resources import Resources
from harness.model.op import Op
from harness.model.paired_run import (
    PairedRun,
    PairedRunRequest,
    RunRequest,
    SecondRun,
    difference_of,
    launch_of,
    request_config_builds,
    request_paired_run,
    with_config_builds,
)
from harness.model.run import Completed, Launch, Run
from harness.model.verdict import Fail, Outcome, Signature, Verdict
from harness.oracles import registry
from harness.oracles.base import Oracle
from harness.oracles.resources import shortages
from harness.oracles.run_comparison import disagreements
from harness.oracles.traits import Need
from harness.search.runner import NoResources, ResourceSource, mapped


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
        exactly = (fail for fail in self.fails if fail.signature == signature)
        showing = (fail for fail in self.fails if registry.is_shown_by(signature, fail.signature))
        return next(exactly, None) or next(showing, None)

    def with_verdicts_of(self, later: "Examination") -> "Examination":
        """Return the examination with the verdicts of a later one in the place of those of the same oracles."""
        oracles = {verdict.oracle for verdict in later.verdicts}
        kept = (verdict for verdict in self.verdicts if verdict.oracle not in oracles)
        return replace(self, verdicts=(*kept, *later.verdicts))

    def launch_of(self, fail: Fail) -> Launch | None:
        """Return the launch at fault; if only its kernel is known, the first one of that kernel.

        Without a kernel, torch computed a wrong result, from what a launch has left.
        """
        launches, index = self.run.launches, fail.launch_index
        # A failure of another run may stand for one of this run; its launches may be fewer.
        if index is not None and index < len(launches) and fail.signature.kernel in {"", launches[index].kernel}:
            return launches[index]
        return launch_of(self.run.launches, fail.signature.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The oracles in use, and the source of kernel resources."""

    oracles: tuple[Oracle, ...] = registry.ALL
    resources: ResourceSource = field(default_factory=NoResources)
    exactly: bool = False
    """Whether every case that it examines is computed in exact arithmetic too."""

    def doubtful_configs(self, run: Run) -> tuple[Launch, ...]:
        """Return launches as with each other config, for kernels whose own config is known not to fit the device."""
        if not self.checks_resources:
            return ()
        own = self._known(tuple(launch for launch in run.launches if launch.config_builds))
        return tuple(
            replace(launch, build=build)
            for launch in run.launches
            if launch.build in own and any(shortages(own[launch.build], run.case.device))
            for build in filter(None, launch.config_builds)
        )

    def lacks_config_builds(self, run: Run) -> bool:
        """True if the other configs of a launch decide, since its own does not fit, and the run has not compiled them.

        Like other second runs, they are asked for in sampled cases.
        """
        if not (self.checks_resources and run.engine_traits.has_provenance and has_configs_compiled(run.case)):
            return False
        tuned = tuple(launch for launch in run.launches if launch.config_count > 1 and not launch.config_builds)
        return any(any(shortages(own, run.case.device)) for own in self._known(tuned).values())

    @property
    def checks_resources(self) -> bool:
        """True if any oracle reads the resources of kernels; the whole compiler need not run otherwise."""
        return any(Need.RESOURCES in oracle.traits.needs for oracle in self.oracles)

    def as_examined(self, case: Case) -> Case:
        """Return the case as this judge has it run."""
        return replace(case, is_exact=True) if self.exactly else case

    def only(self, oracle: str, *further: str) -> "Judge":
        """Return a judge with only these oracles, which requests no paired runs for others.

        If the first needs an exact run, every case is computed exactly: the search computes a share of them so.
        """
        names = frozenset[str]().union(*map(registry.related, (oracle, *further)))
        chosen = tuple(oracle for oracle in self.oracles if oracle.name in names)
        return replace(self, oracles=chosen, exactly=Need.EXACT_RUN in registry.traits_of(oracle).needs)

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
        differing = (
            paired_run
            for paired_run in paired_runs.values()
            if isinstance(paired_run, PairedRun) and disagreements(run, paired_run)
        )
        return tuple(paired_run.case for paired_run in differing if isinstance(paired_run.ending, Completed))

    def judge(self, op: Op, run: Run, paired_runs: Mapping[str, Run]) -> Examination:
        """Collect the verdict of each oracle; `paired_runs` are keyed by the digest of their case."""
        resources = self._known((*compiled_launches(run), *self.doubtful_configs(run)))
        verdicts = registry.judge_all(run, paired_runs, resources, op.waives, self.oracles)
        verdicts = tuple(_portable(verdict, op) for verdict in verdicts)
        if op.launches and all(run.case.dims.values()):  # a library need not launch a kernel for empty tensors
            verdicts = registry.without_unlaunched_passes(run, verdicts)
        return Examination(run=run, verdicts=verdicts, second_runs=tuple(_second_runs(run, paired_runs.values())))

    def judge_when_compiled(
        self, op: Op, run: Run, execute: Callable[[RunRequest], Run], limit_s: float | None = None
    ) -> Examination:
        """Judge a run again, once the compiler knows every build that an oracle reads, or a limit is over.

        Other configs of a kernel count only if its own build is known not to fit, so they are asked for after that,
        by a further run through `execute`.
        """
        self.resources.wait_for(compiled_launches(run), limit_s)
        if self.lacks_config_builds(run):
            run = with_config_builds(run, execute(request_config_builds(run)))
        self.resources.wait_for(self.doubtful_configs(run), limit_s)
        return self.judge(op, run, {})

    def examine(self, op: Op, case: Case, execute: Callable[[RunRequest], Run], *, at_once: int = 1) -> Examination:
        """Run the case and then its paired runs through `execute`, `at_once` in threads, and judge them."""
        run = execute(self.as_examined(case))
        requests = self.paired_runs(op, run)
        paired = zip(requests, mapped(execute, requests, at_once), strict=True)
        paired_runs = {request.case.digest: other for request, other in paired}
        full = {again.digest: execute(again) for again in self.needing_full_run(run, paired_runs)}
        return self.judge(op, run, paired_runs | full)

    def _known(self, launches: tuple[Launch, ...]) -> Mapping[str, Resources]:
        if not self.checks_resources:
            return {}
        asked = {launch.build: self.resources.of(launch) for launch in launches}
        return {build: resources for build, resources in asked.items() if resources is not None}


def has_configs_compiled(case: Case) -> bool:
    """Return True if the other configs of kernels are compiled for this case, where its own do not fit."""
    return is_sampled(case) and case.scale is Scale.USUAL


def compiled_launches(run: Run) -> tuple[Launch, ...]:
    """Return the launches of the builds whose resources an oracle may read, also of runs that share a config."""
    forced = (
        replace(launch, build=build)
        for entry in (run.keys.shared if run.keys is not None else ())
        if (launch := launch_of(run.launches, entry.kernel)) is not None
        for build in (*entry.there.builds, *entry.here.builds)
    )
    return (*run.launches, *forced)


def _portable(verdict: Verdict, op: Op) -> Verdict:
    """Return a failure whose signature names the op without the place of its suite on disk."""
    if not isinstance(verdict, Fail) or verdict.signature.op != op.id:
        return verdict
    return replace(verdict, signature=replace(verdict.signature, op=op.portable_id))


def _second_runs(run: Run, paired_runs: Iterable[Run]) -> Iterator[SecondRun]:
    for other in paired_runs:
        if isinstance(other.ending, Completed):
            yield difference_of(run.case, other.case)
    if run.refilled is not None and isinstance(run.refilled.ending, Completed):
        yield SecondRun.LANE_FILL
    if run.repeated is not None and isinstance(run.repeated.ending, Completed):
        yield SecondRun.REPETITION
    if run.tuned is not None and isinstance(run.tuned.ending, Completed):
        yield SecondRun.TUNING
    if run.keys is not None:
        yield SecondRun.KEYS
    if run.interrupted is not None and run.interrupted.kernel:
        yield SecondRun.THREADS
    yield from _calls_again(run)


def _calls_again(run: Run) -> Iterator[SecondRun]:
    if run.later is not None and isinstance(run.later.ending, Completed):
        yield SecondRun.LATER
    if run.replayed is not None and isinstance(run.replayed.ending, Completed):
        yield SecondRun.GRAPH
    if run.rows is not None and any(isinstance(trial.ending, Completed) for trial in run.rows.trials):
        yield SecondRun.ROWS
