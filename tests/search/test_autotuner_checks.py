"""Which cases of a search check autotuners, and that each op with one gets every check early."""

from dataclasses import replace

from harness.execution.paired_run_policy import ONE_CASE_IN
from harness.execution.reruns import AUTOTUNER_CHECKS, Rerun, autotuner_check
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import early_cases, scouts
from tests.search.fakes import DEVICE, KERNEL, OP, SIMPLEST


def test_scouts_and_early_cases_of_an_autotuned_op_have_every_check() -> None:
    for threads in (False, True):
        op = replace(OP, threads=threads)
        early = early_cases(op, [SIMPLEST], LaunchFeedback(configs={KERNEL: 6}))
        checks = {autotuner_check(case) for case in (*scouts(op, DEVICE), *early) if case.seed % ONE_CASE_IN == 0}
        assert checks == set(AUTOTUNER_CHECKS) - (set() if threads else {Rerun.THREADS})


def test_other_ops_get_no_such_cases() -> None:
    assert not [case for case in early_cases(OP, [SIMPLEST], LaunchFeedback()) if case.seed > SIMPLEST.seed]
