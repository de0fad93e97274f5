"""A thread that swallows a missing allocator, and the thread that waits for it, are named when the case hangs."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case, DType
from harness.model.run import Completed, TimedOut
from harness.oracles.hang_messages import sentence
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.supervision.time_limits import Patience

pytestmark = pytest.mark.slow

SUITE = str(Path(__file__).parents[2] / "suites" / "emulations" / "waiting_tuner.py")
B200 = catalogue.find("b200")


def case(op: str) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 1, "D": 16}, dtype=DType.FP32, device=B200)


@pytest.mark.nightly
def test_the_thread_without_an_allocator_and_the_one_that_waits_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options(
        suites=(SUITE,),
        ops=load_suite(SUITE),
        devices=(B200,),
        budget=CaseBudget(cases=2),
        seed=1,
        processes=1,
        time_limit_s=60.0,
    )
    with Session(options) as session:
        repaired = session.pool.run(case("waiting_tuner_repaired"))
        waiting = session.pool.run(case("waiting_tuner"), patience=Patience.HURRIED)
    assert repaired.ending == Completed()
    assert isinstance(waiting.ending, TimedOut)
    text = sentence(waiting.ending, waiting.engine)
    assert "the host waits (futex) in tune (waiting_tuner.py:" in text
    assert "the launch of double_kernel found no allocator for 256 bytes of scratch memory, in thread tuner" in text
