"""The op's call as code: inputs, forward, cotangents, backward.  Only child processes import this."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from harness.execution.inputs import (
    HUGE,
    LARGE,
    SHIFT,
    TINY,
    TORCH_DTYPES,
    broadcast_axes,
    make_cotangents,
    make_inputs,
    seed_of,
)
from harness.execution.picked_configs import holders
from harness.execution.row_trials import Axes, SeenRows
from harness.execution.suite_arguments import arguments_for, results_asked_for
from harness.findings.repro.code_layout import needed_imports
from harness.findings.repro.pieces import CallRecord, Preamble, RowsRecord
from harness.findings.repro.sources import Definitions
from harness.findings.repro.tensors import GENERATOR, Writing, write
from harness.model.case import Case, GradMode, ValueDistribution
from harness.model.input_spec import Draw, Tensor
from harness.model.op import Op
from harness.suite_files import MODULE_PREFIX

TAKEN = frozenset(
    {"device", "dtype", "exact", "other_rows", "nan", "inf", "reference", "run", "torch", "triton", "tl", "outputs"}
)
NUMBERS = {
    ValueDistribution.NORMAL: "{}",
    ValueDistribution.SHIFTED: f"({{}} + {SHIFT})",
    ValueDistribution.NEGATIVE: f"({{}} - {SHIFT})",
    ValueDistribution.LARGE: f"({{}} * {LARGE})",
    ValueDistribution.HUGE: f"({{}} * {HUGE})",
    ValueDistribution.TINY: f"({{}} * {TINY})",
    ValueDistribution.TIES: "((2 * {}).round() / 2)",
}
DRAWS = {
    Draw.VALUES: "{}",
    Draw.UNIT: "torch.sigmoid({})",
    Draw.LOG_UNIT: "torch.nn.functional.logsigmoid({})",
    Draw.POSITIVE: "torch.nn.functional.softplus({})",
    Draw.LOG_SHARES: "torch.log_softmax({}, -1)",
    Draw.NORMALISED: "torch.nn.functional.normalize({}, dim=-1)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpResults:
    """What the op returned."""

    outputs: Mapping[str, torch.Tensor] | None = None
    """Tensors without memory, by name; None if the op did not return."""
    differentiable: tuple[str, ...] = ()
    """Names of the outputs that require a gradient."""

    @classmethod
    def of(cls, outputs: Mapping[str, torch.Tensor]) -> Self:
        """Return the shapes and types of these outputs."""
        return cls(
            outputs={
                name: torch.empty(output.shape, dtype=output.dtype, device="meta") for name, output in outputs.items()
            },
            differentiable=tuple(name for name, output in outputs.items() if output.requires_grad),
        )


def rows_record(
    op: Op, case: Case, seen: OpResults, rows: SeenRows | None, differing: Iterable[str]
) -> RowsRecord | None:
    """Record the op's call with the rows of the case, or with those of a trial; None without a trial."""
    if rows is None:
        return None
    arrangement = rows.arrangement
    return RowsRecord(
        call=call_record(op, case, seen, defined=False, rows=rows),
        change=repr(
            {
                "rows": arrangement.bounds[0] if arrangement.bounds else next(iter(arrangement.taken)),
                "is_packed": arrangement.bounds is not None,
                "change": str(arrangement.change),
                "count": arrangement.rows,
                "dims": arrangement.changed_dims,
            }
        ),
        kept={
            name: tuple(
                (axis, tuple(here.tolist()), tuple(rows.carried[name].there[axis].tolist()))
                for axis, here in rows.carried[name].here.items()
            )
            for name in differing
        },
    )


def call_record(op: Op, case: Case, seen: OpResults, *, defined: bool, rows: SeenRows | None = None) -> CallRecord:
    """Record the op's call; if `defined`, its reference too; with `rows`, the call with those of a trial too."""
    definitions = Definitions(lambda module: module.startswith(MODULE_PREFIX))
    called = "operation" if op.call.__name__ in TAKEN else ""
    name = definitions.add(op.call, called=called, undecorated=True)
    reference = definitions.add(op.reference, called="reference", undecorated=True) if defined else ""
    case_type = TORCH_DTYPES[case.dtype]

    def widened(tensor: torch.Tensor) -> str:
        if not tensor.is_floating_point():
            return ".to(device)"
        same = tensor.dtype == case_type
        return f".to(device, {'dtype' if same else f'torch.promote_types({tensor.dtype}, dtype)'})"

    writing = Writing(exact=True, after=widened if defined else None)
    names = _Names({*op.inputs, *TAKEN, name})
    statements = [f"dtype = torch.float64 if exact else {case_type}"] if defined else []
    statements += _picking(op, case, definitions)
    run = _Run(op=op, case=case, seen=seen, name=name, reference=reference, writing=writing, names=names, rows=rows)
    before = list(statements)
    statements += run.statements()
    imports = {"import torch": None, **definitions.imports, **dict.fromkeys(needed_imports(statements))}
    return CallRecord(
        name=name,
        preamble=Preamble(
            imports=tuple(imports),
            blocks=tuple(definitions.blocks.values()),
            missing=(*definitions.missing, *writing.missing),
        ),
        statements=tuple(statements),
        forward=(*before, *run.forward) if run.forward else (),
    )


