"""Test one mutant: search the ops that execute it until a failure is confirmed that the original does not show.

Owns the pools whose workers load the mutant or the original, and the decision on the mutant's fate.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.errors import LibraryError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Raised, Run
from harness.model.triton_errors import PASSES_FAILED
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import Options
from harness.search.runner import Runner
from harness.search.triage import Triage
from harness.workers.pool import Pool
from harness.workers.spec import BUILDS, WorkerSpec
from studies.mutation.executed_lines import ExecutedLines, LineRange
from studies.mutation.library_copies import copy_with_file
from studies.mutation.mutants import Mutant
from studies.mutation.original import MutantJudge, Original
from studies.mutation.outcome import Fate, MutantOutcome

COMPILE_ERRORS = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"})
"""The message of Triton's RuntimeError if its IR does not verify or a pass fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationSetup:
    """The settings that all testers share."""

    options: Options
    """The budget is for one mutant."""
    library_paths: tuple[str, ...]
    folder: Path
    """For Triton's cache, builds, and copies of libraries."""
    seconds: float
    """The time limit for one mutant."""

    def spec(self, device: DeviceProfile) -> WorkerSpec:
        """Return the specification of workers with the original libraries."""
        return WorkerSpec(
            device=device,
            suites=self.options.suites,
            project=str(self.options.project),
            scratch=str(self.folder),
            library_paths=self.library_paths,
            engine=self.options.engine.factory,
        )

    @property
    def lines(self) -> ExecutedLines:
        """The lines of the builds that the workers leave behind."""
        return ExecutedLines(self.folder / BUILDS)


class MutantTester:
    """Tests one mutant after another, in processes that load torch and Triton once; a context manager."""

    def __init__(self, setup: MutationSetup) -> None:
        self._setup = setup
        self._suites = setup.options.suites
        self._copy = ""
        limit = setup.options.time_limit_s
        self._originals = Pool(setup.spec, 1, limit)
        self._mutants = Pool(self._mutated, 1, limit)
        self._original = Original(runner=self._originals)
        self._lines = setup.lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._mutants.close()
        self._originals.close()

    def test(self, library: Path, mutant: Mutant, ops: Sequence[Op]) -> MutantOutcome:
        """Search these ops of a library that contains one mutant."""
        begun = time.monotonic()
        copy = self._setup.folder / "copies" / mutant.id
        copy_with_file(library, mutant.file, mutant.apply((library / mutant.file).read_bytes()), copy)
        self._suites = tuple(dict.fromkeys(op.suite for op in ops))
        self._copy = str(copy)
        observer = MutantObserver(mutant, self._setup, self._mutants, self._original, tuple(ops))
        try:
            observer.campaign.run()
        except LibraryError as error:
            return replace(observer.outcome(Fate.STILLBORN, begun), message=_first_line(str(error)))
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return self._fate(observer, begun)

    def _mutated(self, device: DeviceProfile) -> WorkerSpec:
        """Return the specification of workers with the current mutant; the pool retires those of earlier mutants."""
        return replace(self._setup.spec(device), suites=self._suites, variant_paths=(self._copy,))

    def _fate(self, observer: "MutantObserver", begun: float) -> MutantOutcome:
        if observer.stillborn:
            return replace(observer.outcome(Fate.STILLBORN, begun), message=observer.stillborn)
        if observer.kill is not None:
            fail, case = observer.kill
            other_oracles = tuple(dict.fromkeys(oracle for oracle in observer.other_oracles if oracle != fail.oracle))
            message = f"{fail.signature}: {fail.message}"
            return replace(
                observer.outcome(Fate.KILLED, begun),
                oracle=fail.oracle,
                other_oracles=other_oracles,
                message=message,
                case=case,
            )
        runs, reached = observer.seen.values(), self._is_reached(observer)
        # For a mutant of host code, equal kernels prove nothing: the change is not in their code.
        is_same_code = observer.mutant.is_in_kernel and reached and all(map(self._original.has_same_launches, runs))
        same_bits = is_same_code or all(map(self._original.has_same_results, runs))
        outcome = observer.outcome(Fate.SAME_CODE if is_same_code else Fate.SURVIVED, begun)
        return replace(outcome, reached=reached, same_bits=same_bits)

    def _is_reached(self, observer: "MutantObserver") -> bool:
        mutant = observer.mutant
        launches = [launch for run in observer.seen.values() for launch in run.launches]
        if not mutant.is_in_kernel:
            return any(launch.kernel in mutant.launches for launch in launches)
        first, last = mutant.statement
        return LineRange(file=mutant.file, first=first, last=last).overlaps(self._lines.of(launches))


class MutantObserver:
    """Observes the search for one mutant, and ends it at the first confirmed failure or at the deadline.

    A warning kills as well as an error.
    """

    def __init__(
        self, mutant: Mutant, setup: MutationSetup, runner: Runner, original: Original, ops: tuple[Op, ...]
    ) -> None:
        options = setup.options
        oracles = tuple(map(registry.find, options.oracles)) or registry.ALL
        judge = MutantJudge(oracles=oracles, original=original)
        plan = replace(options.plan, ops=ops)
        self.mutant = mutant
        self.seen = judge.seen
        self.campaign = Campaign(plan, CampaignWorkers(runner=runner, processes=1), judge, self)
        self.kill: tuple[Fail, Case] | None = None
        self.other_oracles: list[str] = []
        """Other oracles that failed in the case that killed the mutant."""
        self.stillborn = ""
        self._ops = ops
        self._triage = Triage(runner=runner, judge=judge, trying=lambda _: None)
        self._deadline = time.monotonic() + setup.seconds

    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        """End the search at the deadline."""
        del statistics, trying
        if time.monotonic() >= self._deadline:
            self.campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """End the search if the failure repeats."""
        if self.kill or self.stillborn:
            self.other_oracles.append(fail.oracle)  # of the same case
        elif error := _compiler_error(self.seen[trial.case.digest]):
            self.stillborn = error
            self.campaign.stop()
        elif self._triage.repeats(fail, trial):
            self.kill = fail, trial.case
            self.campaign.stop()

    def outcome(self, fate: Fate, begun: float) -> MutantOutcome:
        """Return the outcome without the evidence."""
        return MutantOutcome(
            mutant=self.mutant,
            fate=fate,
            ops=tuple(op.id for op in self._ops),
            cases=self.campaign.statistics.cases,
            seconds=round(time.monotonic() - begun, 1),
        )


def _compiler_error(run: Run) -> str:
    """Return the compiler's message if it refused the kernel, or else an empty string."""
    match run.ending:
        case Raised(kind=kind, message=message) if kind in COMPILE_ERRORS or PASSES_FAILED in message:
            return f"{kind}: {message.strip().splitlines()[-1]}" if message.strip() else kind
        case _:
            return ""


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
