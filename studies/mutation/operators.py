"""The mutation operators: small mistakes that people make in Triton kernels, each a rule from syntax to syntax.

A rule receives one node of a function's syntax tree and yields replacements for it.  It does not know where the node
is.  `studies.mutation.mutants` visits the functions and makes a mutant of each replacement.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import libcst as cst

from studies.mutation.scaled_terms import ScaledTerms
from studies.mutation.strides import swap_strides
from studies.mutation.syntax import ATOMS, atom, is_type, last_name, parenthesised, triton_function

Rule = Callable[[cst.CSTNode], Iterator[cst.CSTNode]]


class Operator(StrEnum):
    """A kind of mistake; the value is its name in tables and files."""

    DROP_MASK = "drop-mask"
    """A load, a store or an atomic loses its mask, or a block pointer its boundary check."""
    BOUND_PLUS_ONE = "bound-plus-one"
    """`< N` becomes `< N + 1`."""
    BOUND_MINUS_ONE = "bound-minus-one"
    """`< N` becomes `< N - 1`."""
    STRICTNESS = "strictness"
    """`<` becomes `<=`, `>=` becomes `>`, and back."""
    SWAP_STRIDES = "swap-strides"
    """Two multipliers of one pointer expression, or two strides of a block pointer, are swapped."""
    DROP_ATOMIC = "drop-atomic"
    """An atomic update becomes a plain store."""
    DROP_INT64 = "drop-int64"
    """An index is no longer widened to 64 bits."""
    FLOOR_BLOCKS = "floor-blocks"
    """A number of blocks is rounded down, in a kernel or in host code: `cdiv(T, BT)` becomes `T // BT`."""
    LOSE_ACCUMULATION = "lose-accumulation"
    """`+=` becomes `=`."""
    NARROW_ACCUMULATOR = "narrow-accumulator"
    """An accumulator of type float32 becomes float16 or bfloat16."""
    DROP_FLOAT32 = "drop-float32"
    """A value is no longer widened to float32."""
    SCALE_TERM = "scale-term"
    """A float32 term is multiplied by 1.0001."""


ON_REQUEST = (Operator.SCALE_TERM,)
"""Operators that are tried only by name, so that the samples of all seeds stay as they are."""
USUAL = frozenset(Operator).difference(ON_REQUEST)


LOADS, STORES = ("load",), ("store",)
ATOMICS = tuple(f"atomic_{what}" for what in ("add", "max", "min", "and", "or", "xor"))
MASK_AT = {"load": 1, "store": 2, **dict.fromkeys(ATOMICS, 2)}
"""The index of the mask among positional arguments; it is dropped with all that follow."""
GUARDS = frozenset({"mask", "other", "boundary_check", "padding_option"})
FLIPPED: Mapping[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
}
NARROWER = ("float16", "bfloat16")


def drop_mask(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A memory access without its mask or boundary check."""
    if isinstance(node, cst.Call) and (name := triton_function(node)) in MASK_AT:
        kept = [
            argument
            for index, argument in enumerate(node.args)
            if (argument.keyword.value not in GUARDS if argument.keyword else index < MASK_AT[name])
        ]
        if len(kept) < len(node.args):
            yield _with_arguments(node, kept)