def _picking(op: Op, case: Case, definitions: Definitions) -> Iterator[str]:
    """Yield statements that have host code pick what it picks in the case."""
    for picked in case.picked:
        declared = op.host_configs[picked.function]
        if declared.answer is None:
            returned = repr(declared.returned(picked))
        else:
            answer = definitions.add(declared.answer)
            returned = f"{answer}({picked.value!r}, *args, **kwargs)"
        for module in holders(picked.function):
            package, _, name = module.__name__.rpartition(".")
            yield f"from {package} import {name}" if package else f"import {name}"
            yield f"{name}.{picked.function_name} = lambda *args, **kwargs: {returned}"


class _Names:
    """Unique variable names."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def new(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The body of `run`."""

    op: Op
    case: Case
    seen: OpResults
    name: str
    """Of the op's function."""
    reference: str
    """Of its reference; empty if that is not recorded."""
    writing: Writing
    names: _Names
    rows: SeenRows | None = None
    """A trial whose rows the call may have."""
    forward: list[str] = field(default_factory=list[str])
    """Filled by `statements`: the same without a backward pass."""

    def statements(self) -> list[str]:
        """Return the statements: inputs, forward, cotangents, backward, results."""
        inputs = {name: value for name, value in make_inputs(self.op, self.case).items() if value is not None}
        variables = {name: name if name not in TAKEN else self.names.new(name) for name in inputs}
        recipes = {variables[name]: text for name in inputs if (text := _recipe(self, name, inputs[name]))}
        write({variables[name]: value for name, value in inputs.items()}, self.writing, recipes)
        for name, value in inputs.items():
            if value.requires_grad:
                _require_grad(variables[name], self.writing.lines)
        leaves = {name: variables[name] for name in self.op.wanted_gradients(self.case)}
        input_lines = [*self.writing.lines, *self._other_rows(inputs, variables)]
        call = self._call(self.op.call, self.name, variables)
        if self.seen.outputs is None:
            return [*input_lines, *self._in_mode(_guessed(call, list(leaves.values())))]
        defined = self._call(self.op.reference, self.reference, variables) if self.reference else ""
        outputs = {output: self.names.new(output) for output in self.seen.outputs}
        returned = dict(outputs)
        other = self._call_with_other_rows(variables)
        body = self._in_mode(_received(call, defined, outputs, other=other))
        self.forward[:] = [*input_lines, *body, _return(returned)]
        if leaves and self.seen.differentiable:
            gradients = {f"d:{leaf_name}": self.names.new(f"d{leaf}") for leaf_name, leaf in leaves.items()}
            body += self._backward(outputs, list(leaves.values()), list(gradients.values()))
            returned |= gradients
        return [*input_lines, *body, _return(returned)]

    def _backward(self, outputs: Mapping[str, str], leaves: list[str], gradients: list[str]) -> list[str]:
        assert self.seen.outputs is not None, "called only if the op returned"
        cotangents = make_cotangents(self.case, self.seen.outputs)
        variables = {output: self.names.new(f"d{outputs[output]}") for output in self.seen.differentiable}
        texts = {
            variable: _normal(self.case, f"grad:{output}", tuple(cotangents[output].shape))
            for output, variable in variables.items()
        }
        arranged = list(self._other_cotangents(variables))
        began = len(self.writing.lines)
        write({variable: cotangents[output] for output, variable in variables.items()}, self.writing, texts)
        sources = _one_or_all([outputs[output] for output in variables])
        arguments = f"{sources}, {_one_or_all(leaves)}, {_one_or_all(list(variables.values()))}, allow_unused=True"
        target = f"({gradients[0]},)" if len(gradients) == 1 else ", ".join(gradients)
        return [*self.writing.lines[began:], *arranged, f"{target} = torch.autograd.grad({arguments})"]

    def _other_rows(self, inputs: Mapping[str, torch.Tensor], variables: Mapping[str, str]) -> Iterator[str]:
        """Yield statements that arrange the inputs as the trial has them."""
        if self.rows is None:
            return
        yield "if other_rows:"
        arrangement = self.rows.arrangement
        for name, value in inputs.items():
            variable = variables[name]
            if arrangement.bounds is not None and name == arrangement.bounds[0]:
                ends = arrangement.bounds[1].tolist()
                yield f"    {variable} = torch.tensor({ends}, dtype={value.dtype}, device=device)"
            elif axes := arrangement.axes_of_input(self.op, name, tuple(value.shape)):
                indexed = self._arranged(f"{variable}.detach()", axes)
                yield f"    {variable} = {indexed}{'.requires_grad_()' if value.requires_grad else ''}"

    def _other_cotangents(self, variables: Mapping[str, str]) -> Iterator[str]:
        """Yield statements that arrange the cotangents as the trial has them."""
        if self.rows is None or not any(map(self.rows.outputs.get, variables)):
            return
        yield "if other_rows:"
        for output, variable in variables.items():
            if axes := self.rows.outputs.get(output):
                yield f"    {variable} = {self._arranged(variable, axes)}"

    def _arranged(self, variable: str, axes: Axes) -> str:
        assert self.rows is not None, "called for a trial"
        for axis, dim in axes.items():
            index = self.rows.arrangement.taken[dim].tolist()
            variable += f".index_select({axis}, torch.tensor({index}, device=device))"
        return variable

    def _call_with_other_rows(self, variables: Mapping[str, str]) -> str:
        """Return the call with the rows of the trial, if its sizes are among the arguments; otherwise nothing."""
        if self.rows is None:
            return ""
        case = self.rows.arrangement.case
        return self._call(self.op.call, self.name, variables, self.op.settings(case))

    def _in_mode(self, statements: list[str]) -> list[str]:
        """Return the statements in the case's mode of autograd."""
        match self.case.grad_mode:
            case GradMode.ENABLED:
                return statements
            case GradMode.NO_GRAD:
                return ["with torch.no_grad():", *(f"    {statement}" for statement in statements)]

    def _call(
        self,
        function: Callable[..., Any],
        name: str,
        variables: Mapping[str, str],
        settings: Mapping[str, Any] | None = None,
    ) -> str:
        inputs: dict[str, Any] = dict.fromkeys(self.op.inputs) | dict(variables)
        settings = settings or self.op.settings(self.case)
        returned = results_asked_for(function, self.seen.outputs or (), {*inputs, *settings})
        self.writing.missing.extend(f"the result {result}, which the definition takes" for result in returned)
        arguments = arguments_for(function, inputs | dict.fromkeys(returned), settings)
        texts = [f"{keyword}={value if keyword in variables else repr(value)}" for keyword, value in arguments.items()]
        return f"{name}({', '.join(texts)})"


