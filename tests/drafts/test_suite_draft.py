"""What the draft of a suite guesses from sources is marked, and never makes a right kernel fail."""

from pathlib import Path

from harness.drafts import suite_draft
from harness.drafts.signatures import read_source
from harness.suite import load_suite

PAGED = """
import torch
import triton
import triton.language as tl

@triton.jit
def gather_kernel(x_ptr, idx_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(idx_ptr + at, mask=at < N)
    tl.store(y_ptr + at, tl.load(x_ptr + row, mask=at < N), mask=at < N)

def paged(q: torch.Tensor, cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor,
          cu_seqlens: torch.Tensor, scale: float):
    _, H = q.shape
    _, _, H = cache.shape
    gather_kernel[(1,)](q, seq_lens, cache, H, BLOCK=16)
    return q
"""


def drafted(folder: Path, source: str) -> str:
    path = folder / "paged.py"
    path.write_text(source, encoding="utf-8")
    module = suite_draft.TestedModule(source=read_source(path), name="paged", beside="../paged.py")
    text = str(suite_draft.draft_of(module, "suites/paged.py"))
    (folder / "suite.py").write_text(text, encoding="utf-8")
    return text


def test_guesses_are_marked_and_integers_are_no_floats(tmp_path: Path) -> None:
    text = drafted(tmp_path, PAGED)
    (op,) = load_suite(str(tmp_path / "suite.py"))
    kinds = {name: type(declared).__name__ for name, declared in op.inputs.items()}
    assert kinds == {
        "q": "Tensor",
        "cache": "Tensor",
        "block_table": "Integers",
        "seq_lens": "Integers",
        "cu_seqlens": "Segments",
    }
    assert "_" not in op.dims
    assert [line for line in text.splitlines() if line.startswith("# guessed: ")] == [
        "# guessed: the shape of block_table, seq_lens, cu_seqlens",
        f"# guessed: the ranges of {', '.join(op.dims)}",
        "# guessed: the values of scale",
        "# guessed: block_table holds integers, all 0 for now: write their range and dtype",
        "# guessed: seq_lens holds integers, all 0 for now: write their range and dtype",
        "# guessed: cu_seqlens holds cumulative lengths of packed sequences",
    ]


def test_a_kernel_that_reads_indices_gets_integers(tmp_path: Path) -> None:
    text = drafted(tmp_path, PAGED.partition("def paged")[0])
    (op,) = load_suite(str(tmp_path / "suite.py"))
    assert [type(declared).__name__ for declared in op.inputs.values()] == ["Tensor", "Integers"]
    assert "y_ptr = torch.zeros_like(x_ptr)" in text
    assert "# guessed: the grid and the arguments of the launch" in text
