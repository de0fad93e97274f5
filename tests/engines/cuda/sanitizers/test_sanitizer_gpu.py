"""On hardware: each tool of compute-sanitizer reports its planted mistake, and nothing in good cases."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci.fault_suite import faults
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers import sanitizer_command
from harness.errors import MissingPart
from harness.model.case import Case, DType
from harness.model.compute_sanitizer_report import Sanitized, Tool
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.settings import Settings
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec

pytestmark = pytest.mark.gpu

SUITE = str(Path(faults.__file__))
KERNELS = Path(faults.__file__).with_name("fault_kernels.py")
LIMIT_S = 120.0
SETTINGS = Settings.from_environment(os.environ)
QUICK = 20
"""The number of cases whose time is measured."""
QUICK_S = 2.0
"""The limit for each, less than half the time of starting a tool."""

RunsUnder = Callable[..., list[Run]]


@pytest.fixture(scope="module")
def runs_under(gpu: RealGpu, device: DeviceProfile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsUnder]:
    """Run ops one after the other in a worker under a tool, which later tests reuse."""
    try:
        sanitizer_command.find(SETTINGS)
    except MissingPart as missing:
        pytest.skip(str(missing))
    scratch = str(tmp_path_factory.mktemp("scratch"))
    pools: dict[Tool, Pool] = {}

    def under(tool: Tool) -> Pool:
        spec = WorkerSpec(
            device=device,
            suites=(SUITE,),
            scratch=scratch,
            engine=CUDA.factory,
            sanitizing=sanitizer_command.sanitizing(tool, SETTINGS),
            load_limit_s=600.0,
        )
        return Pool(lambda _: spec, 1, LIMIT_S, PoolOptions(gpus=GpuAssigner((gpu,), print)))

    def runs(tool: Tool, *ops: str) -> list[Run]:
        if tool not in pools:
            pools[tool] = under(tool)
        return [pools[tool].run(case(op, device, seed)) for seed, op in enumerate(ops, 1)]

    yield runs
    for pool in pools.values():
        pool.close()


def case(op: str, device: DeviceProfile, seed: int) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 16}, dtype=DType.FP32, device=device, seed=8 * seed + 1)


def report_of(run: Run) -> Sanitized:
    assert run.sanitizer is not None
    return run.sanitizer


def statement_of(text: str) -> str:
    return next(line.strip() for line in KERNELS.read_text(encoding="utf-8").splitlines() if text in line)


def assert_silent(runs: list[Run]) -> None:
    for run in runs:
        assert isinstance(run.ending, Completed), run.ending
        watched = report_of(run)
        assert (watched.records, watched.unproven, watched.incomplete) == ((), "", "")
        assert watched.launches == len(run.launches) > 0


def blamed(run: Run) -> list[tuple[str, str]]:
    """Return kernel and place of each failure of the oracle."""
    verdicts = registry.judge_all(run, {}, {}, oracles=(registry.find("compute-sanitizer"),))
    return [(verdict.signature.kernel, verdict.signature.place) for verdict in verdicts if isinstance(verdict, Fail)]


def test_memcheck_names_kernel_and_statement_of_bad_stores(runs_under: RunsUnder) -> None:
    good, outside, well, far, fine, misaligned, last = runs_under(
        Tool.MEMCHECK, "good", "stores_just_outside", "good", "stores_far_outside", "good", "misaligned", "good"
    )
    assert_silent([good, well, fine, last])
    store = statement_of("tl.store(y + element")
    for run in (outside, far):
        assert blamed(run) == [("store_at", f"memcheck: fault_kernels.py: {store} out of bounds write")], report_of(run)
        (record,) = report_of(run).records
        assert (record.at.program, record.size_bytes, record.space) == ((0, 0, 0), 4, "global")
        assert Path(record.at.source.file if record.at.source else "").name == "fault_kernels.py"
    ((kernel, place),) = blamed(misaligned)
    assert (kernel, place) == (
        "store_misaligned",
        f"memcheck: fault_kernels.py: {statement_of('tl.store(at, 7.0)')} misaligned write",
    )


def test_initcheck_names_the_statement_that_reads_uninitialised_memory(runs_under: RunsUnder) -> None:
    good, unwritten, last = runs_under(Tool.INITCHECK, "good", "reads_uninitialised", "good")
    assert_silent([good, last])
    load = statement_of("unknown = tl.load")
    assert [kernel for kernel, _ in blamed(unwritten)] == ["add_times_zero"], report_of(unwritten)
    assert f"fault_kernels.py: {load}" in blamed(unwritten)[0][1]


def test_racecheck_names_the_kernel_whose_threads_race(runs_under: RunsUnder) -> None:
    good, racing, last = runs_under(Tool.RACECHECK, "good", "races_in_shared_memory", "good")
    assert_silent([good, last])
    records = report_of(racing).records
    assert {(record.at.kernel, record.what) for record in records} == {("race_in_shared_memory", "race")}, records
    assert any(record.at.direction == "write" or record.others for record in records), records


def test_synccheck_is_silent_on_good_cases(runs_under: RunsUnder) -> None:
    assert_silent(runs_under(Tool.SYNCCHECK, "good", "good"))


@pytest.mark.parametrize("tool", list(Tool))
def test_a_warm_worker_runs_cases_quickly(
    tool: Tool, runs_under: RunsUnder, record_property: Callable[[str, object], None]
) -> None:
    first = runs_under(tool, "good")  # starts the tool, unless an earlier test did
    began = time.perf_counter()
    runs = runs_under(tool, *["good"] * QUICK)
    took_s = (time.perf_counter() - began) / QUICK
    assert_silent([*first, *runs])
    record_property("case_s", round(took_s, 4))
    print(f"{tool}: {took_s * 1000:.0f} ms a case")  # noqa: T201 - shown with -s
    assert took_s < QUICK_S
