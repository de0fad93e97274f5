"""Verdicts of checks of candidates, hostile ones too, by a checker whose processes stay."""

import importlib.util
import marshal
import shutil
import struct
from collections.abc import Generator
from pathlib import Path

import pytest

from ci.check_answers import FOLDER
from harness.checks.check_verdict import CheckVerdict, Ruling
from harness.checks.checker import Checker
from harness.errors import UsageError
from harness.model.case import ValueDistribution
from harness.model.flaw_kind import FlawKind

pytestmark = pytest.mark.slow

CANDIDATES = Path(__file__).with_name("candidates.py")
LIMIT_S = 10.0
LOGARITHM = """
import torch, triton, triton.language as tl
from torch import nn

@triton.jit
def log_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.log(tl.load(x + at, mask=at < n)), mask=at < n)

class Model(nn.Module):
    def forward(self, x):
        return torch.log(x)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        log_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y

def get_inputs():
    return [torch.rand(64, 100)]

def get_init_inputs():
    return []
"""


DOUBLING = """
import sys
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

def doubled(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
"""
MARKING = """
def candidate(x):
    torch.mark_of_the_first = sys.mark_of_the_first = 1
    return doubled(x)
"""
LOOKING = """
def candidate(x):
    names = [name for name in sys.modules if name.startswith("harness_answer_") and "marking" in name]
    if names or hasattr(torch, "mark_of_the_first") or hasattr(sys, "mark_of_the_first"):
        raise RuntimeError(f"another candidate was here: {names}")
    return doubled(x)
"""
PROBLEM = """
import torch

def reference(x):
    return x * 2.0

def sample():
    return (torch.randn(64, 100),)
"""


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Generator[Checker]:
    folder = tmp_path_factory.mktemp("checks")
    shutil.copy(CANDIDATES, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with Checker(time_limit_s=LIMIT_S) as checker:
            yield checker


def verdict_on(checker: Checker, name: str, *, inputs: str = "sample") -> CheckVerdict:
    return checker.check(f"candidates.py:{name}", "candidates.py:reference", f"candidates.py:{inputs}")


def kinds(verdict: CheckVerdict) -> set[FlawKind]:
    return {flaw.kind for flaw in verdict.flaws}


def test_a_right_candidate_is_right_in_all_cases(checker: Checker) -> None:
    verdict = verdict_on(checker, "right")
    assert (verdict.ruling, verdict.passed, verdict.failed) == (Ruling.RIGHT, verdict.cases, 0)
    assert 20 <= verdict.cases < 20 + len(ValueDistribution) + len(verdict.dims)
    assert verdict.dims == ("n64 (x.0): 1 to 2048", "n100 (x.1): 1 to 2048")


def test_the_sample_s_own_values_are_a_case_in_their_layout(checker: Checker) -> None:
    sample = "candidates.py:transposed_sample"
    verdict = checker.check("candidates.py:bins_of_dense_memory", "candidates.py:bins_reference", sample, cases=4)
    assert {flaw.case for flaw in verdict.flaws if FlawKind.UNINITIALISED is flaw.kind} == {
        flaw.case for flaw in verdict.flaws if "values:sample" in flaw.case
    }
    assert verdict.failed == 1


@pytest.mark.nightly
def test_equal_seeds_draw_equal_cases_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        shutil.copy(CANDIDATES, folder)
        monkeypatch.chdir(folder)
        file = folder / CANDIDATES.name
        with Checker(time_limit_s=LIMIT_S, stops_at_flaw=False) as checker:
            verdict = checker.check(f"{file}:small_only", f"{file}:reference", f"{file}:sample", seed=7)
        shown.append((verdict.failed, [flaw.case for flaw in verdict.flaws]))
    assert shown[0] == shown[1]


def test_no_process_of_a_candidate_has_run_another_one(checker: Checker, tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(PROBLEM)
    for name, text in (("marking", MARKING), ("looking", LOOKING)):
        (tmp_path / f"{name}.py").write_text(DOUBLING + text)
        places = f"{tmp_path / name}.py:candidate", f"{problem}:reference", f"{problem}:sample"
        verdict = checker.check(*places, seed=7)
        assert (verdict.ruling, verdict.flaws) == (Ruling.RIGHT, ())


def test_a_problem_whose_file_changes_is_judged_anew(checker: Checker, tmp_path: Path) -> None:
    problem, candidate = tmp_path / "problem.py", tmp_path / "candidate.py"
    candidate.write_text(DOUBLING)
    rulings: list[Ruling] = []
    for factor in ("2.0", "3.0", "2.0"):
        problem.write_text(PROBLEM.replace("2.0", factor))
        places = f"{candidate}:doubled", f"{problem}:reference", f"{problem}:sample"
        rulings.append(checker.check(*places, seed=7).ruling)
    assert rulings == [Ruling.RIGHT, Ruling.WRONG, Ruling.RIGHT]


def test_sizes_that_agree_in_all_samples_are_one_dim(checker: Checker) -> None:
    verdict = verdict_on(checker, "right", inputs="two_samples")
    assert verdict.ruling is Ruling.RIGHT
    assert verdict.dims == ("n64 (x.0): 1 to 2048", "n64b (x.1): 1 to 2048")


def test_a_candidate_may_refuse_rows_longer_than_the_sample(checker: Checker) -> None:
    verdict = verdict_on(checker, "short_rows_only", inputs="wide_sample")
    assert verdict.ruling is Ruling.RIGHT
    assert [note for note in verdict.notes if "longer than the sample: ValueError: at most 4096" in note]


def test_a_candidate_does_not_choose_the_cases_that_count(checker: Checker) -> None:
    verdict = verdict_on(checker, "unknown_operation_mostly")
    assert verdict.ruling is Ruling.UNCHECKED
    lost = verdict.abstained
    assert verdict.reason.startswith(f"{lost} of {verdict.cases} cases show nothing: the virtual GPU cannot execute")


@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        ("out_of_memory_mostly", "MemoryError"),
        ("refuses_as_the_harness_does", "an exception of its own"),
        ("memory_refused_mostly", "RuntimeError"),
        ("type_refused_mostly", "ValueError"),
        ("module_missing_mostly", "ModuleNotFoundError"),
        ("refuses_by_another_name", "an exception of its own"),
    ],
)
def test_what_the_reference_computes_may_not_be_refused(checker: Checker, candidate: str, error: str) -> None:
    verdict = verdict_on(checker, candidate)
    assert kinds(verdict) == {FlawKind.EXCEPTION}
    assert f"the candidate raises {error} where the reference computes" in verdict.flaws[0].message


