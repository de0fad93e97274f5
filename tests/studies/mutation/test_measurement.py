"""End to end: a small library, a suite that calls it, and the fate of each mutant of its kernel."""

from collections import Counter
from pathlib import Path

import pytest

from harness.model.case import DType
from studies.mutation import score
from studies.mutation.__main__ import main
from studies.mutation.operators import Operator
from studies.mutation.outcome import Fate

LIBRARY = """
import torch
import triton
import triton.language as tl


@triton.jit
def inside(o, n):
    return o < n


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64).to(tl.int64)
    o = i * BLOCK + tl.arange(0, BLOCK)
    m = inside(o, n)
    a = tl.load(x + o, mask=m, other=0.0)
    tl.store(y + o, tl.exp(a) * 2, mask=m)


@triton.jit
def never_launched(x, y, n):
    tl.store(y, tl.load(x, mask=n < 3), mask=n < 3)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y
"""

SUITE = """
from harness.suite import DType, op, tensor, tokens


@op(dims={"T": tokens(128)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32, DType.BF16))
def double(x):
    import tiny

    return tiny.double(x)


@double.reference
def definition(x):
    return 2 * x.exp()
"""


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a command line for a folder with a library of one kernel and a suite that calls it."""
    (tmp_path / "library" / "tiny").mkdir(parents=True)
    (tmp_path / "library" / "tiny" / "__init__.py").write_text(LIBRARY)
    (tmp_path / "doubling.py").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    budget = ["--cases", "12", "--processes", "1", "--device", "l4", "--dtype", "fp32"]
    return ["doubling.py", "--with", "library", *budget, "--json", "outcomes.json"]


@pytest.mark.nightly
@pytest.mark.slow
def test_mistakes_are_killed_and_equivalent_changes_are_not(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    said = capsys.readouterr()
    ledger = score.load(Path("outcomes.json"), said.out.splitlines()[0])
    fates = Counter((outcome.mutant.operator, outcome.mutant.function, outcome.fate) for outcome in ledger.outcomes)
    assert fates == {
        (Operator.DROP_MASK, "double_kernel", Fate.KILLED): 2,
        (Operator.BOUND_PLUS_ONE, "inside", Fate.KILLED): 1,
        (Operator.BOUND_MINUS_ONE, "inside", Fate.KILLED): 1,
        (Operator.STRICTNESS, "inside", Fate.KILLED): 1,
        (Operator.FLOOR_BLOCKS, "double", Fate.KILLED): 1,
        # Two conversions to the same type: one of them is enough.
        (Operator.DROP_INT64, "double_kernel", Fate.SAME_CODE): 1,
    }
    assert {outcome.oracle for outcome in ledger.outcomes if outcome.fate is Fate.KILLED} == {"bounds", "unwritten"}
    assert said.out.splitlines()[1] == (
        "no mutants.toml in the suites' folders or one folder above: no survivor is explained"
    )
    assert said.out.splitlines()[-1] == (
        "7 of 7 mutants tried: 6 of 6 killed that compute something else (100.0 %); 1 compile to the same code, "
        "0 are equivalent by argument, 0 do not compile"
    )
    assert list(Path(".harness").glob("mutation-*")) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_an_operator_is_tried_on_request(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--operator", "scale-term"]) == 0
    setting = capsys.readouterr().out.splitlines()[0]
    assert "; fp32; " in setting
    ledger = score.load(Path("outcomes.json"), setting)
    assert {outcome.mutant.after.strip(): outcome.fate for outcome in ledger.outcomes} == {
        "tl.store(y + o, tl.exp(a * 1.0001) * 2, mask=m)": Fate.KILLED,
        "tl.store(y + o, tl.exp(a) * 2 * 1.0001, mask=m)": Fate.KILLED,
    }
    assert {outcome.case.dtype for outcome in ledger.outcomes if outcome.case} == {DType.FP32}


def test_a_dtype_that_no_op_supports_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    in_float16 = [argument.replace("fp32", "fp16") for argument in arguments]
    assert main(in_float16) == 2
    assert "no op of these suites supports fp16" in capsys.readouterr().err


def test_a_missing_file_of_survivors_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--known", "typo.toml"]) == 2
    assert "argument --known: there is no file 'typo.toml'" in capsys.readouterr().err


def test_a_library_is_required(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    without = [argument for argument in arguments if argument not in {"--with", "library"}]
    assert main(without) == 2
    assert "name it by --with" in capsys.readouterr().err
