"""What kills a mutant: a failure of any severity that repeats, and that the original library does not show."""

from collections.abc import Callable
from pathlib import Path

from harness.model.case import Case
from harness.model.run import Run
from harness.model.verdict import Severity
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from studies.mutation.mutants import Mutant
from studies.mutation.operators import Operator
from studies.mutation.original import Original
from studies.mutation.trial import MutantObserver, MutationSetup
from tests.search.fakes import DEVICE, OP, ImmediateRunner, clean, facts

MUTANT = Mutant(
    operator=Operator.STRICTNESS,
    file="lib/norm.py",
    function="kernel",
    launches=(),
    line=7,
    before="        m = o < n",
    after="        m = o <= n",
    statement=(7, 7),
    span=(100, 105),
    text="o <= n",
)
OPTIONS = Options(
    suites=(), ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=20), seed=0, oracles=("write-overlap",)
)
SETUP = MutationSetup(options=OPTIONS, library_paths=(), folder=Path("unused"), seconds=60)


def warning(case: Case) -> Run:
    """Return a run that stores equal bytes twice."""
    return facts(case, lambda _: True)


def search(mutant: Callable[[Case], Run], original: Callable[[Case], Run]) -> MutantObserver:
    observer = MutantObserver(MUTANT, SETUP, ImmediateRunner(mutant), Original(runner=ImmediateRunner(original)), (OP,))
    observer.campaign.run()
    return observer


def test_a_warning_kills_a_mutant() -> None:
    observer = search(warning, clean)
    assert observer.kill is not None
    fail, _ = observer.kill
    assert (fail.oracle, fail.signature.severity) == ("write-overlap", Severity.WARNING)
    assert observer.campaign.statistics.cases == 1


def test_a_failure_that_the_original_shares_kills_no_mutant() -> None:
    observer = search(warning, warning)
    assert (observer.kill, observer.campaign.statistics.cases) == (None, 20)


def test_a_failure_that_does_not_repeat_kills_no_mutant() -> None:
    class OnceOnly(ImmediateRunner):
        def run_alone(self, request: object, *rest: object, **named: object) -> Run:
            del request, rest, named
            return clean(self.ran[-1])

    observer = MutantObserver(MUTANT, SETUP, OnceOnly(warning), Original(runner=ImmediateRunner(clean)), (OP,))
    observer.campaign.run()
    assert observer.kill is None
