"""Each pass of the reduction, with its input and output."""

from textwrap import dedent

import pytest

from harness.errors import MissingPart
from harness.findings.reduction import constants, expressions, folding, formatting, lines, parameters, statements
from harness.findings.reduction.formatting import drop_comments
from harness.findings.reduction.search import Pass
from harness.findings.reduction.temporaries import MERGED_LINE, inline_plain, merge_single_uses
from tests.findings.reduction.reducing import LAUNCH, IsInteresting, always, by, holds


def assert_reduces_to(*, origin: str, target: str, by_pass: Pass, is_interesting: IsInteresting = always) -> None:
    assert by(origin, by_pass, is_interesting) == dedent(target).lstrip()


def test_unused_definitions_go_with_those_that_only_they_used() -> None:
    assert_reduces_to(
        origin="""
            import math
            import torch

            SCALE = math.pi

            def twice(x):
                return twice(SCALE * x)

            def main():
                return torch.ones(2)
        """,
        target="""
            import torch

            def main():
                return torch.ones(2)
        """,
        by_pass=statements.drop_unused,
        is_interesting=holds("main"),
    )


def test_one_of_several_imported_names_goes_alone() -> None:
    assert (
        by("from math import pi, tau\nprint(tau)\n", statements.drop_unused, always)
        == "from math import tau\nprint(tau)\n"
    )


def test_all_statements_go_except_interesting_ones_and_their_needs() -> None:
    assert_reduces_to(
        origin="""
            def kernel(x, y):
                a = x
                b = a
                c = b
                if a:
                    d = a
                    e = a
                for i in range(4):
                    f = i
                store(y, d)
        """,
        target="""
            def kernel(x, y):
                a = x
                if a:
                    d = a
                store(y, d)
        """,
        by_pass=statements.drop_statements,
        is_interesting=holds("store(y, d)"),
    )


def test_variables_with_cyclic_uses_go_together() -> None:
    origin = "def kernel(p):\n    a = 0\n    for i in range(4):\n        a = a + i\n        store(p)\n"
    target = "def kernel(p):\n    for i in range(4):\n        store(p)\n"
    assert_reduces_to(
        origin=origin, target=target, by_pass=statements.forget_names, is_interesting=holds("for", "store(p)")
    )


@pytest.mark.parametrize(
    ("offer", "target"),
    [(statements.take_bodies, "store(a)\n"), (statements.take_else, "store(b)\n")],
    ids=["then", "else"],
)
def test_an_if_is_replaced_by_a_branch(offer: Pass, target: str) -> None:
    assert by("if x:\n    store(a)\nelse:\n    store(b)\n", offer, holds("store")) == target


def test_an_else_is_dropped() -> None:
    assert (
        by("if x:\n    a()\nelif y:\n    b()\nelse:\n    c()\n", statements.drop_else, holds("a()"))
        == "if x:\n    a()\n"
    )


def test_the_body_of_an_elif_can_become_the_else() -> None:
    taken = by("if x:\n    a()\nelif y:\n    b()\n", statements.take_bodies, holds("if", "b()"))
    assert taken == "if x:\n    a()\nelse:\n    b()\n"


@pytest.mark.parametrize(
    ("values", "start"), [("range(4)", "0"), ("range(s, 9, 2)", "s"), ("tl.static_range(1, 4)", "1")]
)
def test_a_loop_runs_once_with_its_first_value(values: str, start: str) -> None:
    assert_reduces_to(
        origin=f"def f(s, tl, p):\n    for i in {values}:\n        store(p + i)\n",
        target=f"def f(s, tl, p):\n    i = {start}\n    store(p + i)\n",
        by_pass=statements.run_loops_once,
    )


def test_a_loop_with_break_stays_a_loop() -> None:
    origin = "def f(p):\n    for i in range(4):\n        if p:\n            break\n"
    assert by(origin, statements.run_loops_once, always) == origin


def test_parallel_assignments_get_a_line_each() -> None:
    assert (
        by("def f(x):\n    a, b = x, 2\n", statements.split_assignments, always) == "def f(x):\n    a = x\n    b = 2\n"
    )


