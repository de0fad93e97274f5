"""Device assertions, functions of scalars on blocks, and endless loops."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.engine_settings import STEP_LIMIT_VARIABLE
from harness.engines.virtual.machine import RunawayKernel
from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode
from harness.model.run import AccessSite, AssertFailed, FalseAssumption, Source
from harness.oracles.endings import describe
from tests.engines.conftest import Gpu, line_of

HERE = __file__


@triton.jit(debug=True)
def asserting_kernel(x, least, N: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_print("seen: ", value, hex=True)
    tl.device_print("no value")
    tl.device_assert(value >= least, 'at "least"', mask=tl.arange(0, N) != 1)  # the assertion
    tl.debug_barrier()
    tl.store(x + tl.program_id(0) * N + tl.arange(0, N), value + 1.0)


def failed(kernel: str, comment: str, message: str, lanes: int, program: int) -> AssertFailed:
    site = AccessSite(kernel=kernel, launch=0, argument="", source=Source(file=HERE, line=line_of(HERE, comment)))
    return AssertFailed(site=site, message=message, lanes=lanes, program=program)


def test_a_failed_assertion_is_reported_with_its_lanes_and_first_program(gpu: Gpu) -> None:
    x = torch.tensor([[3.0, -9.0, 3.0, 3.0], [3.0, -9.0, 0.0, 1.0], [3.0, 3.0, 3.0, 0.0]])
    asserting_kernel[(3,)](x, 2.0, 4)
    assert gpu.memory == [failed("asserting_kernel", "the assertion", 'at "least"', 3, 1)]
    assert float(x[0, 0]) == 4.0


@pytest.mark.alone("a hardware GPU prints to the same stream")
def test_a_device_print_has_program_text_and_values(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    asserting_kernel[(2,)](torch.tensor([[3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0]]), 2.0, 4)
    assert gpu.memory == []
    assert capfd.readouterr().out.splitlines() == [
        "pid (0, 0, 0) seen: [3. 4. 5. 6.]",
        "pid (1, 0, 0) seen: [ 7.  8.  9. 10.]",
        "pid (0, 0, 0) no value",
        "pid (1, 0, 0) no value",
    ]


@triton.jit
def telling_kernel(x):
    program = tl.program_id(0)
    if program % 2 == 1:
        tl.device_print("odd", program)
    tl.store(x + program, 1.0)


@pytest.mark.alone("a hardware GPU prints to the same stream")
def test_only_programs_that_reach_a_device_print_print(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    telling_kernel[(40,)](torch.zeros(40))
    assert gpu.memory == []
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("pid (1, 0, 0) odd")
    assert lines[0].endswith("1")
    assert (len(lines), lines[-1]) == (17, "… and 4 more programs: odd: ")


@triton.jit
def chatting_kernel(x, n):
    for trip in range(n):
        tl.device_print("trip", trip)
    tl.store(x, n)


@pytest.mark.alone("a hardware GPU prints to the same stream")
def test_a_loop_that_prints_is_cut_short(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.zeros(1)
    chatting_kernel[(1,)](x, 1000)
    assert gpu.memory == []
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:200]] == [str(trip) for trip in range(200)]
    assert lines[200:] == ["… and more: a launch prints no further lines here"]
    chatting_kernel[(1,)](x, 1)
    assert len(capfd.readouterr().out.splitlines()) == 1


def test_an_assertion_that_holds_is_not_reported(gpu: Gpu) -> None:
    asserting_kernel[(3,)](torch.full((3, 4), 5.0), 2.0, 4)
    assert gpu.memory == []


@triton.jit(debug=True)
def overflowing_kernel(x, by):
    tl.store(x, tl.load(x) * by)  # too large for 32 bits


def test_integer_overflow_in_a_debug_kernel_is_a_failed_assertion(gpu: Gpu) -> None:
    overflowing_kernel[(1,)](torch.tensor([1 << 20], dtype=torch.int32), 4096)
    message = "int32 overflow detected for operation mul"
    assert gpu.memory == [failed("overflowing_kernel", "too large for 32 bits", message, 1, 0)]


@triton.jit
def larger_and_sum(a, b):
    larger = a
    if b > a:
        larger = b * 2
    return larger, a + b


@triton.jit
def both_of_two(a, next_a, b, next_b):
    return (a + next_b, next_a + b)


@triton.jit
def scalars_kernel(x, y, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    larger, total = tl.map_elementwise(larger_and_sum, a, b)
    tl.store(out + at, larger)
    tl.store(out + 2 * N + at, total)
    tl.store(out + 4 * N + at, tl.map_elementwise(both_of_two, a, b, pack=2)[0])
    only = tl.full((1,), 0.0, tl.float32) + tl.load(x + tl.program_id(0) * N)
    tl.store(out + 6 * N + tl.program_id(0), only.item())


def test_functions_of_scalars_run_on_every_element(gpu: Gpu) -> None:
    x, y, out = torch.randn(2, 64), torch.randn(2, 64), torch.zeros(7, 2, 64)
    scalars_kernel[(2,)](x, y, out, 64, num_warps=1)  # two elements a thread: Triton packs no more than it has
    assert torch.equal(out[0], torch.where(y > x, y * 2, x))
    assert torch.equal(out[1], x + y)
    swapped = y.view(2, 32, 2).flip(-1).reshape(2, 64)
    assert torch.equal(out[2], x + swapped)
    assert out[3, 0, :2].tolist() == x[:, 0].tolist()
    assert gpu.memory == []


@triton.jit
def endless_kernel(x, n, step):
    at = 0
    while at < n:  # endless
        at += step
    tl.store(x, at)


def test_an_endless_loop_is_stopped_with_its_line_and_a_remedy(gpu: Gpu) -> None:
    gpu.change_settings(step_limit=1000)
    x = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(RunawayKernel) as stopped:
        endless_kernel[(1,)](x, 5, 0)
    place = f"test_debug.py:{line_of(HERE, 'endless')}"
    loop = f"a loop made 1,000 trips and waits for nobody ({place})"
    assert str(stopped.value) == f"endless_kernel: {loop}; {STEP_LIMIT_VARIABLE} sets another limit"
    endless_kernel[(1,)](x, 5, 2)
    assert int(x) == 6


@triton.jit
def unknown_kernel(x):
    value = tl.load(x)
    tl.store(
        x, tl.inline_asm_elementwise("vadd.s32.s32.s32 $0, $1, $1;", "=r,r", [value], tl.int32, is_pure=True, pack=1)
    )


def test_the_ttir_of_a_kernel_that_cannot_be_executed_is_kept(gpu: Gpu, tmp_path: Path) -> None:
    gpu.change_settings(kept_ttir=tmp_path / "kept")
    unsupported = gpu.unsupported(lambda: unknown_kernel[(1,)](torch.zeros(1, dtype=torch.int32)))
    text = Path(unsupported.ttir_file).read_text(encoding="utf-8")
    assert "tt.func public @unknown_kernel" in text
    assert unsupported.ttir_file in describe(unsupported)


@triton.jit
def long_kernel(x, n):
    total = 0
    for at in range(n):  # too many trips
        total += at
    tl.store(x, total)


def test_a_bounded_loop_with_too_many_trips_is_stopped(gpu: Gpu) -> None:
    x = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(RunawayKernel) as stopped:
        long_kernel[(2,)](x, 2**31 - 1)
    place = f"test_debug.py:{line_of(HERE, 'too many trips')}"
    loop = f"a loop makes 2,147,483,647 trips and waits for nobody ({place})"
    assert str(stopped.value) == f"long_kernel: {loop}; {STEP_LIMIT_VARIABLE} sets another limit"
    assert gpu.case_launches.unsupported is None
    long_kernel[(1,)](x, 5)
    assert int(x) == 10


@triton.jit
def changing_kernel(counter, out):
    while tl.atomic_add(counter, 1) >= 0:  # memory changes on every trip
        pass
    tl.store(out, 1)


def test_an_endless_loop_of_scheduled_programs_is_stopped(gpu: Gpu) -> None:
    gpu.change_settings(step_limit=1000)
    with pytest.raises(RunawayKernel) as stopped:
        changing_kernel[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1))
    place = f"test_debug.py:{line_of(HERE, 'memory changes on every trip')}"
    loop = f"a loop made 1,000 trips and waits for nobody ({place})"
    assert str(stopped.value) == f"changing_kernel: {loop}; {STEP_LIMIT_VARIABLE} sets another limit"


@triton.jit
def assuming_kernel(x, out, least):
    program = tl.program_id(0)
    tl.assume(least >= 0)
    if program < 3:
        tl.assume(program > 0)  # the assumption
    tl.store(out + program, tl.load(x + program))


@pytest.mark.parametrize("executor", [ExecutorMode.NUMPY, ExecutorMode.NATIVE])
@pytest.mark.alone("what the compiler makes of a false assumption is undefined")
def test_a_false_assumption_is_reported_by_every_executor(gpu: Gpu, executor: ExecutorMode) -> None:
    gpu.launches.native = NativeCode(executor, None)
    assuming_kernel[(4,)](torch.zeros(4), torch.zeros(4), 0)
    site = failed("assuming_kernel", "the assumption", "", 1, 0).site
    assert gpu.memory == [FalseAssumption(site=site, programs=1, program=0)]
