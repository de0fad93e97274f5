"""Calls of JAX in real workers: values, memory events, gradients, and the model of jaxlib's call targets."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.jax.jax_releases import missing_release
from harness.model.case import CallContext, Case, DType
from harness.model.paired_run import launch_of
from harness.model.run import Completed, Raised, Run, Stray, UninitialisedRead, Unsupported
from harness.oracles.float64_values import is_wrong
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_release()), reason=missing_release() or "JAX is installed"),
]

SUITE = str(Path(__file__).with_name("jax_suite.py"))
DEVICE = catalogue.find("b200")
ROWS = 40


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session, so that JAX is loaded once."""
    budget = CaseBudget(cases=1)
    options = Options(suites=(SUITE,), ops=(), devices=(DEVICE,), budget=budget, seed=1, processes=1)
    with Session(options) as opened:
        yield opened


def ran(session: Session, op: str, dtype: DType = DType.FP32, config: int = 0) -> Run:
    configs = {"rows_kernel": config, "counting_kernel": config} if config else {}
    return session.pool.run_alone(
        Case(op=f"{SUITE}:{op}", dims={"T": ROWS}, dtype=dtype, device=DEVICE, configs=configs)
    )


def is_right(run: Run) -> bool:
    assert isinstance(run.ending, Completed), run.ending
    assert run.results
    return not any(map(is_wrong, run.results))


def launches(run: Run) -> list[tuple[str, bool, int]]:
    """Return kernel, whether it is a benchmark, and config of each launch."""
    return [(launch.kernel, launch.is_benchmark, launch.config_index) for launch in run.launches]


@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16])
def test_a_kernel_between_operations_of_jax_gives_right_values(session: Session, dtype: DType) -> None:
    run = ran(session, "doubled_sum", dtype)
    assert is_right(run)
    assert launches(run) == [("sum_kernel", False, 0)]
    assert run.memory == ()
    assert run.launches[0].model.startswith("of jaxlib's call target")


def test_an_access_past_the_end_of_a_buffer_is_seen(session: Session) -> None:
    run = ran(session, "past_the_end")
    assert [(event.site.argument, event.lanes, event.element) for event in run.memory if isinstance(event, Stray)] == [
        ("x", 1, ROWS)
    ]


def test_what_a_kernel_leaves_unwritten_is_seen(session: Session) -> None:
    (result,) = ran(session, "half_written").results
    assert (result.unwritten, result.writer) == (ROWS // 2, ("half_kernel", "y"))


@pytest.mark.parametrize("config", [0, 1])
def test_an_autotuned_kernel_takes_the_config_of_the_case(session: Session, config: int) -> None:
    run = ran(session, "counted", config=config)
    assert launches(run) == [
        ("counting_kernel", True, 0),
        ("counting_kernel", True, 1),
        ("counting_kernel", False, config),
    ]


def test_the_launch_of_a_kernel_is_the_one_that_is_no_benchmark(session: Session) -> None:
    launch = launch_of(ran(session, "counted", config=1).launches, "counting_kernel")
    assert launch is not None
    assert (launch.is_benchmark, launch.config_index) == (False, 1)


@pytest.mark.parametrize("op", ["past_the_end", "half_written", "chained_in_initialisation"])
def test_every_failure_says_that_the_launches_follow_a_model(session: Session, op: str) -> None:
    run = ran(session, op)
    (declared,) = (one for one in load_suite(SUITE) if one.name == op)
    fails = session.judge.judge(declared, run, {}).fails
    assert fails
    assert all(fail.meaning.endswith(f"The launches follow a model {run.launches[0].model}.") for fail in fails)


def test_outputs_are_zeroed_before_each_launch(session: Session) -> None:
    run = ran(session, "counted")
    assert is_right(run)
    assert not any(isinstance(event, UninitialisedRead) for event in run.memory)


def test_tuning_in_execution_sees_what_earlier_kernels_stored(session: Session) -> None:
    run = ran(session, "chained_in_execution")
    assert is_right(run)
    assert not any(isinstance(event, Stray) for event in run.memory)


def test_tuning_in_initialisation_goes_astray_in_each_config(session: Session) -> None:
    run = ran(session, "chained_in_initialisation")
    strays = [event for event in run.memory if isinstance(event, Stray)]
    benchmarks = [index for index, launch in enumerate(run.launches) if launch.is_benchmark]
    assert sum(event.lanes for event in strays) == 2 * ROWS
    assert {event.site.launch for event in strays} == {
        index for index in benchmarks if run.launches[index].kernel == "rows_kernel"
    }
    assert {event.site.argument for event in strays} == {"x"}
    assert is_right(run)  # the launch after tuning has the real index


def test_an_argument_of_the_executable_is_there_in_initialisation(session: Session) -> None:
    run = ran(session, "argument_in_initialisation")
    assert is_right(run)
    assert not any(isinstance(event, Stray) for event in run.memory)


def test_gradients_come_from_the_vjp_of_the_function(session: Session) -> None:
    run = ran(session, "with_gradients")
    assert is_right(run)
    assert {result.name for result in run.results} == {"y", "d:x", "d:y"}
    assert launches(run) == [("product_kernel", False, 0)] * 3


def test_a_kernel_with_scratch_memory_is_unsupported_by_name(session: Session) -> None:
    ending = ran(session, "with_scratch").ending
    assert isinstance(ending, Unsupported)
    assert ending.what == "scratch memory in a JAX call, for which jax-triton passes a null pointer,"


def test_a_kernel_that_does_not_compile_keeps_its_own_error(session: Session) -> None:
    ending = ran(session, "uncompilable").ending
    assert isinstance(ending, Raised)
    assert (ending.kind, "the block is too small" in ending.message) == ("CompileTimeAssertionFailure", True)


def test_a_kernel_outside_of_a_call_is_unsupported_by_name(session: Session) -> None:
    ending = ran(session, "outside").ending
    assert isinstance(ending, Unsupported)
    assert ending.what == "a JAX kernel outside of harness.suite.jax_call"


def test_a_forked_child_of_a_process_that_used_jax_is_unsupported_by_name(session: Session) -> None:
    case = Case(op=f"{SUITE}:doubled_sum", dims={"T": ROWS}, dtype=DType.FP32, device=DEVICE)
    forked = replace(case, context=CallContext.FORKED)
    after = session.pool.run_alone(forked, (case,)).ending
    assert isinstance(session.pool.run_alone(forked).ending, Completed)
    assert isinstance(after, Unsupported)
    assert after.what == "JAX in a forked child of a process that has used it"