def test_an_augmented_assignment_becomes_a_plain_one() -> None:
    assert by("def f(x, y):\n    x += y\n", statements.assign_plainly, always) == "def f(x, y):\n    x = y\n"


def test_constant_parameters_are_inlined() -> None:
    assert_reduces_to(
        origin=LAUNCH,
        target="""
            import triton
            import triton.language as tl

            @triton.jit
            def kernel(x, unused, T, ):
                o = tl.arange(0, 4)
                if False:
                    o += tl.load(None)
                tl.store(x + o, 0, mask=o < T)

            def main(x):
                kernel[(1,)](x, x, T=3, )
                kernel[(1,)](x, x, 3, )
        """,
        by_pass=parameters.inline_constants,
    )


def test_a_constant_with_two_values_stays_a_parameter() -> None:
    origin = dedent(LAUNCH).lstrip().replace("HAS_W=False)\n", "HAS_W=True)\n")
    assert "HAS_W: tl.constexpr" in by(origin, parameters.inline_constants, always)


def test_an_unused_parameter_goes_with_its_argument_in_every_launch() -> None:
    reduced = by(LAUNCH, parameters.drop_parameters, always)
    assert "def kernel(x, w, T, " in reduced
    assert reduced.count("](x, None, ") == 2


def test_a_parameter_of_a_function_passed_as_value_stays() -> None:
    origin = "def f(a):\n    pass\n\ndef main(g):\n    f(1)\n    g(f)\n"
    assert by(origin, parameters.drop_parameters, always) == origin


def test_a_parameter_goes_with_the_statements_that_use_it() -> None:
    reduced = by(LAUNCH, parameters.forget_parameters, holds("tl.store(x + o, 0, mask=o < T)", "HAS_W"))
    assert "tl.load" not in reduced
    assert reduced.count("](x, ") == reduced.count("def kernel(x, T, ") + 1 == 2


@pytest.mark.parametrize(
    ("offer", "origin", "target"),
    [
        (parameters.drop_decorators, "@a\n@b\ndef f(): pass\n", "@b\ndef f(): pass\n"),
        (parameters.drop_decorator_arguments, "@b(x=1)\ndef f(): pass\n", "@b\ndef f(): pass\n"),
        (parameters.drop_annotations, "def f(b: int) -> int: pass\n", "def f(b): pass\n"),
        (expressions.drop_keywords, "b(p, mask=m, other=0)\n", "b(p, )\n"),
        (expressions.drop_keywords, "b(2, dtype=t, device='cuda')\n", "b(2, device='cuda')\n"),
        (expressions.drop_last_arguments, "b(p, m, 0)\n", "b(p, )\n"),
        (expressions.take_receivers, "a = b.to(x.dtype)[0].sum()\n", "a = b[0]\n"),
        (expressions.take_receivers, "a = b.to('cuda').cuda()\n", "a = b.to('cuda').cuda()\n"),
        (expressions.take_receivers, "import b\na = b.to(1)\n", "import b\na = b.to(1)\n"),
        (expressions.take_subscripted, "a = b[:, None] & c[None, :]\n", "a = b & c\n"),
        (expressions.take_left, "a = b + 1 * 2\n", "a = b\n"),
        (expressions.take_left, "a = -b\n", "a = b\n"),
        (expressions.take_right, "a = (1 + 2) * b\n", "a = b\n"),
        (expressions.take_then, "a = b if c else d\n", "a = b\n"),
        (expressions.take_otherwise, "a = c if d else b\n", "a = b\n"),
        (expressions.take_argument(0), "a = 2 * t.sum(b + 1, axis=0)\n", "a = 2 * (b + 1)\n"),
        (expressions.take_argument(1), "a = t.where(c, b, d)\n", "a = b\n"),
        (expressions.drop_elements, "b = (1, 2, 3)\n", "b = (1, )\n"),
        (expressions.drop_first_elements, "b = (1, 2)\nb = (3,)\n", "b = (2,)\nb = (3,)\n"),
        (expressions.drop_parentheses, "a = (b)\n", "a = b\n"),
        (folding.fold_literals, "a = not (2 > 1)\nb = t.cdiv(7, 4)\n", "a = False\nb = t.cdiv(7, 4)\n"),
        (folding.fold_literals, "b = triton.cdiv(7, 4) * 2\n", "b = 4\n"),
        (folding.decide_branches, "if False:\n    a\nelif not False:\n    b\nelse:\n    c\n", "b\n"),
        (folding.fold_literals, "b = 'ieee' == 'tf32'\n", "b = False\n"),
        (folding.fold_literals, "b = 'x' * 2 ** 60\n", "b = 'x' * 2 ** 60\n"),
        (folding.decide_branches, "a = (c if 0 else b + 1) * 2\n", "a = (b + 1) * 2\n"),
        (constants.calls_become("0.0"), "b = t.load(p)[0]\n", "b = 0.0[0]\n"),
        (constants.shrink_to(2), "b = 64\nc = 2\nd = 1\n", "b = 2\nc = 2\nd = 1\n"),
        (constants.halve, "b = 100\nc = 64\nd = 2\n", "b = 64\nc = 32\nd = 2\n"),
        (constants.plain_fractions, "b = 1e-5\n", "b = 1.0\n"),
        (drop_comments, "b = 1  # one\n\n# two\n", "b = 1\n"),
    ],
)  # fmt: skip
def test_an_expression_is_replaced_by_a_part(offer: Pass, origin: str, target: str) -> None:
    assert by(origin, offer, holds("b")) == target


