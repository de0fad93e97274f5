"""Every oracle finds its planted bug, shrinks it to the stated case, and passes the repaired kernel."""

import os
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci.fault_suite import faults
from harness import catalogue
from harness.engines.jax.jax_releases import missing_release
from harness.model.case import Case, GradMode
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import Options
from harness.search.plan import CaseBudget, Plan
from harness.search.session import Session
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import Triage
from harness.suite import load_suite
from tests.engines.cuda.comparison import differing
from tests.engines.cuda.sanitizers import unordered

FOLDER = Path(os.path.relpath(Path(__file__).parents[2] / "suites" / "planted"))
"""The names of suites decide what is drawn, so they must not depend on the folder of the checkout."""
FILES = sorted(FOLDER.glob("*.py"))
NO_JAX = missing_release()
RUNNABLE = [file for file in FILES if not (NO_JAX and file.stem.startswith("jax_"))]
DEVICE = catalogue.find("rtx-pro-6000")
CASES = 24
PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One class of bug, as its suite file declares it."""

    op: Op
    repaired: Op
    oracle: str
    smallest: dict[str, int]
    cases: int
    grad_mode: GradMode
    frozen: tuple[str, ...]


def planted(file: Path) -> Planted:
    stated = runpy.run_path(str(file))
    op, repaired = load_suite(str(file))
    return Planted(
        op=op,
        repaired=repaired,
        oracle=stated["ORACLE"],
        smallest=stated["SMALLEST"],
        cases=stated.get("CASES", CASES),
        grad_mode=GradMode(stated.get("GRAD_MODE", GradMode.ENABLED)),
        frozen=stated.get("FROZEN", ()),
    )


class Unwatched:
    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        pass

    def sighted(self, fail: Fail, trial: Trial) -> None:
        pass


def session_of(files: list[Path], time_limit_s: float) -> Session:
    return Session(
        Options(
            suites=tuple(map(str, files)),
            ops=(),
            devices=(DEVICE,),
            budget=CaseBudget(cases=CASES),
            seed=1,
            processes=PROCESSES,
            time_limit_s=time_limit_s,
        )
    )


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session for all files, so that Triton is loaded once."""
    with session_of(RUNNABLE, time_limit_s=60.0) as opened:
        yield opened


def search(session: Session, op: Op, cases: int = CASES) -> CampaignStatistics:
    plan = Plan(ops=(op,), devices=(DEVICE,), budget=CaseBudget(cases=cases), seed=1, fixed_sm_count=True)
    return Campaign(plan, CampaignWorkers(runner=session.pool, processes=PROCESSES), session.judge, Unwatched()).run()


def finding_of(session: Session, statistics: CampaignStatistics, oracle: str) -> Finding:
    sightings = {sighting.fail.oracle: sighting for sighting in statistics.in_order()}
    assert oracle in sightings, (
        f"seen: {sorted(sightings)}; {statistics.abstained} abstained: {dict(statistics.reasons)}"
    )
    triage = Triage(runner=session.pool, judge=session.judge, trying=lambda _: None)
    return triage.finding(sightings[oracle], ShrinkLimits())


ON_HARDWARE = {"agreement", "compute-sanitizer", "repeatability", "triton-sanitizer"}
"""Oracles that need hardware.

Their planted bugs are in `ci/fault_suite`, and in `differing.py` and `unordered.py` under `tests/engines/cuda`.
"""


def test_every_oracle_has_a_planted_bug() -> None:
    assert {planted(file).oracle for file in FILES} == {oracle.name for oracle in registry.ALL} - ON_HARDWARE
    under_a_tool = {"compute-sanitizer"} if faults.REPORTING_TOOL else set[str]()
    under_a_tool |= {"triton-sanitizer"} if unordered.REPORTING_TOOL else set[str]()
    expected = {oracle for oracle, _ in (*faults.EXPECTED.values(), *differing.EXPECTED.values())}
    assert under_a_tool | expected >= ON_HARDWARE


BY_NAME = [
    pytest.param(file, id=file.stem, marks=[] if file in RUNNABLE else [pytest.mark.skip(reason=NO_JAX)])
    for file in FILES
]


@pytest.mark.slow
class TestEachPlantedBug:
    @pytest.mark.parametrize("file", BY_NAME)
    def test_the_bug_is_found_and_shrinks_to_the_smallest_case(self, session: Session, file: Path) -> None:
        bug = planted(file)
        finding = finding_of(session, search(session, bug.op, bug.cases), bug.oracle)
        assert finding.confirmed
        assert finding.fail.signature.oracle == bug.oracle
        assert finding.case.dims == bug.smallest
        assert (finding.case.grad_mode, finding.case.frozen) == (bug.grad_mode, bug.frozen)

    @pytest.mark.parametrize("file", BY_NAME)
    def test_the_repaired_twin_does_not_fail(self, session: Session, file: Path) -> None:
        bug = planted(file)
        statistics = search(session, bug.repaired, bug.cases)
        assert [str(signature) for signature in statistics.sightings] == []
        assert statistics.passed == statistics.cases > 0
