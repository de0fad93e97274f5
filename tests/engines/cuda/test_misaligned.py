"""Misaligned tensor descriptors: the virtual GPU reports what ends the launch on hardware."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.model.run import Completed, Faulted, FaultOf
from harness.search.judge import Judge
from harness.search.options import load_ops
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.engines.cuda import misaligned
from tests.engines.cuda.conftest import LIMIT_S, PoolOf

SUITE = str(Path(misaligned.__file__))
OPS = {op.name: op for op in load_ops((SUITE,), ())}
FAULTS = sorted(OPS.keys() - {"aligned"})


def case_of(op: str, device: DeviceProfile) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device, seed=1)


def test_the_virtual_gpu_reports_each_misalignment_and_nothing_else(tmp_path: Path) -> None:
    device = catalogue.find("h200")

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=device, suites=(SUITE,), scratch=str(tmp_path), engine=VIRTUAL.factory)

    with Pool(spec, 1, LIMIT_S) as pool:
        found = {name: Judge().examine(op, case_of(name, device), pool.run).fails for name, op in OPS.items()}
    assert {name: [fail.signature.oracle for fail in fails] for name, fails in found.items()} == {
        "aligned": [],
        **{name: ["descriptor-alignment"] for name in FAULTS},
    }


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("op", "fault"), [("tensor", FaultOf.MISALIGNED_ADDRESS), ("block", FaultOf.ILLEGAL_INSTRUCTION)]
)
def test_on_hardware_a_misaligned_tensor_or_block_ends_the_launch(
    pool_of: PoolOf, device: DeviceProfile, gpu: RealGpu, op: str, fault: FaultOf
) -> None:
    skip_before_hopper(gpu)
    pool = pool_of(SUITE)
    ending = pool.run(case_of(op, device)).ending
    assert isinstance(ending, Faulted), ending
    assert (ending.fault, ending.launch) == (fault, "move_block")
    assert pool.run(case_of("aligned", device)).ending == Completed()


@pytest.mark.gpu
def test_on_hardware_misaligned_rows_give_wrong_values(pool_of: PoolOf, device: DeviceProfile, gpu: RealGpu) -> None:
    skip_before_hopper(gpu)
    examined = Judge().examine(OPS["rows"], case_of("rows", device), pool_of(SUITE).run)
    assert examined.run.ending == Completed()
    assert [fail.signature.oracle for fail in examined.fails] == ["float64-values"]


def skip_before_hopper(gpu: RealGpu) -> None:
    if gpu.capability < (9, 0):
        pytest.skip(f"on {gpu.name} descriptors are plain pointers")
