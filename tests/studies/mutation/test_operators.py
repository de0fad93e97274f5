"""Each mutation operator: the lines that it changes, and those that it leaves alone."""

from collections.abc import Sequence

import pytest

from studies.mutation.mutants import Mutant, mutants_of
from studies.mutation.operators import Operator

KERNEL = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y, n, stride_t, stride_d):\n"


def made_of(*lines: str) -> Sequence[Mutant]:
    """Return the mutants of a kernel with these lines."""
    return mutants_of((KERNEL + "".join(f"    {line}\n" for line in lines)).encode(), "kernels.py")


def lines_by(operator: Operator, *lines: str) -> list[str]:
    """Return the lines as an operator changes them, without indentation."""
    return [mutant.after.strip() for mutant in made_of(*lines) if mutant.operator is operator]


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        (Operator.DROP_MASK, "a = tl.load(x + o, mask=o < n, other=0.0)", ["a = tl.load(x + o)"]),
        (Operator.DROP_MASK, "a = tl.load(x + o, o < n, 0.0)", ["a = tl.load(x + o)"]),
        (Operator.DROP_MASK, "tl.store(y, a, mask=m, eviction_policy='')", ["tl.store(y, a, eviction_policy='')"]),
        (Operator.DROP_MASK, "a = tl.load(p, boundary_check=(0, 1), padding_option='zero')", ["a = tl.load(p)"]),
        (Operator.DROP_MASK, "tl.atomic_add(y + o, a, mask=m)", ["tl.atomic_add(y + o, a)"]),
        (Operator.DROP_MASK, "a = tl.load(x + o)", []),
        (Operator.BOUND_PLUS_ONE, "m = o < n", ["m = o < n + 1"]),
        (Operator.BOUND_PLUS_ONE, "m = o < (n if n else 1)", ["m = o < (n if n else 1) + 1"]),
        (Operator.BOUND_PLUS_ONE, "m = o < n - t", ["m = o < n - t + 1"]),
        (Operator.BOUND_PLUS_ONE, "m = o < n >> 1", ["m = o < (n >> 1) + 1"]),
        (Operator.BOUND_PLUS_ONE, "m = o <= n", []),
        (Operator.BOUND_MINUS_ONE, "m = o < n", ["m = o < n - 1"]),
        (Operator.STRICTNESS, "m = o < n", ["m = o <= n"]),
        (Operator.STRICTNESS, "m = o >= n", ["m = o > n"]),
        (Operator.STRICTNESS, "m = (o < n)[:, None] & d", ["m = (o <= n)[:, None] & d"]),
        (Operator.STRICTNESS, "m = o == n", []),
        (Operator.SWAP_STRIDES, "p = x + o[:, None] * n + d[None, :]", ["p = x + o[:, None] + d[None, :] * n"]),
        (
            Operator.SWAP_STRIDES,
            "p = x + o[:, None] * n*2 + d[None, :] * stride_d",
            ["p = x + o[:, None] * stride_d + d[None, :] * n * 2"],
        ),
        (Operator.SWAP_STRIDES, "p = x + t * stride_t + d * stride_d", ["p = x + t * stride_d + d * stride_t"]),
        (Operator.SWAP_STRIDES, "p = x + t * n + d * 2", []),
        (Operator.SWAP_STRIDES, "p = x + o[:, None] * n + o[:, None]", []),
        (
            Operator.SWAP_STRIDES,
            "p = tl.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (16, 8), (1, 0))",
            ["p = tl.make_block_ptr(x, (n, 8), (1, 8), (0, 0), (16, 8), (1, 0))"],
        ),
        (Operator.DROP_ATOMIC, "tl.atomic_add(y + o, a, mask=m, sem='relaxed')", ["tl.store(y + o, a, mask=m)"]),
        (Operator.DROP_ATOMIC, "old = tl.atomic_add(y + o, a)", []),
        (Operator.DROP_INT64, "i = tl.program_id(0).to(tl.int64)", ["i = tl.program_id(0)"]),
        (Operator.DROP_INT64, "i = tl.cast(t + 1, tl.int64) * n", ["i = (t + 1) * n"]),
        (Operator.DROP_INT64, "i = ((t + 1).to(tl.int64)) * n", ["i = (t + 1) * n"]),
        (Operator.DROP_INT64, "i = tl.program_id(0).to(tl.int32)", []),
        (Operator.FLOOR_BLOCKS, "k = tl.cdiv(n, 2 + t) * 2", ["k = (n // (2 + t)) * 2"]),
        (Operator.FLOOR_BLOCKS, "k = (tl.cdiv(n, t))", ["k = (n // t)"]),
        (Operator.LOSE_ACCUMULATION, "a += b * c", ["a = b * c"]),
        (Operator.LOSE_ACCUMULATION, "a -= b", []),
        (
            Operator.NARROW_ACCUMULATOR,
            "a = tl.zeros([16], dtype=tl.float32)",
            ["a = tl.zeros([16], dtype=tl.bfloat16)", "a = tl.zeros([16], dtype=tl.float16)"],
        ),
        (Operator.NARROW_ACCUMULATOR, "a = tl.zeros([16], dtype=tl.int32)", []),
        (Operator.DROP_FLOAT32, "a = tl.load(x).to(tl.float32)", ["a = tl.load(x)"]),
    ],
)  # fmt: skip
def test_an_operator_makes_one_mistake_in_a_line(operator: Operator, before: str, after: list[str]) -> None:
    assert lines_by(operator, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a += tl.load(x).to(tl.float32)", ["a += tl.load(x).to(tl.float32) * 1.0001"]),
        ("a = b - c * tl.zeros([16], tl.float32)", ["a = b - c * tl.zeros([16], tl.float32) * 1.0001"]),
        (
            "a = b.to(tl.float32) / d - (tl.full([16], 1, tl.float32) if n else c.to(tl.float32)) + e",
            [
                "a = b.to(tl.float32) / d * 1.0001 - (tl.full([16], 1, tl.float32) if n else c.to(tl.float32)) + e",
                "a = b.to(tl.float32) / d - ((tl.full([16], 1, tl.float32) if n else c.to(tl.float32)) * 1.0001) + e",
            ],
        ),
        ("a = tl.sum(b.to(tl.float32), 0)[:, None] / n", ["a = (tl.sum(b.to(tl.float32), 0) * 1.0001)[:, None] / n"]),
        ("a = tl.dot(b, c).to(b.dtype)", ["a = (tl.dot(b, c) * 1.0001).to(b.dtype)"]),
        ("a = tl.exp(b - c)", ["a = tl.exp((b - c) * 1.0001)"]),
        (
            "tl.store(y + o, tl.log(a).to(y.dtype.element_ty), mask=o < n)",
            [
                "tl.store(y + o, (tl.log(a) * 1.0001).to(y.dtype.element_ty), mask=o < n)",
                "tl.store(y + o, tl.log(a * 1.0001).to(y.dtype.element_ty), mask=o < n)",
            ],
        ),
        ("tl.atomic_add(y, a.to(tl.float32))", ["tl.atomic_add(y, a.to(tl.float32) * 1.0001)"]),
        ("return exp2(a), n", ["return exp2(a) * 1.0001, n"]),
        # No certain float32: an address, what may be an integer or bfloat16, and a product of integers.
        ("p = x + t * n", []),
        ("a = tl.load(x) + 1.0", []),
        ("a = exp(b)", []),
        ("a = tl.sum(b, 0)", []),
        ("a = tl.dot(b, c, a)", []),
        ("a = tl.dot(b, c, out_dtype=tl.int32)", []),
        ("a = tl.cast(b, tl.float32).to(c.dtype) + d", []),
    ],
)
def test_a_float32_term_is_scaled(before: str, after: list[str]) -> None:
    assert lines_by(Operator.SCALE_TERM, before) == after


