"""The private names of Triton behave as the harness expects, in every release that was checked."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, ANN202, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import _allocation
from triton.runtime.errors import OutOfResources

from harness.engines.triton import later_stages, triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.triton_releases import RELEASES
from harness.errors import CannotExecute
from tests.engines.conftest import Gpu, MakeGpu


def test_the_private_names_were_checked_with_this_release_of_triton() -> None:
    minor, known = ".".join(triton.__version__.split(".")[:2]), [release.minor_text for release in RELEASES]
    assert minor in known, (
        f"harness/engines/triton/triton_releases.py knows Triton {', '.join(known)}, not {minor}: "
        "docs/explanation/new-releases.md says how it is taken up"
    )


@triton.jit
def copy_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at))


def test_compiling_ends_at_ttir(gpu: Gpu) -> None:
    compiled: Any = copy_kernel[(1,)](torch.zeros(8), torch.zeros(8), 8)
    assert compiled.kernel.decode() == str(compiled.asm["ttir"])
    assert not {"ttgir", "llir", "ptx", "cubin"} & set(compiled.asm.keys())
    assert gpu.memory == []


def test_later_stages_are_compiled_if_a_program_reads_them(gpu: Gpu) -> None:
    compiled: Any = copy_kernel[(1,)](torch.zeros(8), torch.zeros(8), 8, num_warps=2)
    assert '"ttg.num-warps" = 2' in compiled.asm["ttgir"]
    assert ".target sm_" in compiled.asm["ptx"]
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
    with pytest.raises(KeyError, match="amdgcn"):
        compiled.asm["amdgcn"]
    copy_kernel[(1,)](torch.zeros(16), torch.zeros(16), 16)  # the cut after TTIR is back
    assert gpu.case_launches.unsupported is None


def test_compiling_goes_no_further_than_to_a_stage(gpu: Gpu) -> None:
    compiled: Any = copy_kernel[(1,)](torch.zeros(8), torch.zeros(8), 8)
    ttir = str(compiled.asm["ttir"])
    layouts, instructions = (
        later_stages.compile_to_stage(ttir, stage, 120, {"num_warps": 4}) for stage in ("ttgir", "ptx")
    )
    assert "#ttg.blocked<" in layouts
    assert ".loc" in instructions
    assert "st.global" in instructions
    copy_kernel[(1,)](torch.zeros(16), torch.zeros(16), 16)  # the cut after TTIR is back
    assert gpu.case_launches.unsupported is None


def three_configs(kernel: str) -> dict[str, Any]:
    """Return configs that differ in what they store."""
    del kernel
    return {"configs": [triton.Config({"WAY": way}, num_warps=2 + 2 * (way == 1)) for way in range(3)], "key": ["n"]}


@triton.autotune(**three_configs("tuned_kernel"))
@triton.jit
def tuned_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n * 0)


def test_the_case_chooses_the_config_not_a_benchmark(gpu: Gpu) -> None:
    stored: list[int] = []
    for way in (0, 2, 1, 5, 0):
        gpu.chooser.requested = {"tuned_kernel": way}
        out = torch.full((1,), -1, dtype=torch.int32)
        tuned_kernel[(1,)](out, 7)
        stored.append(int(out))
    assert stored == [0, 2, 1, 2, 0]
    assert [(launch.config_index, launch.config_count) for launch in gpu.seen] == [
        (0, 3),
        (2, 3),
        (1, 3),
        (2, 3),
        (0, 3),
    ]
    assert gpu.seen[2].config.startswith("WAY: 1, num_warps: 4")
    assert gpu.seen[2].num_warps == 4
    assert tuned_kernel.configs[0].kwargs == {"WAY": 0}
    assert len(tuned_kernel.configs) == 3


@triton.autotune(
    configs=[triton.Config({"WAY": way}) for way in range(4)],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, *_, **__: [c for c in configs if c.kwargs["WAY"] % 2]},
)
@triton.jit
def pruned_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n * 0)


def test_indices_count_the_configs_that_survive_pruning(gpu: Gpu) -> None:
    gpu.chooser.requested = {"pruned_kernel": 1}
    out = torch.zeros(1, dtype=torch.int32)
    pruned_kernel[(1,)](out, 7)
    assert out.tolist() == [3]
    assert (gpu.seen[0].config_index, gpu.seen[0].config_count) == (1, 2)


@triton.autotune(
    configs=[triton.Config({"WAY": way}) for way in range(2)],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda *_, **__: []},
)
@triton.jit
def barren_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n * 0)


def test_without_a_config_left_triton_raises_its_own_error(gpu: Gpu) -> None:
    with pytest.raises(triton.runtime.errors.AutotunerError):
        barren_kernel[(1,)](torch.zeros(1, dtype=torch.int32), 7)
    assert gpu.seen == []


@triton.jit
def refused_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at))
    tl.static_assert(N < 4, "too large")


def test_a_compile_error_passes_through(gpu: Gpu) -> None:
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure):
        refused_kernel[(1,)](torch.zeros(8), torch.zeros(8), 8)
    assert gpu.seen == []


@triton.autotune(configs=[triton.Config({"WAY": way}) for way in range(4)], key=["n"])
@triton.jit
def picky_kernel(out, n, FIRST: tl.constexpr, LAST: tl.constexpr, WAY: tl.constexpr):
    tl.static_assert(WAY >= FIRST, "too early")
    tl.static_assert(WAY <= LAST, "too late")
    tl.store(out, WAY + n * 0)


def test_a_config_that_does_not_compile_is_skipped_for_the_next(gpu: Gpu) -> None:
    stored: list[int] = []
    for way, first, last in ((0, 2, 3), (2, 2, 3), (3, 1, 2)):
        gpu.chooser.requested = {"picky_kernel": way}
        out = torch.full((1,), -1, dtype=torch.int32)
        picky_kernel[(1,)](out, 7, first, last)
        stored.append(int(out))
    assert stored == [2, 2, 1]
    assert [(launch.config_index, launch.config_count) for launch in gpu.seen] == [(2, 4), (2, 4), (1, 4)]
    assert [len(launch.refused) for launch in gpu.seen] == [2, 0, 2]
    assert gpu.seen[0].refused[0].startswith("WAY: 0, num_warps: 4")
    assert "CompileTimeAssertionFailure" in gpu.seen[0].refused[0]
    assert "too early" in gpu.seen[0].refused[0]
    assert gpu.chooser.failed is None
    assert len(picky_kernel.configs) == 4


def test_if_no_config_compiles_the_error_is_the_chosen_ones(gpu: Gpu) -> None:
    gpu.chooser.requested = {"picky_kernel": 3}
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure, match="too late"):
        picky_kernel[(1,)](torch.zeros(1, dtype=torch.int32), 7, 3, 2)
    assert gpu.seen == []
    assert gpu.chooser.failed == ("picky_kernel", 4)


def scale_warps(arguments: dict[str, Any]) -> int:
    """A heuristic that replaces what a config says of its warps."""
    return 8 if arguments["num_warps"] == 4 else arguments["num_warps"]


@triton.autotune(
    configs=[
        triton.Config({"WAY": way}, num_warps=warps, num_stages=stages, maxnreg=registers)
        for way in range(2)
        for warps, stages, registers in ((4, 2, None), (8, 2, 128), (4, 3, None), (2, 2, 64), (2, 2, None))
    ],
    key=["n"],
)
@triton.jit
def many_configs_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n * 0)


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["n"])
@triton.heuristics({"num_warps": scale_warps})
@triton.jit
def heuristic_kernel(out, n):
    tl.store(out, n)


@pytest.mark.parametrize("kernel", [many_configs_kernel, heuristic_kernel], ids=["plain", "heuristic"])
def test_builds_of_all_configs_equal_those_of_launches(gpu: Gpu, kernel: Any) -> None:
    name, out = triton_seam.kernel_name(kernel), torch.zeros(1, dtype=torch.int32)
    for index in range(len(kernel.configs)):
        gpu.chooser.requested = {name: index}
        kernel[(1,)](out, 7)
    launched = tuple(launch.build for launch in gpu.seen)
    gpu.chooser.compiles_all = True
    kernel[(1,)](out, 7)
    assert gpu.seen[-1].config_builds == launched
    assert len(set(launched)) > 1


# --- scratch memory ---


def describing_kernel() -> Any:
    """Return a new kernel for each test, since a compiled kernel keeps the driver it was compiled for."""

    @triton.jit
    def kernel(x, out, M: tl.constexpr, N: tl.constexpr):
        block = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[M, N])
        at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(out + at, block.load([0, 0]))

    return kernel


def in_a_fresh_thread(action: Callable[[], object]) -> BaseException | None:
    """Return the exception of an action in a thread without this thread's context variables."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).exception()


