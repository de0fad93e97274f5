"""Workers under a fake of Triton's sanitizers: failed checks belong to their case, and silence is proven."""

from pathlib import Path

from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.model.run import Completed, Faulted, Run
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented
from harness.workers.pool import Pool
from tests.workers.checking import KERNEL, RACE
from tests.workers.setting import DEADLINE_S, case, specs

SUITE = str(Path(__file__).with_name("checking.py"))


def runs(scratch: Path, *ops: str, self_test: str = "self_test", accepted: tuple[Suppression, ...] = ()) -> list[Run]:
    asked = Instrumenting(
        mode=Instrumentation.GSAN,
        version="3.9.0",
        suppressions=accepted,
        self_test=f"tests.workers.checking:{self_test}",
    )
    spec = specs(scratch, suites=(SUITE,), engine="tests.workers.checking:Checking", instrumenting=asked)
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
        return [pool.run(case(op, 5, suite=SUITE)) for op in ops]


def instrumented(run: Run) -> Instrumented:
    assert run.instrumented is not None
    return run.instrumented


def test_a_failed_check_belongs_to_its_case_and_costs_its_worker(scratch: Path) -> None:
    first, second, racing, last = runs(scratch, "is_quiet", "is_quiet", "races", "is_quiet")
    (record,) = instrumented(racing).records
    assert (record.text, record.count, record.at.kernel, str(record.at.source)) == (RACE, 5, KERNEL, "kernels.py:9")
    assert isinstance(racing.ending, Faulted)
    for quiet in (first, second, last):
        assert isinstance(quiet.ending, Completed)
        assert (instrumented(quiet).records, instrumented(quiet).unproven) == ((), "")
    assert first.seconds["result"] == second.seconds["result"] != last.seconds["result"]


def test_an_accepted_record_is_kept_with_the_reason(scratch: Path) -> None:
    entry = Suppression(tool="gsan", kernel=KERNEL, reason="both store the same")
    (racing,) = runs(scratch, "races", accepted=(entry,))
    assert [record.accepted for record in instrumented(racing).records] == ["both store the same"]


def test_a_sanitizer_that_fails_its_self_test_proves_nothing(scratch: Path) -> None:
    first, second = runs(scratch, "is_quiet", "is_quiet", self_test="silent")
    assert instrumented(first).unproven == instrumented(second).unproven
    assert instrumented(first).unproven == "a mistake that was made on purpose was not reported: no checks here"
