"""Reproducers run as programs, with and without the parts that they need."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import catalogue
from harness.cli import main
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.findings.recorded_cases import Recorded
from harness.findings.repro import build
from harness.findings.repro.build import Form, Reproducers, make, run_alone
from harness.model.case import CallContext, Case, DType
from harness.model.host_configs import PickedConfig
from harness.model.verdict import Severity, Signature
from harness.wire import to_json

ROOT = Path(__file__).resolve().parents[3]
PLANTED = ROOT / "suites" / "planted"
H200 = catalogue.find("h200")
BOTH = (Form.ENTRY, Form.KERNEL)

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of running a file."""

    status: int
    output: str


def run(text: str, folder: Path, *before: Path) -> Ended:
    """Run a reproducer's text as a program; `before` come first on Python's path."""
    file = folder / "reproducer.py"
    file.write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*before, ROOT)))}
    done = subprocess.run(
        [sys.executable, str(file)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Ended(status=done.returncode, output=done.stdout + done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongElement:
    """What a message says of a wrong element."""

    element: str
    got: float
    expected: float


def wrong_element(message: str) -> WrongElement:
    parts = re.search(r"(\S+) is (\S+) (?:without any rounding, )?where the float64 reference gives (\S+):", message)
    assert parts is not None, message
    return WrongElement(element=parts[1], got=float(parts[2]), expected=float(parts[3]))


def planted(name: str, oracle: str, kernel: str, place: str, **dims: int) -> Recorded:
    """What a search of a planted suite records."""
    op = f"{PLANTED / name}.py:{name}"
    signature = Signature(oracle=oracle, severity=Severity.ERROR, op=op, kernel=kernel, place=place)
    if oracle == "write-overlap":
        signature = Signature(oracle=oracle, severity=Severity.WARNING, op=op, kernel=kernel, place=place)
    return Recorded(case=Case(op=op, dims=dims, dtype=DType.FP32, device=H200), signature=signature)


OVERLAP = planted("overlapping_store", "write-overlap", "double_kernel", "overlapping_store.py:14", T=9)
PADDED = planted("padded_rows", "result-structure", "", "y shape", T=3)
DROPPED = planted("dropped_term", "float64-values", "silu_grad_kernel", "dx", T=3)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the harness keeps its own files during these tests."""
    folder = tmp_path_factory.mktemp("workplace")
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def printed() -> Iterator[dict[str, str]]:
    """What each file printed last when it was confirmed, by the file's text."""
    lines = dict[str, str]()

    def noting(text: str, paths: tuple[str, ...]) -> tuple[int, str]:
        status, lines[text] = run_alone(text, paths)
        return status, lines[text]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "run_alone", noting)
        yield lines


@pytest.fixture(scope="module")
def padded(workplace: Path) -> Reproducers:
    del workplace
    return make(PADDED, (), BOTH, lambda _: None)


@pytest.fixture(scope="module")
def overlap(workplace: Path, printed: dict[str, str]) -> Reproducers:
    del workplace, printed
    return make(OVERLAP, (), BOTH, lambda _: None)


@pytest.fixture(scope="module")
def dropped(workplace: Path) -> Reproducers:
    del workplace
    return make(DROPPED, (), BOTH, lambda _: None)


def text_of(made: Reproducers, form: Form) -> str:
    (file,) = (one for one in made.files if one.form is form)
    assert file.problem == ""
    return file.text


@pytest.mark.both
def test_an_overlap_exits_with_1_and_a_fixed_kernel_with_0(
    overlap: Reproducers, printed: dict[str, str], tmp_path: Path
) -> None:
    text = text_of(overlap, Form.ENTRY)  # without a problem, so it has exited with 1
    assert printed[text].startswith("write-overlap: y[8] was stored by programs 0 and 1, with the same bytes")
    fixed = run(text.replace("rows_per_program=8", "rows_per_program=16"), tmp_path)
    assert (fixed.status, fixed.output[:39]) == (0, "write-overlap: passed for double_kernel")


def test_the_kernel_alone_is_written_without_its_host_code(overlap: Reproducers) -> None:
    text = text_of(overlap, Form.KERNEL)
    assert "def double(" not in text
    assert len(text.splitlines()) <= 40


def test_a_memory_fault_cannot_be_tested_without_the_harness(overlap: Reproducers, tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    ended = run(text_of(overlap, Form.ENTRY), tmp_path, tmp_path)
    assert (ended.status, ended.output) == (125, "only checked memory accesses show this: install kernel-harness\n")


@pytest.mark.nightly
def test_a_wrong_shape_disappears_with_the_fix(padded: Reproducers, tmp_path: Path) -> None:
    text = text_of(padded, Form.ENTRY)
    broken = run(text, tmp_path)
    fixed = run(text.replace("cuts=False", "cuts=True"), tmp_path)
    assert (broken.status, fixed.status) == (1, 0), fixed.output
    assert "y is float32 of shape (16,) where the definition gives float32 of shape (3,)" in broken.output
    assert padded.missing == ("no kernel-level file: the host code decides which results the op returns",)


@pytest.mark.nightly
def test_a_wrong_value_names_the_kernel_and_disappears_with_the_fix(dropped: Reproducers, tmp_path: Path) -> None:
    text = text_of(dropped, Form.ENTRY)
    fixed = run(text.replace("whole_gradient=False", "whole_gradient=True"), tmp_path)
    assert 'kernel="silu_grad_kernel"' in text
    assert (fixed.status, fixed.output[:38]) == (0, "float64-values: passed for silu_grad_k")


@pytest.mark.nightly
def test_a_reduced_kernel_still_computes_the_same_wrong_values(dropped: Reproducers, tmp_path: Path) -> None:
    ended = run(text_of(dropped, Form.KERNEL), tmp_path)
    found, shown = (wrong_element(text) for text in (dropped.subject.fail.message, ended.output))
    assert (ended.status, shown.element) == (1, found.element)
    assert (shown.got, shown.expected) == pytest.approx((found.got, found.expected), rel=1e-5)


AS_ON_A_GPU = """
import runpy, sys
from harness import catalogue
from harness.engines.virtual.engine import VirtualEngine
engine = VirtualEngine()
engine.prepare()
engine.emulate(catalogue.find("h200"))
sys.exit(runpy.run_path(sys.argv[1])["on_gpu"]())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("form", BOTH)
def test_on_a_gpu_wrong_values_are_compared_without_the_harness(
    dropped: Reproducers, form: Form, tmp_path: Path
) -> None:
    file = tmp_path / "reproducer.py"
    file.write_text(text_of(dropped, form), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_A_GPU, str(file)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path), "TORCHDYNAMO_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "times the tolerance away from the float64 reference" in done.stdout


@pytest.mark.nightly
def test_wrong_values_cannot_be_tested_without_gpu_and_harness(dropped: Reproducers, tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    ended = run(text_of(dropped, Form.ENTRY), tmp_path, tmp_path)
    assert (ended.status, ended.output) == (125, "needs a GPU, or kernel-harness, which emulates one\n")


LIBRARY_SUITE = """
from harness.suite import DType, op, tensor, tokens

@op(dims={"T": tokens(64)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def doubled(x):
    from doubling import double

    return double(x, rows_per_program=8)

@doubled.reference
def _(x):
    return x + x
"""


@pytest.mark.nightly
def test_a_missing_library_exits_with_125(workplace: Path, tmp_path: Path) -> None:
    del workplace
    library = tmp_path / "library" / "doubling"
    library.mkdir(parents=True)
    kernels = PLANTED / "kernels" / "overlapping_store.py"
    (library / "__init__.py").write_text(kernels.read_text(encoding="utf-8"), encoding="utf-8")
    suite = tmp_path / "library_suite.py"
    suite.write_text(LIBRARY_SUITE, encoding="utf-8")
    case = Case(op=f"{suite}:doubled", dims={"T": 9}, dtype=DType.FP32, device=H200)
    signature = Signature(
        oracle="write-overlap", severity=Severity.WARNING, op="", kernel="double_kernel", place="__init__.py:14"
    )
    recorded = Recorded(case=case, signature=signature, libraries=(str(library.parent),))
    text = text_of(make(recorded, (), (Form.ENTRY,), lambda _: None), Form.ENTRY)
    assert "double_kernel[" not in text
    with_it, without = run(text, tmp_path, library.parent), run(text, tmp_path)
    assert (with_it.status, without.status) == (1, 125)
    assert "cannot be tested" in without.output
    assert "doubling, which is not installed" in without.output


ONLY_HERE = """
from harness.suite import DType, beside, op, tensor, tokens

KERNELS = "overlapping_store.py"

@op(dims={"T": tokens(64)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def only_here(x):
    rows = 8 if __name__.startswith("harness_suite") else 16
    return beside(__file__, KERNELS).double(x, rows_per_program=rows)

@only_here.reference
def _(x):
    return x + x
"""


@pytest.mark.nightly
def test_an_unconfirmed_file_says_so_in_its_first_line(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del workplace
    kernels = (PLANTED / "kernels" / "overlapping_store.py").read_text(encoding="utf-8")
    (tmp_path / "overlapping_store.py").write_text(kernels, encoding="utf-8")
    (tmp_path / "suite.py").write_text(ONLY_HERE, encoding="utf-8")
    case = Case(op=f"{tmp_path}/suite.py:only_here", dims={"T": 9}, dtype=DType.FP32, device=H200)
    finding = {"case": json.loads(to_json(case)), "oracle": "write-overlap", "severity": "warning", "op": case.op}
    finding |= {
        "kind": Kind.REGRESSION,
        "schema_version": SCHEMA_VERSION,
        "kernel": "double_kernel",
        "place": "overlapping_store.py:14",
    }
    (tmp_path / "finding.json").write_text(json.dumps(finding), encoding="utf-8")
    status = main(["repro", str(tmp_path / "finding.json"), "-o", str(tmp_path / "out.py"), "--trust"])
    text = (tmp_path / "out.py").read_text(encoding="utf-8")
    assert status == 3
    assert "NOT CONFIRMED: cannot be written as code: __name__ of the suite" in capsys.readouterr().out
    assert text.startswith("# UNCONFIRMED: cannot be written as code: __name__ of the suite; run in a fresh process, ")


@pytest.mark.parametrize("text", ["import no_such_module\n", "outputs = \n", "raise RuntimeError('elsewhere')\n"])
def test_a_file_that_fails_by_itself_is_not_confirmed(text: str) -> None:
    status, _ = run_alone(text, ())
    assert status == 2


@pytest.mark.nightly
def test_the_reason_for_a_missing_kernel_form_is_reported(workplace: Path) -> None:
    del workplace
    signature = Signature(oracle="sm-invariance", severity=Severity.ERROR, op="", kernel="", place="y")
    case = Case(op=f"{PLANTED}/sm_dependent.py:sm_dependent", dims={"T": 65}, dtype=DType.FP32, device=H200)
    made = make(Recorded(case=case, signature=signature), (), (Form.KERNEL,), lambda _: None)
    assert [(file.form, file.problem) for file in made.files] == [(Form.ENTRY, "")]
    assert made.missing == ("no kernel-level file: the host code depends on the SM count",)


LIBRARY = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, T, D: tl.constexpr):
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[16, D])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[16, D])
    rows_y.store([0, 0], 2.0 * rows_x.load([0, 0]))


def double(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(1,)](x, y, x.shape[0], D=x.shape[1])
    return y


triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
"""
SUITE = """
from harness.suite import Dim, op, tensor


@op(dims={"T": Dim(low=1, high=16), "D": Dim(low=16, high=16)}, inputs={"x": tensor("T", "D", grad=False)})
def doubled(x):
    import tinylib

    return tinylib.double(x)


@doubled.reference
def _(x):
    return x + x
"""


@pytest.mark.nightly
def test_a_failure_of_a_fresh_thread_is_reproduced_in_one(workplace: Path, tmp_path: Path) -> None:
    del workplace
    library, suite = tmp_path / "library", tmp_path / "suite.py"
    (library / "tinylib").mkdir(parents=True)
    (library / "tinylib" / "__init__.py").write_text(LIBRARY, encoding="utf-8")
    suite.write_text(SUITE, encoding="utf-8")
    op = f"{suite}:doubled"
    case = Case(op=op, dims={"T": 1, "D": 16}, dtype=DType.FP32, device=H200, context=CallContext.THREAD)
    signature = Signature(
        oracle="scratch-context", severity=Severity.ERROR, op=op, kernel="double_kernel", place="tinylib.py:18"
    )
    made = make(Recorded(case=case, signature=signature), (str(library),), (Form.ENTRY,), lambda _: None)
    text = text_of(made, Form.ENTRY)
    broken = run(text, tmp_path, library)
    mended = run(text.replace('context="fresh thread"', 'context="copied context"'), tmp_path, library)
    assert (broken.status, mended.status) == (1, 0), broken.output + mended.output
    assert "the allocator that is set in the main thread is missing in a fresh thread" in broken.output


PICKED_SUITE = ROOT / "tests" / "search" / "picked_suite.py"
TUNED_LIBRARY = ROOT / "tests" / "search" / "tuned_library"


@pytest.mark.nightly
def test_a_reproducer_has_host_code_pick_the_config_of_the_case(workplace: Path, tmp_path: Path) -> None:
    del workplace
    picked = PickedConfig(function="tuned_rows.choice:get_configs", config='{"BLOCK": 32, "STEPS": 2}', key=64)
    op = f"{PICKED_SUITE}:doubled"
    case = Case(op=op, dims={"T": 1, "N": 3}, dtype=DType.FP32, device=H200, picked=(picked,))
    signature = Signature(oracle="float64-values", severity=Severity.ERROR, op=op, kernel="double_rows", place="y")
    recorded = Recorded(case=case, signature=signature, libraries=(str(TUNED_LIBRARY),))
    text = text_of(make(recorded, (), (Form.ENTRY,), lambda _: None), Form.ENTRY)
    assert "launch.get_configs = lambda *args, **kwargs: {64: {'BLOCK': 32, 'STEPS': 2}}" in text
    assert run(text, tmp_path, TUNED_LIBRARY).status == 1


ROWS_SPLIT = Recorded(
    case=Case(
        op=f"{PLANTED / 'split_by_rows'}.py:split_by_rows",
        dims={"T": 14, "D": 66},
        dtype=DType.FP32,
        device=H200,
    ),
    signature=Signature(oracle="row-invariance", severity=Severity.WARNING, op="", kernel="sums_kernel", place="y"),
)


def test_rows_in_other_company_are_computed_and_compared_by_the_file(
    workplace: Path, printed: dict[str, str], tmp_path: Path
) -> None:
    del workplace
    made = make(ROWS_SPLIT, (), BOTH, lambda _: None)
    assert made.missing == ("no kernel-level file: it shows only between two numbers or orders of rows",)
    (file,) = made.files
    assert file.problem == "", file.text  # it has exited with 1
    assert "row-invariance: only rounding differs in y[" in printed[file.text]
    fixed = run(file.text.replace("else 4", "else 1"), tmp_path)
    assert fixed.status == 0, fixed.output
