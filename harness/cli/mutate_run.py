"""What `harness mutate` does: it tries mutants, keeps what became of them, and prints the score."""

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis.configuration import set_hypothesis_home_dir
from rich.text import Text

from harness import libraries
from harness.cli.command import (
    CLEAN,
    FINDINGS,
    INTERRUPTED,
    NOTHING_JUDGED,
    console,
)
from harness.cli.progress_line import Telling
from harness.errors import UsageError, unknown
from harness.findings.versions import versions
from harness.mutation import equivalent_mutants, score
from harness.mutation.measurement import Job, attempt_all, jobs
from harness.mutation.outcome import MutantOutcome
from harness.mutation.trial import MutationSetup
from harness.reports.interrupts import Interrupts
from harness.search.options import Options, engine_of, load_devices, load_ops, suite_files
from harness.search.plan import CaseBudget
from harness.search.session import FOLDER, prepared

SURVEYED = 24
TELL_EVERY_S = 10.0


def run(given: argparse.Namespace) -> int:
    """Try mutants of what the ops execute, and print what became of them."""
    options = _options(given)
    sources = (given.known,) if given.known else equivalent_mutants.files_for(options.suites)
    known = tuple(argument for source in sources for argument in equivalent_mutants.read(source))
    path = Path(given.json) if given.json else None
    if path and not path.absolute().parent.is_dir():
        raise UsageError(f"--json {path}: there is no folder {path.parent}")
    if not options.libraries:
        raise UsageError("harness mutate changes the sources of a library: say which with --with")
    ledger = _Ledger(path, _setting(options, given.seconds))
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    with Interrupts() as interrupts, _bench(options, given.seconds) as bench:
        telling = Telling(TELL_EVERY_S, interrupts)
        found = jobs(bench, SURVEYED, lambda run: telling(f"what is executed: {run.case}"))
        sample = _chosen(found, given.mutant)[: given.limit]
        interrupted = not _attempt(bench, sample, ledger, len(found))
    ids = {job.mutant.id for job in sample}
    mine = [outcome for outcome in ledger.outcomes if outcome.mutant.id in ids]
    outcomes = score.argued(mine, known)
    screen = console()
    screen.print(Text(f"{ledger.setting}\n{_looked_at(sources)}\n"), soft_wrap=True)
    for line in score.lines(outcomes, len(found)):
        screen.print(Text(line), soft_wrap=True)
    share = score.score(outcomes)
    if interrupted:
        return INTERRUPTED
    if share is None:
        return NOTHING_JUDGED
    return CLEAN if share >= given.at_least / 100 else FINDINGS


def _attempt(bench: MutationSetup, sample: tuple[Job, ...], ledger: "_Ledger", mutants: int) -> bool:
    """Try what the ledger does not know yet; false if somebody interrupted it."""
    ledger.begin(mutants)
    todo = [job for job in sample if not ledger.knows(job.mutant.id)]
    try:
        attempt_all(bench, todo, lambda outcome: ledger.add(outcome, of=len(sample)))
    except KeyboardInterrupt:
        return False
    return True


def _options(given: argparse.Namespace) -> Options:
    suites = tuple(dict.fromkeys(file for suite in given.suites for file in suite_files(suite)))
    return Options(
        suites=suites,
        devices=load_devices(given.device, None),
        ops=load_ops(suites, tuple(given.op)),
        budget=CaseBudget(cases=given.cases),
        seed=given.seed,
        processes=given.processes or len(os.sched_getaffinity(0)),
        libraries=tuple(given.libraries),
        time_limit_s=given.time_limit,
        engine=engine_of(given.engine),
    )


def _looked_at(sources: tuple[Path, ...]) -> str:
    if not sources:
        return f"no {equivalent_mutants.FILE} beside the suites or one folder above: nobody has looked at survivors"
    return f"survivors that were looked at: {', '.join(str(source) for source in sources)}"


def _chosen(found: tuple[Job, ...], ids: list[str]) -> tuple[Job, ...]:
    by_id = {job.mutant.id: job for job in found}
    for name in ids:
        if name not in by_id:
            raise unknown("mutant", name, by_id)
    return tuple(by_id[name] for name in ids) or found


def _setting(options: Options, seconds: float) -> str:
    """In words, all that decides what becomes of a mutant."""
    released = versions()
    tested = ", ".join((*options.libraries, f"triton=={released['triton']}", f"torch=={released['torch']}"))
    devices = ", ".join(device.slug for device in options.devices)
    cases = options.budget.cases if isinstance(options.budget, CaseBudget) else 0
    return f"{tested}; {devices}; seed {options.seed}; at most {cases} cases or {seconds:g} s a mutant"


@contextmanager
def _bench(options: Options, seconds: float) -> Generator[MutationSetup]:
    """A bench with a folder of its own, which is removed: a mutant's code must not be found by another command."""
    paths = libraries.resolve(options.libraries)
    with TemporaryDirectory(prefix="mutation-", dir=prepared(FOLDER)) as folder:
        yield MutationSetup(options=options, library_paths=paths, folder=Path(folder).resolve(), seconds=seconds)


class _Ledger:
    """The outcomes, kept in a file where one is named, and told of as they come."""

    def __init__(self, path: Path | None, setting: str) -> None:
        self._path = path
        self._ledger = score.load(path, setting) if path else score.MutationResults(setting=setting)
        self.setting = setting

    @property
    def outcomes(self) -> tuple[MutantOutcome, ...]:
        return self._ledger.outcomes

    def knows(self, mutant: str) -> bool:
        return any(outcome.mutant.id == mutant for outcome in self.outcomes)

    def begin(self, mutants: int) -> None:
        self._ledger = replace(self._ledger, mutants=mutants)

    def add(self, outcome: MutantOutcome, *, of: int) -> None:
        self._ledger = replace(self._ledger, outcomes=(*self.outcomes, outcome))
        if self._path:
            score.save(self._ledger, self._path)
        by = f" by {outcome.oracle}" if outcome.oracle else ""
        told = f"{len(self.outcomes)} of {of}: {outcome.fate}{by} after {outcome.cases} cases, {outcome.seconds:.0f} s"
        print(f"{told}: {outcome.mutant}", file=sys.stderr)
