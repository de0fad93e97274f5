"""From a case to its verdicts: the run, the companion runs that oracles ask for, and what they say of it all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, beside, launch_of
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

    @property
    def fails(self) -> tuple[Fail, ...]:
        """The verdicts that say that a promise was broken."""
        return tuple(verdict for verdict in self.verdicts if isinstance(verdict, Fail))

    @property
    def outcome(self) -> Outcome:
        """What the verdicts come to."""
        return registry.outcome(self.run, self.verdicts)

    def fail_with(self, signature: Signature) -> Fail | None:
        """The failure that has this signature, if the run shows it."""
        return next((fail for fail in self.fails if fail.signature == signature), None)

    def launch_of(self, fail: Fail) -> Launch | None:
        """The launch at fault: the first of the kernel that the signature names."""
        return launch_of(self.run.launches, fail.signature.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The oracles in use, and the source of what they know about resources."""

    oracles: tuple[Oracle, ...] = registry.ALL
    resources: ResourceSource = field(default_factory=NoResources)

    def only(self, *oracles: str) -> "Judge":
        """A judge who asks these oracles alone, and so needs no companions of others."""
        return replace(self, oracles=tuple(oracle for oracle in self.oracles if oracle.name in oracles))

    def companions(self, op: Op, run: Run) -> tuple[PairedRunRequest, ...]:
        """The further runs that are needed, each once."""
        return tuple(beside(run, case) for case in registry.companions(run, registry.promised(op.waives, self.oracles)))

    @staticmethod
    def doubtful(run: Run, companions: Mapping[str, Run]) -> tuple[Case, ...]:
        """The companions that must be run whole, since they differ from the run by more than its own tolerance.

        A result that is far from the truth is allowed what more random rounding explains: theirs may be wider.
        """
        differing = (one for one in companions.values() if isinstance(one, PairedRun) and disagreements(run, one))
        return tuple(one.case for one in differing if isinstance(one.ending, Completed))

    def judge(self, op: Op, run: Run, companions: Mapping[str, Run]) -> Examination:
        """What each oracle says; `companions` by the digest of their case."""
        resources = self._known(run.launches)
        return Examination(run=run, verdicts=registry.judge_all(run, companions, resources, op.waives, self.oracles))

    def examine(self, op: Op, case: Case, execute: Callable[[RunRequest], Run]) -> Examination:
        """Run the case and its companions one after another through `execute`, and judge."""
        run = execute(case)
        companions = {wanted.case.digest: execute(wanted) for wanted in self.companions(op, run)}
        whole = {again.digest: execute(again) for again in self.doubtful(run, companions)}
        return self.judge(op, run, companions | whole)

    def _known(self, launches: tuple[Launch, ...]) -> Mapping[str, Resources]:
        asked = {launch.build: self.resources.of(launch) for launch in launches}
        return {build: found for build, found in asked.items() if found is not None}