@pytest.mark.parametrize(
    ("before", "is_float32"),
    [
        (("a = tl.load(x).to(tl.float32)",), True),
        (("a = tl.load(x)",), False),
        (("a = tl.load(x)", "a = a.to(tl.float32)"), True),
        (("a = tl.load(x).to(tl.float32)", "a = a.to(y.dtype.element_ty)"), False),
        (("a = tl.load(x)", "a *= tl.zeros([16], tl.float32)"), True),
        (("a = tl.zeros([16], tl.float32)", "if n:", "    a = tl.load(x)"), False),
        (("if n:", "    a = tl.load(x).to(tl.float32)", "else:", "    a = tl.load(x)"), False),
        (("if n:", "    a = tl.load(x).to(tl.float32)", "else:", "    a = tl.zeros([16], tl.float32)"), True),
        (("if n:", "    a = tl.load(x).to(tl.float32)"), True),  # otherwise it has no value
        (("a = tl.zeros([16], tl.float32)", "for t in range(n):", "    a = tl.where(m, a, b)"), True),
        (("for a in range(n):", "    pass"), False),
        (("a = tl.zeros([16], tl.float32)", "a, b = f(x)"), False),
    ],
)
def test_a_name_is_float32_if_each_value_is(before: Sequence[str], *, is_float32: bool) -> None:
    assert lines_by(Operator.SCALE_TERM, *before, "z = c + a") == (["z = c + a * 1.0001"] if is_float32 else [])


