"""The reduction as a whole: its guarantees for any test, and its result for a kernel that runs."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.findings.reduction import lines, reduce_kernel, statements
from harness.findings.reduction.formatting import lay_out
from harness.findings.reduction.text_size import size
from tests.findings.reduction.reducing import LAUNCH, always, by, holds

ROOT = Path(__file__).resolve().parents[3]


def test_texts_with_undefined_names_are_never_tested() -> None:
    tested: list[str] = []

    def is_interesting(text: str) -> bool:
        tested.append(text)
        return "use" in text

    by("def use(p):\n    a = p\n    b = 2\n    b += a\n    store(b)\n", statements.drop_statements, is_interesting)
    assert all(("store" in text) <= ("b = 2" in text) and ("b +=" in text) <= ("a = p" in text) for text in tested)


def test_each_text_is_tested_once() -> None:
    tested: list[str] = []

    def is_interesting(text: str) -> bool:
        tested.append(text)
        return "tl.store(x + o" in text

    reduce_kernel(dedent(LAUNCH), is_interesting, seconds=60)
    assert len(tested) == len(set(tested))


def test_a_kernel_is_reduced_to_its_interesting_parts() -> None:
    is_interesting = holds("@triton.jit", "tl.store(x + o, 0, mask=o < T)", "kernel[(1,)](x, ", "T=")
    assert reduce_kernel(dedent(LAUNCH), is_interesting, seconds=60) == dedent("""\
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(x, T):
            o = 0.0
            tl.store(x + o, 0, mask=o < T)


        def main(x):
            kernel[(1,)](x, T=1)
    """)


def test_equal_sources_are_reduced_to_equal_texts() -> None:
    is_interesting = holds("tl.store(", "kernel[")
    first, second = (reduce_kernel(dedent(LAUNCH), is_interesting, seconds=60) for _ in range(2))
    assert first == second


def test_without_time_the_source_is_only_laid_out() -> None:
    assert reduce_kernel(dedent(LAUNCH), always, seconds=0) == lay_out(dedent(LAUNCH))


def test_an_uninteresting_layout_is_not_taken() -> None:
    source = "def f(  x):\n    return x\n"
    assert reduce_kernel(source, lambda text: text == source, seconds=60) == source


def test_an_uninteresting_source_is_refused() -> None:
    with pytest.raises(ValueError, match="refuses the unreduced source"):
        reduce_kernel("x = 1\n", lambda _: False, seconds=60)


def test_progress_is_reported_in_lines() -> None:
    reported: list[str] = []
    reduce_kernel(dedent(LAUNCH), holds("kernel["), seconds=60, report=reported.append)
    assert reported
    assert reported[-1].partition(" after ")[0].endswith(" lines")


# --- for any test ----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "p", "q"])
EXPRESSIONS = st.recursive(
    NAMES | st.sampled_from(["0", "1", "64", "0.5", "True"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "*", "&", "<"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(NAMES, inner).map(lambda parts: f"load({parts[0]} + {parts[1]}, mask={parts[1]})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        inner.map(lambda value: f"cast({value})[:, None].to(p.dtype)"),
    ),
    max_leaves=4,
)
LINES = st.one_of(
    st.tuples(NAMES, st.sampled_from(["=", "+="]), EXPRESSIONS).map(" ".join),
    st.tuples(NAMES, EXPRESSIONS).map(lambda parts: f"store({parts[0]}, {parts[1]})"),
)


def _indented(block: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in block)


BLOCKS = st.recursive(
    LINES.map(lambda line: [line]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda blocks: [line for block in blocks for line in block]),
        st.tuples(EXPRESSIONS, inner).map(lambda parts: [f"if {parts[0]}:", *_indented(parts[1])]),
        st.tuples(EXPRESSIONS, inner).map(lambda parts: [f"for i in range({parts[0]}):", *_indented(parts[1])]),
    ),
    max_leaves=6,
)


@settings(max_examples=12)
@given(BLOCKS, st.sampled_from(["store(", "load(", "for ", "if ", "=", "mask", "kernel["]))
def test_a_result_is_interesting_valid_and_not_larger(block: list[str], kept: str) -> None:
    body = "\n".join(_indented(block))
    origin = lay_out(f"def kernel(a, b, c, p, q):\n{body}\n\n\ndef main(x):\n    kernel[(4,)](x, x, x, x, q=2)\n")
    accepted: set[str] = set()

    def is_interesting(text: str) -> bool:
        if text.count(kept) == origin.count(kept):
            accepted.add(text)
        return text in accepted

    reduced = reduce_kernel(origin, is_interesting, seconds=60)
    ast.parse(reduced)
    assert reduced in accepted
    assert size(reduced) <= size(origin)
    assert lines(reduced) <= lines(origin)


# --- a kernel that runs ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_kernel_with_overlapping_rows_is_reduced_to_the_overlap(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("program_reduction.py")), str(tmp_path)],
        env=os.environ
        | {
            "TRITON_CACHE_DIR": str(tmp_path),
            "TORCHDYNAMO_DISABLE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == dedent("""\
        import torch
        import triton
        import triton.language as tl


        @triton.jit
        def centre_kernel(dx, T):
            o_t = tl.program_id(0) + tl.arange(0, 2)
            tl.store(dx + o_t, 0.0, mask=o_t < T)


        def main():
            dx = torch.empty(2, 1, device="cuda")
            centre_kernel[(2,)](dx, T=2)
    """)
