"""The parser reads every spelling of Triton 3.6 to 3.9, and refuses other text with its line."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import re
from contextlib import suppress

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.ttir.ir import UNREAD, Module, Operation, Type
from harness.engines.ttir.notation import parse_number, parse_type
from harness.engines.ttir.parser import parse, parse_signature
from harness.engines.ttir.tokens import LINE, Tokens
from harness.engines.virtual.operations.arith import literal
from harness.errors import CannotExecute
from harness.model.run import Source
from tests.engines.conftest import Gpu, line_of

BRANCHES = """
module {
  tt.func public @kernel(%x: !tt.ptr<f32> {a.b = 16 : i32} loc("x"(#loc1)), %n: i32) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
    %0 = arith.cmpi sgt, %n, %c0_i32 : i32 loc(#loc2)
    cf.cond_br %0, ^bb2, ^bb1(%n, %c0_i32 : i32, i32) loc(#loc2)
  ^bb1(%1: i32 loc("kernel.py":1:0), %2: i32):  // 2 preds: ^bb0, ^bb3
    %3 = arith.addi %1, %2 : i32
    tt.return
  ^bb3:  // pred: ^bb2
    %4 = scf.if %0 -> (i32) {
      %6 = arith.addi %5, %5 : i32
      scf.yield %6 : i32
    } else {
      scf.yield %5 : i32
    }
    %7 = arith.addi %5, %4 : i32
    cf.br ^bb1(%7, %5 : i32, i32)
  ^bb2:  // pred: ^bb0
    %5 = arith.muli %n, %n : i32
    cf.br ^bb3
  }
}
#loc1 = loc("kernel.py":3:4)
#loc2 = loc(callsite(#loc3 at #loc4))
#loc3 = loc("/site-packages/triton/language/standard.py":40:2)
#loc4 = loc(callsite("a at b (1).py":7:1 at fused<"x">["kernel.py":9:1, #loc1]))
"""


def operations(module: Module) -> list[Operation]:
    return [operation for block in module.kernel.body.blocks for operation in block.operations]


def test_blocks_may_use_values_of_later_blocks() -> None:
    module = parse(BRANCHES)
    blocks = module.kernel.body.blocks
    assert [block.label for block in blocks] == ["", "^bb1", "^bb3", "^bb2"]
    defined = blocks[3].operations[0].results[0]
    choice, total, leave = blocks[2].operations
    inner = choice.regions[0].entry.operations[0]
    assert inner.operands == (defined, defined)
    assert choice.regions[1].entry.operations[0].operands == (defined,)
    assert total.operands == (defined, choice.results[0])
    assert total.operand_types == (Type("i32"), Type("i32"))
    assert [(successor.block, successor.arguments) for successor in leave.successors] == [
        ("^bb1", (total.results[0], defined))
    ]


def test_an_operation_has_the_users_line_not_tritons() -> None:
    module = parse(BRANCHES)
    assert [module.source(operation.location) for operation in module.kernel.body.blocks[0].operations] == [
        Source(file="kernel.py", line=3),
        Source(file="a at b (1).py", line=7),
        Source(file="a at b (1).py", line=7),
    ]
    assert module.source('loc("name"("other.py":5:6))') == Source(file="other.py", line=5)
    assert module.source("loc(fused<#loc1>[#loc4, #loc1])") == Source(file="a at b (1).py", line=7)
    assert module.source("loc(unknown)") is None
    assert module.source("") is None


SPELLINGS = """
#loc = loc("k.py":1:0)
module attributes {"ttg.target" = "cuda:90"} {
  tt.func public @"odd name"(%a.ptr: !tt.ptr<bf16, 1>, %d: !tt.tensordesc<tensor<32x16xf32>>,
                               %e: !tt.tensordesc<32x16xf32>) {
    %cst = arith.constant dense<0xFF800000> : tensor<4xf32>
    %cst_0 = arith.constant dense<[1, -2, 3, 4]> : tensor<4xi32>
    %true = arith.constant true
    %c-1_i64 = arith.constant -1 : i64
    %f = arith.constant 1.000000e-05 : f32
    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %0:2 = "tt.reduce"(%cst, %r) <{axis = 0 : i32}> ({
    ^bb0(%p: f32, %q: i32, %s: f32, %t: i32):
      %5 = arith.cmpf ogt, %p, %s : f32
      tt.reduce.return %p, %q : f32, i32
    }) : (tensor<4xf32>, tensor<4xi32>) -> (f32, i32) loc(#loc)
    %1 = arith.addi %0#1, %0#1 overflow<nsw, nuw> : i32
    %z.w = arith.extsi %1 : i32 to i64
    %2 = arith.divf %cst, %cst fastmath<contract> : tensor<4xf32>
    %3 = tt.dot %cst, %cst, %cst, inputPrecision = tf32 : tensor<4xf32> * tensor<4xf32> -> tensor<4xf32>
    %l = tt.load %a.ptr evictionPolicy = evict_last {isVolatile = true} : !tt.ptr<bf16, 1>
    %4 = tt.clampf %cst, %cst, %cst, propagateNan = none : tensor<4xf32>
    %o = tt.some_op %cst {order = array<i32: 1, 0>} : tensor<4xf32> -> tensor<2x2xf32>
    %lhs, %rhs = tt.split %o : tensor<2x2xf32> -> tensor<2xf32>
    %td = tt.make_tensor_descriptor %a.ptr, [%1, %1], [%z.w, %c-1_i64] : <f32>, <tensor<16x16xf32>>
    %u = tt.elementwise_inline_asm "add $0, $1;" {constraints = "=r,r", pure = true} %r : tensor<4xi32> -> tensor<4xi32>
    tt.return
  }
}
"""


def test_every_spelling_is_read() -> None:
    module = parse(SPELLINGS)
    kernel = module.kernel
    assert kernel.name == "odd name"
    block = Type("f32", (32, 16))
    assert [parameter.type for parameter in kernel.parameters] == [
        Type("ptr", (), Type("bf16")),
        Type("tensordesc", (), block),
        Type("tensordesc", (), block),
    ]
    found = {operation.name: operation for operation in operations(module)}
    by_constant = [operation.attributes["value"] for operation in operations(module)[:5]]
    assert by_constant == ["dense<0xFF800000>", "dense<[1, -2, 3, 4]>", "true", "-1", "1.000000e-05"]
    floats, integers = Type("f32", (4,)), Type("i32", (4,))
    assert {name: operation.result_types for name, operation in found.items() if name != "arith.constant"} == {
        "tt.make_range": (integers,),
        "tt.reduce": (Type("f32"), Type("i32")),
        "arith.addi": (Type("i32"),),
        "arith.extsi": (Type("i64"),),
        "arith.divf": (floats,),
        "tt.dot": (floats,),
        "tt.load": (Type("bf16"),),
        "tt.clampf": (floats,),
        "tt.some_op": (Type("f32", (2, 2)),),
        "tt.split": (Type("f32", (2,)), Type("f32", (2,))),
        "tt.make_tensor_descriptor": (Type("tensordesc", (), Type("f32", (16, 16))),),
        "tt.elementwise_inline_asm": (integers,),
        "tt.return": (),
    }
    assert found["arith.addi"].operands == (found["tt.reduce"].results[1],) * 2
    assert found["tt.dot"].attributes["inputPrecision"] == "tf32"
    assert found["tt.some_op"].attributes["order"] == (1, 0)
    assert found["tt.reduce"].attributes["axis"] == 0


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0xFF800000", "f32", -float("inf")),
        ("0x3F80", "bf16", 1.0),
        ("0x3C00", "f16", 1.0),
        ("0xFFF0000000000000", "f64", -float("inf")),
        ("-1.500000e+00", "f32", -1.5),
        ("6.992180e-01", "bf16", 0.69921875),
        ("4294967295", "i32", -1),
        ("-1", "i1", True),
        ("false", "i1", False),
    ],
)
def test_literals_are_read_by_their_type(text: str, kind: str, value: float) -> None:
    assert literal(text, Type(kind)) == value


def test_numbers_and_types_are_read() -> None:
    assert (parse_number("0x10"), parse_number("-3"), parse_number("1.5e+00")) == (16, -3, 1.5)
    assert parse_type("tensor<32x64x!tt.ptr<f32>>") == Type("ptr", (32, 64), Type("f32"))
    assert str(parse_type("tensor<32x64x!tt.ptr<f32>>")) == "tensor<32x64xptr<f32>>"
    assert parse_type("!tt.ptr<!tt.ptr<i64>>").pointee == Type("ptr", (), Type("i64"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected a tt.func before 'the end'"),
        ("import torch\nx = torch.zeros(1)", "line 2: expected a tt.func before 'the end'"),
        (BRANCHES.replace("arith.muli %n, %n", "arith.muli %n, !"), "line 20"),
        (BRANCHES.partition("%5 = arith.muli")[0], "line 19: expected more before 'the end'"),
        (BRANCHES.replace("scf.if %0 -> (i32)", "scf.if %0 -> i32)"), "line 11: expected '{' before ') {"),
        (SPELLINGS.replace("%0:2 = ", "%0:3 = "), "line 17"),
    ],
    ids=["nothing", "Python", "a foreign sign", "no end", "brackets", "too few results"],
)
def test_other_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(CannotExecute, match=re.escape(message)):
        parse(text)


def test_an_operation_on_one_line_is_read_like_any_other() -> None:
    lines = [
        f"{line} loc(#loc1)" if re.match(r"    *(%\S+ = )?[a-z]+\.", line) and not line.endswith("{") else line
        for line in (*BRANCHES.replace(" loc(#loc1)\n", "\n").replace(" loc(#loc2)\n", "\n").splitlines(),)
    ]
    by_lines = "\n".join(lines)
    by_tokens = by_lines.replace("loc(#loc1)", "loc( #loc1)")  # the space makes it no `LINE` token
    assert sum(kind == LINE for kind, _ in Tokens(by_lines)._tokens) == 9
    assert not any(kind == LINE for kind, _ in Tokens(by_tokens)._tokens)
    read, expected = (list(map(repr, parse(text).kernel.body.blocks)) for text in (by_lines, by_tokens))
    assert read == [block.replace("loc( #loc1)", "loc(#loc1)") for block in expected]


def test_a_signature_is_read_where_the_body_cannot_be() -> None:
    text = BRANCHES.replace("    %c0_i32 = arith.constant 0 : i32 loc(#loc1)", "    %c0_i32 = new.form [[%x]} -> ?", 1)
    with pytest.raises(CannotExecute):
        parse(text)
    kernel = parse_signature(text).kernel
    assert [parameter.name for parameter in kernel.parameters] == ["x", "n"]
    (operation,) = kernel.body.entry.operations
    assert (operation.name, len(operation.operands)) == (UNREAD, 2)


def test_an_error_in_a_one_line_operation_is_refused_with_its_line() -> None:
    text = BRANCHES.replace("%c0_i32 = arith.constant 0 : i32", "%c0_i32 = arith.constant ! : i32")
    with pytest.raises(CannotExecute, match="line 4"):
        parse(text)


@given(st.data())
def test_damaged_text_is_refused_and_never_breaks_the_parser(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from((BRANCHES, SPELLINGS)))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    put = data.draw(st.sampled_from(("", "%", "{", "}", "(", "0x", "->", ":", "tt.func", "loc(", '"', "<")))
    with suppress(CannotExecute):
        parse(text[:start] + put + text[end:])


@triton.jit
def inner(x, at):
    return tl.sum(tl.load(x + at))  # the inner line


@triton.jit
def outer_kernel(x, out, n: tl.constexpr):
    tl.store(out, inner(x, tl.arange(0, n)))


def test_an_event_names_the_line_of_the_inlined_function(gpu: Gpu) -> None:
    outer_kernel[(1,)](torch.zeros(4), torch.zeros(1), 8)
    (event,) = gpu.memory
    assert event.site.source == Source(file=__file__, line=line_of(__file__, "the inner line"))
