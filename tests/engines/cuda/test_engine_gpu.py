"""On hardware: cases run, faults are distinguished, redzones reveal bad stores, and devices are emulated."""

from pathlib import Path

import pytest

from ci.fault_suite import faults
from harness import catalogue
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Faulted, OutOfMemory, Run
from harness.model.verdict import Fail
from harness.search.judge import Judge
from harness.search.options import load_ops
from harness.workers.pool import Pool
from tests.engines.cuda import emulated, sized
from tests.engines.cuda.conftest import PoolOf

pytestmark = pytest.mark.gpu

SUITE = str(Path(faults.__file__))
OPS = {op.name: op for op in load_ops((SUITE,), ())}
PLANTED = str(Path(__file__).resolve().parents[3] / "suites" / "planted" / "too_much_shared_memory.py")
SIZED = str(Path(sized.__file__))
EMULATED = str(Path(emulated.__file__))
EMULATED_OPS = {op.name: op for op in load_ops((EMULATED,), ())}


def case_of(op: str, device: DeviceProfile, suite: str = SUITE, seed: int = 1) -> Case:
    return Case(op=f"{suite}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device, seed=seed)


def fails(pool: Pool, op: Op, case: Case) -> tuple[Run, tuple[Fail, ...]]:
    examined = Judge().examine(op, case, pool.run)
    return examined.run, examined.fails


def test_a_good_case_completes_and_repeats_bit_for_bit(pool_of: PoolOf, device: DeviceProfile, gpu: RealGpu) -> None:
    run, found = fails(pool_of(SUITE), OPS["good"], case_of("good", device, seed=8))
    assert (run.ending, found) == (Completed(), ())
    assert run.repeated is not None
    assert run.repeated.digests == {result.name: result.digest for result in run.results}
    assert run.hardware is not None
    assert (run.hardware.name, run.hardware.shortfalls) == (gpu.name, ())
    (launch,) = run.launches
    assert (launch.kernel, launch.grid, launch.tile_sizes) == ("add_one", (4, 1, 1), (64,))
    assert [result.writer for result in run.results] == [("add_one", "y")]


@pytest.mark.parametrize("op", [name for name in faults.EXPECTED if name not in {"spins", "host_deadlocks"}])
def test_each_fault_is_identified_and_the_next_case_passes(pool_of: PoolOf, device: DeviceProfile, op: str) -> None:
    pool = pool_of(SUITE)
    run, found = fails(pool, OPS[op], case_of(op, device, seed=8))  # a seed that the engine repeats
    oracle, place = faults.EXPECTED[op]
    assert [fail.signature.oracle for fail in found] == [oracle], (run.ending, found)
    assert place in found[0].signature.place
    assert fails(pool, OPS["good"], case_of("good", device))[1] == ()


def test_a_kernel_too_large_for_the_emulated_gpu_is_named(pool_of: PoolOf) -> None:
    (op, repaired) = load_ops((PLANTED,), ())
    small = catalogue.find("rtx-pro-6000")
    cases = [Case(op=one.id, dims={"T": 1, "D": 16}, dtype=DType.FP16, device=small, seed=1) for one in (op, repaired)]
    _, (fail,) = fails(pool_of(PLANTED), op, cases[0])
    assert (fail.signature.oracle, fail.signature.kernel, fail.signature.place) == (
        "resources",
        "product_kernel",
        "OutOfResources",
    )
    assert fails(pool_of(PLANTED), repaired, cases[1])[1] == ()


def test_a_config_too_large_for_the_emulated_gpu_is_skipped(pool_of: PoolOf) -> None:
    second_fits, none_fits, fits_there, _ = load_ops((SIZED,), ())
    small = catalogue.find("rtx-pro-6000")
    pool = pool_of(SIZED)

    def case(op: Op) -> Case:
        return Case(op=op.id, dims={"T": 4, "D": 16}, dtype=DType.FP16, device=small, seed=1)

    run, found = fails(pool, second_fits, case(second_fits))
    (launch,) = run.launches
    assert (launch.config_index, launch.config_count, len(launch.refused), found) == (1, 2, 1, ())
    assert "OutOfResources" in launch.refused[0]
    _, (fail,) = fails(pool, none_fits, case(none_fits))
    assert (fail.signature.oracle, fail.signature.kernel) == ("resources", "product_kernel")
    assert fail.message.startswith("none of the 2 configs of product_kernel can be launched on rtx-pro-6000")
    run, found = fails(pool, fits_there, case(fits_there))
    assert (len(run.launches), run.launches[0].refused, found) == (1, (), ())


def test_an_assertion_is_reported_with_text_and_line(pool_of: PoolOf, device: DeviceProfile) -> None:
    run = pool_of(SUITE).run(case_of("fails_assertion", device))
    assert isinstance(run.ending, Faulted)
    assert "a lane is too high" in run.ending.message
    assert run.ending.launch == "assert_below"
    assert run.ending.source is not None
    lines = Path(faults.__file__).with_name("fault_kernels.py").read_text(encoding="utf-8").splitlines()
    assert "device_assert" in lines[run.ending.source.line - 1]


def test_a_store_into_a_redzone_names_kernel_argument_and_element(pool_of: PoolOf, device: DeviceProfile) -> None:
    _, (fail,) = fails(pool_of(SUITE), OPS["stores_just_outside"], case_of("stores_just_outside", device))
    assert fail.message == "store_at stores 1 element outside the storage of y, the first at element 128"


def test_a_case_that_exceeds_gpu_memory_fails_no_oracle(pool_of: PoolOf, device: DeviceProfile) -> None:
    run, found = fails(pool_of(SUITE), OPS[faults.NO_MEMORY], case_of(faults.NO_MEMORY, device))
    assert isinstance(run.ending, OutOfMemory), run.ending
    assert found == ()


def test_the_library_sees_the_emulated_gpu_and_kernels_fit_the_hardware(pool_of: PoolOf, gpu: RealGpu) -> None:
    device = catalogue.find("rtx-pro-6000")
    op = EMULATED_OPS["sees_an_rtx_pro_6000"]
    run, found = fails(pool_of(EMULATED), op, case_of(op.name, device, EMULATED))
    assert (run.ending, found) == (Completed(), ())
    assert run.hardware is not None
    major, minor = gpu.capability
    assert f"188 SMs are emulated on a GPU of {gpu.sm_count}" in run.hardware.shortfalls
    assert f"sm_120 is emulated; kernels are compiled for sm_{10 * major + minor}" in run.hardware.shortfalls


@pytest.mark.parametrize("sm_count", [emulated.FEW, None])
def test_work_is_limited_to_fewer_sms_forward_and_backward(
    pool_of: PoolOf, device: DeviceProfile, sm_count: int | None
) -> None:
    op = EMULATED_OPS["runs_on_few_sms"]
    few = device if sm_count is None else device.with_sm_count(sm_count)
    run, found = fails(pool_of(EMULATED), op, case_of(op.name, few, EMULATED))
    assert run.ending == Completed()
    held = [] if sm_count else ["d:x", "y"]
    assert sorted(result.name for result in run.results if result.whole.ratio > 1) == held, found


def test_results_on_fewer_sms_wait_for_all_work(pool_of: PoolOf, device: DeviceProfile) -> None:
    op = EMULATED_OPS["adds_late"]
    run, found = fails(pool_of(EMULATED), op, case_of(op.name, device.with_sm_count(8), EMULATED))
    assert (run.ending, found) == (Completed(), ())


def test_a_fault_of_the_second_run_is_reported(pool_of: PoolOf, device: DeviceProfile) -> None:
    pool = pool_of(SUITE)
    op = OPS["strays_every_second_time"]
    run, found = fails(pool, op, case_of(op.name, device, seed=8))
    assert isinstance(run.ending, Faulted), run.ending
    assert run.ending.launch == "store_at"
    assert [fail.signature.oracle for fail in found] == ["completes"]
    assert fails(pool, OPS["good"], case_of("good", device))[1] == ()


def test_a_fault_of_torchs_kernel_blames_no_triton_kernel(pool_of: PoolOf, device: DeviceProfile) -> None:
    op = OPS["strays_in_torch"]
    run, _ = fails(pool_of(SUITE), op, case_of(op.name, device))
    assert isinstance(run.ending, Faulted), run.ending
    assert run.ending.launch is None


def test_equal_cases_draw_equal_random_numbers(pool_of: PoolOf, device: DeviceProfile) -> None:
    runs = [pool_of(EMULATED).run(case_of("draws_at_random", device, EMULATED, seed)) for seed in (1, 2, 1)]
    first, other, again = (run.results[0].digest for run in runs)
    assert first == again != other
