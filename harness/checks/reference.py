"""The reference of an answer, in a worker.  Nothing here loads or calls the candidate: the referee imports it."""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call

from harness.checks.answer import Answer
from harness.checks.answer_code import load
from harness.checks.kept_outputs import read_names
from harness.checks.torch_work import TorchWork
from harness.engines.torch.torch_seam import plain_torch, tree_map
from harness.execution.inputs import seed_of
from harness.execution.result_forms import named


class NotALegalCase(Exception):
    """The reference refuses the inputs of a case, too."""


class Reference:
    """The reference, as it is called with tensors of any floating-point type."""

    def __init__(self, answer: Answer) -> None:
        from harness.checks.shared_snapshot import originals  # noqa: PLC0415 - it is imported after all that it keeps

        self._answer = answer
        self.originals = originals()
        self.function = load(answer.reference)
        self.originals.restore()  # its file may be the candidate's
        self._models: dict[torch.dtype, Any] = {}
        self._work: dict[object, int] = {}
        self.moved: tuple[tuple[str, str], ...] = ()
        """The inputs that move weights, with the weights' names."""
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
        if torch.is_grad_enabled():
            return self._invocation(inputs, sizes)()
        with torch.enable_grad():
            returned = self._invocation(inputs, sizes)()
        return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, returned)

    def _invocation(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Callable[[], Any]:
        """Return the call of the reference, in the type of the floating-point inputs."""
        floats = [value.dtype for value in inputs.values() if value.is_floating_point()]
        dtype = torch.float64 if torch.float64 in floats else (floats or [torch.float32])[0]
        function = self._model_of(dtype) if self._answer.is_model else self.function
        arguments = arguments_of(self._answer, inputs, sizes, dtype if dtype is torch.float64 else None)
        if not self.moved:
            return partial(function, *arguments)
        return partial(functional_call, function, self.weights(inputs, dtype), tuple(arguments))

    def weights(self, inputs: Mapping[str, Any], dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
        """Return the weights that a case moves, by name: each number by up to half of its size."""
        moved: dict[str, torch.Tensor] = {}
        for name, weight in self.moved:
            base = self._base[weight]
            value = base + (inputs[name].to(base.dtype) - 0.5) * torch.where(base == 0, 1.0, base)
            moved[weight] = value if dtype is None else value.to(dtype)
        return moved

    def move_weights(self, names: Collection[str]) -> None:
        """Have cases move these weights, as they are now."""
        self._base = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        self.moved = tuple(pair for pair in self._answer.weights if pair[1] in names)

    def work(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """Return the arithmetic of the reference for inputs of these shapes.

        Raises:
            NotALegalCase: the reference fails for them.
        """
        shapes = _shapes(inputs)
        if shapes in self._work:
            return self._work[shapes]
        try:
            with plain_torch():
                invoke = self._invocation({name: value.detach().clone() for name, value in inputs.items()}, sizes)
                with torch.enable_grad(), TorchWork() as work:
                    invoke()
        except Exception as error:
            raise NotALegalCase(f"the reference refuses it: {type(error).__name__}: {error}") from error
        usual = self._answer.repeats
        repeats = zip(work.repeats, usual, strict=False) if len(usual) == len(work.repeats) else ()
        if any(now & ~then for now, then in repeats):
            raise NotALegalCase("the reference repeats a tensor along an axis, where shapes are equal in the sample")
        return self._work.setdefault(shapes, work.by_operator.total())

    def backward_work(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """Return the arithmetic of the reference's backward pass; 0 if it has none.

        Inputs that require gradients cannot be changed in place, so `work` counts the forward pass without them.
        """
        key = "backward", _shapes(inputs)
        if key not in self._work:
            work = TorchWork()
            with plain_torch(), torch.enable_grad(), suppress(RuntimeError):  # it may have none, or only for some types
                copies = {name: value.detach().clone() for name, value in inputs.items()}
                leaves = [value.requires_grad_() for value in copies.values() if value.is_floating_point()]
                outputs = [value for value in named(self._invocation(copies, sizes)()).values() if value.requires_grad]
                with work:
                    torch.autograd.grad(outputs, leaves, list(map(torch.ones_like, outputs)), allow_unused=True)
            self._work[key] = work.by_operator.total()
        return self._work[key]

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


def _shapes(inputs: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tuple(value.shape)) for name, value in inputs.items())


def defined_by(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Call the reference in a process that never loads the candidate."""
    return _alone(answer).defined(inputs, sizes)


@cache
def _alone(answer: Answer) -> Reference:
    reference = Reference(answer)
    if answer.is_model and answer.folder:
        with torch.no_grad():
            names = read_names(Path(answer.folder))
            reference.vary_weights(names)
            reference.move_weights(names)
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
