"""Triton's own sanitizers without a GPU: options, compiled checks, and parsing of the driver's output."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.cuda.emulation import compiler_environment
from harness.engines.cuda.sanitizers.fpsan_runs import INEXACT, compare_configs
from harness.engines.cuda.sanitizers.instrumentation import (
    Instrumenting,
    instrumentation_from,
    instrumenting,
    with_records,
    works_in,
)
from harness.engines.cuda.sanitizers.instrumented_builds import SANITIZER_CALLS, assertion_texts, obstacle
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.engines.triton.triton_seam import FULL_CACHE_SUFFIX
from harness.errors import MissingPart, UsageError
from harness.execution.paired_run_policy import with_another_config
from harness.model.case import Case, DType
from harness.model.compute_sanitizer_report import SanitizerRecord
from harness.model.engine_traits import COMPILE_AHEAD, CUDA, VIRTUAL
from harness.model.run import Completed, Faulted, FaultOf, Launch, Run
from harness.model.triton_sanitizer_report import Differing, Instrumentation, Instrumented
from harness.search.options import sanitizer_for
from harness.settings import Settings
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.engines.cuda.samples import H200
from tests.engines.cuda.sanitizers import unordered
from tests.oracles.facts import launch

SUITE = str(Path(unordered.__file__))
BLACKWELL = catalogue.find("rtx-pro-6000")
NOWHERE = Path("no such file")
HAS_SANITIZERS = works_in(version("triton"))
needs_sanitizers = pytest.mark.skipif(
    not HAS_SANITIZERS, reason=f"Triton {version('triton')} has no sanitizers that work"
)
RACE = "Write after write race detected"
PRINTED = (
    f"/home/me/kernels.py:8: : block: [63,0,0], thread: [34,0,0] Assertion `{RACE}` failed.\n"
    f"/home/me/kernels.py:8: : block: [63,0,0], thread: [35,0,0] Assertion `{RACE}` failed.\n"
    "/home/me/kernels.py:9: unknown: block: [1,0,0], thread: [0,0,0] Assertion `too high` failed.\n"
)
"""As an H200's driver prints them (580.159.04, Triton 3.9.0)."""


def instrumenting_with(mode: Instrumentation, *options: str) -> Instrumenting:
    return Instrumenting(mode=mode, version="3.9.0", options=options)


def ended(asserts: tuple[str, ...] = ("too high",), fault: FaultOf = FaultOf.DEVICE_ASSERT) -> Run:
    case = Case(op=f"{SUITE}:good", dims={"T": 1}, dtype=DType.FP32, device=BLACKWELL)
    watched = Instrumented(mode=Instrumentation.GSAN, version="3.9.0", launches=1, asserts=asserts)
    ending = Faulted(fault=fault, message="device-side assert triggered", launch="add_one")
    return Run(case=case, engine="cuda", ending=ending, instrumented=watched)


def records(run: Run, *accepted: Suppression) -> tuple[SanitizerRecord, ...]:
    report = with_records(run, PRINTED, accepted).instrumented
    assert report is not None
    return report.records


def test_the_drivers_output_gives_one_record_per_line_and_kind() -> None:
    (race,) = records(ended())
    assert (race.text, race.count, race.at.kernel, race.at.program, race.at.thread) == (
        RACE,
        2,
        "add_one",
        (63, 0, 0),
        (34, 0, 0),
    )
    assert str(race.at.source) == "kernels.py:8"


def test_a_kernels_own_assertions_are_no_records() -> None:
    assert {record.text for record in records(ended(asserts=()))} == {RACE, "too high"}
    assert records(ended(asserts=("too high", RACE))) == ()


def test_assertion_texts_are_decoded_as_the_driver_prints_them() -> None:
    ttir = r"""
    tt.assert %4, "no \22big\22 x" : tensor<64xi1>
    tt.assert %6, "gr\C3\B6\C3\9Fer \\ kleiner" : i1
"""
    assert assertion_texts(ttir) == {'no "big" x', "größer \\ kleiner"}


def test_other_faults_and_completed_runs_have_no_records() -> None:
    assert records(ended(fault=FaultOf.ILLEGAL_ADDRESS)) == ()
    assert records(replace(ended(), ending=Completed())) == ()


def test_an_accepted_record_carries_its_reason() -> None:
    (race,) = records(ended(), Suppression(tool="gsan", text="Write after write", reason="both store the same"))
    assert race.accepted == "both store the same"


def test_a_workers_environment_names_the_sanitizer_and_its_options() -> None:
    once = instrumenting_with(Instrumentation.GSAN, "--write-once")
    assert str(once) == "gsan --write-once"
    assert instrumentation_from({}) is None
    if HAS_SANITIZERS:
        found = instrumentation_from(dict(once.environment))
        assert found is not None
        assert (found.mode, found.options) == (once.mode, once.options)