@pytest.mark.parametrize("capability", [(9, 0), (12, 0)])
def test_a_thread_without_an_allocator_gets_tritons_own_error(make_gpu: MakeGpu, capability: tuple[int, int]) -> None:
    gpu, kernel = make_gpu(capability), describing_kernel()
    x, out = torch.randn(16, 16), torch.zeros(16, 16)
    requests: list[tuple[int, int]] = []

    def allocate(size: int, align: int, stream: int | None) -> torch.Tensor:
        del stream
        requests.append((size, align))
        return torch.empty(size, dtype=torch.int8)

    def with_an_allocator() -> None:
        triton.set_allocator(allocate)
        kernel[(3,)](x, out, 16, 16)

    error = in_a_fresh_thread(lambda: kernel[(3,)](x, out, 16, 16))
    assert isinstance(error, RuntimeError)
    assert not isinstance(error, CannotExecute)
    assert "triton.set_allocator" in str(error)
    assert gpu.case_launches.unsupported is None
    assert in_a_fresh_thread(with_an_allocator) is None
    assert torch.equal(out, x)
    assert [launch.scratch_bytes for launch in gpu.seen] == [3 * 128, 3 * 128]
    assert requests == [(3 * 128, 128)]
    assert gpu.case_launches.unsupported is None
    assert threading.active_count() >= 1


