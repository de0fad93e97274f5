"""The text of a suite draft: an op for each function or kernel, with guesses that a person checks.

A guess is marked in the draft.  A definition that cannot be guessed raises `NotImplementedError`: cases of its op then
run, their memory accesses are checked, and the search says which definition to write.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from types import MappingProxyType

from harness.drafts.signatures import FLOAT_NAMES, Kernel, PublicFunction, SourceFile, SourceParameter

VECTORS = re.compile(r"(.*_)?(w|weight|b|bias|gamma|beta|scale)(_ptr)?")
"""Names of tensors with one axis, that of the features."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteDraft:
    """A suite file that is not written yet."""

    text: str
    ops: tuple[str, ...]
    undefined: tuple[tuple[str, int], ...]
    """The ops whose definition is to be written, with its line."""
    calls: int = 0
    """How many calls of a test it is made from."""


def draft_of(module: TestedModule, file: str) -> SuiteDraft:
    """Return the draft of a suite for a module; `file` is the suite's name in commands."""
    subjects = module.source.subjects
    blocks = [_op_text(subject, module) for subject in subjects]
    names = ["op", "tensor", "tokens", "width", *(["beside"] if module.beside else [])]
    body = "\n\n\n".join(blocks)
    used = sorted(name for name in [*names, "Dim"] if re.search(rf"\b{name}\(", body) or name == "op")
    text = template("suite.py.txt").substitute(module=module.name, file=file, names=", ".join(used), ops=body)
    lines = text.splitlines()
    undefined = tuple(
        (subject.name, number)
        for subject in subjects
        for number, line in enumerate(lines, 1)
        if line.strip().startswith(f'raise NotImplementedError("the definition of {subject.name} ')
    )
    return SuiteDraft(text=text, ops=tuple(subject.name for subject in subjects), undefined=undefined)


def template(name: str) -> Template:
    return Template(files("harness.drafts").joinpath("templates", name).read_text(encoding="utf-8"))


def _op_text(subject: PublicFunction | Kernel, module: TestedModule) -> str:
    match subject:
        case PublicFunction():
            return _function_text(subject, module)
        case Kernel():
            return _kernel_text(subject, module)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Op:
    """The pieces of an op's text."""

    name: str
    dims: Mapping[str, str]
    inputs: Mapping[str, str]
    options: Mapping[str, str]
    body: Sequence[str]
    passed: Sequence[str]
    """What the op's function takes: inputs, dims and options."""
    origin: str


def _text(op: _Op) -> str:
    tensors = list(op.inputs)
    count, formula = DEFINITIONS.get(op.name, (0, ""))
    known = bool(formula) and count == len(tensors) == len(op.passed)
    definition = (
        [f"return {formula.format(*tensors)}  # guessed from the name"]
        if known
        else [f'raise NotImplementedError("the definition of {op.name} in differentiable torch")']
    )
    options = f"    options={{{items(op.options)}}},\n" if op.options else ""
    return template("op.py.txt").substitute(
        name=op.name,
        origin=op.origin,
        dims=items(op.dims),
        inputs=items(op.inputs),
        options=options,
        passed=", ".join(op.passed),
        body="\n".join(f"    {line}".rstrip() for line in op.body),
        definition="\n".join(f"    {line}" for line in definition),
    )


def items(texts: Mapping[str, str]) -> str:
    return ", ".join(f'"{name}": {text}' for name, text in texts.items())


# --- functions -------------------------------------------------------------------------------------------------------


def _function_text(function: PublicFunction, module: TestedModule) -> str:
    shapes = dict(function.unpacked)
    tensors = [one for one in function.parameters if _is_tensor(one)]
    axes = next((shapes[one.name] for one in tensors if one.name in shapes), ("T", "D"))
    grad = "" if function.is_differentiable else ", grad=False"
    inputs = {one.name: _tensor_text(one, shapes.get(one.name, axes), axes, grad) for one in tensors}
    others = [one for one in function.parameters if one not in tensors and one.is_required]
    sizes = [one.name for one in others if one.annotation in {"int", ""}]
    options = {one.name: _option_text(one) for one in others if one.name not in sizes}
    used = dict.fromkeys(axis for text in inputs.values() for axis in re.findall(r'"(\w+)"', text))
    dims = {axis: _dim_text(axis, number, len(used)) for number, axis in enumerate(used)}
    dims |= dict.fromkeys(sizes, "Dim(low=1, high=16)")
    passed = [one.name for one in function.parameters if one in tensors or one in others]
    called = ", ".join(_keyword(one) for one in function.parameters if one in tensors or one in others)
    return _text(
        _Op(
            name=function.name,
            dims=dims,
            inputs=inputs,
            options=options,
            body=(_import_as(module, function.name), "", f"return library_function({called})"),
            passed=passed,
            origin=f"{module.source.path.name}:{function.line}{'' if shapes else '; guessed: the shapes'}",
        )
    )


def _import_as(module: TestedModule, name: str) -> str:
    statement = module.importing(name)
    if module.beside:
        return statement.replace(f"{name} = ", "library_function = ", 1)
    return f"{statement} as library_function"