def test_an_older_triton_and_the_virtual_gpu_have_no_sanitizers() -> None:
    with pytest.raises(UsageError, match="add --engine cuda"):
        sanitizer_for("gsan", VIRTUAL, NOWHERE, Settings())
    if HAS_SANITIZERS:
        assert sanitizer_for("consan", CUDA, NOWHERE, Settings()) == replace(
            instrumenting_with(Instrumentation.CONSAN), version=version("triton")
        )
        return
    with pytest.raises(MissingPart, match=r"gsan is a part of Triton 3\.9, and 3\.\S+ is installed: pip install"):
        sanitizer_for("gsan", CUDA, NOWHERE, Settings())


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="--write-once"):
        instrumenting("gsan --write-one")
    with pytest.raises(UsageError, match="consan"):
        instrumenting("consan --write-once")
    with pytest.raises(UsageError, match="--sanitizer gsan 'x: No closing quotation"):
        instrumenting("gsan 'x")


def test_a_gpu_that_is_too_old_gets_an_alternative() -> None:
    old = replace(H200, name="NVIDIA A100", capability=(8, 0))
    instrumenting_with(Instrumentation.GSAN).check(old)
    with pytest.raises(UsageError, match=r"9\.0 or later, and the NVIDIA A100 has 8\.0: --sanitizer racecheck"):
        instrumenting_with(Instrumentation.CONSAN).check(old)


@needs_sanitizers
@pytest.mark.parametrize("mode", list(Instrumentation))
def test_kernels_are_compiled_ahead_with_the_checks(mode: Instrumentation, tmp_path: Path) -> None:
    spec = WorkerSpec(
        device=BLACKWELL,
        suites=(SUITE,),
        scratch=str(tmp_path),
        engine=COMPILE_AHEAD.factory,
        environment=(*compiler_environment(H200), *instrumenting_with(mode).environment),
        instrumenting=instrumenting_with(mode),
    )
    case = Case(op=f"{SUITE}:multiplies", dims={"T": 64}, dtype=DType.FP32, device=BLACKWELL)
    with Pool(lambda _: spec, 1, 120.0) as pool:
        assert (
            pool.run(case).ending == Completed()
        )  # GSan reserves an H200's shared memory, more than the emulated GPU has
    suffix, call = SANITIZER_CALLS[mode]
    (made,) = (tmp_path / f"triton{FULL_CACHE_SUFFIX}").rglob(f"add_products{suffix}")
    assert call in made.read_text(encoding="utf-8")


@needs_sanitizers
def test_an_allocator_that_cannot_be_built_is_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert obstacle(instrumenting_with(Instrumentation.GSAN)).startswith(
        "GSan's allocator cannot be built, which takes a C++ compiler ("
    )
    assert obstacle(instrumenting_with(Instrumentation.CONSAN)) == ""


def tuned(kernel: str, index: int, count: int = 3) -> Launch:
    return launch(kernel=kernel, config=f"WIDTH: {16 << index}", config_index=index, config_count=count)


def test_fpsan_compares_with_another_config_of_a_tuned_kernel() -> None:
    case = ended().case
    assert with_another_config(case, (launch(),)) is None
    for seed in range(12):
        changed = with_another_config(replace(case, seed=seed), (launch(), tuned("a", 1), tuned("b", 2)))
        assert changed is not None
        kernel, other = changed
        assert other.configs[kernel] in {"a": (0, 2), "b": (0, 1)}[kernel]


def test_fpsan_compares_the_bits_of_results_that_kernels_stored() -> None:
    stored = ("sum_rows", "y")
    first = {"y": ("1", stored), "z": ("2", stored), "total": ("3", None)}
    second = {"y": ("1", stored), "z": ("9", stored), "total": ("9", None)}
    exact = compare_configs("sum_rows", ((tuned("sum_rows", 0),), (tuned("sum_rows", 2),)), first, second)
    assert (exact.configs, exact.compared) == (("WIDTH: 16", "WIDTH: 64"), ("y", "z"))
    assert exact.differing == (Differing(name="z", writer=stored),)


@pytest.mark.parametrize(
    "needs",
    [
        "%5 = arith.maxnumf %3, %4 : f32",
        "%cst = arith.constant dense<0xFF800000> : tensor<16xf32>",
        "%cst = arith.constant 0xFC00 : f16",
        "%9 = tt.atomic_rmw fadd, acq_rel, gpu, %8, %7, %true : (!tt.ptr<f32>, f32, i1) -> f32",
    ],
)
def test_operations_that_fpsan_computes_inexactly_are_found_in_ttir(needs: str) -> None:
    assert INEXACT.search(needs)
    assert not INEXACT.search("%5 = arith.addf %3, %4 : tensor<16xf32>\n%c = arith.constant dense<0.000000e+00> : f32")
