"""`python -m studies.mutation`."""

import argparse
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from harness import libraries
from harness.cli import run_module
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_device,
    add_engine,
    add_libraries,
    add_suites,
    existing,
    json_path,
    plan_of,
    positive,
    seconds,
)
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import ProgressLine, print_lines, print_progress
from harness.cli.surveys import releases_of
from harness.documents import files
from harness.errors import UsageError, unknown
from harness.model.case import HARNESS_FOLDER, DType
from harness.model.op import Op
from harness.reports.interrupts import Interrupts
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options, options_of
from harness.search.session import prepared
from harness.suite_files import located, project_of
from harness.wording import counted
from studies.mutation import equivalent_mutants, score
from studies.mutation.measurement import Job, attempt_all, jobs
from studies.mutation.operators import ON_REQUEST, USUAL, Operator
from studies.mutation.outcome import MutantOutcome
from studies.mutation.trial import MutationSetup

DEVICE = "rtx-pro-6000"
CASES = 300
SECONDS = 300.0
SURVEYED = 24
"""Cases of each op that show which kernels it launches."""
PROGRESS_EVERY_S = 10.0


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Try mutants of the kernels that the ops execute, and print their fates."""
    options = _options(arguments)
    sources = (
        (arguments.known,)
        if arguments.known
        else equivalent_mutants.files_for(located(suite, options.project) for suite in options.suites)
    )
    known = tuple(argument for source in sources for argument in equivalent_mutants.read(source))
    path = json_path(arguments.json)
    if not options.libraries:
        raise UsageError("python -m studies.mutation changes the sources of a library: name it by --with")
    dtypes = tuple(map(DType, arguments.dtype))
    store = _ResultStore(path, _setting(options, dtypes, arguments.seconds))
    use_hypothesis_folder()
    with Interrupts() as interrupts, _setup(options, arguments.seconds) as setup:
        progress = ProgressLine(PROGRESS_EVERY_S, interrupts)
        executed = jobs(setup, SURVEYED, lambda run: progress(f"what is executed: {run.case}"))
        mutants = _made_by(executed, frozenset(map(Operator, arguments.operator)) or USUAL, arguments.mutant)
        sample = _chosen(mutants, arguments.mutant)[: arguments.limit]
        is_finished = _attempt(setup, sample, store, len(mutants))
    ids = {job.mutant.id for job in sample}
    outcomes = score.with_explanations([outcome for outcome in store.outcomes if outcome.mutant.id in ids], known)
    print_lines([f"{store.setting}\n{_known_text(sources)}\n", *score.lines(outcomes, len(mutants))])
    if rate := score.kill_rate(store.new, store.cpu_s):
        print_lines([rate])
    share = score.score(outcomes)
    if not is_finished:
        return ExitStatus.INTERRUPTED
    if share is None:
        return ExitStatus.NOTHING_CHECKED
    return ExitStatus.CLEAN if share >= arguments.at_least / 100 else ExitStatus.FINDINGS


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  python -m studies.mutation fla:norm --with fla-core==0.6.0 --limit 50
  python -m studies.mutation fla --with fla-core==0.6.0 --json mutants.json   goes on later

exit status: 0 the score is at least --at-least; 1 it is lower; 2 usage or harness error; 3 no mutant counts
"""
    add_suites(parser)
    add_device(parser, DEVICE)
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help="most cases for a mutant (default: %(default)s)"
    )
    parser.add_rare(
        "--seconds",
        type=seconds,
        default=SECONDS,
        metavar="S",
        help="most seconds for a mutant (default: %(default)g)",
    )
    parser.add_argument(
        "--operator",
        action="append",
        choices=tuple(Operator),
        default=[],
        metavar="NAME",
        help=f"only mutants of this kind; repeatable (default: all but {', '.join(ON_REQUEST)})",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        choices=tuple(DType),
        default=[],
        metavar="NAME",
        help=f"only cases of this dtype: {', '.join(DType)}; repeatable (default: each that an op supports)",
    )
    parser.add_argument("--limit", type=positive, metavar="M", help="try M mutants, drawn by the seed (default: all)")
    parser.add_argument("--mutant", action="append", default=[], metavar="ID", help="only this mutant; repeatable")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="another seed draws other cases and mutants (default: %(default)s)",
    )
    parser.add_rare("--processes", type=positive, metavar="N", help="mutants at once (default: one per core)")
    parser.add_argument(
        "--json", metavar="FILE", help="store the fate of each mutant in FILE; skip the mutants that it has"
    )
    parser.add_rare(
        "--known",
        type=existing,
        metavar="FILE",
        help="survivors with an explanation (default: each mutants.toml in the suites' folders and one folder above)",
    )
    parser.add_argument(
        "--at-least", type=float, default=95.0, metavar="PERCENT", help="the score to reach (default: %(default)g)"
    )
    add_libraries(parser)
    add_engine(parser)


