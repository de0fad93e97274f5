"""The survey: run the original library to learn which kernels and lines each op executes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.model.op import Op
from harness.model.run import Run
from harness.search.kernel_coverage import CoverageRequest, measure
from harness.search.runner import Runner
from studies.mutation.executed_lines import ExecutedLines, Line, LineRange
from studies.mutation.mutants import Mutant, mutants_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedCode:
    """The kernels and lines that one op executes."""

    op: Op
    kernels: frozenset[str]
    lines: frozenset[Line]

    def executes(self, mutant: Mutant) -> bool:
        """Return True if the op executes what the mutant changes."""
        if not mutant.is_in_kernel:
            return not self.kernels.isdisjoint(mutant.launches)
        first, last = mutant.statement
        return LineRange(file=mutant.file, first=first, last=last).overlaps(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What each op executes."""

    executed: tuple[ExecutedCode, ...]

    def ops(self, mutant: Mutant) -> tuple[Op, ...]:
        """Return the ops that execute what the mutant changes."""
        return tuple(execution.op for execution in self.executed if execution.executes(mutant))

    def mutants(self, libraries: tuple[Path, ...]) -> tuple[tuple[Path, Mutant], ...]:
        """Return all mutants of executed code, each with its library, file by file.

        Raises:
            UsageError: the ops execute no kernel of the libraries.
        """
        files = sorted({file for execution in self.executed for file, _ in execution.lines})
        mutants = tuple(
            (library, mutant)
            for library in libraries
            for file in files
            if (path := Path(file)).is_relative_to(library)
            for mutant in mutants_of(path.read_bytes(), path.relative_to(library).as_posix())
            if self.ops(mutant)
        )
        if not mutants:
            raise UsageError("the ops execute no kernel of the libraries that --with names: there is nothing to mutate")
        return mutants


def survey(request: CoverageRequest, runner: Runner, lines: ExecutedLines, ran: Callable[[Run], object]) -> Survey:
    """Run some cases of each op; call `ran` with each run."""
    runs: dict[str, list[Run]] = {op.id: [] for op in request.ops}

    def note(run: Run) -> None:
        runs[run.case.op].append(run)
        ran(run)

    measure(request, runner, note)
    return Survey(executed=tuple(_executed(request.ops, runs, lines)))


def _executed(ops: Iterable[Op], runs: dict[str, list[Run]], lines: ExecutedLines) -> Iterator[ExecutedCode]:
    for op in ops:
        launches = [launch for run in runs[op.id] for launch in run.launches]
        yield ExecutedCode(op=op, kernels=frozenset(launch.kernel for launch in launches), lines=lines.of(launches))
