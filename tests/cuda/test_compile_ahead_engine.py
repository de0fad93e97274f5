"""Compiling ahead needs no GPU: kernels for the one that is described lie in the cache, and nothing is launched."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cuda.emulation import compiling_for
from harness.cuda.gpus.inventory import RealGpu, profile_of
from harness.devices import catalogue
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Run, Unsupported
from harness.search.options import AHEAD, CUDA, load_ops
from harness.virtual.driver.triton_seam import WHOLE
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.cuda import faults, sized, unassembled
from tests.cuda.samples import H200

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


def ran(scratch: Path, *ops: str, device: DeviceProfile = BLACKWELL, gpu: RealGpu = H200) -> list[Run]:
    """By a fresh process that compiles for a GPU."""
    with Pool(spec_of(scratch, AHEAD, compiling_for(gpu)), 1, LIMIT_S) as pool:
        return [pool.run(case_of(op, device)) for op in ops]


def targets(scratch: Path) -> dict[str, tuple[str, int]]:
    """By kernel, what it was compiled for."""
    kept = (scratch / f"triton{WHOLE}").rglob("*.cubin")
    described = {cubin.stem: json.loads(cubin.with_suffix(".json").read_text(encoding="utf-8")) for cubin in kept}
    return {kernel: (one["target"]["backend"], one["target"]["arch"]) for kernel, one in described.items()}


def test_kernels_are_compiled_for_the_gpu_at_hand_whatever_device_is_pretended(tmp_path: Path) -> None:
    (run,) = ran(tmp_path, "good")
    assert (run.engine, run.ending) == ("ahead", Completed())
    assert run.seconds["compile"] > 0
    assert targets(tmp_path) == {"add_one": ("cuda", 90)}
    assert not (tmp_path / "triton").exists()  # the virtual GPU's


def test_another_process_finds_them(tmp_path: Path) -> None:
    ran(tmp_path, "good", device=profile_of(H200))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("add_one.*")}
    (again,) = ran(tmp_path, "good")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("add_one.*")} == before
    assert again.ending == Completed()


def test_what_would_spin_or_stray_on_a_gpu_is_compiled_and_not_launched(tmp_path: Path) -> None:
    runs = ran(tmp_path, "spins", "stores_far_outside", "fails_assertion")
    assert [run.ending for run in runs] == [Completed()] * 3
    assert set(targets(tmp_path)) >= {"spin", "store_at", "assert_below"}


def test_a_case_that_asks_for_more_memory_than_there_is_ends_there_too(tmp_path: Path) -> None:
    run, good = ran(tmp_path, faults.NO_MEMORY, "good")
    assert isinstance(run.ending, OutOfMemory)
    assert good.ending == Completed()


def sized_runs(scratch: Path, *ops: str, gpu: RealGpu = H200) -> list[Run]:
    tuned = {op.name: Case(op=op.id, dims={"T": 4, "D": 16}, dtype=DType.FP16, device=BLACKWELL) for op in SIZED}
    sized = replace(spec_of(scratch, AHEAD, compiling_for(gpu))(BLACKWELL), suites=(SIZED_SUITE,))
    with Pool(lambda _: sized, 1, LIMIT_S) as pool:
        return [pool.run(tuned[op]) for op in ops]


def test_a_config_that_does_not_fit_the_gpu_that_is_pretended_gives_way_ahead_too(tmp_path: Path) -> None:
    fits, fails = sized_runs(tmp_path, "second_fits", "none_fits")
    assert fits.ending == Completed()
    assert isinstance(fails.ending, Raised)
    assert fails.ending.kind == "OutOfResources"
    assert "Required: 131072, Hardware limit: 101376" in fails.ending.message  # as the pretended one compiles it


def test_what_fits_as_the_gpu_that_is_pretended_compiles_it_fits_though_the_one_at_hand_takes_more(
    tmp_path: Path,
) -> None:
    first, again = sized_runs(tmp_path, "fits_there", "fits_there")
    assert (first.ending, again.ending) == (Completed(), Completed())


def test_what_is_too_large_for_the_gpu_at_hand_alone_is_not_the_pretended_ones_fault(tmp_path: Path) -> None:
    small = replace(H200, shared_bytes_per_block=120_000)
    for run in sized_runs(tmp_path, "fits_there", "fits_there", gpu=small):
        assert isinstance(run.ending, Unsupported)
        assert run.ending.what == (
            "product_kernel: the NVIDIA H200 refuses its build for sm_90 (out of resource: shared memory, "
            "Required: 131072, Hardware limit: 120000. Reducing block sizes or `num_stages` may help), "
            "which says nothing of the one for sm_120"
        )


@pytest.mark.parametrize(
    ("device", "ending", "said"),
    [(profile_of(H200), Raised, "PTXASError"), (BLACKWELL, Unsupported, "refuses its build for sm_90 (PTXAS error")],
    ids=["its-own", "another"],
)
def test_what_the_assembler_refuses_says_nothing_of_a_gpu_that_has_another(
    tmp_path: Path, device: DeviceProfile, ending: type[Ending], said: str
) -> None:
    (op,) = load_ops((UNASSEMBLED_SUITE,), ())
    spec = replace(spec_of(tmp_path, AHEAD, compiling_for(H200))(device), suites=(UNASSEMBLED_SUITE,))
    with Pool(lambda _: spec, 1, LIMIT_S) as pool:
        run = pool.run(Case(op=op.id, dims={"T": 4}, dtype=DType.FP32, device=device))
    assert isinstance(run.ending, ending)
    assert said in str(run.ending)


@pytest.mark.gpu
@pytest.mark.once
def test_on_hardware_the_gpus_own_process_compiles_nothing_that_was_compiled_ahead(
    tmp_path: Path, gpu: RealGpu
) -> None:
    device = profile_of(gpu)
    ran(tmp_path, "good", device=device, gpu=gpu)
    kept = tmp_path / f"triton{WHOLE}"
    before = set(kept.rglob("*"))
    assert any(path.suffix == ".cubin" for path in before)
    with Pool(spec_of(tmp_path, CUDA), 1, LIMIT_S, places=GpuAssigner((gpu,), print)) as pool:
        assert pool.run(case_of("good", device)).ending == Completed()
    assert set(kept.rglob("*")) == before
