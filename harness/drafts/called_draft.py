"""The draft of a suite from the calls of a test: an op for each function that the test called.

Sizes, types, options and the reference come from what was seen.  What the test does not say is marked: a guess by a
comment, and a missing reference by `NotImplementedError`, which lets `harness fuzz` run the draft all the same.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from harness.drafts.seen_calls import ArgumentKind, SeenArgument, SeenCall, SeenTest
from harness.drafts.seen_sizes import Sizes, dims_of
from harness.drafts.signatures import Kernel, read_source
from harness.drafts.suite_draft import BLOCKS, STRIDES, SuiteDraft, items, template
from harness.drafts.tested_reference import TestedReference, comparison_line, reference_of
from harness.errors import UsageError
from harness.model.case import USUAL_DTYPES, DType
from harness.wire import Scalar

DTYPES: Mapping[str, DType] = MappingProxyType({one.torch_name: one for one in DType if one.is_float})
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
IMPORTABLE = ("DType", "Dim", "integers", "op", "segments", "tensor", "tokens", "width")
LINE = 100
MISSING = "the definition of {} in differentiable torch"


def draft_of_calls(seen: SeenTest, test_file: Path, suite: Path) -> SuiteDraft:
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
    ops = [_op_of(_alike(calls), test_file) for calls in groups]
    if not ops:
        raise UsageError(f"{seen.test} called nothing that a suite can call")
    folders = dict.fromkeys(folder for one in ops for folder in one.folders if folder)
    relative = [Path(os.path.relpath(folder, suite.parent)).as_posix() for folder in folders]
    paths = [f'sys.path.append(str((Path(__file__).parent / "{folder}").resolve()))' for folder in relative]
    body = "\n\n\n".join(one.text for one in ops)
    used = [name for name in IMPORTABLE if re.search(rf"\b{name}[(.]", body) or name == "op"]
    text = template("called_suite.py.txt").substitute(
        test=seen.test,
        file=suite.as_posix(),
        imports="import sys\nfrom pathlib import Path\n\n" if paths else "",
        names=", ".join(used),
        paths="\n".join([*paths, "\n"]) if paths else "",
        ops=body,
    )
    lines = text.splitlines()
    undefined = tuple(
        (one.name, next(number for number, line in enumerate(lines, 1) if MISSING.format(one.name) in line))
        for one in ops
        if not one.has_reference
    )
    names = tuple(one.name for one in ops)
    return SuiteDraft(text=text, ops=names, undefined=undefined, calls=len(seen.calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpText:
    name: str
    text: str
    folders: tuple[str, ...]
    has_reference: bool


def _alike(calls: Sequence[SeenCall]) -> tuple[SeenCall, ...]:
    """Return the calls whose tensors have the ranks that most calls use."""
    kinds = Counter(_ranks(call) for call in calls)
    common = max(kinds, key=lambda kind: (kinds[kind], len(kind)))
    ranks = dict(common)
    return tuple(call for call in calls if all(ranks.get(name, rank) == rank for name, rank in _ranks(call)))


def _ranks(call: SeenCall) -> tuple[tuple[str, int], ...]:
    tensors = ((name, one) for name, one in call.arguments.items() if one.kind is ArgumentKind.TENSOR)
    return tuple((name, len(one.shape)) for name, one in tensors)


def _op_of(calls: Sequence[SeenCall], test_file: Path) -> _OpText:
    calls = tuple(replace(call, arguments=_without_boundary(call.arguments)) for call in calls)
    writer = _OpWriter(calls, test_file)
    return writer.kernel_op() if calls[0].is_kernel else writer.function_op()


def _without_boundary(arguments: Mapping[str, SeenArgument]) -> dict[str, SeenArgument]:
    """Return the arguments; boundaries of sequences have the number of sequences as their size."""
    return {
        name: replace(one, shape=(one.shape[0] - 1,)) if one.rises and one.shape[0] > 1 else one
        for name, one in arguments.items()
    }


class _OpWriter:
    """Writes the op of equal calls."""

    def __init__(self, calls: Sequence[SeenCall], test_file: Path) -> None:
        self._calls = calls
        self._first = calls[0]
        self._test_file = test_file
        self._name = self._first.name.partition(".")[0]
        self._parameters = tuple(dict.fromkeys(name for call in calls for name in call.arguments))
        self._tensors = tuple(name for name in self._parameters if any(_is_tensor(one) for one in self._each(name)))
        ranks = {name: max(len(one.shape) for one in self._each(name) if _is_tensor(one)) for name in self._tensors}
        self._ranks = ranks
        self._dims = dims_of(calls, ranks, frozenset(self._parameters))
        self._scalars = tuple(name for name in self._parameters if name not in self._tensors)

    # --- functions ---------------------------------------------------------------------------------------------------

    def function_op(self) -> _OpText:
        dim_of = {name: dim for name in self._scalars if (dim := self._dim_equal_to(name))}
        options = {name: self._values(name) for name in self._scalars if name not in dim_of}
        options = {name: values for name, values in options.items() if values != (None,)}
        passed_on = [name for name in self._parameters if name in {*self._tensors, *dim_of, *options}]
        given = [(name, dim_of.get(name, name)) for name in passed_on]
        is_apply = self._first.name.endswith(".apply")
        if is_apply:  # it takes no keywords
            given = [(name, dim_of.get(name, name if name in passed_on else "None")) for name in self._parameters]
        arguments = ", ".join(value if is_apply else f"{name}={value}" for name, value in given)
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
        told = next((call for call in self._calls if call.written), self._first)
        return reference_of(self._test_file, told, (*passed, *self._dims.ranges), self._dims.constant, *outputs)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def kernel_op(self) -> _OpText:
        kernel = _kernel(self._first)
        outputs = [name for name in self._tensors if name in kernel.stored]
        inputs = [name for name in self._tensors if name in kernel.loaded or name not in kernel.stored]
        changed = [name for name in outputs if name in inputs]
        made = [name for name in outputs if name not in inputs]
        like = next(iter(inputs), "")
        lines = ["import torch", "import triton", "", f"from {self._first.module} import {self._name} as kernel", ""]
        lines += self._casts()
        lines += [f"{name} = {name}.clone()" for name in changed]
        lines += [f"{name} = {self._empty(name, like)}" for name in made]
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
        kinds = {one.dtype for one in self._each(name)}
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
            for other, others in self._dims.seen.items():
                if programs == tuple((size or 0) * (its or 0) for size, its in zip(sizes, others, strict=True)):
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
    ) -> _OpText:
        types = self._case_types()
        more = [f"options={{{items({name: _tuple(values) for name, values in options.items()})}}}"] if options else []
        if tuple(types) != USUAL_DTYPES:
            more.append(f"dtypes=({', '.join(f'DType.{one.name}' for one in types)}{',' if len(types) == 1 else ''})")
        words = {*used, *re.findall(r"\w+", reference.expression)} if reference else {*used}
        known = [*inputs, *options, *self._dims.ranges]
        text = template("called_op.py.txt").substitute(
            name=self._name,
            origin=self._origin(),
            seen=self._seen(),
            dims=items(self._dims.ranges),
            inputs=_folded({name: self._input(name) for name in inputs}),
            more="".join(f"    {one},\n" for one in more),
            passed=", ".join(used),
            body="\n".join(f"    {line}".rstrip() for line in body),
            defined=", ".join(name for name in known if name in words),
            definition="\n".join(f"    {line}".rstrip() for line in self._definition(reference)),
        )
        folders = [self._first.folder]
        if reference and reference.own_names:
            folders.append(str(self._test_file.parent))
        return _OpText(name=self._name, text=text, folders=tuple(folders), has_reference=reference is not None)

    def _origin(self) -> str:
        where = f"{self._first.test_function}, line {self._first.line}"
        what = f"the launch of {self._name}" if self._first.is_kernel else f"{self._first.module}.{self._first.name}"
        return f"{what}, as in {where}"

    def _seen(self) -> str:
        each = (
            f"{name} {', '.join(map(str, sorted({size for size in sizes if size is not None})))}"
            for name, sizes in self._dims.seen.items()
        )
        return f"seen: {'; '.join(each) or 'no sizes'}. Guessed: what is a dim, and how large it may be"

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
        return [*note, f'raise NotImplementedError("{MISSING.format(self._name)}")']

    def _each(self, name: str) -> list[SeenArgument]:
        return [call.arguments[name] for call in self._calls if name in call.arguments]

    def _values(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of an argument, each once; a truth value is not the number that it equals."""
        found = {repr(one.scalar): one.scalar for one in self._each(name) if one.kind is ArgumentKind.SCALAR}
        return tuple(found.values()) or (None,)

    def _numbers(self, name: str) -> Sizes:
        given = [call.arguments.get(name) for call in self._calls]
        return tuple(one.scalar if one is not None and type(one.scalar) is int else None for one in given)

    def _dim_equal_to(self, name: str) -> str | None:
        numbers = self._numbers(name)
        return self._dims.equal_to(numbers) if None not in numbers else None

    def _case_types(self) -> list[DType]:
        """Return the types that cases have: those of the first floating-point tensor."""
        found = {DTYPES[kind] for call in self._calls if (kind := self._case_type(call)) in DTYPES}
        return [one for one in DType if one in found] or list(USUAL_DTYPES)

    def _case_type(self, call: SeenCall) -> str:
        kinds = (call.arguments[name].dtype for name in self._tensors if name in call.arguments)
        return next((kind for kind in kinds if "float" in kind), "")

    def _input(self, name: str) -> str:
        each = [one for one in self._each(name) if _is_tensor(one)]
        extents = ", ".join(
            f'"{one}"' if isinstance(one, str) else str(one) for one in self._dims.shape(name, self._ranks[name])
        )
        optional = (
            ", optional=True"
            if any(call.arguments.get(name, each[0]).kind is ArgumentKind.SCALAR for call in self._calls)
            else ""
        )
        kinds = {one.dtype for one in each}
        if any("float" in kind for kind in kinds):
            grad = "" if any(one.requires_grad for one in each) else ", grad=False"
            return f"tensor({extents}{optional}{grad}{self._fixed_type(name, kinds)})"
        kind = f', dtype="{min(kinds)}"' if min(kinds) in INTEGERS and min(kinds) != "int64" else ""
        if all(one.rises for one in each) and (total := self._dims.equal_to(tuple(self._highest(name)))):
            return f'segments("{total}", {extents}{optional}{kind})'
        low = min(one.low for one in each)
        if kinds == {"bool"}:
            return f"integers({extents}, high=2{optional}{kind})"
        bound = self._dims.bound_of(tuple(self._highest(name)))
        high = f'"{bound}"' if isinstance(bound, str) else str(bound)
        lowest = f", low={low}" if low < 0 else ""
        return f"integers({extents}{lowest}, high={high}{optional}{kind})"

    def _highest(self, name: str) -> Iterable[int | None]:
        for call in self._calls:
            one = call.arguments.get(name)
            yield one.high if one is not None and _is_tensor(one) else None

    def _fixed_type(self, name: str, kinds: set[str]) -> str:
        """Return the element type of a tensor, if it differs from that of the case."""
        is_of_case = all(
            call.arguments[name].dtype == self._case_type(call)
            for call in self._calls
            if _is_tensor(call.arguments.get(name))
        )
        (kind, *others) = sorted(kinds)
        return "" if is_of_case or others or kind not in DTYPES else f", dtype=DType.{DTYPES[kind].name}"

    def _casts(self) -> list[str]:
        """Return the lines that give tensors a type that inputs of a suite cannot have."""
        lines: list[str] = []
        for name in self._tensors:
            kinds = {one.dtype for one in self._each(name) if _is_tensor(one)}
            if len(kinds) == 1 and not kinds & {*DTYPES, *INTEGERS}:
                lines.append(f"{name} = {name}.to(torch.{min(kinds)})")
        return ["import torch", "", *lines] if lines and not self._first.is_kernel else lines


def _is_tensor(argument: SeenArgument | None) -> bool:
    return argument is not None and argument.kind is ArgumentKind.TENSOR


def _kernel(call: SeenCall) -> Kernel:
    found = {kernel.name: kernel for kernel in read_source(Path(call.file)).kernels}
    if call.name not in found:
        raise UsageError(f"{call.file} has no kernel {call.name} any more: run the test again by harness run")
    return found[call.name]


def _power_of_2(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def _folded(texts: Mapping[str, str]) -> str:
    """Return the items of a dict on one line, or each on a line of its own."""
    line = items(texts)
    return (
        line
        if len(line) <= LINE
        else "".join(f'\n        "{name}": {text},' for name, text in texts.items()) + "\n    "
    )


def _tuple(values: Sequence[Scalar]) -> str:
    return repr(tuple(values))
