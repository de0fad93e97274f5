"""On hardware: each tool of compute-sanitizer sees its planted mistake among good cases, and nothing in those."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cuda import sanitizer
from harness.cuda.gpus import RealGpu
from harness.errors import MissingPart
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.run import Completed, Run
from harness.model.sanitizer import Sanitized, Tool
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.options import CUDA
from harness.workers.places import GpuPlaces
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.cuda import fault_kernels, faults

pytestmark = [pytest.mark.gpu, pytest.mark.once]

SUITE = str(Path(faults.__file__))
KERNELS = Path(str(fault_kernels.__file__))
LIMIT_S = 120.0
QUICK = 20
"""Cases of which the time is measured."""

RunsUnder = Callable[..., list[Run]]


@pytest.fixture
def runs_under(gpu: RealGpu, device: DeviceProfile, tmp_path: Path) -> Iterator[RunsUnder]:
    """The runs of these ops, one after the other, in workers under a tool."""
    try:
        sanitizer.find()
    except MissingPart as missing:
        pytest.skip(str(missing))
    pools: list[Pool] = []

    def runs(tool: Tool, *ops: str) -> list[Run]:
        spec = WorkerSpec(
            device=device,
            suites=(SUITE,),
            scratch=str(tmp_path / "scratch"),
            engine=CUDA,
            sanitizing=sanitizer.sanitizing(tool),
            load_limit_s=600.0,
        )
        pools.append(Pool(lambda _: spec, 1, LIMIT_S, places=GpuPlaces((gpu,), print)))
        return [pools[-1].run(case(op, device, seed)) for seed, op in enumerate(ops, 1)]

    yield runs
    for pool in pools:
        pool.close()


def case(op: str, device: DeviceProfile, seed: int) -> Case:
    return Case(op=f"{SUITE}:{op}", dims={"T": 16}, dtype=DType.FP32, device=device, seed=8 * seed + 1)


def seen(run: Run) -> Sanitized:
    assert run.sanitizer is not None
    return run.sanitizer


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(KERNELS.read_text().splitlines(), 1) if text in line)


def assert_silent(runs: list[Run]) -> None:
    for run in runs:
        assert isinstance(run.ending, Completed), run.ending
        watched = seen(run)
        assert (watched.records, watched.unproven, watched.incomplete) == ((), "", "")
        assert watched.launches == len(run.launches) > 0


def blamed(run: Run) -> list[tuple[str, str]]:
    """Kernel and place of each failure that the oracle makes of it."""
    verdicts = registry.judge_all(run, {}, {}, oracles=(registry.find("compute-sanitizer"),))
    return [(verdict.signature.kernel, verdict.signature.place) for verdict in verdicts if isinstance(verdict, Fail)]


def test_memcheck_names_kernel_and_line_of_what_leaves_its_allocation(runs_under: RunsUnder) -> None:
    good, outside, well, far, fine, misaligned, last = runs_under(
        Tool.MEMCHECK, "good", "stores_just_outside", "good", "stores_far_outside", "good", "misaligned", "good"
    )
    assert_silent([good, well, fine, last])
    store = line_of("tl.store(y + element")
    for run in (outside, far):
        assert blamed(run) == [("store_at", f"memcheck: fault_kernels.py:{store} out of bounds write")], seen(run)
        (record,) = seen(run).records
        assert (record.at.program, record.size_bytes, record.space) == ((0, 0, 0), 4, "global")
        assert Path(record.at.source.file if record.at.source else "").name == "fault_kernels.py"
    ((kernel, place),) = blamed(misaligned)
    assert (kernel, place) == (
        "store_misaligned",
        f"memcheck: fault_kernels.py:{line_of('tl.store(at, 7.0)')} misaligned write",
    )


def test_initcheck_names_the_line_that_reads_what_nobody_wrote(runs_under: RunsUnder) -> None:
    good, unwritten, last = runs_under(Tool.INITCHECK, "good", "reads_uninitialised", "good")
    assert_silent([good, last])
    load = line_of("unknown = tl.load")
    assert [kernel for kernel, _ in blamed(unwritten)] == ["add_times_zero"], seen(unwritten)
    assert f"fault_kernels.py:{load}" in blamed(unwritten)[0][1]


def test_racecheck_names_the_kernel_whose_threads_race(runs_under: RunsUnder) -> None:
    good, racing, last = runs_under(Tool.RACECHECK, "good", "races_in_shared_memory", "good")
    assert_silent([good, last])
    records = seen(racing).records
    assert {(record.at.kernel, record.what) for record in records} == {("race_in_shared_memory", "race")}, records
    assert any(record.at.direction == "write" or record.others for record in records), records


def test_synccheck_is_silent_on_what_is_right(runs_under: RunsUnder) -> None:
    assert_silent(runs_under(Tool.SYNCCHECK, "good", "good"))


@pytest.mark.parametrize("tool", list(Tool))
def test_cases_follow_each_other_quickly_in_one_warm_worker(
    tool: Tool, runs_under: RunsUnder, record_property: Callable[[str, object], None]
) -> None:
    began = time.perf_counter()
    first = runs_under(tool, "good")
    ready = time.perf_counter()
    runs = runs_under(tool, *["good"] * QUICK)
    again = time.perf_counter()
    assert_silent([*first, *runs])
    shares = sorted(sum(run.seconds.values()) for run in runs)
    record_property("first_case_s", round(ready - began, 2))
    record_property("all_s", round(again - ready, 2))
    record_property("median_case_s", round(shares[QUICK // 2], 4))
    took_ms = shares[QUICK // 2] * 1000
    print(f"{tool}: first case after {ready - began:.1f} s, then {took_ms:.0f} ms a case")  # noqa: T201 - shown with -s
    assert shares[QUICK // 2] < 2.0
    assert again - ready < 1.5 * (ready - began) + 2.0 * QUICK  # one run of the tool, not one for each case
