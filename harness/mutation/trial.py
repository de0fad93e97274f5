"""One mutant: the ordinary search on the ops that execute it, until a failure is confirmed that is its own.

Owns the places where workers get the mutant or the original, and what a search's end says of the mutant.
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
from harness.model.verdict import Fail
from harness.mutation.executed_lines import Extent, Lines
from harness.mutation.library_copies import copy_with
from harness.mutation.mutants import Mutant
from harness.mutation.original import MutantJudge, Original
from harness.mutation.outcome import Fate, MutantOutcome
from harness.oracles import registry
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import Options
from harness.search.triage import Triage
from harness.workers.pool import Pool
from harness.workers.spec import BUILDS, WorkerSpec

COMPILE_ERRORS = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"})
REFUSED_PASSES = "PassManager::run failed"
"""What Triton says, as a RuntimeError, where its own IR does not verify or a pass gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationSetup:
    """What every lane works by."""

    options: Options
    """Its budget is that of one mutant."""
    library_paths: tuple[str, ...]
    folder: Path
    """For Triton's cache, builds, and copies of libraries."""
    seconds: float
    """For one mutant, at most."""

    def spec(self, device: DeviceProfile) -> WorkerSpec:
        """Workers with the libraries as they are."""
        return WorkerSpec(
            device=device,
            suites=self.options.suites,
            scratch=str(self.folder),
            library_paths=self.library_paths,
            engine=self.options.engine,
        )

    @property
    def lines(self) -> Lines:
        """The lines of the builds that its workers leave."""
        return Lines(self.folder / BUILDS)


class Lane:
    """Tries one mutant after the other, in processes that have loaded torch and Triton once; a context manager."""

    def __init__(self, bench: MutationSetup) -> None:
        self._bench = bench
        self._suites = bench.options.suites
        self._copy = ""
        limit = bench.options.time_limit_s
        self._originals = Pool(bench.spec, 1, limit)
        self._mutants = Pool(self._mutated, 1, limit)
        self._original = Original(runner=self._originals)
        self._lines = bench.lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._mutants.close()
        self._originals.close()

    def attempt(self, library: Path, mutant: Mutant, ops: Sequence[Op]) -> MutantOutcome:
        """Search these ops of a library with one mutant in it."""
        begun = time.monotonic()
        copy = self._bench.folder / "copies" / mutant.id
        copy_with(library, mutant.file, mutant.of((library / mutant.file).read_bytes()), copy)
        self._suites = tuple(dict.fromkeys(op.suite for op in ops))
        self._copy = str(copy)
        seeker = _Seeker(mutant, self._bench, self._mutants, self._original, tuple(ops))
        try:
            seeker.campaign.run()
        except LibraryError as error:
            return replace(seeker.outcome(Fate.STILLBORN, begun), said=_first_line(str(error)))
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return self._judged(seeker, begun)

    def _mutated(self, device: DeviceProfile) -> WorkerSpec:
        """Workers of the mutant that is tried; those of the ones before are retired by the pool."""
        return replace(self._bench.spec(device), suites=self._suites, variant_paths=(self._copy,))

    def _judged(self, seeker: "_Seeker", begun: float) -> MutantOutcome:
        if seeker.stillborn:
            return replace(seeker.outcome(Fate.STILLBORN, begun), said=seeker.stillborn)
        if seeker.kill is not None:
            fail, case = seeker.kill
            also = tuple(dict.fromkeys(oracle for oracle in seeker.also if oracle != fail.oracle))
            said = f"{fail.signature}: {fail.message}"
            return replace(seeker.outcome(Fate.KILLED, begun), oracle=fail.oracle, also=also, said=said, case=case)
        runs, reached = seeker.seen.values(), self._is_reached(seeker)
        # What launches kernels is not in their code: that nothing was different says nothing there.
        alike = seeker.mutant.is_in_kernel and reached and all(map(self._original.launches_alike, runs))
        same_bits = alike or all(map(self._original.results_alike, runs))
        outcome = seeker.outcome(Fate.SAME_CODE if alike else Fate.SURVIVED, begun)
        return replace(outcome, reached=reached, same_bits=same_bits)

    def _is_reached(self, seeker: "_Seeker") -> bool:
        mutant = seeker.mutant
        launches = [launch for run in seeker.seen.values() for launch in run.launches]
        if not mutant.is_in_kernel:
            return any(launch.kernel in mutant.launches for launch in launches)
        first, last = mutant.statement
        return Extent(file=mutant.file, first=first, last=last).meets(self._lines.of(launches))


class _Seeker:
    """Watches the search for one mutant: ends it at the first confirmed failure, or when its time is over."""

    def __init__(
        self, mutant: Mutant, bench: MutationSetup, pool: Pool, original: Original, ops: tuple[Op, ...]
    ) -> None:
        options = bench.options
        oracles = tuple(map(registry.find, options.oracles)) or registry.ALL
        judge = MutantJudge(oracles=oracles, original=original)
        plan = replace(options.plan, ops=ops)
        self.mutant = mutant
        self.seen = judge.seen
        self.campaign = Campaign(plan, pool, judge, self, processes=1)
        self.kill: tuple[Fail, Case] | None = None
        self.also: list[str] = []
        """What other oracles said of the case that killed it."""
        self.stillborn = ""
        self._ops = ops
        self._triage = Triage(runner=pool, judge=judge, trying=lambda _: None)
        self._deadline = time.monotonic() + bench.seconds

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        """End the search when its time is over."""
        del tally, trying
        if time.monotonic() >= self._deadline:
            self.campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """End the search if the failure repeats."""
        if self.kill or self.stillborn:
            self.also.append(fail.oracle)  # of the same case
        elif refusal := _refusal(self.seen[trial.case.digest]):
            self.stillborn = refusal
            self.campaign.stop()
        elif self._triage.repeats(fail, trial):
            self.kill = fail, trial.case
            self.campaign.stop()

    def outcome(self, fate: Fate, begun: float) -> MutantOutcome:
        """What came of it, less the evidence."""
        return MutantOutcome(
            mutant=self.mutant,
            fate=fate,
            ops=tuple(op.id for op in self._ops),
            cases=self.campaign.tally.cases,
            seconds=round(time.monotonic() - begun, 1),
        )


def _refusal(run: Run) -> str:
    """What the compiler said, where it refused the kernel; empty where it did not."""
    match run.ending:
        case Raised(kind=kind, message=message) if kind in COMPILE_ERRORS or REFUSED_PASSES in message:
            return f"{kind}: {message.strip().splitlines()[-1]}" if message.strip() else kind
        case _:
            return ""


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
