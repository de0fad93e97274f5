"""Blame on hardware asks the hardware for other builds, and the virtual GPU in a pool of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.hardware_blame import Blame
from harness.model.paired_run import RunRequest, assembly_of, case_of
from harness.model.run import Run
from harness.oracles import registry
from harness.search.hardware_runs import HardwareBlaming
from harness.search.judge import Judge
from harness.workers.pool import Pool
from tests.engines.cuda.samples import H200
from tests.search.fakes import OP, ImmediateRunner, facts, with_dims
from tests.workers.setting import DEADLINE_S, specs

JUDGE = Judge(oracles=(registry.find("write-overlap"),))
CASE = with_dims(T=3)
SHOWN = JUDGE.judge(OP, facts(CASE, lambda _: True), {})


@dataclass
class Hardware(ImmediateRunner):
    """Shows the failure unless kernels are assembled otherwise."""

    make: Callable[[Case], Run] = lambda case: facts(case, lambda _: True)
    requests: list[RunRequest] = field(default_factory=list[RunRequest])

    def run_alone(self, request: RunRequest, *_: Any, **__: Any) -> Run:
        self.requests.append(request)
        return facts(case_of(request), lambda _: assembly_of(request) is None)


class VirtualPool(Pool):
    """A pool whose runs show nothing, as the virtual GPU's do for a miscompilation."""

    def run_alone(self, request: RunRequest, *_: Any, **__: Any) -> Run:
        return facts(case_of(request), lambda _: False)


def test_other_builds_run_on_the_hardware_and_one_run_is_virtual(tmp_path: Path) -> None:
    hardware = Hardware()
    pools: list[Pool] = []

    def new_virtual() -> Pool:
        pools.append(VirtualPool(specs(tmp_path), 1, DEADLINE_S))
        return pools[-1]

    blaming = HardwareBlaming(hardware, new_virtual, JUDGE, H200)
    for _ in range(2):
        *_, blame = blaming.blames(SHOWN.fails[0], OP, SHOWN)
        assert blame.blame is Blame.ASSEMBLER
        assert blame.assembler.endswith("for sm_90a")
        assert blame.kernels == (SHOWN.run.launches[0].kernel,)
    blaming.close()
    assert len(pools) == 1
    assert {assembly is not None for assembly in map(assembly_of, hardware.requests)} == {False, True}
    with pytest.raises(WorkerError, match="closed"):
        list(blaming.blames(SHOWN.fails[0], OP, SHOWN))


def test_one_failure_claims_a_cause() -> None:
    blaming = HardwareBlaming(Hardware(), lambda: pytest.fail("not needed"), JUDGE, H200)
    mine = SHOWN.fails[0].signature
    assert blaming.claims("a cause", mine)
    assert blaming.claims("a cause", mine)
    assert not blaming.claims("a cause", replace(mine, place="elsewhere"))
    assert blaming.claims("another cause", replace(mine, place="elsewhere"))
