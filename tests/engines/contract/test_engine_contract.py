"""Every engine of the harness keeps the contract, and an engine that breaks it is told how."""

import pytest

from harness import catalogue
from harness.engines.contract.engine_contract import broken_obligations
from harness.engines.cuda.gpus.inventory import profile_of, real_gpus
from harness.errors import MissingPart
from harness.model.engine_traits import COMPARISON, CUDA, PTX, PTX_COMPARISON, VIRTUAL, EngineTraits
from harness.workers.gpu_assignment import GpuAssigner

H200 = catalogue.find("h200")
FORGETFUL = EngineTraits(
    name="forgetful", factory="tests.engines.contract.forgetful_engine:ForgetfulEngine", has_provenance=True
)


@pytest.mark.parametrize("engine", [VIRTUAL, PTX, PTX_COMPARISON], ids=str)
def test_an_engine_without_a_gpu_keeps_the_contract(engine: EngineTraits) -> None:
    assert broken_obligations(engine, H200) == {}


@pytest.mark.gpu
@pytest.mark.parametrize("engine", [CUDA, COMPARISON], ids=str)
def test_an_engine_on_hardware_keeps_the_contract(engine: EngineTraits) -> None:
    try:
        gpu = real_gpus()[0]
    except MissingPart as missing:
        pytest.skip(str(missing))
    assert broken_obligations(engine, profile_of(gpu), GpuAssigner((gpu,), print)) == {}


def test_a_broken_engine_is_named_by_what_it_breaks() -> None:
    broken = broken_obligations(FORGETFUL, H200)
    assert sorted(broken) == [
        "completes_right_kernels",
        "has_provenance",
        "makes_paired_runs",
        "names_case_and_engine",
        "records_launches",
        "sees_wrong_values",
        "survives_errors",
    ]
    assert broken["names_case_and_engine"] == ("the run names the engine 'nameless', its traits 'forgetful'",)
    assert broken["has_provenance"] == (
        "the engine declares provenance, and does not report the tensor of a store beyond its end",
    )
