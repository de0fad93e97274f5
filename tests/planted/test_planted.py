"""Every oracle finds its planted bug, shrinks it to the stated case, and passes the repaired kernel."""

import os
import runpy
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import MarkDecorator

from ci.fault_suite import faults
from harness import catalogue
from harness.engines.jax.jax_releases import missing_release
from harness.execution.reruns import seed_asking
from harness.model.case import Case, GradMode, Scale
from harness.model.engine_traits import VIRTUAL, EngineTraits, traits_of_engine
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.paired_run import SecondRun
from harness.model.verdict import Fail, Outcome
from harness.oracles import registry
from harness.oracles.resources import FitsResources
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.judge import Examination
from harness.search.options import Options
from harness.search.session import Session
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import COMPILER_S, Triage
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
    engine: EngineTraits


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
        engine=traits_of_engine(stated.get("ENGINE", str(VIRTUAL))),
    )


class Unwatched:
    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        pass

    def sighted(self, fail: Fail, trial: Trial) -> None:
        pass


def session_of(files: list[Path], time_limit_s: float, engine: EngineTraits = VIRTUAL) -> Session:
    return Session(
        Options(
            engine=engine,
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


@contextmanager
def on_its_engine(session: Session, bug: Planted, file: Path) -> Generator[Session]:
    """Yield the session of all files, or one of its own for a bug that another engine shows."""
    if bug.engine is VIRTUAL:
        yield session
        return
    with session_of([file], time_limit_s=60.0, engine=bug.engine) as own:
        yield own


def search(session: Session, op: Op, cases: int = CASES) -> CampaignStatistics:
    plan = CampaignPlan(ops=(op,), devices=(DEVICE,), budget=CaseBudget(cases=cases), seed=1, fixed_sm_count=True)
    return Campaign(plan, CampaignWorkers(runner=session.pool, processes=PROCESSES), session.judge, Unwatched()).run()


def _found(session: Session, bug: Planted, file: Path) -> Finding:
    """Return the finding of the bug; where the compiler decides, in a session that compiles nothing of earlier bugs."""
    if bug.oracle != FitsResources.name:
        with on_its_engine(session, bug, file) as suited:
            return finding_of(suited, search(suited, bug.op, bug.cases), bug.oracle)
    with session_of([file], time_limit_s=60.0) as own:
        return finding_of(own, search(own, bug.op, bug.cases), bug.oracle)


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


def params(files: Iterable[Path], marked: Iterable[Path] = (), mark: MarkDecorator = pytest.mark.nightly) -> list[Any]:
    skipped = pytest.mark.skip(reason=NO_JAX)
    marks = {file: [] if file in RUNNABLE else [skipped] for file in files}
    for file in marked:
        marks[file].append(mark)
    return [pytest.param(file, id=file.stem, marks=each) for file, each in marks.items()]


def cost(file: Path) -> tuple[bool, int, str]:
    """JAX takes long to load, and a bug that few cases show takes many."""
    return file.stem.startswith("jax_"), runpy.run_path(str(file)).get("CASES", CASES), file.stem


def cheapest_of_each_oracle() -> set[Path]:
    costly_first = sorted(RUNNABLE, key=cost, reverse=True)
    return set({runpy.run_path(str(file))["ORACLE"]: file for file in costly_first}.values())


REPRESENTATIVES = cheapest_of_each_oracle()
"""`make test` searches these; the others it only replays, and with the newest Triton not even that."""


@pytest.mark.slow
class TestEachPlantedBug:
    @pytest.mark.parametrize("file", params(FILES, set(FILES) - REPRESENTATIVES))
    def test_the_bug_is_found_and_shrinks_to_the_smallest_case(self, session: Session, file: Path) -> None:
        bug = planted(file)
        finding = _found(session, bug, file)
        assert finding.confirmed
        assert finding.fail.signature.oracle == bug.oracle
        assert finding.case.dims == bug.smallest
        assert (finding.case.grad_mode, finding.case.frozen) == (bug.grad_mode, bug.frozen)

    @pytest.mark.nightly
    @pytest.mark.parametrize("file", params(FILES))
    def test_the_repaired_twin_does_not_fail(self, session: Session, file: Path) -> None:
        bug = planted(file)
        with on_its_engine(session, bug, file) as suited:
            statistics = search(suited, bug.repaired, bug.cases)
        assert [str(signature) for signature in statistics.sightings] == []
        assert statistics.passed == statistics.cases > 0


def seed_of(second_run: SecondRun) -> int:
    """Return a seed of cases that get this second run."""
    return seed_asking(0, (second_run,))


AXES: Mapping[str, dict[str, Any]] = {
    "every_config_failed": {"absent": ("bias",)},
    "index_overflow": {"scale": Scale.OVERSIZED},
    "shared_config": {"seed": seed_of(SecondRun.KEYS)},
    "tuned_for_each_length": {"seed": seed_of(SecondRun.KEYS)},
    "tuned_in_threads": {"seed": seed_of(SecondRun.THREADS)},
    "freed_workspace": {"seed": seed_of(SecondRun.GRAPH)},
    "kept_beside_streams": {"seed": seed_of(SecondRun.GRAPH)},
    "unordered_streams": {"seed": seed_of(SecondRun.GRAPH)},
    "unreset_gradient": {"seed": seed_of(SecondRun.GRAPH)},
    "unreset_total": {"seed": seed_of(SecondRun.GRAPH)},
}
"""What the smallest case of a bug needs besides its dims and gradients, by the name of its file."""


def replayed(session: Session, bug: Planted, op: Op, axes: Mapping[str, Any]) -> Examination:
    """Run the smallest case alone, and judge it by the oracle of the bug."""
    dims, dtype = bug.smallest, op.dtypes[0]
    case = Case(op=op.id, dims=dims, dtype=dtype, device=DEVICE, grad_mode=bug.grad_mode, frozen=bug.frozen, **axes)
    judge = session.judge.only(bug.oracle)
    examined = judge.examine(op, case, session.pool.run_alone)
    waits = bug.oracle == FitsResources.name
    return judge.judge_when_compiled(op, examined.run, session.pool.run_alone, COMPILER_S) if waits else examined


@pytest.mark.slow
@pytest.mark.parametrize("file", params(FILES, REPRESENTATIVES, pytest.mark.both))
def test_the_smallest_case_fails_and_its_repaired_twin_does_not(session: Session, file: Path) -> None:
    bug, axes = planted(file), AXES.get(file.stem, {})
    with on_its_engine(session, bug, file) as suited:
        assert bug.oracle in {fail.oracle for fail in replayed(suited, bug, bug.op, axes).fails}
        assert replayed(suited, bug, bug.repaired, axes).outcome is Outcome.PASS
