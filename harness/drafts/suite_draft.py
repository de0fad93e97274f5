"""The draft of a suite from sources: an op for each function or kernel, with guesses that a person checks."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from harness.drafts.signatures import FLOAT_NAMES, Kernel, PublicFunction, SourceFile, SourceParameter
from harness.drafts.stated_axes import StatedAxes
from harness.drafts.stated_domain import StatedDomain
from harness.drafts.suite_text import OpText, SuiteText, draft_text, in_braces, missing
from harness.model.case import DType
from harness.model.input_spec import Integer

VECTORS = re.compile(r"(.*_)?(w|weight|b|bias|gamma|beta|scale)(_ptr)?")
"""Names of tensors with one axis, that of the features."""
INDICES = re.compile(
    r"(.*_)?(idx|index|indices|ids?|offsets?|lens?|lengths?|seqlens?|tables?|slots?|mapping|positions|pages?|labels?)"
)
"""Names of tensors that hold integers, whose range only a person knows."""
TABLES = re.compile(r"(.*_)?tables?")
CUMULATIVE = re.compile(r"cu_?(seq)?_?len(gth)?s?(_\w+)?|.*_indptr|indptr")
INTEGERS = frozenset(get_args(Integer))
BY_TORCH_NAME = {dtype.torch_name: dtype for dtype in DType if dtype.is_differentiable}
STRIDES = re.compile(r"stride|(^|_)ld[a-c]?$")
FLAGS = re.compile(r"^(HAS|IS|USE|WITH)_|^CAUSAL$|^EVEN_")
BLOCKS = re.compile(r"BLOCK|TILE|^B[A-Z]?$")
ELEMENTWISE_BLOCK, LEAST_BLOCK = 128, 16
DEFINITIONS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "add": (2, "{0} + {1}"),
        "matmul": (2, "{0} @ {1}"),
        "mul": (2, "{0} * {1}"),
        "multiply": (2, "{0} * {1}"),
        "relu": (1, "{0}.relu()"),
        "sigmoid": (1, "{0}.sigmoid()"),
        "silu": (1, "{0} * {0}.sigmoid()"),
        "softmax": (1, "{0}.softmax(-1)"),
        "sub": (2, "{0} - {1}"),
        "tanh": (1, "{0}.tanh()"),
    }
)
"""By the name of a function: how many tensors it takes, and its definition.  Only names that mean one thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedModule:
    """How a suite reaches a source file."""

    source: SourceFile
    name: str
    """`my_kernels.softmax`."""
    beside: str
    """The path from the suite, for a file that belongs to no package; empty if the module is imported by its name."""

    def importing(self, name: str) -> str:
        """Return the statement that gives a function of the module its name."""
        if self.beside:
            return f'{name} = beside(__file__, "{self.beside}").{name}'
        return f"from {self.name} import {name}"


def draft_of(module: TestedModule, file: str) -> SuiteText:
    """Return the draft of a suite for a module; `file` is the suite's name in commands."""
    origin = f"for {module.name}, made by `harness init`: check what is guessed, and write the missing definitions."
    return SuiteText(
        about=draft_text(origin, file), ops=[_op_text(subject, module) for subject in module.source.subjects]
    )


def _op_text(subject: PublicFunction | Kernel, module: TestedModule) -> OpText:
    match subject:
        case PublicFunction():
            return _function_text(subject, module)
        case Kernel():
            return _kernel_text(subject, module)


def _definition(name: str, tensors: Sequence[str], passed: Sequence[str]) -> str:
    count, formula = DEFINITIONS.get(name, (0, ""))
    is_known = bool(formula) and count == len(tensors) == len(passed)
    return f"return {formula.format(*tensors)}  # guessed: from the name" if is_known else missing(name)


# --- functions -------------------------------------------------------------------------------------------------------


