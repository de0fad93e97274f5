"""The draft of a suite from the calls of a test: an op for each function that the test called.

Sizes, types, options and the reference come from what was seen.  What the test does not say is marked: a guess by a
comment, and a missing reference by `NotImplementedError`, which lets `harness fuzz` run the draft all the same.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from pathlib import Path
from types import MappingProxyType

from harness.drafts.seen_calls import ArgumentKind, SeenArgument, SeenCall, SeenTest
from harness.drafts.seen_sizes import Sizes, dims_of, products
from harness.drafts.signatures import Kernel, read_source
from harness.drafts.suite_draft import BLOCKS, STRIDES
from harness.drafts.suite_text import OpText, SuiteText, draft_text, in_braces, missing
from harness.drafts.tested_reference import OpNames, TestedReference, comparison_line, reference_of
from harness.errors import UsageError
from harness.model.case import USUAL_DTYPES, DType
from harness.wire import Scalar

DTYPES: Mapping[str, DType] = MappingProxyType({dtype.torch_name: dtype for dtype in DType if dtype.is_float})
PAD = -1
LEAST_ORDERED = 4
"""From so many integers in a call on, their order and their difference count."""
LEAST_DRAWN = 16
"""Fewer numbers say nothing about their range."""
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def draft_of_calls(seen: SeenTest, test_file: Path, suite: Path) -> SuiteText:
    """Return the draft of a suite; `suite` is its path, from which folders of modules are named.

    Raises:
        UsageError: nothing that the test called can be called by a suite.
    """
    by_subject = sorted(seen.calls, key=lambda call: (call.is_kernel, call.module, call.name))
    groups = [
        tuple(calls) for _, calls in groupby(by_subject, key=lambda call: (call.is_kernel, call.module, call.name))
    ]
    if any(not calls[0].is_kernel for calls in groups):  # a launch without a function is then part of the test's setup
        groups = [calls for calls in groups if not calls[0].is_kernel]
    writers = [_OpWriter(_alike(calls), test_file) for calls in groups]
    ops = [writer.op() for writer in writers]
    if not ops:
        raise UsageError(f"{seen.test} called nothing that a suite can call")
    folders = dict.fromkeys(folder for writer in writers for folder in writer.folders if folder)
    relative = [Path(os.path.relpath(folder, suite.parent)).as_posix() for folder in folders]
    origin = f"from the calls of {seen.test}, made by `harness init --from`: check what is guessed."
    return SuiteText(
        about=draft_text(origin, suite.as_posix()),
        imports=("import sys", "from pathlib import Path") if relative else (),
        top=[f'sys.path.append(str((Path(__file__).parent / "{folder}").resolve()))' for folder in relative],
        ops=ops,
    )


def _alike(calls: Sequence[SeenCall]) -> tuple[SeenCall, ...]:
    """Return the calls whose tensors have the ranks that most calls use."""
    kinds = Counter(_ranks(call) for call in calls)
    common = max(kinds, key=lambda kind: (kinds[kind], len(kind)))
    ranks = dict(common)
    return tuple(call for call in calls if all(ranks.get(name, rank) == rank for name, rank in _ranks(call)))


def _ranks(call: SeenCall) -> tuple[tuple[str, int], ...]:
    tensors = ((name, argument) for name, argument in call.arguments.items() if argument.kind is ArgumentKind.TENSOR)
    return tuple((name, len(argument.shape)) for name, argument in tensors)


def _without_boundary(arguments: Mapping[str, SeenArgument]) -> dict[str, SeenArgument]:
    """Return the arguments; boundaries of sequences have the number of sequences as their size."""
    boundaries = {
        name: replace(argument, shape=(argument.shape[0] - 1,))
        for name, argument in arguments.items()
        if argument.rises and argument.shape[0] > 1
    }
    return {**arguments, **boundaries}


class _OpWriter:
    """Writes the op of equal calls."""

    def __init__(self, calls: Sequence[SeenCall], test_file: Path) -> None:
        self._calls = tuple(replace(call, arguments=_without_boundary(call.arguments)) for call in calls)
        self._first = self._calls[0]
        self.folders = [self._first.folder]
        """Folders of the modules that the op imports."""
        self._test_file = test_file
        self._name = self._first.name.partition(".")[0]
        self._parameters = tuple(dict.fromkeys(name for call in self._calls for name in call.arguments))
        self._tensors = tuple(name for name in self._parameters if self._tensors_of(name))
        self._ranks = {name: max(len(tensor.shape) for tensor in self._tensors_of(name)) for name in self._tensors}
        self._dims = dims_of(self._calls, self._ranks, frozenset(self._parameters))
        self._scalars = tuple(name for name in self._parameters if name not in self._tensors)

    def op(self) -> OpText:
        return self._kernel_op() if self._first.is_kernel else self._function_op()

    # --- functions ---------------------------------------------------------------------------------------------------

    def _function_op(self) -> OpText:
        dim_of = {name: dim for name in self._scalars if (dim := self._dim_equal_to(name))}
        options = {name: self._values(name) for name in self._scalars if name not in dim_of}
        options = {name: values for name, values in options.items() if values != (None,)}
        passed_on = [name for name in self._parameters if name in {*self._tensors, *dim_of, *options}]
        named = [(name, dim_of.get(name, name)) for name in passed_on]
        is_apply = self._first.name.endswith(".apply")
        if is_apply:  # it takes no keywords
            named = [(name, dim_of.get(name, name if name in passed_on else "None")) for name in self._parameters]
        arguments = ", ".join(value if is_apply else f"{name}={value}" for name, value in named)
        outer, _, inner = self._first.name.partition(".")
        used = (*self._tensors, *options, *dict.fromkeys(dim_of.values()))
        reference = self._reference(used)
        result = f"[{reference.result_index}]" if reference and reference.result_index is not None else ""
        body = [
            f"from {self._first.module} import {outer} as library_function",
            "",
            *self._casts(),
            f"return library_function{f'.{inner}' if inner else ''}({arguments}){result}",
        ]
        return self._op(self._tensors, options, used, body, reference)

    def _reference(self, passed: Sequence[str], *outputs: str) -> TestedReference | None:
        if len(outputs) > 1:
            return None
        call = next((call for call in self._calls if call.written), self._first)
        names = OpNames(frozenset((*passed, *self._dims.ranges)), self._dims.constant)
        return reference_of(self._test_file, call, names, *outputs)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def _kernel_op(self) -> OpText:
        kernel = _kernel(self._first)
        outputs = [name for name in self._tensors if name in kernel.stored]
        inputs = [name for name in self._tensors if name in kernel.loaded or name not in kernel.stored]
        changed = [name for name in outputs if name in inputs]
        new = [name for name in outputs if name not in inputs]
        like = next(iter(inputs), "")
        lines = ["import torch", "import triton", "", f"from {self._first.module} import {self._name} as kernel", ""]
        lines += self._casts()
        lines += [f"{name} = {name}.clone()" for name in changed]
        lines += [f"{name} = {self._empty(name, like)}" for name in new]
        arguments: list[str] = []
        options: dict[str, tuple[Scalar, ...]] = {}
        for name in self._parameters:
            text = name if name in self._tensors else self._number(name)
            if text is None:
                options[name] = self._values(name)
            arguments.append(f"{name}={text or name}")
        lines += [f"kernel[{self._grid()}]({', '.join(arguments)})", f"return {', '.join(outputs) or like}"]
        body = [line for line in lines if line != "import triton" or "triton." in "\n".join(lines[3:])]
        body = [line for line in body if line != "import torch" or "torch." in "\n".join(lines[3:])]
        words = set(re.findall(r"\w+", "\n".join(body)))
        used = (*inputs, *options, *(dim for dim in self._dims.ranges if dim in words))
        return self._op(inputs, options, used, body, self._reference((*inputs, *options), *outputs))

    def _empty(self, name: str, like: str) -> str:
        shape = ", ".join(map(str, self._dims.shape(name, self._ranks[name])))
        kinds = {tensor.dtype for tensor in self._tensors_of(name)}
        is_like = (
            all(call.arguments[name].dtype == call.arguments[like].dtype for call in self._calls) if like else False
        )
        dtype = f"{like}.dtype" if is_like else f"torch.{min(kinds)}"
        device = f"{like}.device" if like else '"cuda"'
        return f"torch.empty(({shape}{',' if self._ranks[name] == 1 else ''}), dtype={dtype}, device={device})"

    def _number(self, name: str) -> str | None:
        """Return the text of a number of a launch; None if it is to be an option."""
        values = self._values(name)
        if STRIDES.search(name) and (stride := self._stride(name)):
            return stride
        if dim := self._dim_equal_to(name):
            return dim
        if BLOCKS.search(name):
            numbers = self._numbers(name)
            for dim, sizes in self._dims.seen.items():
                if numbers == tuple(_power_of_2(size or 0) for size in sizes):
                    return f"triton.next_power_of_2({dim})"
        return repr(values[0]) if len(values) == 1 else None

    def _stride(self, name: str) -> str | None:
        stems = {tensor: re.sub(r"_?ptr$", "", tensor).lower() for tensor in self._tensors}
        nearest = sorted(self._tensors, key=lambda tensor: stems[tensor] not in name.lower())
        for tensor in nearest:
            for axis in range(self._ranks[tensor]):
                if self._numbers(name) == tuple(call.arguments[tensor].strides[axis] for call in self._calls):
                    return f"{tensor}.stride({axis})"
        return None

    def _grid(self) -> str:
        axes = [tuple(call.grid[axis] for call in self._calls) for axis in range(3)]
        while len(axes) > 1 and set(axes[-1]) == {1}:
            axes.pop()
        texts = [self._grid_axis(axis) for axis in axes]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def _grid_axis(self, programs: tuple[int, ...]) -> str:
        blocks = [name for name in self._scalars if BLOCKS.search(name)]
        for dim, sizes in self._dims.seen.items():
            for block in blocks:
                steps = self._numbers(block)
                if all(step and step > 1 for step in steps) and programs == tuple(
                    -(-(size or 0) // (step or 1)) for size, step in zip(sizes, steps, strict=True)
                ):
                    return f"triton.cdiv({dim}, {self._number(block) or block})"
        for dim, sizes in self._dims.seen.items():
            if programs == sizes:
                return dim
        for dim, sizes in self._dims.seen.items():
            for other, other_sizes in self._dims.seen.items():
                if programs == products(sizes, other_sizes):
                    return f"{dim} * {other}"
        return str(programs[0])

    # --- both --------------------------------------------------------------------------------------------------------

    def _op(
        self,
        inputs: Sequence[str],
        options: Mapping[str, tuple[Scalar, ...]],
        used: Sequence[str],
        body: Sequence[str],
        reference: TestedReference | None,
    ) -> OpText:
        types = self._case_types()
        more = {"options": in_braces({name: repr(values) for name, values in options.items()})} if options else {}
        if tuple(types) != USUAL_DTYPES:
            more["dtypes"] = f"({', '.join(f'DType.{dtype.name}' for dtype in types)}{',' if len(types) == 1 else ''})"
        guesses = ["guessed: what is a dim, and how large it may be"]
        if contiguity := self._contiguity():
            more["contiguous"] = contiguity
            guesses.append("guessed: what memory the library demands, since the test passes no other")
        words = {*used, *re.findall(r"\w+", reference.expression)} if reference else {*used}
        if reference and reference.own_names:
            self.folders.append(str(self._test_file.parent))
        return OpText(
            name=self._name,
            notes=(self._origin(), self._seen(), *guesses, *self._order_guesses(inputs), *self._value_guesses(inputs)),
            dims=self._dims.ranges,
            inputs={name: self._input(name) for name in inputs},
            more=more,
            passed=used,
            body=body,
            defined=[name for name in (*inputs, *options, *self._dims.ranges) if name in words],
            definition=self._definition(reference),
        )

    def _contiguity(self) -> str:
        """Return what all tensors of all calls have, as `op` takes it; empty if some have not even contiguous rows."""
        seen = {tensor.contiguity for name in self._tensors for tensor in self._tensors_of(name)}
        return "" if False in seen else '"rows"' if "rows" in seen else "True"

    def _draw(self, name: str) -> str:
        """Return the member of `Draw` whose numbers an input had in all calls; empty if any numbers are likely."""
        tensors = self._tensors_of(name)
        if sum(prod(tensor.shape) for tensor in tensors) < LEAST_DRAWN or any(
            tensor.smallest == tensor.largest for tensor in tensors
        ):
            return ""
        smallest, largest = min(tensor.smallest for tensor in tensors), max(tensor.largest for tensor in tensors)
        if all(tensor.sums_to_one for tensor in tensors) and smallest >= 0:
            return "SHARES"
        if smallest >= 0:
            return "UNIT" if largest <= 1 else "POSITIVE"
        return "LOG_UNIT" if largest <= 0 else ""

    def _total(self, name: str) -> str | None:
        """Return the dim to which the integers of an input add up in all calls, as the sizes of groups do."""
        tensors = self._tensors_of(name)
        if any(len(tensor.shape) != 1 or tensor.low < 0 or tensor.rises for tensor in tensors):
            return None
        totals = (call.arguments.get(name) for call in self._calls)
        return self._dims.equal_to(tuple(seen.total if seen and _is_tensor(seen) else None for seen in totals))

    def _value_guesses(self, inputs: Sequence[str]) -> Sequence[str]:
        """Return the notes about inputs whose numbers or sums were alike in all calls."""
        drawn = [name for name in inputs if "draw=" in self._input(name)]
        summed = [name for name in inputs if self._input(name).startswith("sizes(")]
        return [
            *([f"guessed: the range of {', '.join(drawn)}"] if drawn else []),
            *([f"guessed: the sum of {', '.join(summed)}"] if summed else []),
        ]

    def _order_guesses(self, inputs: Sequence[str]) -> Sequence[str]:
        """Return the notes about integers that are declared distinct, ascending or padded."""
        guessed = [name for name in inputs if not self._total(name) and (self._order(name) or self._pad(name))]
        return [f"guessed: what holds for {', '.join(guessed)} in every call holds in all"] if guessed else []

    def _order(self, name: str) -> str:
        """Return the arguments that say how the integers of an input differ and are sorted in all calls."""
        tensors = self._tensors_of(name)
        if any("float" in tensor.dtype or tensor.rises for tensor in tensors):
            return ""
        if sum(prod(tensor.shape) for tensor in tensors) < LEAST_ORDERED * len(tensors):
            return ""
        texts: list[str] = []
        if all(tensor.is_distinct for tensor in tensors):
            texts.append(", distinct=True")
        elif all(tensor.has_distinct_rows for tensor in tensors):
            texts.append(', distinct="rows"')
        if all(tensor.is_ascending for tensor in tensors):
            texts.append(", ascending=True")
        return "".join(texts)

    def _pad(self, name: str) -> str:
        """Return the argument for integers that are -1 at least: they are pads more often than anything else."""
        tensors = self._tensors_of(name)
        is_padded = min(tensor.low for tensor in tensors) == PAD and not any(
            "float" in tensor.dtype for tensor in tensors
        )
        return f", ignore={PAD}" if is_padded else ""

    def _origin(self) -> str:
        where = f"{self._first.test_function}, line {self._first.line}"
        what = f"the launch of {self._name}" if self._first.is_kernel else f"{self._first.module}.{self._first.name}"
        return f"{what}, as in {where}"

    def _seen(self) -> str:
        each = (
            f"{name} {', '.join(map(str, sorted({size for size in sizes if size is not None})))}"
            for name, sizes in self._dims.seen.items()
        )
        return f"seen: {'; '.join(each) or 'no sizes'}"

    def _definition(self, reference: TestedReference | None) -> Sequence[str]:
        if reference is not None:
            own = (
                [f"from {self._test_file.stem} import {', '.join(reference.own_names)}"] if reference.own_names else []
            )
            return [
                f"# From line {reference.line} of the test.  It is also computed in float64: casts lose digits.",
                *reference.imports,
                *own,
                *([""] if reference.imports or own else []),
                f"return {reference.expression}",
            ]
        line = comparison_line(self._test_file, self._first.test_function.rpartition("::")[2])
        note = [f"# To be written: line {line} of the test has what it compares with."] if line else []
        return [*note, missing(self._name)]

    def _tensors_of(self, name: str) -> list[SeenArgument]:
        arguments = (call.arguments.get(name) for call in self._calls)
        return [argument for argument in arguments if argument and argument.kind is ArgumentKind.TENSOR]

    def _values(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of an argument, each once; a truth value is not the number that it equals."""
        arguments = (call.arguments[name] for call in self._calls if name in call.arguments)
        scalars = [argument.scalar for argument in arguments if argument.kind is ArgumentKind.SCALAR]
        return tuple({repr(scalar): scalar for scalar in scalars}.values()) or (None,)

    def _numbers(self, name: str) -> Sizes:
        arguments = (call.arguments.get(name) for call in self._calls)
        scalars = [argument.scalar if argument else None for argument in arguments]
        return tuple(scalar if type(scalar) is int else None for scalar in scalars)

    def _dim_equal_to(self, name: str) -> str | None:
        numbers = self._numbers(name)
        return self._dims.equal_to(numbers) if None not in numbers else None

    def _case_types(self) -> list[DType]:
        """Return the types that cases have: those of the first floating-point tensor."""
        types = {DTYPES[kind] for call in self._calls if (kind := self._case_type(call)) in DTYPES}
        return [dtype for dtype in DType if dtype in types] or list(USUAL_DTYPES)

    def _case_type(self, call: SeenCall) -> str:
        kinds = (call.arguments[name].dtype for name in self._tensors if name in call.arguments)
        return next((kind for kind in kinds if "float" in kind), "")

    def _input(self, name: str) -> str:
        tensors = self._tensors_of(name)
        shape = self._dims.shape(name, self._ranks[name])
        extents = ", ".join(f'"{extent}"' if isinstance(extent, str) else str(extent) for extent in shape)
        optional = (
            ", optional=True"
            if any(name in call.arguments and not _is_tensor(call.arguments[name]) for call in self._calls)
            else ""
        )
        kinds = {tensor.dtype for tensor in tensors}
        if any("float" in kind for kind in kinds):
            grad = "" if any(tensor.requires_grad for tensor in tensors) else ", grad=False"
            draw = f", draw=Draw.{drawn}" if (drawn := self._draw(name)) else ""
            return f"tensor({extents}{optional}{grad}{self._fixed_type(name, kinds)}{draw})"
        kind = f', dtype="{min(kinds)}"' if min(kinds) in INTEGERS and min(kinds) != "int64" else ""
        if all(tensor.rises for tensor in tensors) and (total := self._dims.equal_to(tuple(self._highest(name)))):
            return f'segments("{total}", {extents}{optional}{kind})'
        if kinds != {"bool"} and (total := self._total(name)):
            return f'sizes({extents}, "{total}"{optional}{kind})'
        low = min(tensor.low for tensor in tensors)
        if kinds == {"bool"}:
            return f"integers({extents}, high=2{optional}{kind})"
        bound = self._dims.bound_of(tuple(self._highest(name)))
        high = f'"{bound}"' if isinstance(bound, str) else str(bound)
        pad = self._pad(name)
        lowest = f", low={low}" if low < 0 and not pad else ""
        return f"integers({extents}{lowest}, high={high}{pad}{self._order(name)}{optional}{kind})"

    def _highest(self, name: str) -> Iterable[int | None]:
        for call in self._calls:
            argument = call.arguments.get(name)
            yield argument.high if argument is not None and _is_tensor(argument) else None

    def _fixed_type(self, name: str, kinds: set[str]) -> str:
        """Return the element type of a tensor, if it differs from that of the case."""
        is_of_case = all(
            call.arguments[name].dtype == self._case_type(call)
            for call in self._calls
            if _is_tensor(call.arguments.get(name))
        )
        (kind, *more) = sorted(kinds)
        return "" if is_of_case or more or kind not in DTYPES else f", dtype=DType.{DTYPES[kind].name}"

    def _casts(self) -> list[str]:
        """Return the lines that give tensors a type that inputs of a suite cannot have."""
        lines: list[str] = []
        for name in self._tensors:
            kinds = {tensor.dtype for tensor in self._tensors_of(name)}
            if len(kinds) == 1 and not kinds & {*DTYPES, *INTEGERS}:
                lines.append(f"{name} = {name}.to(torch.{min(kinds)})")
        return ["import torch", "", *lines] if lines and not self._first.is_kernel else lines


def _is_tensor(argument: SeenArgument | None) -> bool:
    return argument is not None and argument.kind is ArgumentKind.TENSOR


def _kernel(call: SeenCall) -> Kernel:
    kernels = {kernel.name: kernel for kernel in read_source(Path(call.file)).kernels}
    if call.name not in kernels:
        raise UsageError(f"{call.file} has no kernel {call.name} any more: run the test again by harness run")
    return kernels[call.name]


def _power_of_2(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