def _received(call: str, defined: str, outputs: Mapping[str, str], *, other: str = "") -> list[str]:
    """Return the call or the reference, with its outputs in variables; `other` is the call with other rows."""
    if not outputs:  # the op asserts by itself
        return [call]
    receiver = outputs["y"] if list(outputs) == ["y"] else "outputs"
    lines = [f"{receiver} = {call}"]
    if defined:
        lines = ["if exact:", f"    {receiver} = {defined}", "else:", f"    {receiver} = {call}"]
    if other not in {"", call}:
        lines = ["if other_rows:", f"    {receiver} = {other}", "else:", f"    {receiver} = {call}"]
    if receiver != "outputs":
        return lines
    places = ", ".join(f"outputs[{output.removeprefix('y')}]" for output in outputs)
    return [*lines, f"{', '.join(outputs.values())} = {places}"]


def _return(variables: Mapping[str, str]) -> str:
    results = ", ".join(f'"{result}": {variable}' for result, variable in variables.items())
    return f"return {{{results}}}"


def _guessed(call: str, leaves: list[str]) -> list[str]:
    """Return forward, and backward with ones: the call raised, so its outputs are unknown."""
    if not leaves:
        return [call, "return {}"]
    arguments = f"wide, {_one_or_all(leaves)}, [torch.ones_like(one) for one in wide], allow_unused=True"
    return [
        f"outputs = {call}",
        "outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs",
        "wide = [one for one in outputs if one is not None and one.requires_grad]",
        f"torch.autograd.grad({arguments})",
        "return {}",
    ]


def _require_grad(leaf: str, lines: list[str]) -> None:
    """Add `requires_grad_()` to the line that makes the variable."""
    for number, line in reversed(list(enumerate(lines))):
        if line.startswith(f"{leaf} = "):
            lines[number] = f"{line}.requires_grad_()"
            return


def _recipe(run: _Run, name: str, value: torch.Tensor) -> str | None:
    """Return the expression that draws an input as the harness does; None if there is no single one."""
    declared, values = run.op.inputs[name], run.case.values
    if not isinstance(declared, Tensor) or declared.defined is not None:
        return None
    if values not in NUMBERS or declared.draw not in DRAWS or declared.distinct or declared.ascending:
        return None
    axes = broadcast_axes(run.op, run.case, name)
    shape = declared.extents(run.case.dims) if axes else tuple(value.shape)
    drawn = DRAWS[declared.draw].format(NUMBERS[values].format(_normal(run.case, name, shape)))
    slices = ", ".join(":1" if axis in axes else ":" for axis in range(len(shape)))
    return f"({drawn})[{slices}].contiguous()" if axes else drawn


def _normal(case: Case, name: str, shape: tuple[int, ...]) -> str:
    return f"torch.randn({shape}, generator={GENERATOR}({seed_of(case.seed, name)}))"


def _one_or_all(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