def test_the_sample_s_own_size_is_among_the_cases(checker: Checker) -> None:
    assert FlawKind.WRONG_VALUES in kinds(verdict_on(checker, "zeros_at_the_size_of_the_sample"))


@pytest.mark.nightly
def test_a_sample_that_is_too_large_has_a_case_like_it(checker: Checker) -> None:
    verdict = verdict_on(checker, "zeros_of_large_ones", inputs="large_sample")
    assert {FlawKind.WRONG_VALUES, FlawKind.NO_KERNEL} & kinds(verdict)


def test_gradients_that_the_samples_require_must_be_there(checker: Checker) -> None:
    verdict = verdict_on(checker, "right", inputs="trained_sample")
    assert kinds(verdict) == {FlawKind.WRONG_GRADIENT}
    assert verdict.flaws[0].message.startswith("the samples require gradients, and the candidate")


def test_a_backward_pass_of_torch_is_told(checker: Checker) -> None:
    verdict = verdict_on(checker, "with_torch_s_gradient", inputs="trained_sample")
    assert kinds(verdict) == {FlawKind.NO_KERNEL}
    assert any("torch does 100% of the reference's backward arithmetic" in flaw.message for flaw in verdict.flaws)
    assert FlawKind.COPIED in kinds(verdict_on(checker, "with_copied_gradient", inputs="trained_sample"))


def test_a_task_says_what_torch_may_do(checker: Checker) -> None:
    def check(*allows: str) -> CheckVerdict:
        places = "candidates.py:halves_twice_torch", "candidates.py:reference", "candidates.py:sample"
        return checker.check(*places, allows=allows)

    assert "torch does 100% of the reference's arithmetic" in check("mm").flaws[0].message
    allowed = check("mul")
    assert (allowed.ruling, list(map(str, allowed.torch)), allowed.flaws) == (Ruling.RIGHT, ["mul 100%"], ())


def test_a_reference_may_change_its_inputs(checker: Checker) -> None:
    places = "candidates.py:doubles_in_place", "candidates.py:doubled_in_place", "candidates.py:sample"
    verdict = checker.check(*places)
    assert (verdict.ruling, verdict.flaws, verdict.reason) == (Ruling.RIGHT, (), "")


def test_a_number_that_host_code_computes_is_told(checker: Checker) -> None:
    verdict = checker.check("candidates.py:total_on_host", "candidates.py:total", "candidates.py:sample")
    assert any(flaw.message.startswith("host code reads the numbers of a tensor") for flaw in verdict.flaws)