def _function_text(function: PublicFunction, module: TestedModule) -> OpText:
    stated = function.stated
    tensors = [parameter for parameter in function.parameters if _is_tensor(parameter, stated)]
    names = [parameter.name for parameter in tensors]
    known = StatedAxes(names, function.unpacked, stated)
    shapes = known.shapes
    axes = next((shapes[name] for name in names if name in shapes), ("T", "D"))
    own_types = _types_of_case(names, stated)
    inputs = {tensor.name: _input_text(tensor, function, known, axes, own_types) for tensor in tensors}
    further = [parameter for parameter in function.parameters if _is_further(parameter, tensors, stated)]
    sizes = [parameter.name for parameter in further if _is_size(parameter, stated)]
    options = {parameter.name: _option_text(parameter, stated) for parameter in further if parameter.name not in sizes}
    used = dict.fromkeys(axis for text in inputs.values() for axis in _axes_in(text))
    ranges = {axis: limits.text for axis, limits in known.limits.items() if limits.text}
    dims = {axis: ranges.get(axis) or _dim_text(axis, number, len(used)) for number, axis in enumerate(used)}
    dims |= {name: _size_text(name, stated) for name in sizes}
    passed = [parameter for parameter in function.parameters if parameter in tensors or parameter in further]
    arguments = [parameter.name for parameter in passed]
    called = ", ".join(map(_keyword, passed))
    more = {"options": in_braces(options)} if options else {}
    more |= {"where": f"lambda at: {known.condition}"} if known.condition else {}
    more |= {"dtypes": f"({', '.join(f'DType.{dtype.name}' for dtype in own_types)},)"} if own_types else {}
    return OpText(
        name=function.name,
        notes=(
            f"{module.source.path.name}:{function.line}",
            *_guesses("the shape of", known.nameless),
            *_guesses("by the docstring, the shape of", known.documented),
            *_guesses("by the docstring, the values of", [name for name in names if name in stated.draws]),
            *_guesses("by the docstring, the type of", [name for name in names if name in stated.elements]),
            *_guesses("the ranges of", [axis for axis in dims if axis not in ranges]),
            *_guesses("the values of", [name for name in options if name not in stated.choices]),
            *_integer_guesses(inputs),
            *known.notes,
            *(
                f"guessed: host code picks configs: host_configs={{{picker.declaration(module.name)}}}"
                for picker in module.source.pickers
                if picker.name in function.names
            ),
        ),
        dims=dims,
        inputs=inputs,
        more=more,
        passed=arguments,
        body=(_import_as(module, function.name), "", f"return library_function({called})"),
        defined=arguments,
        definition=(_definition(function.name, list(inputs), arguments),),
    )


def _is_further(parameter: SourceParameter, tensors: Sequence[SourceParameter], stated: StatedDomain) -> bool:
    """Return True for a parameter that is no tensor, and has no default, or values of which the source lists all."""
    return parameter not in tensors and (parameter.is_required or parameter.name in stated.choices)


def _is_size(parameter: SourceParameter, stated: StatedDomain) -> bool:
    if not parameter.is_required or parameter.name in stated.scalars or parameter.name.lower() in FLOAT_NAMES:
        return False
    return parameter.annotation in {"int", ""}


def _types_of_case(tensors: Sequence[str], stated: StatedDomain) -> tuple[DType, ...]:
    """Return the element types of cases, if the function checks those of its first tensor of floats."""
    kinds = next((stated.types[name] for name in tensors if name in stated.types), ())
    types = tuple(BY_TORCH_NAME[kind] for kind in kinds if kind in BY_TORCH_NAME)
    is_of_all = all(stated.types.get(name, kinds) == kinds for name in tensors)
    return types if types and is_of_all and len(tensors) == sum(name in stated.types for name in tensors) else ()


