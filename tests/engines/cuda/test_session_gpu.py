"""On hardware: a session, as the commands open it, identifies each fault."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from ci.fault_suite import faults
from harness.engines.cuda import coredump
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, Faulted, TimedOut
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options, load_ops
from harness.search.session import Session
from harness.workers.supervision.time_limits import Patience

pytestmark = pytest.mark.gpu

SUITE = str(Path(faults.__file__))
LIMIT_S = 8.0
"""Includes the compilation of one small kernel.  A confirmed hang takes three times as long."""


@pytest.fixture(scope="module")
def session(gpu: RealGpu, device: DeviceProfile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    ops = load_ops((SUITE,), ())
    options = Options(
        suites=(SUITE,),
        ops=ops,
        devices=(device,),
        budget=CaseBudget(cases=len(ops)),
        seed=1,
        engine=CUDA,
        time_limit_s=LIMIT_S,
    )
    # The session writes into the working directory.
    with chdir(tmp_path_factory.mktemp("session")), Session(options, print, gpus=(gpu,)) as opened:
        yield opened


def case(op: str, device: DeviceProfile) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 4}, dtype=DType.FP32, device=device, seed=1)


@pytest.mark.parametrize("op", ["stores_far_outside", "misaligned", "fails_assertion", "crashes"])
def test_a_fault_is_reported_by_its_own_name(session: Session, device: DeviceProfile, op: str) -> None:
    run = session.pool.run(case(op, device))
    judged = session.judge.only("completes").judge(next(one for one in session.options.ops if one.name == op), run, {})
    oracle, part = faults.EXPECTED[op]
    (fail,) = judged.fails
    assert (fail.signature.oracle, part in fail.signature.place) == (oracle, True), fail.message


def test_an_assertion_keeps_its_text_and_line(session: Session, device: DeviceProfile) -> None:
    ending = session.pool.run(case("fails_assertion", device)).ending
    assert isinstance(ending, Faulted)
    assert ending.message.startswith("`a lane is too high` fails in program [0,0,0]")
    assert ending.source is not None


def test_a_confirmed_hang_has_the_line_of_the_spinning_loop(session: Session, device: DeviceProfile) -> None:
    ending = session.pool.run_alone(case("spins", device), patience=Patience.LONG).ending
    assert isinstance(ending, TimedOut)
    assert ending.launch == "spin"
    if coredump.debugger() is None:
        pytest.skip(f"the line is not known: {ending.evidence[-1]}")
    assert ending.source is not None, ending.evidence
    assert Path(ending.source.file).name == "fault_kernels.py"


def test_the_gpu_is_usable_afterwards(session: Session, device: DeviceProfile) -> None:
    assert session.pool.run(case("good", device)).ending == Completed()