def test_a_name_that_a_loop_narrows_is_not_float32() -> None:
    start, loop = "a = tl.zeros([16], tl.float32)", "for t in range(n):"
    assert lines_by(Operator.SCALE_TERM, start, loop, "    z = c + a", "    a = tl.load(x)") == []
    assert lines_by(Operator.SCALE_TERM, start, loop, "    z = c + a", "    a = z") == ["z = c + a * 1.0001"]


def test_a_mutant_is_the_file_with_one_change() -> None:
    (mutant,) = (one for one in made_of("o = 1", "m = o < n") if one.operator is Operator.STRICTNESS)
    source = (KERNEL + "    o = 1\n    m = o < n\n").encode()
    assert mutant.apply(source) == (KERNEL + "    o = 1\n    m = o <= n\n").encode()
    assert (mutant.line, mutant.function, mutant.launches) == (8, "kernel", ())


def test_a_line_belongs_to_its_innermost_statement() -> None:
    (inner,) = (one for one in made_of("if n:", "    m = o < n") if one.operator is Operator.STRICTNESS)
    (outer,) = (one for one in made_of("if o < n:", "    m = o") if one.operator is Operator.STRICTNESS)
    assert (inner.statement, outer.statement) == ((8, 8), (7, 8))


def test_equal_mutants_are_made_once() -> None:
    assert len({mutant.id for mutant in made_of("m = o < n")}) == len(made_of("m = o < n")) == 3


def test_mutants_of_equal_lines_are_numbered() -> None:
    twice = made_of("m = o < n", "if n:", "    m = o < n")
    assert [(one.line, one.nth) for one in twice if one.operator is Operator.STRICTNESS] == [(7, 1), (9, 2)]


def test_host_code_only_gets_changes_to_the_number_of_blocks() -> None:
    source = (
        b"import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n\n\n"
        b"def launching(x, n):\n    if n < 3:\n        n += 1\n    kernel[(triton.cdiv(n, 16),)](x)\n\n\n"
        b"def other(n):\n    return triton.cdiv(n, 16)\n"
    )
    assert [(one.operator, one.launches, one.after.strip()) for one in mutants_of(source, "a.py")] == [
        (Operator.FLOOR_BLOCKS, ("kernel",), "kernel[((n // 16),)](x)")
    ]


def test_a_file_without_kernels_has_no_mutants() -> None:
    assert mutants_of(b"def f(a, b):\n    return a < b\n", "a.py") == ()