def _input_text(
    parameter: SourceParameter,
    function: PublicFunction,
    known: StatedAxes,
    axes: Sequence[str],
    own_types: Sequence[DType],
) -> str:
    name, stated = parameter.name, function.stated
    own = known.shapes.get(name)
    more = _optional(parameter)
    if name in stated.contiguous:
        more += f", contiguous={stated.contiguous[name]}"
    total = axes[1] if known.packs_batch_of_one and len(axes) > 1 else axes[0]
    kinds = stated.types.get(name) or tuple(filter(None, [stated.elements.get(name)]))
    by_name = _integers_text(name, own, (total, *axes[1:]), more)
    is_of_integers = len(kinds) == 1 and kinds[0] in INTEGERS
    if not by_name.startswith("segments(") and (is_of_integers or name in stated.below):
        high = f'"{stated.below[name]}"' if name in stated.below else "2" if kinds[0] == "bool" else "1"
        kind = f', dtype="{kinds[0]}"' if is_of_integers and kinds[0] != "int64" else ""
        return f"integers({_quoted(own or axes[:1])}, high={high}{kind}{more})"
    if by_name:
        return by_name
    if len(kinds) == 1 and kinds[0] in BY_TORCH_NAME and not own_types:
        more += f", dtype=DType.{BY_TORCH_NAME[kinds[0]].name}"
    if name in stated.draws:
        more += f", draw=Draw.{stated.draws[name]}"
    more += "" if function.is_differentiable else ", grad=False"
    shape = own or (axes[-1:] if VECTORS.fullmatch(name) else axes)
    return f"tensor({_quoted(shape)}{more})"


def _axes_in(text: str) -> Iterator[str]:
    """Yield the dims that the extents of a declaration name, and the limit of its integers."""
    extents = re.match(r'\w+\(((?:"[^"]*"|\d+)(?:, (?:"[^"]*"|\d+))*)', text)
    limit = re.search(r'high="(\w+)"', text)
    for part in (extents[1] if extents else "", limit[1] if limit else ""):
        yield from re.findall(r"[A-Za-z_]\w*", part)


def _size_text(name: str, stated: StatedDomain) -> str:
    chosen = [str(value) for value in stated.choices.get(name, ()) if isinstance(value, int)]
    return f"groups({', '.join(chosen)})" if chosen else "Dim(low=1, high=16)"


def _import_as(module: TestedModule, name: str) -> str:
    statement = module.importing(name)
    if module.beside:
        return statement.replace(f"{name} = ", "library_function = ", 1)
    return f"{statement} as library_function"


def _keyword(parameter: SourceParameter) -> str:
    return parameter.name if parameter.is_required else f"{parameter.name}={parameter.name}"


def _is_tensor(parameter: SourceParameter, stated: StatedDomain) -> bool:
    if "Tensor" in parameter.annotation:
        return True
    name = parameter.name
    is_number = re.fullmatch(r"n_\w+|num_\w+|dim", name) or name.lower() in FLOAT_NAMES or BLOCKS.search(name)
    return not parameter.annotation and parameter.is_required and not is_number and name not in stated.scalars


def _optional(parameter: SourceParameter) -> str:
    may_be_none = "Optional[" in parameter.annotation or parameter.annotation.endswith("None")
    return ", optional=True" if parameter.default is None or (parameter.is_required and may_be_none) else ""


def _integers_text(name: str, own: Sequence[str] | None, axes: Sequence[str], optional: str = "") -> str:
    """Return the declaration of an index, a length or a table; empty for the name of another tensor.

    Every integer is 0, which is legal wherever there is a row: wrong ones would make a right kernel fail.
    """
    stem = re.sub(r"_(ptr|pointer)$", "", name.lower())
    if CUMULATIVE.fullmatch(stem):
        counted = [extent.removesuffix("+1") for extent in own or () if re.fullmatch(r"[A-Za-z]\w*\+1", extent)]
        return f'segments("{axes[0]}", {_quoted(counted) or "4"}{optional})'
    if not INDICES.fullmatch(stem):
        return ""
    shape = _quoted(own or axes[:1]) + (", 4" if own is None and TABLES.fullmatch(stem) else "")
    return f"integers({shape}, high=1{optional})"


