"""The compilers' pool sees each case first, and the case runs whatever happens there."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.compiling.compile_ahead import AHEAD, CompileAhead
from harness.errors import WorkerError
from harness.model.case import Case, ValueDistribution
from harness.model.kernel_assembly import KernelAssembly
from harness.model.paired_run import rebuilt
from harness.model.run import Completed, Crashed, Unsupported
from harness.model.verdict import Abstain
from harness.oracles.base import Evidence
from harness.oracles.completes import Completes
from harness.workers.pool import Pool, PoolOptions
from tests.workers.setting import DEADLINE_S, Fifo, case, specs

NOTING, NOTICING = "tests.workers.engines:Noting", "tests.workers.engines:Noticing"


def pool(scratch: Path, engine: str = "tests.workers.engines:Calling", processes: int = 1) -> Pool:
    return Pool(specs(scratch, engine=engine), processes=processes, time_limit_s=DEADLINE_S)


def test_every_case_is_compiled_before_it_runs(scratch: Path, folder: Path) -> None:
    messages: list[str] = []
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING, 2), 1, messages.append)
        runs = [one.result() for one in [ahead.submit(case("good", rows)) for rows in range(1, 41)]]
        ahead.close()
    assert [(run.case, run.engine, run.seconds["result"]) for run in runs] == [
        (case("good", rows), "noticing", 1.0) for rows in range(1, 41)
    ]
    assert len(list(folder.iterdir())) == 40
    assert messages == []


def test_a_direct_run_is_compiled_first_too(scratch: Path, folder: Path) -> None:
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        assert ahead.run(case("good")).seconds["result"] == 1
        assert ahead.run_alone(case("good", 4)).seconds["result"] == 1
        ahead.close()
    assert len(list(folder.iterdir())) == 2


def test_other_values_of_a_compiled_case_are_not_compiled_again(scratch: Path, folder: Path) -> None:
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        ahead.submit(case("good")).result()
        variant = replace(case("good"), values=ValueDistribution.ZEROS, seed=7)
        assert ahead.run(variant).seconds["result"] == 0
        ahead.close()
    assert len(list(folder.iterdir())) == 1


def test_kernels_that_are_assembled_otherwise_are_compiled_ahead(scratch: Path, folder: Path) -> None:
    messages: list[str] = []
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, "tests.workers.engines:Assembling"), 1, messages.append)
        other = KernelAssembly(ptxas="/nowhere/another-ptxas")
        for _ in range(2):
            assert ahead.run_alone(rebuilt(case("good"), other)).seconds["result"] == 1
        assert ahead.run_alone(rebuilt(case("good"), replace(other, kernels=("k",)))).seconds["result"] == 1
        ahead.close()
    assert {file.name for file in folder.iterdir()} == {case("good").digest, "another-ptxas"}
    assert messages == []


def test_a_compiler_that_does_not_end_never_holds_up_the_gpu(scratch: Path, folder: Path) -> None:
    compilers = Pool(specs(scratch), processes=1, time_limit_s=0.5, options=PoolOptions(is_limit_adaptive=False))
    with pool(scratch, NOTING) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, print)
        endless = case("hangs_in_a_compiler")
        for run in (ahead.submit(endless).result(), ahead.run(endless), ahead.run_alone(endless)):
            assert isinstance(run.ending, Unsupported)
            assert run.ending.what == "a kernel whose config 0 was not compiled after 0.5 s"
            (verdict,) = Completes().judge(Evidence(run=run))
            assert isinstance(verdict, Abstain)
        ahead.close()
    assert list(folder.iterdir()) == []


def test_a_config_that_compiles_too_long_is_set_aside_and_reported_once(scratch: Path, folder: Path) -> None:
    compilers = Pool(specs(scratch), processes=2, time_limit_s=0.5, options=PoolOptions(is_limit_adaptive=False))
    messages: list[str] = []

    def configured(config: int, rows: int) -> Case:
        return replace(case("compiles_one_kernel_without_end", rows), configs={"slow_kernel": config})

    with pool(scratch, NOTING) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, messages.append)
        slow = [ahead.submit(configured(24, rows)) for rows in (1, 2)]
        endings = {one.result().ending for one in slow}
        assert [ahead.is_set_aside(configured(config, 3)) for config in (24, 25)] == [True, False]
        assert ahead.submit(configured(24, 3)).result().ending in endings
        ahead.close()
    name = case("compiles_one_kernel_without_end").op
    assert messages == [f"config 24 of slow_kernel in {name} was not compiled after 0.5 s: its cases are not judged"]
    assert list(folder.iterdir()) == []


def test_an_op_that_takes_too_long_to_compile_is_set_aside(scratch: Path, folder: Path) -> None:
    compilers = Pool(specs(scratch), processes=2, time_limit_s=0.5, options=PoolOptions(is_limit_adaptive=False))
    with pool(scratch, NOTING) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, print)
        slow = [ahead.submit(case("hangs_in_a_compiler", rows)) for rows in range(1, 21)]
        other = ahead.submit(case("good"))
        endings = [(one.result().case.dims["rows"], one.result().ending) for one in slow]
        again = ahead.submit(case("hangs_in_a_compiler", 21)).result().ending
        assert isinstance(other.result().ending, Completed)
        assert len({id(ending) for _, ending in endings}) < 10  # the others were not tried
        assert [rows for rows, _ in endings] == [*range(1, 21)]
        assert all(isinstance(ending, Unsupported) for _, ending in endings)
        assert (isinstance(again, Unsupported), ahead.is_set_aside(case("hangs_in_a_compiler"))) == (True, True)
        assert [*ahead.as_compiled([case("hangs_in_a_compiler", 22)])] == [case("hangs_in_a_compiler", 22)]
        ahead.close()
    assert len(list(folder.iterdir())) == 1


def test_one_slow_compilation_sets_no_op_aside(scratch: Path) -> None:
    compilers = Pool(specs(scratch), processes=1, time_limit_s=0.5, options=PoolOptions(is_limit_adaptive=False))
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, print)
        ahead.submit(case("hangs_in_a_compiler")).result()
        assert not ahead.is_set_aside(case("hangs_in_a_compiler"))
        ahead.close()


def test_a_case_that_waits_for_the_gpu_can_be_cancelled(scratch: Path, folder: Path) -> None:
    with pool(scratch, NOTING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        waiting = [ahead.submit_compiled(case("good", rows)) for rows in range(1, 41)]
        cancelled = [one.cancel() for one in reversed(waiting)]
        runs = [one.result() for one in waiting if not one.cancelled()]
        assert cancelled.count(True) == 40 - len(runs) > 0
        ahead.close()
    assert len(list(folder.iterdir())) == len(runs)


def test_cases_come_as_they_are_compiled(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch) as gpus:
        options = PoolOptions(is_limit_adaptive=False, sends_ahead=False)
        ahead = CompileAhead(gpus, Pool(specs(scratch), 2, DEADLINE_S, options), 1, print)
        ahead.run(case("good", 9))
        endless, known = case("hang_with_grandchild"), replace(case("good", 9), seed=3)
        order = ahead.as_compiled([endless, case("good", 1), known, case("good", 2)])
        assert [next(order) for _ in range(3)] == [known, case("good", 1), case("good", 2)]
        assert fifo.read()
        order.close()
        ahead.close()


def test_a_closed_pool_ends_the_wait_for_compilations(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch) as gpus, ThreadPoolExecutor() as threads:
        ahead = CompileAhead(gpus, pool(scratch), 1, lambda _: None)
        waiting = threads.submit(list, ahead.as_compiled([case("hang_with_grandchild"), case("good"), case("good", 2)]))
        fifo.read()  # the first is at the compiler
        ahead.close()
        assert len(waiting.result(DEADLINE_S)) == 3


def test_an_abandoned_order_leaves_the_compilers_to_others(scratch: Path, folder: Path) -> None:
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        order = ahead.as_compiled(case("good", rows) for rows in range(1, 1000))
        assert next(order) == case("good", 1)
        order.close()
        ahead.close()
    assert 1 <= len(list(folder.iterdir())) <= AHEAD


def test_compilations_that_nobody_needs_can_be_stopped(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        held = ahead.submit(case("hang_with_grandchild"))
        fifo.read()  # it is at the compiler
        assert held.cancel()
        ahead.stop_compiling()
        assert ahead.submit(case("good", 2)).result().seconds["result"] == 4
        ahead.close()


def test_a_case_that_crashes_the_compiler_runs_all_the_same(scratch: Path) -> None:
    messages: list[str] = []
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, messages.append)
        assert isinstance(ahead.submit(case("segfault")).result().ending, Crashed)
        assert isinstance(ahead.submit(case("good")).result().ending, Completed)
        ahead.close()
    assert messages == []


def test_an_error_in_compiling_ahead_is_reported_once(scratch: Path) -> None:
    messages: list[str] = []
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, "tests.workers.engines:NoSuchEngine"), 1, messages.append)
        runs = [one.result() for one in [ahead.submit(case("good", rows)) for rows in (1, 2, 3)]]
        ahead.close()
    assert [run.seconds["result"] for run in runs] == [1, 4, 9]
    (text,) = messages
    assert text.startswith("kernels are not compiled ahead: ")
    assert "\n" not in text


def test_an_error_of_the_gpus_pool_is_raised(scratch: Path) -> None:
    with pool(scratch, "tests.workers.engines:NoSuchEngine") as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        with pytest.raises(WorkerError):
            ahead.submit(case("good")).result()
        ahead.close()


@pytest.mark.usefixtures("folder")
def test_a_case_cancelled_while_it_compiles_does_not_run(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        held = ahead.submit(case("hang_with_grandchild"))
        fifo.read()  # it is at the compiler
        waiting = [ahead.submit(case("good", rows)) for rows in (1, 2)]
        assert [one.cancel() for one in (held, *waiting)] == [True] * 3
        ahead.close()
        assert gpus.run(case("good", 3)).seconds["result"] == 0


def test_a_case_cancelled_in_the_queue_is_not_compiled(scratch: Path, folder: Path) -> None:
    compilers = Pool(
        specs(scratch, engine=NOTING),
        processes=1,
        time_limit_s=DEADLINE_S,
        options=PoolOptions(is_limit_adaptive=False),
    )
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, print)
        first = ahead.submit(case("takes_three_quarters_of_a_second"))
        dropped = [ahead.submit(case("good", rows)) for rows in range(1, 9)]
        assert all(one.cancel() for one in dropped)
        last = ahead.submit(case("good", 9))
        assert [one.result().case.dims["rows"] for one in (first, last)] == [3, 9]
        ahead.close()
    assert len(list(folder.iterdir())) == 2


def test_the_gpus_process_loads_while_the_first_case_is_compiled(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch, "tests.workers.engines:Reporting") as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        ahead.submit(case("hang_with_grandchild"))
        texts = ""
        while "emulated" not in texts:  # the case at the compiler writes to the pipe too, and does not come back
            texts += fifo.read()
        ahead.close()


def test_the_share_of_time_that_gpus_wait_for_the_compiler_is_known(scratch: Path) -> None:
    with pool(scratch) as gpus:
        slow = CompileAhead(gpus, pool(scratch), 1, print)
        assert slow.waiting_share == 0
        slow.submit(case("takes_three_quarters_of_a_second")).result()  # there, and then here
        assert 0.3 < slow.waiting_share < 1
        slow.close()


@pytest.mark.usefixtures("folder")
def test_busy_gpus_do_not_wait_for_the_compiler(scratch: Path) -> None:
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        ahead.submit(case("good")).result()
        before = ahead.waiting_share
        cases = [ahead.submit(case("takes_three_quarters_of_a_second", rows)) for rows in (1, 2, 3, 4)]
        for one in cases:
            one.result()
        assert ahead.waiting_share < max(before, 0.3)  # nothing before if the compilers loaded first
        ahead.close()
