"""On hardware: each of Triton's own sanitizers reports its planted mistake, and nothing in good cases."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.instrumentation import instrumenting, works_in
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, Faulted, FaultOf, Run
from harness.model.triton_sanitizer_report import Instrumented
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles import registry
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from tests.engines.cuda.sanitizers import unordered, unordered_kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not works_in(version("triton")),
        reason=f"Triton {version('triton')} has no sanitizers that work: pip install 'triton>=3.9'",
    ),
]

SUITE = str(Path(unordered.__file__))
KERNELS = Path(str(unordered_kernels.__file__))
LIMIT_S = 120.0

RunsUnder = Callable[..., list[Run]]


@pytest.fixture
def runs_under(gpu: RealGpu, device: DeviceProfile, tmp_path: Path) -> Iterator[RunsUnder]:
    """Run ops one after the other in workers that compile with a sanitizer."""
    pools: list[Pool] = []

    def runs(wanted: str, *ops: str, emulated: DeviceProfile = device) -> list[Run]:
        choice = instrumenting(wanted)
        spec = WorkerSpec(
            device=emulated,
            suites=(SUITE,),
            scratch=str(tmp_path / "scratch"),
            engine=CUDA.factory,
            environment=choice.environment,
            instrumenting=choice,
        )
        pools.append(Pool(lambda _: spec, 1, LIMIT_S, PoolOptions(gpus=GpuAssigner((gpu,), print))))
        return [pools[-1].run(case(op, emulated, seed)) for seed, op in enumerate(ops, 1)]

    yield runs
    for pool in pools:
        pool.close()


def case(op: str, device: DeviceProfile, seed: int) -> Case:
    dtype = DType.BF16 if op == "rows_share_words" else DType.FP32
    return Case(op=f"{SUITE}:{op}", dims={"T": 64}, dtype=dtype, device=device, seed=8 * seed)


def report_of(run: Run) -> Instrumented:
    assert run.instrumented is not None
    return run.instrumented


def verdicts(run: Run, oracle: str = "triton-sanitizer") -> tuple[Verdict, ...]:
    return registry.judge_all(run, {}, {}, oracles=(registry.find(oracle),))


def assert_passes(run: Run) -> None:
    assert isinstance(run.ending, Completed), run.ending
    assert [type(one) for one in verdicts(run)] == [Pass], (verdicts(run), run.instrumented)


def places(run: Run) -> set[tuple[str, str]]:
    """Return kernel and place of each failure of the oracle."""
    assert [type(one) for one in verdicts(run, "completes")] != [Fail], run.ending  # reported only once
    return {(one.signature.kernel, one.signature.place) for one in verdicts(run) if isinstance(one, Fail)}


def line_of(text: str, after: str) -> int:
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if after in line)
    return next(number for number, line in enumerate(lines[begin:], begin + 1) if text in line)


def test_each_planted_mistake_is_reported_by_its_sanitizer(runs_under: RunsUnder) -> None:
    for op, wanted in unordered.REPORTING_TOOL.items():
        (run,) = runs_under(wanted, op)
        assert len(places(run)) == 1, (op, run.ending, run.instrumented)


def test_gsan_names_the_line_of_overlapping_stores(runs_under: RunsUnder) -> None:
    good, overlapping, fine, twice, unwritten = runs_under(
        "gsan", "good", "stores_overlap", "good", "writes_twice", "reads_unwritten"
    )
    for run in (good, fine, twice, unwritten):
        assert_passes(run)
    store = line_of("tl.store", after="def add_one_twice_as_wide")
    assert places(overlapping) == {
        ("add_one_twice_as_wide", f"gsan: unordered_kernels.py:{store} Write after write race detected")
    }
    (record,) = report_of(overlapping).records
    assert record.count > 1


def test_write_once_pools_reveal_second_writes_and_early_reads(runs_under: RunsUnder) -> None:
    good, twice, fine, unwritten, overlapping, last = runs_under(
        "gsan --write-once", "good", "writes_twice", "good", "reads_unwritten", "stores_overlap", "good"
    )
    for run in (good, fine, last):
        assert_passes(run)
    line = line_of("tl.store", after="def add_one(")
    assert places(twice) == {("add_one", f"gsan: unordered_kernels.py:{line} Write-once memory written more than once")}
    assert places(unwritten) == {
        ("add_one", f"gsan: unordered_kernels.py:{line} Read of write-once memory before its first write")
    }
    assert {kernel for kernel, _ in places(overlapping)} == {"add_one_twice_as_wide"}


def test_programs_that_store_half_a_word_each_do_not_race(runs_under: RunsUnder) -> None:
    (by_words,) = runs_under("gsan", "rows_share_words")
    assert isinstance(by_words.ending, Completed), by_words.ending
    (unknown,) = verdicts(by_words)
    assert isinstance(unknown, Abstain)
    assert unknown.reason == (
        "add_one_to_a_row stores to y, whose elements take 2 of the 4 bytes that GSan keeps account of"
    )
    (by_bytes,) = runs_under("gsan --write-once", "rows_share_words")
    assert_passes(by_bytes)


def test_consan_names_the_line_that_reads_an_unfinished_copy(runs_under: RunsUnder) -> None:
    product, early, last = runs_under("consan", "multiplies", "reads_too_early", "multiplies")
    for run in (product, last):
        assert_passes(run)
    ((kernel, place),) = places(early)
    assert kernel == "harness_self_test_consan"
    assert place.startswith("consan: kernels_gluon.py:")
    assert "pending access" in place


def test_fpsan_passes_reordered_sums_and_fails_incomplete_ones(runs_under: RunsUnder) -> None:
    whole, short, product = runs_under("fpsan", "sums_by_config", "leaves_out_by_config", "multiplies")
    assert_passes(whole)
    exact = report_of(whole).exact
    assert exact is not None
    assert exact.compared == ("y",)
    assert exact.configs[0] != exact.configs[1]
    assert places(short) == {("sum_rows", "fpsan: y")}
    (untuned,) = verdicts(product)
    assert str(untuned.reason if isinstance(untuned, Abstain) else untuned) == "no kernel of this case is autotuned"


def test_fpsan_abstains_on_operations_that_are_not_exact(runs_under: RunsUnder) -> None:
    by_torch, largest = runs_under("fpsan", "sums_what_torch_made", "takes_the_largest")
    reasons = [one.reason for run in (by_torch, largest) for one in verdicts(run) if isinstance(one, Abstain)]
    assert reasons == [
        "sum_rows loads from x, which torch has made",
        "largest_of_rows takes a maximum, meets an infinity or adds by atomics, which FpSan does not do exactly",
    ]
    others = registry.judge_all(largest, {}, {})
    assert {one.reason for one in others if isinstance(one, Abstain)} >= {registry.NO_VALUES}
    assert not any(isinstance(one, Fail | Pass) for one in others)


def test_a_kernels_own_assertion_is_no_report_of_the_sanitizer(runs_under: RunsUnder) -> None:
    (run,) = runs_under("gsan", "asserts_itself")
    assert isinstance(run.ending, Faulted)
    assert run.ending.fault is FaultOf.DEVICE_ASSERT
    assert "an element is too high" in run.ending.message
    assert places_of_completes(run) == ["assert_none"]
    assert report_of(run).records == ()


def places_of_completes(run: Run) -> list[str]:
    return [one.signature.kernel for one in verdicts(run, "completes") if isinstance(one, Fail)]


def test_gsan_works_when_less_shared_memory_is_emulated(runs_under: RunsUnder) -> None:
    small = replace(catalogue.find("rtx-pro-6000"), sm_count=188)
    good, product, overlapping = runs_under("gsan", "good", "multiplies", "stores_overlap", emulated=small)
    assert_passes(good)
    assert_passes(product)
    assert {kernel for kernel, _ in places(overlapping)} == {"add_one_twice_as_wide"}
