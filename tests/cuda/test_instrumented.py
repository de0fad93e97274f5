"""Triton's own sanitizers without a GPU: what is refused, what is compiled, and how the driver's lines are read."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.cuda.instrumentation import (
    LEAST_TRITON,
    Instrumenting,
    instrumenting,
    of_this_process,
    with_records,
)
from harness.cuda.suppressions import Suppression
from harness.cuda.wearing import compiling_for
from harness.devices import catalogue
from harness.errors import MissingPart, UsageError
from harness.model.case import Case, DType
from harness.model.instrumented import Instrumentation, Instrumented
from harness.model.run import Completed, Faulted, FaultOf, Run
from harness.model.sanitizer import SanitizerRecord
from harness.search.options import AHEAD, CUDA, VIRTUAL, sanitizing_for
from harness.virtual.triton_seam import WHOLE
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.cuda import unordered
from tests.cuda.samples import H200

SUITE = str(Path(unordered.__file__))
BLACKWELL = catalogue.find("rtx-pro-6000")
NOWHERE = Path("no such file")
HAS_THEM = tuple(map(int, version("triton").split(".")[:2])) >= LEAST_TRITON
needs_them = pytest.mark.skipif(not HAS_THEM, reason=f"Triton {version('triton')} has no sanitizers that work")
RACE = "Write after write race detected"
PRINTED = (
    f"/home/me/kernels.py:8: : block: [63,0,0], thread: [34,0,0] Assertion `{RACE}` failed.\n"
    f"/home/me/kernels.py:8: : block: [63,0,0], thread: [35,0,0] Assertion `{RACE}` failed.\n"
    "/home/me/kernels.py:9: unknown: block: [1,0,0], thread: [0,0,0] Assertion `too high` failed.\n"
)
"""As an H200's driver prints them (580.159.04, Triton 3.9.0)."""


def asked(mode: Instrumentation, *options: str) -> Instrumenting:
    return Instrumenting(mode=mode, version="3.9.0", options=options)


def ended(asserts: tuple[str, ...] = ("too high",), fault: FaultOf = FaultOf.DEVICE_ASSERT) -> Run:
    case = Case(op=f"{SUITE}:good", dims={"T": 1}, dtype=DType.FP32, device=BLACKWELL)
    watched = Instrumented(mode=Instrumentation.GSAN, version="3.9.0", launches=1, asserts=asserts)
    ending = Faulted(fault=fault, message="device-side assert triggered", launch="add_one")
    return Run(case=case, engine="cuda", ending=ending, instrumented=watched)


def records(run: Run, *accepted: Suppression) -> tuple[SanitizerRecord, ...]:
    told = with_records(run, PRINTED, accepted).instrumented
    assert told is not None
    return told.records


def test_what_the_driver_prints_is_one_record_for_each_line_and_kind() -> None:
    (race,) = records(ended())
    assert (race.text, race.count, race.at.kernel, race.at.program, race.at.thread) == (
        RACE,
        2,
        "add_one",
        (63, 0, 0),
        (34, 0, 0),
    )
    assert str(race.at.source) == "kernels.py:8"


def test_what_a_kernel_asserts_itself_is_none() -> None:
    assert {one.text for one in records(ended(asserts=()))} == {RACE, "too high"}
    assert records(ended(asserts=("too high", RACE))) == ()


def test_nothing_is_read_of_what_another_fault_printed() -> None:
    assert records(ended(fault=FaultOf.ILLEGAL_ADDRESS)) == ()
    assert records(replace(ended(), ending=Completed())) == ()


def test_an_accepted_one_keeps_its_reason() -> None:
    (race,) = records(ended(), Suppression(tool="gsan", text="Write after write", reason="both store the same"))
    assert race.accepted == "both store the same"


def test_a_worker_is_told_the_sanitizer_and_its_options() -> None:
    once = asked(Instrumentation.GSAN, "--write-once")
    assert str(once) == "gsan --write-once"
    assert of_this_process({}) is None
    if HAS_THEM:
        told = of_this_process(dict(once.environment))
        assert told is not None
        assert (told.mode, told.options) == (once.mode, once.options)


def test_an_older_triton_has_none_and_the_virtual_gpu_does_nothing_with_them() -> None:
    with pytest.raises(UsageError, match="add --engine cuda"):
        sanitizing_for("gsan", VIRTUAL, NOWHERE)
    if HAS_THEM:
        assert sanitizing_for("consan", CUDA, NOWHERE) == replace(
            asked(Instrumentation.CONSAN), version=version("triton")
        )
        return
    with pytest.raises(MissingPart, match=r"gsan is a part of Triton 3\.9, and 3\.\S+ is installed: pip install"):
        sanitizing_for("gsan", CUDA, NOWHERE)


def test_an_option_that_it_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match="--write-once"):
        instrumenting("gsan --write-one")
    with pytest.raises(UsageError, match="consan"):
        instrumenting("consan --write-once")


def test_a_gpu_that_is_too_old_is_told_what_watches_there() -> None:
    old = replace(H200, name="NVIDIA A100", capability=(8, 0))
    asked(Instrumentation.GSAN).check(old)
    with pytest.raises(UsageError, match=r"9\.0 or later, and the NVIDIA A100 has 8\.0: --sanitizer racecheck"):
        asked(Instrumentation.CONSAN).check(old)


@needs_them
@pytest.mark.parametrize("mode", list(Instrumentation))
def test_kernels_are_compiled_ahead_with_the_checks(mode: Instrumentation, tmp_path: Path) -> None:
    spec = WorkerSpec(
        device=BLACKWELL,
        suites=(SUITE,),
        scratch=str(tmp_path),
        engine=AHEAD,
        environment=(*compiling_for(H200), *asked(mode).environment),
        instrumenting=asked(mode),
    )
    case = Case(op=f"{SUITE}:multiplies", dims={"T": 64}, dtype=DType.FP32, device=BLACKWELL)
    with Pool(lambda _: spec, 1, 120.0) as pool:
        assert pool.run(case).ending == Completed()  # GSan takes an H200's shared memory, more than is pretended
    (ptx,) = (tmp_path / f"triton{WHOLE}").rglob("add_products.ptx")
    assert f"__triton_{mode}_" in ptx.read_text(encoding="utf-8")
