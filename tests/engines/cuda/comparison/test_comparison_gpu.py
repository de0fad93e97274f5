"""On hardware: each launch of the virtual GPU is repeated, and only rounding may differ."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from triton.backends.nvidia.compiler import get_ptxas_version

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.virtual.operations.table import HANDLERS
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPARISON
from harness.model.launch_difference import Plainer
from harness.model.run import Completed, Run
from harness.model.verdict import Fail
from harness.oracles.agreement import EXPLAINED_BY
from harness.oracles.completes import STAYS
from harness.search.judge import Judge
from harness.search.options import load_ops
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from tests import plugin
from tests.engines.cuda.comparison import differing
from tests.engines.cuda.conftest import LIMIT_S

pytestmark = pytest.mark.gpu

SUITE = str(Path(differing.__file__))
OPS = {op.name: op for op in load_ops((SUITE,), ())}
REPOSITORY = Path(__file__).parents[4]
NOT_COMPARED = {
    "tt.assert": "a failing one destroys the CUDA context",
    "tt.print": "it leaves nothing in memory",
    "tt.cat": "the order of its elements is open",
    "tt.int_to_ptr": "addresses in memory differ between GPUs",
    "tt.grid_dependency_wait": "it orders launches, which are sequential here",
    "tt.grid_dependency_launch_dependents": "as above",
    **dict.fromkeys(("tt.atomic_load", "tt.atomic_poll", "tt.atomic_store"), "Triton has it from 3.9 on"),
    **dict.fromkeys(("tt.approx_divf", "ttg.barrier"), "Triton has it from 3.9 on"),
    **dict.fromkeys(
        (
            "arith.bitcast",
            "arith.ceildivsi",
            "arith.floordivsi",
            "arith.index_cast",
            "arith.index_castui",
            "arith.negf",
            "math.roundeven",
            "math.tanh",
            "ub.poison",
        ),
        "no function of triton.language 3.6 generates it alone",
    ),
    "tt.descriptor_gather": "ptxas supports it from compute capability 10.0 on",
    "tt.descriptor_scatter": "as above",
}
"""Operations that no launch compares, with the reason."""
PLUGINS = ("--tb=short", "-p", "no:cacheprovider", "-p", "no:benchmark")
"""pytest-benchmark, if installed, warns about pytest-xdist, and warnings are errors here."""


@pytest.fixture(scope="module")
def pool(gpu: RealGpu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    scratch = str(tmp_path_factory.mktemp("scratch"))

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=device, suites=(SUITE,), scratch=scratch, engine=COMPARISON.factory)

    with Pool(spec, 1, LIMIT_S, PoolOptions(gpus=GpuAssigner((gpu,), print))) as made:
        yield made


def judged(pool: Pool, device: DeviceProfile, op: str) -> tuple[Run, tuple[Fail, ...]]:
    case = Case(op=f"{SUITE}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device, seed=1)
    examined = Judge().examine(OPS[op], case, pool.run)
    return examined.run, examined.fails


def test_an_equal_launch_is_compared_tensor_by_tensor(pool: Pool, device: DeviceProfile, gpu: RealGpu) -> None:
    run, found = judged(pool, device, "agrees")
    assert (run.ending, found) == (Completed(), ())
    assert run.agreement is not None
    # Exact arithmetic, which one case in some gets as well, is compared with no machine.
    assert (run.agreement.gpu, run.agreement.launches, run.agreement.skipped) == (gpu.name, 1, ())
    assert [(one.argument, one.differing) for one in run.agreement.differences] == [("x", 0), ("y", 0)]


@pytest.mark.parametrize("op", ["differs_by_cancelling", "differs_by_what_tensor_cores_cut"])
def test_rounding_explains_differences_after_cancellation(pool: Pool, device: DeviceProfile, op: str) -> None:
    run, found = judged(pool, device, op)
    assert run.agreement is not None
    y = run.agreement.differences[-1]
    assert (y.argument, y.is_explained, found) == ("y", True, ())
    assert y.scaled > y.few_roundings
    assert y.doubt is not None


def test_a_difference_beyond_rounding_is_a_failure(pool: Pool, device: DeviceProfile) -> None:
    _, (fail,) = judged(pool, device, "stores_its_address")
    assert (fail.signature.oracle, fail.signature.place) == differing.EXPECTED["stores_its_address"]
    assert fail.signature.kernel == "add_one_and_address"


def test_a_ptxas_miscompilation_agrees_without_optimisation(pool: Pool, device: DeviceProfile, gpu: RealGpu) -> None:
    run, found = judged(pool, device, "multiplies_by_two_widths")
    assert run.agreement is not None
    if gpu.capability != (9, 0) or "release 12.8" not in get_ptxas_version(gpu.arch):
        assert found == ()
        return
    (fail,) = found
    assert (fail.signature.oracle, fail.signature.place) == ("agreement", "z")
    assert fail.message.endswith("; they agree once ptxas does not optimise")
    assert fail.meaning == EXPLAINED_BY[Plainer.UNOPTIMISED]


def test_sums_that_differ_between_lanes_agree_without_fusion(pool: Pool, device: DeviceProfile) -> None:
    _, (fail,) = judged(pool, device, "copies_sums_of_products")
    assert (fail.signature.oracle, fail.signature.place) == ("agreement", "y")
    assert fail.message.endswith("; they agree once no product is fused into a sum")
    assert fail.meaning == EXPLAINED_BY[Plainer.UNFUSED]


def test_a_fault_on_hardware_only_is_repeated_without_optimisation(pool: Pool, device: DeviceProfile) -> None:
    run, (fail,) = judged(pool, device, "strays_on_hardware_only")
    assert run.memory == ()
    assert (fail.signature.oracle, fail.signature.place) == ("completes", "illegal memory access")
    assert fail.signature.kernel == "store_far_outside_unless_at"
    assert fail.message.endswith(STAYS)


def test_a_stray_launch_is_not_repeated_on_hardware(pool: Pool, device: DeviceProfile) -> None:
    run, found = judged(pool, device, "strays_on_both_gpus")
    assert run.agreement is not None
    assert run.agreement.skipped == (("store_at", "memory saw Stray"),)
    assert [fail.signature.oracle for fail in found] == ["bounds"]


def test_every_ttir_operation_gives_equal_results(gpu: RealGpu, tmp_path: Path) -> None:
    del gpu
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/engines/virtual",
            "-n",
            "auto",
            "--tb=short",
            *PLUGINS,
            *plugin.arguments(),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "HARNESS_BESIDE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20000:]
    compared = {name for file in tmp_path.iterdir() for name in file.read_text(encoding="utf-8").splitlines()}
    assert HANDLERS.keys() - compared - NOT_COMPARED.keys() == set()
