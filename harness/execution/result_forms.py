"""The form of results: which outputs and gradients there are, with which shapes and element types."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import torch

from harness.model.run import FormMismatch, ResultForm

Tensors = dict[str, torch.Tensor]


class OutputsDiffer(Exception):
    """The definition returns other outputs than the op, by names or shapes, so gradients cannot be computed."""

    def __init__(self, expected: Mapping[str, ResultForm]) -> None:
        super().__init__(f"the definition returns {', '.join(f'{name}: {form}' for name, form in expected.items())}")
        self.expected = expected


def named(outputs: Any) -> Tensors:
    """Name the outputs that are tensors: `y` for a single one; `y0`, `y1`, … for several."""
    return {name: output for name, output in _each(outputs).items() if isinstance(output, torch.Tensor)}


def forms(outputs: Any) -> dict[str, ResultForm]:
    """Return the form of each output by name, without those that are None."""
    return {name: form_of(output) for name, output in _each(outputs).items() if output is not None}


def form_of(output: Any) -> ResultForm:
    """Return the form of one output."""
    if isinstance(output, torch.Tensor):
        return ResultForm(kind=kind_of(output.dtype), shape=tuple(output.shape))
    return ResultForm(kind=type(output).__name__, shape=None)


def kind_of(dtype: torch.dtype) -> str:
    """Return the name of an element type: `float32`."""
    return str(dtype).removeprefix("torch.")


def differences(got: Mapping[str, ResultForm], expected: Mapping[str, ResultForm]) -> tuple[FormMismatch, ...]:
    """Return the results that are missing, superfluous or of another shape, in the order of the definition's."""
    names = dict.fromkeys((*expected, *got))
    pairs = ((name, got.get(name), expected.get(name)) for name in names)
    return tuple(
        FormMismatch(name=name, got=got_form, expected=expected_form)
        for name, got_form, expected_form in pairs
        if got_form is None or expected_form is None or got_form.shape != expected_form.shape
    )


def in_type(exact: Mapping[str, ResultForm], dtype: torch.dtype) -> dict[str, ResultForm]:
    """Return the forms of a definition that ran in float64 as if it had run in `dtype`."""
    double, other = kind_of(torch.float64), kind_of(dtype)
    return {name: replace(form, kind=other) if form.kind == double else form for name, form in exact.items()}


def _each(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, tuple | list):
        return {f"y{index}": output for index, output in enumerate(cast("tuple[Any, ...]", outputs))}
    return {"y": outputs}