def test_the_tiles_of_a_function_lose_a_dimension_together() -> None:
    origin = "def f(k, q, p, t):\n    store(p[:, None], t.dot(k[None, :], q[:, None]))\n"
    one_dimensional = holds("store(p, q)")
    assert_reduces_to(
        origin=origin,
        target="def f(k, q, p, t):\n    store(p, q)\n",
        by_pass=expressions.drop_dimension(1),
        is_interesting=lambda text: text == origin or one_dimensional(text),
    )


def test_a_variable_with_its_subscripts_becomes_a_number() -> None:
    assert_reduces_to(
        origin="def f(p):\n    b = load(p)\n    b += 1\n    store(p, b[:, None].to(p.dtype) * 2)\n",
        target="def f(p):\n    store(p, 0.0 * 2)\n",
        by_pass=constants.variables_become("0.0"),
        is_interesting=holds("store(p"),
    )


def test_an_alias_is_inlined() -> None:
    origin = "def f(p):\n    n = 4\n    q = p\n    store(q, n, n)\n"
    assert by(origin, inline_plain, always) == "def f(p):\n    store(p, 4, 4)\n"


def test_a_single_use_is_inlined_with_needed_parentheses() -> None:
    origin = "def f(p, a):\n    s = a + 1\n    o = s * 2\n    store(p + o)\n"
    assert by(origin, merge_single_uses, always) == "def f(p, a):\n    store(p + ((a + 1) * 2))\n"


def test_arguments_of_a_launch_keep_their_names() -> None:
    origin = "def main(kernel):\n    dx = torch.empty(2)\n    kernel[(1,)](dx)\n"
    assert by(origin, merge_single_uses, always) == origin


def test_variables_of_two_functions_with_one_name_are_different() -> None:
    origin = "def kernel(T):\n    store(T)\n\ndef main(kernel):\n    T = 2\n    kernel(T)\n"
    reduced = by(origin, inline_plain, always)
    assert reduced == "def kernel(T):\n    store(T)\n\ndef main(kernel):\n    kernel(2)\n"


def test_merged_lines_stay_short() -> None:
    parts = [f"    part_{number} = load(pointer + {number} * stride)\n" for number in range(5)]
    uses = " + ".join(f"part_{number}" for number in range(5))
    reduced = by(f"def f(pointer, stride):\n{''.join(parts)}    store(pointer, {uses})\n", merge_single_uses, always)
    assert 2 < lines(reduced) < 7
    assert max(map(len, reduced.splitlines())) <= MERGED_LINE


def test_a_formatter_that_does_not_end_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "RUFF_LIMIT_S", 0.001)
    with pytest.raises(MissingPart, match=r"within 0\.001 s"):
        formatting.lay_out("x = 1\n")