def _guesses(what: str, names: Iterable[str]) -> list[str]:
    """Return the note that these were guessed, if there are any."""
    listed = ", ".join(names)
    return [f"guessed: {what} {listed}"] if listed else []


def _integer_guesses(inputs: Mapping[str, str]) -> list[str]:
    return [
        f"guessed: {name} holds integers, all 0 for now: write their range and dtype"
        for name, text in inputs.items()
        if text.startswith("integers(") and re.search(r"high=1\b", text)
    ] + [
        f"guessed: {name} holds cumulative lengths of packed sequences"
        for name, text in inputs.items()
        if text.startswith("segments(")
    ]


def _quoted(axes: Sequence[str]) -> str:
    return ", ".join(axis if axis.isdecimal() else f'"{axis}"' for axis in axes)


def _dim_text(axis: str, number: int, count: int) -> str:
    if number == 0 and count > 1:
        return "tokens(256)"
    return "width(256)" if number == count - 1 else f"Dim(low=1, high={8 if axis in {'B', 'H', 'G'} else 64})"


def _option_text(parameter: SourceParameter, stated: StatedDomain) -> str:
    if chosen := stated.choices.get(parameter.name):
        first = [parameter.default] if parameter.default in chosen else []
        return f"({', '.join(map(_literal, dict.fromkeys([*first, *chosen])))},)"
    match parameter.annotation or stated.scalars.get(parameter.name, "float"):
        case "bool":
            return "(False, True)"
        case "float":
            return "(1e-6,)" if parameter.name.startswith("eps") else "(1.0,)"
        case _:
            return "(None,)"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# --- kernels ---------------------------------------------------------------------------------------------------------


def _kernel_text(kernel: Kernel, module: TestedModule) -> OpText:
    outputs = [parameter.name for parameter in kernel.parameters if parameter.name in kernel.stored]
    pointers = [parameter.name for parameter in kernel.parameters if parameter.name in kernel.stored | kernel.loaded]
    inputs = [name for name in pointers if name in kernel.loaded and name not in kernel.stored] or pointers[:1]
    sizes = _sizes(kernel, pointers)
    axes = [name.upper().removeprefix("N_") if len(name) > 2 else name.upper() for name in sizes]
    axes = axes if len(axes) > 1 else ["N"]
    shapes = {name: axes[-1:] if VECTORS.fullmatch(name) and len(axes) > 1 else axes for name in pointers}
    new = [name for name in outputs if name not in inputs]
    lines = ["import torch", "import triton", "", module.importing(kernel.name), ""]
    declared = {
        name: _integers_text(name, None, axes) or f"tensor({_quoted(shapes[name])}, grad=False)" for name in inputs
    }
    like = next((name for name, text in declared.items() if text.startswith("tensor(")), inputs[0])
    lines += [f"{name} = torch.zeros_like({like})" for name in new]
    arguments = [
        text
        for parameter in kernel.parameters
        if (text := _argument(parameter, kernel, pointers, dict(zip(sizes, axes, strict=False))))
    ]
    lines += [f"{kernel.name}[{_grid(kernel, axes)}]({', '.join(arguments)})"]
    lines += [f"return {', '.join(new or outputs) or inputs[0]}"]
    if "triton." not in "".join(lines[4:]):
        lines.remove("import triton")
    if not new:
        lines.remove("import torch")
    takes_strides = any(STRIDES.search(parameter.name) for parameter in kernel.parameters)
    used = dict.fromkeys(axis for text in declared.values() for axis in re.findall(r'"(\w+)"', text))
    passed = (*inputs, *(axis for axis in used if re.search(rf"\b{axis}\b", "\n".join(lines))))
    return OpText(
        name=kernel.name,
        notes=(
            f"{module.source.path.name}:{kernel.line}",
            *_guesses("the shapes of", pointers),
            *_guesses("the ranges of", used),
            "guessed: the grid and the arguments of the launch",
            *([] if takes_strides else ["guessed: contiguous tensors, since the kernel takes no strides"]),
            *_integer_guesses(declared),
        ),
        dims={axis: _dim_text(axis, number, len(used)) for number, axis in enumerate(used)},
        inputs=declared,
        more={} if takes_strides else {"contiguous": "True"},
        passed=passed,
        body=lines,
        defined=passed,
        definition=(_definition(kernel.name, inputs, passed),),
    )