def _keyword(parameter: SourceParameter) -> str:
    return parameter.name if parameter.is_required else f"{parameter.name}={parameter.name}"


def _is_tensor(parameter: SourceParameter) -> bool:
    if "Tensor" in parameter.annotation:
        return True
    return not parameter.annotation and parameter.is_required and not re.fullmatch(r"n_\w+|num_\w+|dim", parameter.name)


def _tensor_text(parameter: SourceParameter, own: Sequence[str], axes: Sequence[str], grad: str) -> str:
    shape = axes[-1:] if VECTORS.fullmatch(parameter.name) and own is axes else own
    optional = ", optional=True" if not parameter.is_required and parameter.default is None else ""
    return f"tensor({_quoted(shape)}{optional}{grad})"


def _quoted(axes: Sequence[str]) -> str:
    return ", ".join(f'"{axis}"' for axis in axes)


def _dim_text(axis: str, number: int, count: int) -> str:
    if number == 0 and count > 1:
        return "tokens(256)"
    return "width(256)" if number == count - 1 else f"Dim(low=1, high={8 if axis in {'B', 'H', 'G'} else 64})"


def _option_text(parameter: SourceParameter) -> str:
    match parameter.annotation:
        case "bool":
            return "(False, True)"
        case "float":
            return "(1.0,)"
        case _:
            return "(None,)"


# --- kernels ---------------------------------------------------------------------------------------------------------


def _kernel_text(kernel: Kernel, module: TestedModule) -> str:
    outputs = [one.name for one in kernel.parameters if one.name in kernel.stored]
    pointers = [one.name for one in kernel.parameters if one.name in kernel.stored | kernel.loaded]
    inputs = [name for name in pointers if name in kernel.loaded and name not in kernel.stored] or pointers[:1]
    sizes = _sizes(kernel, pointers)
    axes = [name.upper().removeprefix("N_") if len(name) > 2 else name.upper() for name in sizes]
    axes = axes if len(axes) > 1 else ["N"]
    shapes = {name: axes[-1:] if VECTORS.fullmatch(name) and len(axes) > 1 else axes for name in pointers}
    made = [name for name in outputs if name not in inputs]
    lines = ["import torch", "import triton", "", module.importing(kernel.name), ""]
    lines += [f"{name} = torch.zeros_like({inputs[0]})" for name in made]
    arguments = [
        text
        for one in kernel.parameters
        if (text := _argument(one, kernel, pointers, dict(zip(sizes, axes, strict=False))))
    ]
    lines += [f"{kernel.name}[{_grid(kernel, axes)}]({', '.join(arguments)})"]
    lines += [f"return {', '.join(made or outputs) or inputs[0]}"]
    if "triton." not in "".join(lines[4:]):
        lines.remove("import triton")
    if not made:
        lines.remove("import torch")
    used = dict.fromkeys(axis for name in inputs for axis in shapes[name])
    return _text(
        _Op(
            name=kernel.name,
            dims={axis: _dim_text(axis, number, len(used)) for number, axis in enumerate(used)},
            inputs={name: f"tensor({_quoted(shapes[name])}, grad=False)" for name in inputs},
            options={},
            body=lines,
            passed=(*inputs, *(axis for axis in used if re.search(rf"\b{axis}\b", "\n".join(lines)))),
            origin=f"{module.source.path.name}:{kernel.line}; guessed: shapes, grid and arguments",
        )
    )


def _sizes(kernel: Kernel, pointers: Sequence[str]) -> list[str]:
    """Return the parameters that are numbers of elements."""
    return [
        one.name
        for one in kernel.parameters
        if not one.is_constexpr
        and one.name not in pointers
        and one.name.lower() not in FLOAT_NAMES
        and not STRIDES.search(one.name)
        and "seed" not in one.name
    ]


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
    tensor = next((one for one, stem in stem_of.items() if stem and stem in name.lower()), pointers[0])
    alike = [
        one.name
        for one in kernel.parameters
        if STRIDES.search(one.name) and (stem_of[tensor] in one.name.lower() or tensor == pointers[0])
    ]
    return f"{tensor}.stride({alike.index(name) if name in alike else 0})"


def _grid(kernel: Kernel, axes: Sequence[str]) -> str:
    """Return a grid: a program for each row of several, or for each block of elements."""
    if kernel.is_tuned and kernel.axes == 1 and len(axes) == 1:
        blocks = [one.name for one in kernel.parameters if one.is_constexpr and BLOCKS.search(one.name)]
        return f'lambda meta: (triton.cdiv({axes[0]}, meta["{blocks[0]}"]),)' if blocks else f"({axes[0]},)"
    if kernel.axes == 1:
        return (
            f"(triton.cdiv({axes[0]}, {_block(kernel)}),)" if len(axes) == 1 and _has_block(kernel) else f"({axes[0]},)"
        )
    along = [f"triton.cdiv({axes[min(axis, len(axes) - 1)]}, {_block(kernel)})" for axis in range(kernel.axes)]
    return f"({', '.join(along)})"


def _has_block(kernel: Kernel) -> bool:
    return any(one.is_constexpr and BLOCKS.search(one.name) for one in kernel.parameters)