def test_copies_in_a_few_large_cases_suffice(checker: Checker) -> None:
    assert kinds(verdict_on(checker, "copies_large_ones")) == {FlawKind.COPIED, FlawKind.NO_KERNEL}


def test_results_kept_by_some_elements_are_told(checker: Checker) -> None:
    assert verdict_on(checker, "remembers").ruling is Ruling.WRONG


def test_compilers_write_where_the_candidate_does_not(checker: Checker) -> None:
    assert verdict_on(checker, "looks_for_the_compilers_folder").ruling is Ruling.RIGHT


def test_a_kernel_that_stores_torch_s_result_in_place_computes_nothing(checker: Checker) -> None:
    assert kinds(verdict_on(checker, "copies_in_place")) == {FlawKind.COPIED, FlawKind.NO_KERNEL}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ("overwritten_by_numpy", {FlawKind.NO_KERNEL}),
        ("overwritten_by_libc", {FlawKind.NO_KERNEL}),
        ("copies_from_numpy", {FlawKind.COPIED, FlawKind.NO_KERNEL}),
        ("halves_twice_torch", {FlawKind.NO_KERNEL}),
        ("halves_twice_numpy", {FlawKind.NO_KERNEL}),
        ("lies", {FlawKind.TAMPERING}),
        ("computes_one_tile", {FlawKind.COPIED, FlawKind.NO_KERNEL}),
        ("copies_nearly", {FlawKind.COPIED, FlawKind.NO_KERNEL}),
        ("overwrites_unwatched", {FlawKind.COPIED, FlawKind.NO_KERNEL, FlawKind.TAMPERING}),
    ],
)
def test_values_that_no_kernel_computed_are_told(checker: Checker, candidate: str, expected: set[FlawKind]) -> None:
    assert kinds(verdict_on(checker, candidate)) == expected


@pytest.mark.parametrize("candidate", ["leaves_a_mode", "leaves_a_timer", "leaves_a_thread"])
def test_a_candidate_leaves_nothing_that_runs(checker: Checker, candidate: str) -> None:
    verdict = verdict_on(checker, candidate)
    assert kinds(verdict) == {FlawKind.TAMPERING}
    assert "after its call the candidate leaves" in verdict.flaws[0].message


@pytest.mark.parametrize("candidate", ["starts_a_process", "stops_its_parent", "forges_bytecode"])
def test_a_candidate_reaches_nothing_outside_its_process(checker: Checker, candidate: str) -> None:
    Path("wrong_later.py").write_text("from candidates import raises as wrong\n")
    assert kinds(verdict_on(checker, candidate)) == {FlawKind.TAMPERING}
    assert not list(Path("__pycache__").glob("wrong_later*"))


def test_a_candidate_that_catches_the_refusals_leaves_nothing_behind(checker: Checker) -> None:
    before = set(Path.cwd().rglob("*.py*"))
    assert verdict_on(checker, "catches_and_goes_on").ruling is Ruling.RIGHT
    assert set(Path.cwd().rglob("*.py*")) - before <= set(Path(".harness").absolute().rglob("*"))
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"time.sleep(600)" in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_a_compiled_file_beside_a_candidate_is_not_read(checker: Checker) -> None:
    file = Path("forged.py").absolute()
    file.write_text("from candidates import run\n\ndef wrong(x):\n    return run(x, 3.0)\n")
    compiled = Path(importlib.util.cache_from_source(str(file)))
    compiled.parent.mkdir(exist_ok=True)
    right = compile("from candidates import right as wrong", str(file), "exec")
    stamp = struct.pack("<III", 0, int(file.stat().st_mtime), file.stat().st_size)
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + stamp + marshal.dumps(right))
    verdict = checker.check("forged.py:wrong", "candidates.py:reference", "candidates.py:sample")
    assert kinds(verdict) == {FlawKind.WRONG_VALUES}


def test_a_check_ends_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CANDIDATES, tmp_path)
    monkeypatch.chdir(tmp_path)
    with Checker(limit_s=8.0) as checker:
        verdict = verdict_on(checker, "slow")
    assert (verdict.ruling, verdict.reason) == (Ruling.UNCHECKED, "the check took longer than 8 s")
    assert verdict.seconds < 8.0 + 5.0


def verdict_on_answer(checker: Checker, problem: str) -> CheckVerdict:
    return checker.check(FOLDER / f"{problem}_right.py", FOLDER / f"{problem}_problem.py", cases=3, seed=1)


