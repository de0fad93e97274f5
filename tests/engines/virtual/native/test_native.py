"""Native code gives the machine's results and events, and leaves all other launches to the machine."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.engine_settings import EngineSettings, settings_of
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.native import code_cache
from harness.engines.virtual.native.comparison import Comparison, ExecutorAgreement
from harness.engines.virtual.native.cores import LARGE_LAUNCH, Cores
from harness.engines.virtual.native.fallbacks import BAILED_OUT, NATIVE, Fallbacks
from harness.engines.virtual.native.llvm_jit import Effort
from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode, executor_mode
from harness.errors import UsageError
from harness.model.case import LaneFill
from harness.model.run import OrderDependence, Overlap, Stray, UndefinedLanes, UninitialisedRead
from tests.engines.conftest import Gpu
from tests.engines.virtual.conversions import outputs, to_integers_kernel

Compare = Callable[[Callable[[], object]], ExecutorAgreement]


@pytest.fixture(scope="module", params=["least effort", "usual effort", "three threads"])
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NativeCode:
    effort = Effort.LEAST if request.param == "least effort" else Effort.USUAL
    code = NativeCode(ExecutorMode.NATIVE, tmp_path_factory.mktemp("native"), effort)
    if request.param == "three threads":
        code.cores = Cores(3, large=0)
    return code


@pytest.fixture
def compare(gpu: Gpu, code: NativeCode) -> Compare:
    """Launches one kernel with both executors and returns how far they agree."""

    def run(launch: Callable[[], object]) -> ExecutorAgreement:
        gpu.launches.native = comparison = Comparison(code)
        launch()
        (agreement,) = comparison.kernels.values()
        assert (agreement.differing_elements, agreement.launches_with_other_events, agreement.declined) == (0, 0, "")
        assert not agreement.launches_with_other_lines
        return agreement

    return run


@triton.jit
def arithmetic_kernel(x, y, n, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(n + at)
    wrapped = (c * 1103515245 + 12345) ^ (c >> 3)
    whole = wrapped // (c % 7) + wrapped % (c % 5 - 2)
    chosen = tl.where((a > b) | (c < 0), tl.abs(a), a / b)
    low, high = a.to(tl.float32), b.to(tl.float32)
    curved = tl.exp(low) + tl.log(tl.abs(high) + 1) * tl.exp2(-tl.abs(low)) - tl.sin(high)
    tl.store(out + at, (chosen * curved + tl.maximum(a, b)).to(out.dtype.element_ty))
    tl.store(out + N + at, whole.to(tl.float32).to(out.dtype.element_ty))
    tl.store(out + 2 * N + at, (a * 1e3).to(tl.int32).to(out.dtype.element_ty))


@pytest.mark.alone("it divides integers by zero")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_arithmetic_rounds_and_wraps_as_in_the_machine(compare: Compare, dtype: torch.dtype) -> None:
    x, y = (torch.randn(128).mul(3).to(dtype) for _ in range(2))
    x[0], x[1], y[2] = float("nan"), float("inf"), 0
    n = torch.randint(-(2**31), 2**31, (128,), dtype=torch.int32)
    out = torch.zeros(384, dtype=dtype)
    assert compare(lambda: arithmetic_kernel[(1,)](x, y, n, out, 128)).native == 1


@triton.jit
def ramp_kernel(start, out, N: tl.constexpr, STEP: tl.constexpr):
    at = tl.arange(0, N)
    narrow = (at * STEP + start).to(out.dtype.element_ty)
    unsigned = narrow.to(tl.uint8).to(tl.int64)
    tl.store(out + at, narrow)
    tl.store(out + N + at, (narrow.to(tl.int64) >> 3).to(out.dtype.element_ty))
    tl.store(out + 2 * N + at, (narrow.to(tl.int64) // 7 + unsigned % 5).to(out.dtype.element_ty))
    tl.store(out + 3 * N + at, ((narrow < 5) | (narrow.to(tl.int64) > 100)).to(out.dtype.element_ty))


@pytest.mark.parametrize("start", [0, -100, 2**31 - 1])
@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        (torch.int8, 3),
        (torch.int8, 37),  # a vector of eight lanes wraps around once
        (torch.int8, -37),
        (torch.int8, 1000),
        (torch.int16, 9362),
        (torch.int16, -40000),
        (torch.int32, 668265263),
        (torch.int32, -1640531535),
    ],
    ids=str,
)
def test_a_ramp_that_wraps_around_is_widened_lane_by_lane(
    compare: Compare, dtype: torch.dtype, step: int, start: int
) -> None:
    out = torch.zeros(4, 64, dtype=dtype)
    compare(lambda: ramp_kernel[(1,)](start, out, 64, step))
    numbers = [step * lane + start for lane in range(64)]
    half = 1 << torch.iinfo(dtype).bits - 1
    narrow = torch.tensor([(number + half) % (2 * half) - half for number in numbers])
    assert out[0].tolist() == narrow.tolist()
    assert out[1].tolist() == (narrow >> 3).tolist()
    expected = narrow.div(7, rounding_mode="trunc") + (narrow & 255) % 5
    assert out[2].tolist() == expected.to(dtype).tolist()
    assert out[3].tolist() == ((narrow < 5) | (narrow > 100)).to(dtype).tolist()


@pytest.mark.alone("LLVM leaves conversions of numbers out of range undefined")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_floats_out_of_an_integers_range_convert_as_in_the_machine(compare: Compare, dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 127.9, 128.0, 300.0, -129.0, -300.0, 4e4, -4e4, 7e4, 3e9, -3e9, 1e19, -1e19, 1e38])
    x = torch.cat([x, torch.tensor([float("nan"), float("inf")])]).to(dtype)
    assert compare(lambda: to_integers_kernel[(1,)](x, *outputs(16), 16)).native == 1


@triton.jit
def flushing_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    size, one = tl.abs(value), tl.load(x)
    tl.store(out + at, tl.exp2(value * 1e40) + tl.sqrt(size) + tl.sin(value) + tl.erf(value) + tl.floor(value))
    tl.store(out + N + at, tl.rsqrt(size) + tl.ceil(value))
    tl.store(out + 2 * N + at, tl.sqrt(tl.abs(one)) + tl.ceil(one) + value)


def test_subnormal_numbers_are_flushed_as_in_the_machine(compare: Compare) -> None:
    x = (torch.arange(128) - 64) * 2.0**-132
    x[0] = -(2.0**-140)
    assert compare(lambda: flushing_kernel[(1,)](x, torch.zeros(384), 128)).native == 1


@triton.jit
def reduction_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    block = tl.load(x + pid * M * N + rows[:, None] * N + columns[None, :])
    down, across = tl.sum(block, 0), tl.sum(block, 1)
    best, where = tl.max(block, 1, return_indices=True)
    here = out + pid * 8 * M * N
    tl.store(here + columns, down)
    tl.store(here + N + rows, across + best + where)
    tl.store(here + M * N + rows[:, None] * N + columns[None, :], tl.cumsum(block, 0))
    tl.store(here + 2 * M * N + rows[:, None] * N + columns[None, :], tl.cumsum(block, 1, reverse=True))
    tl.store(here + 3 * M * N + columns[:, None] * M + rows[None, :], tl.trans(block))
    tl.store(here + 4 * M * N + tl.arange(0, M * N), tl.reshape(block, (M * N,)) * tl.sum(across, 0))


@pytest.mark.parametrize("shape", [(1, 1), (2, 64), (16, 16), (64, 4), (32, 128)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_reductions_and_reshapes_keep_the_order_of_elements(
    compare: Compare, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    rows, columns = shape
    x, out = torch.randn(3, rows, columns, dtype=dtype), torch.zeros(3, 8 * rows * columns, dtype=dtype)
    assert compare(lambda: reduction_kernel[(3,)](x, out, rows, columns)).native == 1


@triton.jit
def products_kernel(x, y, out, trips, N: tl.constexpr):
    at = tl.arange(0, N)
    where = at[:, None] * N + at[None, :]
    total = tl.zeros((N, N), tl.float32)
    for step in range(trips):
        left, right = tl.load(x + step * N * N + where), tl.load(y + step * N * N + where)
        total = tl.dot(left, tl.trans(right), total)
        if step % 2 == 1:
            total = total * 0.5
    tl.store(out + where, total)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_dot_products_agree_with_the_machine(compare: Compare, size: int) -> None:
    # Small whole numbers: every sum is exact, whatever its order.
    x, y = (torch.randint(-9, 9, (3, size, size)).float() for _ in range(2))
    assert compare(lambda: products_kernel[(1,)](x, y, torch.zeros(size, size), 3, size)).native == 1


@triton.jit
def branching_kernel(bounds, out, N: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    last = tl.load(bounds + pid)
    if last < 0:
        return
    total, block, low = 0, tl.zeros((N,), tl.float32), 0
    while low * low < last:
        total += low
        block += tl.where(at < low, 1.0, -1.0)
        low += 1
    first, second = block, block + 1
    for _ in range(last):
        first, second = second, first * 0.5
    if total % 2 == 0:
        first = first + second
    tl.store(out + pid * N + at, first + total)


def test_programs_take_different_branches(compare: Compare) -> None:
    bounds = torch.tensor([3, -1, 0, 17, 5, 1], dtype=torch.int32)
    assert compare(lambda: branching_kernel[(6,)](bounds, torch.zeros(6, 32), 32)).native == 1


@triton.jit
def gather_kernel(x, where, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(where + at), AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(32, 64), (16, 1)])
def test_gathered_elements_are_those_of_the_machine(compare: Compare, shape: tuple[int, int], axis: int) -> None:
    where, out = torch.randint(0, shape[axis], shape, dtype=torch.int32), torch.zeros(shape)
    x = torch.randn(shape)
    assert compare(lambda: gather_kernel[(1,)](x, where, out, *shape, axis)).native == 1
    assert torch.equal(out, torch.gather(x, axis, where.long()))


@pytest.mark.alone("what a GPU gathers by an index out of range is undefined")
def test_an_index_out_of_range_is_left_to_the_machine(compare: Compare) -> None:
    x, where, out = torch.randn(16, 16), torch.full((16, 16), 16, dtype=torch.int32), torch.zeros(16, 16)
    assert compare(lambda: gather_kernel[(1,)](x, where, out, 16, 16, 1)).bailouts == 1


# --- memory events ---


@triton.jit
def copy_kernel(x, out, shift, step, rows, N: tl.constexpr, FILLED: tl.constexpr):
    at = tl.program_id(0) * step + tl.arange(0, N)
    inside = at < rows
    value = tl.load(x + at + shift, mask=inside, other=0.0) if FILLED else tl.load(x + at + shift, mask=inside)
    tl.store(out + at, value, mask=inside)


def launch_copy(x: torch.Tensor, out: torch.Tensor, *, shift: int = 0, step: int = 16, filled: bool = True) -> None:
    copy_kernel[(4,)](x, out, shift, step, 50, 16, filled)


def test_a_clean_launch_is_reported_as_native(gpu: Gpu, code: NativeCode) -> None:
    gpu.launches.native = code
    x, out = torch.randn(64), torch.zeros(64)
    launch_copy(x, out)
    assert ([launch.executor for launch in gpu.seen], gpu.memory) == (["native"], [])
    assert out.tolist() == [*x[:50].tolist(), *[0.0] * 14]


def test_undefined_lanes_are_counted_and_filled(gpu: Gpu, compare: Compare) -> None:
    gpu.begin(LaneFill.ODD)
    assert compare(lambda: launch_copy(torch.randn(64), torch.zeros(64), filled=False)).native == 1
    assert [type(event) for event in gpu.memory] == [UndefinedLanes]


def test_reads_of_fresh_memory_are_reported(gpu: Gpu, compare: Compare) -> None:
    with gpu.fresh:
        x = torch.empty(64)
    x[:20] = 1
    assert compare(lambda: launch_copy(x, torch.zeros(64))).native == 1
    (event,) = gpu.memory
    assert isinstance(event, UninitialisedRead)
    assert (event.cells, event.first_cells[0], event.program) == (30, (20,), 1)


@pytest.mark.parametrize(
    ("shift", "step", "shared", "kinds"),
    [
        (1 << 20, 16, False, {Stray}),
        (-3, 16, False, {Stray}),
        (0, 8, False, {Overlap}),
        (1, 16, True, {OrderDependence}),
    ],
    ids=["outside the storage", "before the storage", "stored by two programs", "read from another program"],
)
def test_a_failed_check_leaves_the_launch_to_the_machine(
    gpu: Gpu,
    compare: Compare,
    shift: int,
    step: int,
    shared: bool,  # noqa: FBT001 - a parameter of the test
    kinds: set[type],
) -> None:
    x = torch.randn(64)
    agreement = compare(lambda: launch_copy(x, x if shared else torch.zeros(64), shift=shift, step=step))
    assert (agreement.native, agreement.bailouts) == (0, 1)
    assert {type(event) for event in gpu.memory} == kinds


@triton.jit
def assuming_kernel(x, n):
    tl.assume(n > 2)
    tl.store(x + tl.program_id(0), 1.0)


@triton.jit
def block_copy_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@pytest.mark.alone("what the compiler makes of a false assumption is undefined")
def test_native_code_leaves_a_false_assumption_to_the_machine(gpu: Gpu, code: NativeCode) -> None:
    gpu.launches.native = code
    assuming_kernel[(4,)](torch.zeros(4), 3)
    assuming_kernel[(4,)](torch.zeros(4), 2)
    assert [launch.executor for launch in gpu.seen] == ["native", "numpy"]
    assert [type(event).__name__ for event in gpu.memory] == ["FalseAssumption"]


def test_a_forked_child_splits_launches_among_threads_of_its_own() -> None:
    cores = Cores(2)
    assert [*cores.map(abs, (-1, -2))] == [1, 2]
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # ends a child that waits for its parent's threads
        os._exit([*cores.map(abs, (-1, -2))] != [1, 2])
    assert os.waitpid(child, 0)[1] == 0


def test_a_large_launch_is_split_among_the_cores() -> None:
    def parts(elements: int, programs: int) -> int:
        return Cores(4).parts_of(programs, [Argument("x", None, 0, 4, (elements,), (1,))])

    assert [parts(LARGE_LAUNCH - 1, 100), parts(LARGE_LAUNCH, 100), parts(LARGE_LAUNCH, 3)] == [1, 4, 3]


def test_parts_of_a_launch_that_touch_no_block_in_common_are_clean(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = native = NativeCode(ExecutorMode.NATIVE, tmp_path)
    native.cores = Cores(2, large=0)
    x = torch.randn(1 << 21)  # so many that shadow memory has pages that one part alone touches
    copied = torch.zeros(1 << 21)
    block_copy_kernel[(32,)](x, copied, BLOCK=1 << 16)
    assert [launch.executor for launch in gpu.seen] == ["native"]
    assert torch.equal(copied, x)


def test_a_bailout_restores_memory(gpu: Gpu, code: NativeCode) -> None:
    x = torch.arange(64.0)
    gpu.launches.native = code
    launch_copy(x, x, shift=1)
    assert [launch.executor for launch in gpu.seen] == ["numpy"]
    assert x[:49].tolist() == list(range(1, 50))  # in lock-step all programs read before any stores


def test_an_access_to_a_gap_between_rows_is_a_stray(gpu: Gpu, compare: Compare) -> None:
    view = torch.zeros(8, 16)[:, :8]
    assert compare(lambda: launch_copy(view, torch.zeros(64))).bailouts == 1
    assert {type(event) for event in gpu.memory} == {Stray}


def test_an_offset_that_wraps_around_is_left_to_the_machine(gpu: Gpu, compare: Compare) -> None:
    assert compare(lambda: launch_copy(torch.zeros(64), torch.zeros(64), shift=2**31 - 8)).bailouts == 1
    assert {type(event) for event in gpu.memory} == {Stray}


# --- the choice of executor ---


@triton.jit
def counting_kernel(x, out):
    tl.store(out + tl.program_id(0), tl.atomic_add(x, 1))


def test_unsupported_operations_run_in_the_machine(gpu: Gpu, code: NativeCode) -> None:
    gpu.launches.native = comparison = Comparison(code)
    counter, out = torch.zeros(1, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    counting_kernel[(5,)](counter, out)
    assert (counter.item(), sorted(out.tolist())) == (5, [0, 1, 2, 3, 4])
    assert comparison.kernels["counting_kernel"].declined == "tt.atomic_rmw in native code"


def test_the_launches_left_to_the_machine_are_listed_by_reason(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = fallbacks = Fallbacks(NativeCode(ExecutorMode.NATIVE, tmp_path))
    counter, out = torch.zeros(1, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    for _ in range(2):
        counting_kernel[(5,)](counter, out)
    launch_copy(torch.randn(64), torch.zeros(64))
    launch_copy(torch.randn(64), torch.zeros(64), shift=-3)
    listed = {each.reason: (each.launches, each.kernels) for each, _ in fallbacks.table()}
    assert listed == {
        "tt.atomic_rmw in native code": (2, {"counting_kernel"}),
        NATIVE: (1, {"copy_kernel"}),
        BAILED_OUT: (1, {"copy_kernel"}),
    }
    assert sum(share for _, share in fallbacks.table()) == pytest.approx(1)


def test_machine_code_is_reused_by_another_process(gpu: Gpu, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    gpu.launches.native = NativeCode(ExecutorMode.NATIVE, folder)
    launch_copy(torch.randn(64), torch.zeros(64))
    (kept,) = folder.iterdir()
    made = kept.stat().st_mtime_ns
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, folder)  # would not compile for a first launch
    launch_copy(torch.randn(64), torch.zeros(64))
    assert [launch.executor for launch in gpu.seen] == ["native", "native"]
    assert list(folder.iterdir()) == [kept]
    assert kept.stat().st_mtime_ns == made


def test_builds_that_differ_in_warps_share_machine_code(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = NativeCode(ExecutorMode.NATIVE, tmp_path)
    copy_kernel[(4,)](torch.randn(64), torch.zeros(64), 0, 16, 50, 16, FILLED=True, num_warps=4)
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, tmp_path)  # would not compile for a first launch
    copy_kernel[(4,)](torch.randn(64), torch.zeros(64), 0, 16, 50, 16, FILLED=True, num_warps=8)
    assert [launch.executor for launch in gpu.seen] == ["native", "native"]
    assert len({launch.build for launch in gpu.seen}) == 2
    assert len(list(tmp_path.glob("*.native"))) == 1


def test_a_first_launch_is_not_compiled(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, tmp_path / "none")
    launch_copy(torch.randn(64), torch.zeros(64))
    assert [launch.executor for launch in gpu.seen] == ["numpy"]


def test_time_that_earlier_processes_spent_starts_the_compiler(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, tmp_path)
    launch_copy(torch.randn(64), torch.zeros(64))
    (spent,) = tmp_path.glob("*.seconds")
    for _ in range(40):  # processes of which none spends as much as compiling takes
        code_cache.Store(tmp_path).add_machine_seconds(spent.stem, 0.001)
    one_thread = ThreadPoolExecutor(1)
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, tmp_path, _pool=one_thread)
    launch_copy(torch.randn(64), torch.zeros(64))
    one_thread.submit(int).result()  # after the compiler
    launch_copy(torch.randn(64), torch.zeros(64))
    assert [launch.executor for launch in gpu.seen] == ["numpy", "numpy", "native"]
    assert not list(tmp_path.glob("*.seconds"))


@pytest.mark.parametrize(("make", "executor"), [(NativeCode, "native"), (NativeCode.passing, "numpy")])
def test_code_that_no_later_process_uses_is_compiled_later(
    gpu: Gpu, tmp_path: Path, make: Callable[[ExecutorMode, Path], NativeCode], executor: str
) -> None:
    gpu.launches.native = make(ExecutorMode.AUTO, tmp_path)
    launch_copy(torch.randn(64), torch.zeros(64))
    (spent,) = tmp_path.glob("*.seconds")
    code_cache.Store(tmp_path).add_machine_seconds(spent.stem, 0.01)  # once, and not four times, what compiling takes
    gpu.launches.native = native = make(ExecutorMode.AUTO, tmp_path)
    native._pool = one_thread = ThreadPoolExecutor(1)
    launch_copy(torch.randn(64), torch.zeros(64))
    one_thread.submit(int).result()
    launch_copy(torch.randn(64), torch.zeros(64))
    assert gpu.seen[-1].executor == executor


def test_code_that_runs_long_is_compiled_with_more_effort(gpu: Gpu, tmp_path: Path) -> None:
    gpu.launches.native = NativeCode(ExecutorMode.NATIVE, tmp_path, Effort.LEAST)
    launch_copy(torch.randn(64), torch.zeros(64))
    (kept,) = tmp_path.glob("*.native")

    def effort() -> Effort:
        found = code_cache.Store(tmp_path).find(kept.stem)
        assert found is not None
        return found.effort

    assert effort() is Effort.LEAST
    one_thread = ThreadPoolExecutor(1)
    gpu.launches.native = NativeCode(ExecutorMode.AUTO, tmp_path, _pool=one_thread)
    x, out = torch.randn(64), torch.zeros(64)
    for _ in range(5000):  # far more than the code needs to have run for as long as compiling takes
        launch_copy(x, out)
        one_thread.submit(int).result()
        if effort() is Effort.USUAL:
            break
    assert {launch.executor for launch in gpu.seen} == {"native"}
    assert effort() is Effort.USUAL


def test_an_empty_step_limit_is_the_usual_one() -> None:
    assert settings_of({"HARNESS_STEP_LIMIT": ""}) == settings_of({}) == EngineSettings()
    assert settings_of({"HARNESS_STEP_LIMIT": "7"}) == EngineSettings(step_limit=7)


def test_code_of_processes_that_are_the_last_to_use_their_folder_is_passing(gpu: Gpu) -> None:
    for is_set in (False, True):
        gpu.launches.use(settings_of({"HARNESS_BUILDS_PASS": "1" if is_set else ""}))
        assert isinstance(gpu.launches.native, NativeCode)
        assert (gpu.launches.native.patience > 1) == is_set


def test_the_environment_chooses_the_executor() -> None:
    assert executor_mode({}) is ExecutorMode.AUTO
    assert executor_mode({"HARNESS_EXECUTOR": "numpy"}) is ExecutorMode.NUMPY
    assert executor_mode({"HARNESS_EXECUTOR": ""}) is executor_mode({}) is ExecutorMode.AUTO
    with pytest.raises(UsageError, match="HARNESS_EXECUTOR"):
        executor_mode({"HARNESS_EXECUTOR": "fast"})


LINKED_WITHOUT_MEMORY = """
import resource
from harness.engines.virtual.native import llvm_jit
from harness.workers.supervision import linux

llvm_jit.host()
image = llvm_jit.compile_object("define i32 @one() { ret i32 1 }")
held = linux.data_bytes()
before = held // 2, {hard}
resource.setrlimit(resource.RLIMIT_DATA, before)
code = llvm_jit.Code(image, "one")
assert code.address
assert resource.getrlimit(resource.RLIMIT_DATA) == before
"""


@pytest.mark.parametrize("hard", ["resource.RLIM_INFINITY", "held + 2**26"])
def test_code_is_linked_although_the_memory_limit_is_met(hard: str) -> None:
    program = LINKED_WITHOUT_MEMORY.replace("{hard}", hard)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_launch_while_python_exits_runs_without_native_code(gpu: Gpu, tmp_path: Path) -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()  # as Python does with all of them when it exits
    gpu.launches.native = NativeCode(ExecutorMode.NATIVE, tmp_path, _pool=closed)
    out = torch.zeros(32)
    ramp_kernel[(1,)](3, out, 8, 2)
    assert out.count_nonzero().item() > 0
    assert gpu.memory == []
