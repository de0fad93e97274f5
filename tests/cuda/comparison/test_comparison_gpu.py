"""On hardware: each launch of the virtual GPU is repeated on the real one, and what differs must be rounding."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from triton.backends.nvidia.compiler import get_ptxas_version

from harness.cuda.gpus.inventory import RealGpu
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.launch_difference import Plainer
from harness.model.run import Completed, Run
from harness.model.verdict import Fail
from harness.oracles.agreement import WITHOUT
from harness.oracles.completes import STAYS
from harness.search.judge import Judge
from harness.search.options import BOTH, load_ops
from harness.virtual.operations.table import HANDLERS
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests import plugin
from tests.cuda.comparison import differing
from tests.cuda.conftest import LIMIT_S

pytestmark = [pytest.mark.gpu, pytest.mark.once]

SUITE = str(Path(differing.__file__))
OPS = {op.name: op for op in load_ops((SUITE,), ())}
REPOSITORY = Path(__file__).parents[3]
ELSEWHERE = {
    "tt.assert": "a failing one ends the CUDA context",
    "tt.print": "it leaves nothing in memory",
    "tt.cat": "the order of its elements is open",
    "tt.int_to_ptr": "the addresses in memory are others on another GPU",
    "tt.grid_dependency_wait": "it orders launches, which here follow one another",
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
        "no word of triton.language 3.6 makes it by itself",
    ),
    "tt.descriptor_gather": "ptxas knows it from compute capability 10.0 on",
    "tt.descriptor_scatter": "as above",
}
"""Operations that no launch compares, and why."""
PLUGINS = ("--tb=short", "-p", "no:cacheprovider", "-p", "no:benchmark")
"""pytest-benchmark, where it is installed, warns of pytest-xdist; a warning is an error here."""


@pytest.fixture(scope="module")
def pool(gpu: RealGpu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    scratch = str(tmp_path_factory.mktemp("scratch"))

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=device, suites=(SUITE,), scratch=scratch, engine=BOTH)

    with Pool(spec, 1, LIMIT_S, places=GpuAssigner((gpu,), print)) as made:
        yield made


def judged(pool: Pool, device: DeviceProfile, op: str) -> tuple[Run, tuple[Fail, ...]]:
    case = Case(op=f"{SUITE}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device, seed=1)
    examined = Judge().examine(OPS[op], case, pool.run)
    return examined.run, examined.fails


def test_a_launch_that_both_execute_alike_is_compared_tensor_by_tensor(
    pool: Pool, device: DeviceProfile, gpu: RealGpu
) -> None:
    run, found = judged(pool, device, "agrees")
    assert (run.ending, found) == (Completed(), ())
    assert run.agreement is not None
    assert (run.agreement.gpu, run.agreement.launches, run.agreement.skipped) == (gpu.name, 1, ())
    assert [(one.argument, one.differing) for one in run.agreement.differences] == [("x", 0), ("y", 0)]


@pytest.mark.parametrize("op", ["differs_by_cancelling", "differs_by_what_tensor_cores_cut"])
def test_what_cancels_differs_and_rounding_explains_it(pool: Pool, device: DeviceProfile, op: str) -> None:
    run, found = judged(pool, device, op)
    assert run.agreement is not None
    y = run.agreement.differences[-1]
    assert (y.argument, y.is_explained, found) == ("y", True, ())
    assert y.scaled > y.few_roundings
    assert y.doubt is not None


def test_what_differs_without_rounding_is_a_failure(pool: Pool, device: DeviceProfile) -> None:
    _, (fail,) = judged(pool, device, "tells_its_address")
    assert (fail.signature.oracle, fail.signature.place) == differing.EXPECTED["tells_its_address"]
    assert fail.signature.kernel == "add_one_and_tell_address"


def test_what_ptxas_makes_wrong_code_of_is_said_to_agree_once_it_does_not_optimise(
    pool: Pool, device: DeviceProfile, gpu: RealGpu
) -> None:
    run, found = judged(pool, device, "multiplies_by_two_widths")
    assert run.agreement is not None
    if gpu.capability != (9, 0) or "release 12.8" not in get_ptxas_version(gpu.arch):
        assert found == ()
        return
    (fail,) = found
    assert (fail.signature.oracle, fail.signature.place) == ("agreement", "z")
    assert fail.message.endswith("; they agree once ptxas does not optimise")
    assert fail.meaning == WITHOUT[Plainer.UNOPTIMISED]


def test_sums_that_differ_from_lane_to_lane_are_said_to_agree_once_no_product_is_fused_into_them(
    pool: Pool, device: DeviceProfile
) -> None:
    _, (fail,) = judged(pool, device, "copies_sums_of_products")
    assert (fail.signature.oracle, fail.signature.place) == ("agreement", "y")
    assert fail.message.endswith("; they agree once no product is fused into a sum")
    assert fail.meaning == WITHOUT[Plainer.UNFUSED]


def test_a_launch_that_strays_on_the_real_gpu_alone_is_made_again_without_optimisation(
    pool: Pool, device: DeviceProfile
) -> None:
    run, (fail,) = judged(pool, device, "strays_on_the_real_gpu_alone")
    assert run.memory == ()
    assert (fail.signature.oracle, fail.signature.place) == ("completes", "illegal memory access")
    assert fail.signature.kernel == "store_far_outside_unless_at"
    assert fail.message.endswith(STAYS)


def test_a_launch_that_strays_stays_away_from_the_real_gpu(pool: Pool, device: DeviceProfile) -> None:
    run, found = judged(pool, device, "strays_on_the_real_gpu")
    assert run.agreement is not None
    assert run.agreement.skipped == (("store_at", "memory saw Stray"),)
    assert [fail.signature.oracle for fail in found] == ["bounds"]


def test_every_operation_of_ttir_leaves_the_same_on_both(gpu: RealGpu, tmp_path: Path) -> None:
    del gpu
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/virtual",
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
    assert HANDLERS.keys() - compared - ELSEWHERE.keys() == set()