def _sizes(kernel: Kernel, pointers: Sequence[str]) -> list[str]:
    """Return the parameters that are numbers of elements."""
    names = (parameter.name for parameter in kernel.parameters if not parameter.is_constexpr)
    numbers = (name for name in names if name not in pointers and name.lower() not in FLOAT_NAMES)
    return [name for name in numbers if not STRIDES.search(name) and "seed" not in name]


def _argument(parameter: SourceParameter, kernel: Kernel, pointers: Sequence[str], axis_of: Mapping[str, str]) -> str:
    """Return the argument for a parameter in a launch; empty if it has a default, or the autotuner chooses it."""
    name = parameter.name
    if name in pointers:
        return name
    if name in axis_of:
        return axis_of[name]
    if STRIDES.search(name):
        return _stride(name, kernel, pointers)
    if not parameter.is_required or (kernel.is_tuned and parameter.is_constexpr and BLOCKS.search(name)):
        return ""
    if not parameter.is_constexpr:
        return "1.0" if name.lower() in FLOAT_NAMES else "0"
    return f"{name}={_constant(name, kernel, list(axis_of.values()))}"


def _constant(name: str, kernel: Kernel, axes: Sequence[str]) -> str:
    if FLAGS.search(name):
        return "False"
    if not BLOCKS.search(name):
        return axes[-1] if axes and axes[-1] == name else "1"
    is_row_wise = len(axes) > 1 and kernel.axes == 1
    return f"max({LEAST_BLOCK}, triton.next_power_of_2({axes[-1]}))" if is_row_wise else str(_block(kernel))


def _block(kernel: Kernel) -> int:
    return ELEMENTWISE_BLOCK if kernel.axes == 1 else LEAST_BLOCK


def _stride(name: str, kernel: Kernel, pointers: Sequence[str]) -> str:
    """Return the stride that a name means: of the tensor that it names, and the axis by its place among its like."""
    stem_of = {pointer: re.sub(r"_?ptr$", "", pointer).lower() for pointer in pointers}
    tensor = next((pointer for pointer, stem in stem_of.items() if stem and stem in name.lower()), pointers[0])
    alike = [
        parameter.name
        for parameter in kernel.parameters
        if STRIDES.search(parameter.name) and (stem_of[tensor] in parameter.name.lower() or tensor == pointers[0])
    ]
    return f"{tensor}.stride({alike.index(name) if name in alike else 0})"


def _grid(kernel: Kernel, axes: Sequence[str]) -> str:
    """Return a grid: a program for each row of several, or for each block of elements."""
    if kernel.is_tuned and kernel.axes == 1 and len(axes) == 1:
        blocks = _blocks(kernel)
        return f'lambda meta: (triton.cdiv({axes[0]}, meta["{blocks[0]}"]),)' if blocks else f"({axes[0]},)"
    if kernel.axes == 1:
        return f"(triton.cdiv({axes[0]}, {_block(kernel)}),)" if len(axes) == 1 and _blocks(kernel) else f"({axes[0]},)"
    along = [f"triton.cdiv({axes[min(axis, len(axes) - 1)]}, {_block(kernel)})" for axis in range(kernel.axes)]
    return f"({', '.join(along)})"


def _blocks(kernel: Kernel) -> list[str]:
    names = (parameter.name for parameter in kernel.parameters if parameter.is_constexpr)
    return [name for name in names if BLOCKS.search(name)]