def bound_plus_one(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`< N` as `< N + 1`."""
    yield from _moved_bound(node, cst.Add())


def bound_minus_one(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`< N` as `< N - 1`."""
    yield from _moved_bound(node, cst.Subtract())


def strictness(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A comparison with strictness exchanged."""
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (target,) = node.comparisons
        if other := FLIPPED.get(type(target.operator)):
            yield node.with_changes(comparisons=[target.with_changes(operator=other())])


def drop_atomic(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An atomic whose result is unused, as a store."""
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and triton_function(node.value) in ATOMICS:
        call = node.value
        kept = [
            argument
            for index, argument in enumerate(call.args)
            if (argument.keyword.value in {"pointer", "val", "mask"} if argument.keyword else index <= MASK_AT["store"])
        ]
        # Atomics call the operand `val`, and `tl.store` calls it `value`.
        renamed = [
            argument.with_changes(keyword=cst.Name("value"))
            if argument.keyword and argument.keyword.value == "val"
            else argument
            for argument in kept
        ]
        yield node.with_changes(value=_with_arguments(call, renamed).with_changes(func=_tl("store")))


def drop_int64(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A value without its conversion to int64."""
    yield from _without_conversion(node, "int64")


def drop_float32(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A value without its conversion to float32."""
    yield from _without_conversion(node, "float32")


def floor_blocks(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`cdiv(a, b)` as `(a // b)`."""
    if isinstance(node, cst.Call) and last_name(node.func) == "cdiv" and len(node.args) == 2:
        dividend, divisor = (atom(argument.value) for argument in node.args)
        yield parenthesised(cst.BinaryOperation(left=dividend, operator=cst.FloorDivide(), right=divisor))


def lose_accumulation(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`+=` as `=`."""
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
        yield cst.Assign(targets=[cst.AssignTarget(target=node.target)], value=node.value)


def narrow_accumulator(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`tl.zeros` and `tl.full` of float32, of a narrower type."""
    if isinstance(node, cst.Call) and triton_function(node) in {"zeros", "full"}:
        for argument in node.args:
            if is_type(argument.value, "float32"):
                for name in NARROWER:
                    yield node.deep_replace(argument.value, _tl(name))


RULES: Mapping[Operator, Rule] = {
    Operator.DROP_MASK: drop_mask,
    Operator.BOUND_PLUS_ONE: bound_plus_one,
    Operator.BOUND_MINUS_ONE: bound_minus_one,
    Operator.STRICTNESS: strictness,
    Operator.SWAP_STRIDES: swap_strides,
    Operator.DROP_ATOMIC: drop_atomic,
    Operator.DROP_INT64: drop_int64,
    Operator.FLOOR_BLOCKS: floor_blocks,
    Operator.LOSE_ACCUMULATION: lose_accumulation,
    Operator.NARROW_ACCUMULATOR: narrow_accumulator,
    Operator.DROP_FLOAT32: drop_float32,
}
"""Rules for kernels and the functions that they call, whichever function it is."""
HOST_RULES: Mapping[Operator, Rule] = {Operator.FLOOR_BLOCKS: floor_blocks}
"""Rules for the functions that launch kernels."""


def kernel_rules(function: cst.FunctionDef) -> Mapping[Operator, Rule]:
    """Return the rules for one kernel, or for a function that kernels call."""
    return {**RULES, Operator.SCALE_TERM: ScaledTerms(function)}


def _moved_bound(node: cst.CSTNode, operator: cst.BaseBinaryOp) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (target,) = node.comparisons
        if isinstance(target.operator, cst.LessThan):
            bound = cst.BinaryOperation(left=_summand(target.comparator), operator=operator, right=cst.Integer("1"))
            yield node.with_changes(comparisons=[target.with_changes(comparator=bound)])


def _without_conversion(node: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="to")), args=[only]) if is_type(
            only.value, name
        ):
            yield value
        case cst.Call(args=[first, second]) if triton_function(node) == "cast" and is_type(second.value, name):
            yield atom(first.value)
        case _:
            pass


def _tl(name: str) -> cst.Attribute:
    return cst.Attribute(value=cst.Name("tl"), attr=cst.Name(name))


def _with_arguments(call: cst.Call, arguments: Sequence[cst.Arg]) -> cst.Call:
    """Return the call with these arguments, and with a trailing comma only if it had one."""
    last = call.args[-1]
    *front, back = arguments
    return call.with_changes(
        args=[*front, back.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)]
    )


def _summand(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression, in parentheses unless `+ 1` may follow it."""
    arithmetic = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
    fits = isinstance(node, ATOMS) or node.lpar
    return (
        node
        if fits or (isinstance(node, cst.BinaryOperation) and isinstance(node.operator, arithmetic))
        else parenthesised(node)
    )
