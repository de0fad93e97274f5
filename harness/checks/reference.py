"""The reference of an answer, in a worker.  Nothing here loads or calls the candidate: the referee imports it."""

import copy
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from harness.checks.answer import Answer
from harness.checks.answer_code import load
from harness.checks.kept_outputs import read_names
from harness.checks.torch_originals import Originals
from harness.checks.torch_work import TorchWork
from harness.engines.torch.torch_seam import plain_torch, tree_map
from harness.execution.inputs import seed_of

_ORIGINALS = [Originals()]
"""The snapshot, made in the fork server, whose children share it; the first answer of a process may renew it."""


class NotALegalCase(Exception):
    """The reference refuses the inputs of a case, too."""


class Reference:
    """The reference, as it is called with tensors of any floating-point type."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        if _ORIGINALS[0].is_changed:  # by the engine, which changes torch for the emulated device
            _ORIGINALS[0] = Originals()
        self.originals = _ORIGINALS[0]
        self.function = load(answer.reference)
        self.originals.restore()  # its file may be the candidate's
        self._models: dict[torch.dtype, Any] = {}
        self._work: dict[object, int] = {}
        if answer.is_model:
            self._models[torch.float32] = built(answer, self.function)

    @property
    def model(self) -> Any:
        """The module with float32 weights."""
        return self._models[torch.float32]

    def defined(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """Return what the reference computes, in the type of the floating-point inputs.

        A reference may compute gradients itself, so it is called with autograd.  Where the caller has none, its results
        have no graph.
        """
        floats = [value.dtype for value in inputs.values() if value.is_floating_point()]
        dtype = torch.float64 if torch.float64 in floats else (floats or [torch.float32])[0]
        function = self._model_of(dtype) if self._answer.is_model else self.function
        arguments = arguments_of(self._answer, inputs, sizes, dtype if dtype is torch.float64 else None)
        if torch.is_grad_enabled():
            return function(*arguments)
        with torch.enable_grad():
            returned = function(*arguments)
        return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, returned)

    def work(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """Return the arithmetic of the reference for inputs of these shapes.

        Raises:
            NotALegalCase: the reference fails for them.
        """
        shapes = tuple((name, tuple(value.shape)) for name, value in inputs.items())
        if shapes in self._work:
            return self._work[shapes]
        try:
            with plain_torch(), torch.no_grad(), TorchWork() as work:
                self.defined({name: value.clone() for name, value in inputs.items()}, sizes)
        except Exception as error:
            raise NotALegalCase(f"the reference refuses it: {type(error).__name__}: {error}") from error
        return self._work.setdefault(shapes, work.by_operator.total())

    def vary_weights(self, names: Iterable[str]) -> None:
        """Make weights random that are all equal, as those of norms are: they would hide that a kernel forgets them."""
        weights = self.model.state_dict()
        for name in names:
            value = weights[name]
            if value.is_floating_point() and value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
                generator = torch.Generator().manual_seed(seed_of(self._answer.weights_seed, name))
                moved = torch.rand(value.shape, generator=generator) - (0.0 if "var" in name else 0.5)
                value.add_(moved.to(value.dtype))

    def _model_of(self, dtype: torch.dtype) -> Any:
        if dtype not in self._models:
            self._models[dtype] = copy.deepcopy(self.model).to(dtype)
        return self._models[dtype]


def defined_by(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Call the reference in a process that never loads the candidate."""
    return _alone(answer).defined(inputs, sizes)


@cache
def _alone(answer: Answer) -> Reference:
    reference = Reference(answer)
    if answer.is_model and answer.folder:
        with torch.no_grad():
            reference.vary_weights(read_names(Path(answer.folder)))
    return reference


def arguments_of(
    answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int], wanted: torch.dtype | None = None
) -> list[Any]:
    """Return the arguments of a call; floating-point tensors in the wanted type, if there is one."""
    arguments: list[Any] = []
    for form in answer.arguments:
        if form.tensor:
            value = inputs[form.tensor]
            dtype = getattr(torch, form.element) if form.element else value.dtype
            if dtype.is_floating_point and wanted is not None:
                dtype = wanted
            arguments.append(value if dtype == value.dtype else value.to(dtype))
        else:
            arguments.append(sizes[form.dim] if form.dim else form.value)
    return arguments


def built(answer: Answer, model: Any) -> Any:
    """Return an instance of a class of modules, with the arguments and the random weights of the answer."""
    assert answer.init_inputs is not None, "it is no function"
    torch.default_generator.manual_seed(answer.weights_seed)
    arguments = load(answer.init_inputs)()
    torch.default_generator.manual_seed(answer.weights_seed)
    return model(*arguments)