def test_rows_of_an_image_may_differ_from_its_channels(checker: Checker) -> None:
    verdict = verdict_on_answer(checker, "instance_norm")
    fixed = "n8 (x.1, x.3): 8 (get_init_inputs() has this size)"
    assert verdict.dims == ("n16 (x.0): 1 to 64", fixed, "n8b (x.2): 1 to 64")


def test_numbers_that_the_reference_is_finite_for_are_drawn(checker: Checker) -> None:
    assert any(note.startswith("x: numbers of any sign") for note in verdict_on_answer(checker, "max_pool").notes)


def test_numbers_of_a_logarithm_stay_positive(checker: Checker, tmp_path: Path) -> None:
    (file := tmp_path / "logarithms.py").write_text(LOGARITHM)
    verdict = checker.check(file, cases=3, seed=1)
    assert verdict.ruling is Ruling.RIGHT
    assert not any("of any sign" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ("none", FlawKind.WRONG_FORM),
        ("raises", FlawKind.EXCEPTION),
        ("crashes", FlawKind.CRASH),
        ("killed_if_large", FlawKind.CRASH),
        ("exits", FlawKind.CRASH),
        pytest.param("hangs", FlawKind.HANG, marks=pytest.mark.nightly),
        ("forks", FlawKind.TAMPERING),
        ("small_only", FlawKind.WRONG_VALUES),
        ("races", FlawKind.RACE),
        ("reference", FlawKind.REFERENCE_CALLED),
        ("with_wrong_gradient", FlawKind.WRONG_GRADIENT),
    ],
)
def test_a_wrong_candidate_is_told_by_the_name_of_its_flaw(checker: Checker, candidate: str, kind: FlawKind) -> None:
    verdict = verdict_on(checker, candidate)
    assert verdict.ruling is Ruling.WRONG, verdict.reason
    assert kind in kinds(verdict)


@pytest.mark.parametrize("candidate", ["patches", "patches_harness"])
def test_replaced_functions_do_not_change_the_verdict(checker: Checker, candidate: str) -> None:
    verdict = verdict_on(checker, candidate)
    assert kinds(verdict) == {FlawKind.WRONG_VALUES}
    assert any(note.startswith("the candidate replaces ") for note in verdict.notes)


def test_the_referee_sees_values_that_a_forged_comparison_passes(checker: Checker) -> None:
    verdict = verdict_on(checker, "forges")
    assert (verdict.passed, kinds(verdict)) == (verdict.cases, {FlawKind.TAMPERING})


def test_a_candidate_that_forges_everything_in_its_process_is_wrong(checker: Checker) -> None:
    verdict = verdict_on(checker, "forges_everything")
    # The referee tells it, or before that a later call, whose results nobody compares with the definition.
    by_later_call = any(flaw.message.startswith("repeat-call: ") for flaw in verdict.flaws)
    assert kinds(verdict) == {FlawKind.PROMISE if by_later_call else FlawKind.TAMPERING}


def test_a_right_gradient_is_checked(checker: Checker) -> None:
    verdict = verdict_on(checker, "with_gradient", inputs="trained_sample")
    assert (verdict.ruling, verdict.flaws, verdict.notes) == (Ruling.RIGHT, (), ())


@pytest.mark.nightly
def test_a_candidate_that_prints_a_gigabyte_gets_a_verdict(checker: Checker) -> None:
    assert verdict_on(checker, "right_prints").ruling in {Ruling.RIGHT, Ruling.WRONG}


def test_a_candidate_that_deletes_its_file_is_wrong(checker: Checker) -> None:
    shutil.copy(CANDIDATES, "deleted.py")
    verdict = checker.check("deleted.py:deletes", "candidates.py:reference", "candidates.py:sample")
    assert FlawKind.TAMPERING in kinds(verdict)


def test_a_check_goes_on_after_a_crash(checker: Checker) -> None:
    verdict_on(checker, "crashes")
    assert verdict_on(checker, "right").ruling is Ruling.RIGHT


@pytest.mark.parametrize(
    ("reference", "inputs", "message"),
    [
        ("reference", "no_tensor", "no argument of the samples is a tensor"),
        ("reference", "broken_sample", "no sample today"),
        ("refuses", "sample", "the reference fails with tensors like those of the sample"),
        ("random_reference", "sample", "it must not be random"),
        ("referense", "sample", "did you mean reference or"),
    ],
)
def test_what_cannot_be_sampled_is_an_error_that_says_why(
    checker: Checker, reference: str, inputs: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        checker.check("candidates.py:right", f"candidates.py:{reference}", f"candidates.py:{inputs}")