def test_ampere_needs_no_scratch_for_a_descriptor(make_gpu: MakeGpu) -> None:
    gpu, kernel = make_gpu((8, 0)), describing_kernel()
    x, out = torch.randn(16, 16), torch.zeros(16, 16)
    assert in_a_fresh_thread(lambda: kernel[(3,)](x[:, :], out, 16, 16)) is None
    assert torch.equal(out, x)
    assert [launch.scratch_bytes for launch in gpu.seen] == [0]


# --- the whole pipeline ---


@triton.jit
def product_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for _ in range(4):
        total = tl.dot(tl.load(x + at), tl.load(y + at), total)
    tl.store(out + at, total)


def ttir_of(size: int, **options: int) -> tuple[str, dict[str, int]]:
    x = torch.zeros(size, size, dtype=torch.bfloat16)
    compiled: Any = product_kernel[(1,)](x, x, torch.zeros(size, size), size, **options)
    return str(compiled.asm["ttir"]), options


def test_the_whole_pipeline_reports_the_resources_of_a_kernel(gpu: Gpu) -> None:
    ttir, options = ttir_of(32, num_warps=2, num_stages=3)
    resources = compile_resources(ttir, 90, options)
    assert resources.failure == ""
    assert 16 <= resources.registers_per_thread <= 255
    assert resources.threads == 64
    assert resources.spill_bytes == 0
    assert resources.shared_bytes > 0
    assert gpu.memory == []


def test_a_kernel_too_large_for_the_gpu_shows_its_shared_memory(gpu: Gpu) -> None:
    ttir, options = ttir_of(256, num_warps=8, num_stages=4)
    resources = compile_resources(ttir, 120, options)
    assert resources.failure == ""
    assert resources.shared_bytes > gpu_limit(gpu)


def gpu_limit(gpu: Gpu) -> int:
    del gpu
    driver: Any = triton.runtime.driver.active
    limit: int = driver.utils.get_device_properties(0)["max_shared_mem"]
    return limit


def test_a_refusal_of_the_compiler_is_the_failure() -> None:
    resources = compile_resources("module { this is no TTIR }", 90, {"num_warps": 4})
    assert resources.failure
    assert (resources.registers_per_thread, resources.shared_bytes, resources.threads) == (0, 0, 0)


def test_out_of_resources_keeps_the_message_that_is_parsed() -> None:
    assert str(OutOfResources(393216, 101376, "shared memory")).startswith(
        "out of resource: shared memory, Required: 393216, Hardware limit: 101376"
    )


def test_allocations_can_be_watched_where_triton_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_allocation, "_allocator", _allocation._allocator)
    seen: list[tuple[int, ...]] = []

    def watch(allocator: Callable[..., object], *asked: int) -> object:
        seen.append(asked)
        return allocator(*asked)

    triton_seam.watch_allocations(watch)
    assert not triton_seam.has_allocator()
    with pytest.raises(RuntimeError, match="no allocator was set"):
        triton_seam.allocate_scratch(256, 128, 0)

    def set_and_ask() -> object:
        triton.set_allocator(lambda size, *_: torch.zeros(size))
        assert triton_seam.has_allocator()
        return triton_seam.allocate_scratch(512, 128, 7)

    made = copy_context().run(set_and_ask)
    assert isinstance(made, torch.Tensor)
    assert (made.numel(), seen) == (512, [(256, 128, 0), (512, 128, 7)])
