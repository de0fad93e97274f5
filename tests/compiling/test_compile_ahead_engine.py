"""Compiling ahead needs no GPU: it puts builds for the described GPU into the cache and launches nothing."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ci.fault_suite import faults
from harness import catalogue
from harness.compiling.compile_ahead_engine import Uncompared
from harness.engines.cuda.emulation import compiler_environment
from harness.engines.cuda.gpus.inventory import RealGpu, profile_of
from harness.engines.triton.triton_seam import FULL_CACHE_SUFFIX
from harness.execution import counter_numbers
from harness.execution.paired_run_policy import UNSAMPLED_SEED, is_sampled
from harness.execution.reruns import asks_for_other_rows
from harness.execution.row_trials import arrangements
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPILE_AHEAD, CUDA
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Run, Unsupported
from harness.search.options import load_ops
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from tests.engines.cuda import sized, unassembled
from tests.engines.cuda.samples import H200
from tests.execution.ops_for_tests import RMS_NORM, rms_norm_call
from tests.execution.ops_for_tests import case as norm_case

SUITE = str(Path(faults.__file__))
SIZED_SUITE = str(Path(sized.__file__))
SIZED = load_ops((SIZED_SUITE,), ())
UNASSEMBLED_SUITE = str(Path(unassembled.__file__))
BLACKWELL = catalogue.find("rtx-pro-6000")
LIMIT_S = 120.0


def case_of(op: str, device: DeviceProfile) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device)


def spec_of(
    scratch: Path, engine: str, environment: tuple[tuple[str, str], ...] = ()
) -> Callable[[DeviceProfile], WorkerSpec]:
    plain = WorkerSpec(device=BLACKWELL, suites=(SUITE,), scratch=str(scratch), engine=engine, environment=environment)
    return lambda device: replace(plain, device=device)


def run_ahead(scratch: Path, *ops: str, device: DeviceProfile = BLACKWELL, gpu: RealGpu = H200) -> list[Run]:
    """Run ops in a fresh process that compiles for a GPU."""
    with Pool(spec_of(scratch, COMPILE_AHEAD.factory, compiler_environment(gpu)), 1, LIMIT_S) as pool:
        return [pool.run(case_of(op, device)) for op in ops]


def targets(scratch: Path) -> dict[str, tuple[str, int]]:
    """Return backend and architecture of each build, by kernel."""
    kept = (scratch / f"triton{FULL_CACHE_SUFFIX}").rglob("*.cubin")
    described = {cubin.stem: json.loads(cubin.with_suffix(".json").read_text(encoding="utf-8")) for cubin in kept}
    return {kernel: (one["target"]["backend"], one["target"]["arch"]) for kernel, one in described.items()}


def test_kernels_are_compiled_for_the_hardware_whatever_is_emulated(tmp_path: Path) -> None:
    (run,) = run_ahead(tmp_path, "good")
    assert (run.engine, run.ending) == ("ahead", Completed())
    assert run.seconds["compile"] > 0
    assert targets(tmp_path) == {"add_one": ("cuda", 90)}
    assert not (tmp_path / "triton").exists()  # the virtual GPU's cache


def test_another_process_finds_the_builds(tmp_path: Path) -> None:
    run_ahead(tmp_path, "good", device=profile_of(H200))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("add_one.*")}
    (again,) = run_ahead(tmp_path, "good")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("add_one.*")} == before
    assert again.ending == Completed()


def test_faulty_kernels_are_compiled_and_not_launched(tmp_path: Path) -> None:
    runs = run_ahead(tmp_path, "spins", "stores_far_outside", "fails_assertion")
    assert [run.ending for run in runs] == [Completed()] * 3
    assert set(targets(tmp_path)) >= {"spin", "store_at", "assert_below"}


@pytest.mark.nightly
def test_a_case_that_exceeds_memory_ends_when_compiled_ahead(tmp_path: Path) -> None:
    run, good = run_ahead(tmp_path, faults.NO_MEMORY, "good")
    assert isinstance(run.ending, OutOfMemory)
    assert good.ending == Completed()


def sized_runs(scratch: Path, *ops: str, gpu: RealGpu = H200) -> list[Run]:
    tuned = {op.name: Case(op=op.id, dims={"T": 4, "D": 16}, dtype=DType.FP16, device=BLACKWELL) for op in SIZED}
    return sized_runs_of(scratch, [tuned[op] for op in ops], gpu)


def sized_runs_of(scratch: Path, cases: list[Case], gpu: RealGpu = H200) -> list[Run]:
    sized = replace(
        spec_of(scratch, COMPILE_AHEAD.factory, compiler_environment(gpu))(BLACKWELL), suites=(SIZED_SUITE,)
    )
    with Pool(lambda _: sized, 1, LIMIT_S) as pool:
        return [pool.run(case) for case in cases]


@pytest.mark.nightly
def test_the_config_that_is_launched_is_compiled_and_no_other(tmp_path: Path) -> None:
    (op,) = (op for op in SIZED if op.name == "second_fits")
    fitting = {"product_kernel": 1}
    case = Case(op=op.id, dims={"T": 4, "D": 16}, dtype=DType.FP16, device=BLACKWELL, seed=0, configs=fitting)
    assert is_sampled(case)  # on the virtual GPU all its configs are compiled
    (run,) = sized_runs_of(tmp_path, [case])
    assert run.ending == Completed()
    assert len(list(tmp_path.rglob("*.cubin"))) == 1


def test_builds_of_a_row_check_are_compiled_ahead(tmp_path: Path) -> None:
    (op,) = (op for op in SIZED if op.name == "has_rows")
    case = Case(op=op.id, dims={"T": 2, "D": 16}, dtype=DType.FP16, device=BLACKWELL, seed=0)
    assert asks_for_other_rows(op, case)
    _, _, trials = arrangements(op, case)
    assert [trial.case.dims["T"] for trial in trials] == [1]  # Triton compiles a size of 1 as a constant
    unchecked, checked = sized_runs_of(tmp_path, [replace(case, seed=UNSAMPLED_SEED), case])
    assert (unchecked.ending, checked.ending) == (Completed(), Completed())
    both_gpus = 2  # the hardware, and the emulated GPU, on which a build must fit too
    assert len(list(tmp_path.rglob("*.cubin"))) == 2 * both_gpus


@pytest.mark.nightly
def test_a_config_too_large_for_the_emulated_gpu_is_skipped(tmp_path: Path) -> None:
    fits, fails = sized_runs(tmp_path, "second_fits", "none_fits")
    assert fits.ending == Completed()
    assert isinstance(fails.ending, Raised)
    assert fails.ending.kind == "OutOfResources"
    assert "Required: 131072, Hardware limit: 101376" in fails.ending.message  # of the build for the emulated GPU


@pytest.mark.nightly
def test_a_kernel_fits_if_its_build_for_the_emulated_gpu_fits(
    tmp_path: Path,
) -> None:
    first, again = sized_runs(tmp_path, "fits_there", "fits_there")
    assert (first.ending, again.ending) == (Completed(), Completed())


@pytest.mark.nightly
def test_a_kernel_too_large_for_the_hardware_only_is_unsupported(tmp_path: Path) -> None:
    small = replace(H200, shared_bytes_per_block=120_000)
    for run in sized_runs(tmp_path, "fits_there", "fits_there", gpu=small):
        assert isinstance(run.ending, Unsupported)
        assert run.ending.what == (
            "product_kernel: the NVIDIA H200 refuses its build for sm_90 (out of resource: shared memory, "
            "Required: 131072, Hardware limit: 120000. Reducing block sizes or `num_stages` may help), "
            "which says nothing of the one for sm_120"
        )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("device", "ending", "message"),
    [(profile_of(H200), Raised, "PTXASError"), (BLACKWELL, Unsupported, "refuses its build for sm_90 (PTXAS error")],
    ids=["same-device", "other-device"],
)
def test_refused_ptx_is_unsupported_if_another_gpu_is_emulated(
    tmp_path: Path, device: DeviceProfile, ending: type[Ending], message: str
) -> None:
    (op,) = load_ops((UNASSEMBLED_SUITE,), ())
    spec = replace(
        spec_of(tmp_path, COMPILE_AHEAD.factory, compiler_environment(H200))(device), suites=(UNASSEMBLED_SUITE,)
    )
    with Pool(lambda _: spec, 1, LIMIT_S) as pool:
        run = pool.run(Case(op=op.id, dims={"T": 4}, dtype=DType.FP32, device=device))
    assert isinstance(run.ending, ending)
    assert message in str(run.ending)


@pytest.mark.gpu
def test_on_hardware_workers_reuse_the_builds_made_ahead(tmp_path: Path, gpu: RealGpu) -> None:
    device = profile_of(gpu)
    run_ahead(tmp_path, "good", device=device, gpu=gpu)
    kept = tmp_path / f"triton{FULL_CACHE_SUFFIX}"
    before = set(kept.rglob("*"))
    assert any(path.suffix == ".cubin" for path in before)
    with Pool(spec_of(tmp_path, CUDA.factory), 1, LIMIT_S, PoolOptions(gpus=GpuAssigner((gpu,), print))) as pool:
        assert pool.run(case_of("good", device)).ending == Completed()
    assert set(kept.rglob("*")) == before


def test_large_inputs_are_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_numbers, "LARGE", 8)
    seen: list[torch.Tensor] = []

    def call(x: torch.Tensor, w: torch.Tensor | None) -> torch.Tensor:
        seen.append(x.detach().clone())
        return rms_norm_call(x, w)

    ending = Uncompared(nullcontext).run_unread(replace(RMS_NORM, call=call), norm_case(rows=3, columns=4))
    assert ending == Completed()
    assert not seen[0].any()