def _attempt(setup: MutationSetup, sample: tuple[Job, ...], store: "_ResultStore", mutants: int) -> bool:
    """Try the mutants whose outcome is not stored yet.  Return False if the user interrupts."""
    store.begin(mutants)
    store.began_cpu_s = _cpu_seconds()
    todo = [job for job in sample if not store.knows(job.mutant.id)]
    try:
        attempt_all(setup, todo, lambda outcome: store.add(outcome, of=len(sample)))
    except KeyboardInterrupt:
        return False
    return True


def _options(arguments: argparse.Namespace) -> Options:
    plan = plan_of(arguments, device=DEVICE)
    options = options_of(plan, arguments.settings, project_of(Path.cwd()))
    return replace(
        options,
        ops=_with_dtypes(options.ops, tuple(map(DType, arguments.dtype))),
        processes=arguments.processes or len(os.sched_getaffinity(0)),
    )


def _with_dtypes(ops: tuple[Op, ...], dtypes: tuple[DType, ...]) -> tuple[Op, ...]:
    """Return the ops with cases of these dtypes only, without those that support none of them."""
    if not dtypes:
        return ops
    narrowed = (replace(op, dtypes=tuple(dtype for dtype in op.dtypes if dtype in dtypes)) for op in ops)
    kept = tuple(op for op in narrowed if op.dtypes)
    if not kept:
        raise UsageError(f"--dtype: no op of these suites supports {' or '.join(dtypes)}")
    return kept


def _known_text(sources: tuple[Path, ...]) -> str:
    if not sources:
        return f"no {equivalent_mutants.FILE} in the suites' folders or one folder above: no survivor is explained"
    return f"explained survivors: {', '.join(str(source) for source in sources)}"


def _made_by(mutants: tuple[Job, ...], operators: frozenset[Operator], ids: list[str]) -> tuple[Job, ...]:
    """Return the mutants of these operators, and those that are asked for by id."""
    return tuple(job for job in mutants if job.mutant.operator in operators or job.mutant.id in ids)


def _chosen(mutants: tuple[Job, ...], ids: list[str]) -> tuple[Job, ...]:
    by_id = {job.mutant.id: job for job in mutants}
    for name in ids:
        if name not in by_id:
            raise unknown("mutant", name, by_id)
    return tuple(by_id[name] for name in ids) or mutants


def _setting(options: Options, dtypes: tuple[DType, ...], seconds: float) -> str:
    """Return, in words, everything that decides the fate of a mutant."""
    devices = ", ".join(device.slug for device in options.devices)
    only = f"{', '.join(dtypes)}; " if dtypes else ""
    cases = options.budget.cases if isinstance(options.budget, CaseBudget) else 0
    budget = f"at most {cases} cases or {seconds:g} s a mutant"
    return f"{releases_of(options.libraries)}; {devices}; {only}seed {options.seed}; {budget}"


@contextmanager
def _setup(options: Options, seconds: float) -> Generator[MutationSetup]:
    # The folder is removed afterwards: no other command may import a mutant.
    paths = libraries.resolve(options.libraries, cache=options.settings.cache)
    with TemporaryDirectory(prefix="mutation-", dir=prepared(HARNESS_FOLDER)) as folder:
        yield MutationSetup(options=options, library_paths=paths, folder=Path(folder).resolve(), seconds=seconds)


class _ResultStore:
    """The outcomes so far.  With a path, each new one is written at once; each is printed as progress."""

    def __init__(self, path: Path | None, setting: str) -> None:
        self._path = path
        self._results = score.load(path, setting) if path else score.MutationResults(setting=setting)
        self.setting = setting
        self.new: list[MutantOutcome] = []
        """The outcomes of this command, in contrast to those that the file had."""
        self.began_cpu_s = 0.0
        self.cpu_s = 0.0
        """CPU seconds from the first mutant until the latest outcome, of this process and all that it started."""

    @property
    def outcomes(self) -> tuple[MutantOutcome, ...]:
        return self._results.outcomes

    def knows(self, mutant: str) -> bool:
        return any(outcome.mutant.id == mutant for outcome in self.outcomes)

    def begin(self, mutants: int) -> None:
        self._results = replace(self._results, mutants=mutants)

    def add(self, outcome: MutantOutcome, *, of: int) -> None:
        self._results = replace(self._results, outcomes=(*self.outcomes, outcome))
        self.new.append(outcome)
        self.cpu_s = _cpu_seconds() - self.began_cpu_s
        if self._path:
            files.write(self._results, self._path)
        by = f" by {outcome.oracle}" if outcome.oracle else ""
        effort = f"{counted(outcome.cases, 'case')}, {outcome.seconds:.0f} s"
        print_progress(f"{len(self.outcomes)} of {of}: {outcome.fate}{by} after {effort}: {outcome.mutant}")


def _cpu_seconds() -> float:
    """Return the CPU time of this process, its descendants, and the ended processes that they waited for."""
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def main(arguments: Sequence[str]) -> int:
    return run_module(
        sys.modules[__name__],  # pyright: ignore[reportArgumentType] - a module as a protocol
        "python -m studies.mutation",
        "Measure how many mutants of correct kernels are noticed.",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
