"""A draft has what a function's docstring and checks say of its arguments, and marks what it guessed."""

from pathlib import Path

import pytest

from harness.drafts import suite_draft
from harness.drafts.signatures import read_source
from harness.errors import UsageError
from harness.model.case import DType
from harness.model.input_spec import Draw, Integers, Segments, Tensor
from harness.model.op import Dim, Op
from harness.suite import load_suite

ATTENTION = '''
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.program_id(0), 0.0)

def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    labels: torch.Tensor,
    table: torch.LongTensor | None,
    mask,
    cu_seqlens: torch.LongTensor | None = None,
    mode: str = "chunk",
):
    """Attend.

    Args:
        q (torch.Tensor):
            queries of shape `[B, T, H, K]`, which must be contiguous.
        k: keys `(B, T, H, K)`
        v (torch.Tensor): values of shape `[B, T, H, V]`.
        g (torch.Tensor):
            forget gates in log space, of shape `[B, T, H]`.
        beta: write strengths in [0, 1], of shape (B, T, H), of type float32.
        labels: classes in [0, V), of shape `[B * T]` (torch.int32).
        table (torch.LongTensor, optional): `[B, 4]`.
        cu_seqlens (torch.LongTensor):
            Cumulative lengths of shape `[N+1]`. Default: `None`.
        mode (str): how. Default: `chunk`.
    """
    batch, T, heads, K = k.shape
    V = v.shape[-1]
    assert q.shape[-1] == K and K in (16, 32, 64)
    assert all(x.is_contiguous() for x in (k, v)), "contiguous tensors only"
    assert mask is None or mask.stride(-1) == 1
    torch._check(V % 16 == 0, lambda: "no tail")
    assert mask.dim() == 2
    assert q.dtype in (torch.float16, torch.bfloat16)
    if heads > 8 or T < 2:
        raise ValueError("too many heads")
    if mode not in ("chunk", "parallel"):
        raise ValueError(mode)
    if cu_seqlens is not None:
        if q.shape[0] != 1:
            raise ValueError("packed sequences have a batch of one")
    kernel[(1,)](q, BLOCK=16)
    return q
'''


def drafted(folder: Path, source: str, *, function: str = "attention") -> tuple[Op, list[str]]:
    path = folder / "kernels.py"
    path.write_text(source, encoding="utf-8")
    module = suite_draft.TestedModule(source=read_source(path).only(function), name="kernels", beside="../kernels.py")
    text = str(suite_draft.draft_of(module, "suites/kernels.py"))
    (folder / "suite.py").write_text(text, encoding="utf-8")
    (op,) = load_suite(str(folder / "suite.py"))
    return op, [line for line in text.splitlines() if line.startswith(("# guessed: ", "# read: "))]


def test_shapes_types_and_layouts_are_those_that_the_source_states(tmp_path: Path) -> None:
    op, _ = drafted(tmp_path, ATTENTION)
    heads = ("batch", "T", "heads")
    assert op.inputs == {
        "q": Tensor(shape=("batch", "T", "heads", "K"), contiguous=True, grad=False),
        "k": Tensor(shape=(*heads, "K"), contiguous=True, grad=False),
        "v": Tensor(shape=(*heads, "V"), contiguous=True, grad=False),
        "g": Tensor(shape=heads, draw=Draw.LOG_UNIT, grad=False),
        "beta": Tensor(shape=heads, draw=Draw.UNIT, dtype=DType.FP32, grad=False),
        "labels": Integers(shape=("batch*T",), high="V", dtype="int32"),
        "table": Integers(shape=("batch", 4), high=1, optional=True),
        "mask": Tensor(shape=("D", "M"), contiguous="rows", grad=False),
        "cu_seqlens": Segments(total="T", count="N", optional=True),
    }


def test_sizes_types_and_options_are_those_that_are_checked(tmp_path: Path) -> None:
    op, notes = drafted(tmp_path, ATTENTION)
    assert (op.dims["K"], op.dims["heads"]) == (Dim(low=16, high=64, choices=(16, 32, 64)), Dim(low=1, high=8))
    assert (op.dims["V"], op.dims["T"].low) == (Dim(low=16, high=64, choices=(16, 32, 48, 64)), 2)
    assert op.options == {"mode": ("chunk", "parallel")}
    assert op.where is not None
    packed = {name: name == "cu_seqlens" for name in op.optional}
    assert [op.where({"batch": batch, **packed, "gradients": ()}) for batch in (1, 2)] == [True, False]
    assert notes == [
        "# guessed: the shape of mask",
        "# guessed: by the docstring, the shape of q, v, g, beta, labels, table, cu_seqlens",
        "# guessed: by the docstring, the values of g, beta",
        "# guessed: by the docstring, the type of beta, labels, table, cu_seqlens",
        "# guessed: the ranges of batch, D, M, N",
        "# guessed: table holds integers, all 0 for now: write their range and dtype",
        "# guessed: cu_seqlens holds cumulative lengths of packed sequences",
        "# read: V % 16 == 0, in line 43",
        "# read: heads <= 8, in line 46",
        "# read: T >= 2, in line 46",
        "# read: batch == 1 if cu_seqlens is given, in line 51",
    ]


def test_a_dtype_that_all_tensors_must_have_is_that_of_cases(tmp_path: Path) -> None:
    source = """
def norm(x: torch.Tensor, w: torch.Tensor):
    assert x.dtype == torch.float16 and w.dtype == torch.float16
    assert x.shape[1] == w.shape[0]
    T, D = x.shape
    return x
"""
    op, notes = drafted(tmp_path, source, function="norm")
    assert op.dtypes == (DType.FP16,)
    assert [declared.dtype for declared in op.inputs.values() if isinstance(declared, Tensor)] == [None, None]
    assert notes == ["# guessed: the shape of w", "# guessed: the ranges of T, D"]


def test_a_parameter_that_is_used_as_no_tensor_is_an_option(tmp_path: Path) -> None:
    source = """
def norm(X, W, eps, mode, in_place, BLOCK_SIZE):
    if not isinstance(mode, int):
        assert mode in MODES
    if in_place is True:
        X = X.view(-1)
    return X
"""
    op, notes = drafted(tmp_path, source, function="norm")
    assert (set(op.inputs), set(op.dims)) == ({"X", "W"}, {"T", "D", "BLOCK_SIZE"})
    assert op.options == {"eps": (1e-6,), "mode": (None,), "in_place": (False, True)}
    assert "# guessed: the values of eps, mode, in_place" in notes


def test_a_function_that_asks_for_a_tuned_config_gets_the_declaration_as_a_note(tmp_path: Path) -> None:
    source = """
import functools, json, os

def file_name(N, K):
    device_name = name().replace(" ", "_")
    return f"N={N},K={K},device_name={device_name},block={3 * N}.json"

@functools.lru_cache
def get_configs(N, K):
    with open(os.path.join(os.path.dirname(__file__), "configs", file_name(N, K))) as f:
        return json.load(f)

def product(x: torch.Tensor, w: torch.Tensor):
    return get_configs(*w.shape)
"""
    _, notes = drafted(tmp_path, source, function="product")
    pattern = "configs/N={N},K={K},device_name={device},block=*.json"
    assert notes[-1] == (
        "# guessed: host code picks configs: host_configs="
        f'{{"kernels:get_configs": config_tables("{pattern}", nearest="…")}}'
    )


def test_an_unknown_function_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown function 'atention': did you mean attention"):
        drafted(tmp_path, ATTENTION, function="atention")
