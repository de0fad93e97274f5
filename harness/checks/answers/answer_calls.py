"""Calls of a candidate and of its reference by the ops of generated suites, in a worker.

The candidate is called first.  What it returned is then looked at: inputs that it changed, calls of the reference,
outputs that are the same for other inputs.  Its process is its own to spoil, so what torch and the harness need is put
back after each call; `harness.checks.referee` compares its outputs once more in a process that never imports it.
"""

import copy
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from harness.checks.answers.answer import CONTROL, Answer
from harness.checks.answers.answer_code import code_of, load
from harness.checks.answers.kept_outputs import keep_names, keep_outputs, key_of, read_names
from harness.checks.answers.torch_copies import TorchResults
from harness.checks.answers.torch_originals import Originals
from harness.execution.case_execution import plain_torch
from harness.execution.hypothesis_notes import note
from harness.execution.inputs import seed_of
from harness.execution.result_forms import named

MOST_REMEMBERED = 256
FEWEST_BETWEEN = 5
"""From so many elements on, the ends of a tensor stay as they are when a candidate is called with other values."""
DISTINCT_VALUES = 4
"""Finite values that an output must have to be no right result of other inputs, as the zeros of one column may be."""

_ORIGINALS = [Originals()]
"""The snapshot, made in the fork server, whose children share it; the first candidate of a process may renew it."""


class InputChanged(Exception):
    """The candidate changed an input in place that the reference leaves as it is."""


class ReferenceCalled(Exception):
    """The candidate called the reference."""


class ProcessForked(Exception):
    """The candidate forked its process."""


class NotALegalCase(Exception):
    """The reference refuses the inputs of a case, too."""


class NoBackward(Exception):
    """No output of the candidate has a gradient, although inputs require one."""


def call(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int], *, again: bool = False) -> Any:
    """Call the candidate with the inputs of a case.

    Args:
        answer: what to call.
        inputs: tensors by name.
        sizes: the case's dims.
        again: call it twice, first with other values in the same memory; only what the second call returns counts.

    Raises:
        InputChanged, ReferenceCalled, ProcessForked, NoBackward: as their classes say.
        NotALegalCase: the candidate or the reference fails, and the reference fails for these inputs.
        Exception: whatever the candidate raises, if the reference does not.
    """
    state = _state(answer)
    with plain_torch():
        kept = {name: value.detach().clone() for name, value in inputs.items()}
    state.load_candidate()
    before = state.call_with_other_values(inputs, kept, sizes) if again else ""
    try:
        with state.spoils(), ReferenceWatch(answer, state.guarded), TorchResults() as made_by_torch:
            returned = state.candidate(*_arguments(answer, inputs, sizes, None))
    except ReferenceCalled:
        raise
    except Exception:
        state.refuse_if_illegal(kept, sizes)
        raise
    if state.has_forked:
        raise ProcessForked("the candidate forks its process")
    with plain_torch():
        state.refuse_if_illegal(kept, sizes)
        _refuse_changes(answer, inputs, kept)
        outputs = named(returned)
        state.note_outputs(kept, outputs)
        if made_by_torch.has_all(outputs, kept):
            note(f"{CONTROL}copied")
        if before and before == key_of(outputs) and _tell_inputs_apart(outputs):
            note(f"{CONTROL}repeated")
        if answer.folder:
            keep_outputs(Path(answer.folder), key_of(kept), returned)
    if _wants_gradient(inputs):
        state.may_have_changed = True
        if not any(output.requires_grad for output in outputs.values()):
            raise NoBackward("no output of the candidate requires a gradient")
    return tuple(returned) if isinstance(returned, list) else returned


def define(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Call the reference, with floating-point tensors of any one type."""
    state = _state(answer)
    if state.may_have_changed:
        state.restore()
    return state.defined(inputs, sizes)


def defined_by(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Call the reference of an answer whose candidate is never loaded."""
    return _state(answer, is_alone=True).defined(inputs, sizes)


class _State:
    """The candidate and the reference of an answer in this process."""

    def __init__(self, answer: Answer, *, is_alone: bool) -> None:
        self._answer = answer
        if _ORIGINALS[0].is_changed:  # by the engine, which changes torch for the emulated device
            _ORIGINALS[0] = Originals()
        self._originals = _ORIGINALS[0]
        self._reference = load(answer.reference)
        self._originals.restore()  # its file may be the candidate's
        self._models: dict[torch.dtype, Any] = {}
        self._candidate: Callable[..., Any] | None = None
        self._legal: set[object] = set()
        self.may_have_changed = False
        """True if code of the candidate may have run since the last `restore`: its backward pass."""
        self._earlier: dict[object, tuple[str, str]] = {}
        self.has_forked = False
        self._is_in_candidate = False
        os.register_at_fork(before=self._note_fork)
        code = code_of(self._reference)
        self.guarded = (code.co_filename, code.co_name, code.co_firstlineno) if code is not None else None
        if answer.is_model:
            self._models[torch.float32] = model = _built(answer, self._reference)
            if is_alone and answer.folder:
                with torch.no_grad():
                    _vary(model, read_names(Path(answer.folder)), answer.weights_seed)

    @property
    def candidate(self) -> Callable[..., Any]:
        assert self._candidate is not None, "it is loaded first"
        return self._candidate

    def load_candidate(self) -> None:
        """Import the candidate at the first call: an import may crash or hang, and then the case says so."""
        if self._candidate is not None:
            return
        with self.spoils():
            found = load(self._answer.candidate)
            if self._answer.is_model:
                found = _built(self._answer, found)
        if self._answer.is_model:
            with plain_torch(), torch.no_grad():
                model = self._models[torch.float32]
                names = _shared_weights(model, found)
                _vary(model, names, self._answer.weights_seed)
                _share(model, names, found)
                if self._answer.folder:
                    keep_names(Path(self._answer.folder), names)
        self._candidate = found

    @contextmanager
    def spoils(self) -> Generator[None]:
        """Put back what the candidate replaces while the context lasts, and end processes that it forks."""
        process, self._is_in_candidate = os.getpid(), True
        try:
            yield
        finally:
            if os.getpid() != process:
                os._exit(0)
            self._is_in_candidate = False
            self.restore()

    def _note_fork(self) -> None:
        self.has_forked = self.has_forked or self._is_in_candidate

    def restore(self) -> None:
        self.may_have_changed = False
        for name in self._originals.restore():
            note(f"{CONTROL}replaces {name}")

    def call_with_other_values(
        self, inputs: Mapping[str, Any], kept: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> str:
        """Call the candidate with other values in the same memory, and put the case's values back.

        Returns the key of the outputs; empty if the values are no others, or if the candidate fails.
        """
        with plain_torch():
            others = {name: _other_values(value) for name, value in kept.items()}
            for name, value in inputs.items():
                value.data.copy_(others[name])
        key = ""
        try:
            with self.spoils(), torch.no_grad():
                returned = self.candidate(*_arguments(self._answer, inputs, sizes, None))
            with plain_torch():
                key = key_of(named(returned)) if key_of(others) != key_of(kept) else ""
        except Exception:  # noqa: BLE001, S110 - the second call, with the case's own values, decides
            pass
        with plain_torch():
            for name, value in inputs.items():
                value.data.copy_(kept[name])
        return key

    def defined(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """Return what the reference computes, in the type of the floating-point inputs."""
        floats = [value.dtype for value in inputs.values() if value.is_floating_point()]
        dtype = torch.float64 if torch.float64 in floats else (floats or [torch.float32])[0]
        function = self._model(dtype) if self._answer.is_model else self._reference
        is_cast = dtype if dtype is torch.float64 else None
        return function(*_arguments(self._answer, inputs, sizes, is_cast))

    def refuse_if_illegal(self, kept: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Raise if the reference fails for inputs of these shapes."""
        shapes = tuple((name, tuple(value.shape)) for name, value in kept.items())
        if shapes in self._legal:
            return
        try:
            with plain_torch(), torch.no_grad():
                self.defined({name: value.clone() for name, value in kept.items()}, sizes)
        except Exception as error:
            raise NotALegalCase(f"the reference refuses it: {type(error).__name__}: {error}") from error
        self._legal.add(shapes)

    def note_outputs(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Note outputs that are constant, or the same as those for other inputs."""
        if not outputs or any(value.numel() < 2 or not len(_finite(value)) for value in outputs.values()):
            return
        if all(not bool((value != 0).any()) for value in outputs.values()):
            note(f"{CONTROL}zeros")
        elif all(bool((value == value.reshape(-1)[0]).all()) for value in outputs.values()):
            note(f"{CONTROL}constant")
        form = tuple((name, tuple(value.shape), value.dtype) for name, value in outputs.items())
        given, got = key_of(inputs), key_of(outputs)
        before = self._earlier.get(form)
        if before is not None and before[0] != given and before[1] == got and _tell_inputs_apart(outputs):
            note(f"{CONTROL}repeated")
        if len(self._earlier) < MOST_REMEMBERED:
            self._earlier.setdefault(form, (given, got))

    def _model(self, dtype: torch.dtype) -> Any:
        if dtype not in self._models:
            self._models[dtype] = copy.deepcopy(self._models[torch.float32]).to(dtype)
        return self._models[dtype]


def _tell_inputs_apart(outputs: Mapping[str, torch.Tensor]) -> bool:
    """Return True if other inputs hardly ever give the same outputs."""
    return all(len(_finite(value).unique()) >= DISTINCT_VALUES for value in outputs.values())


def _finite(value: torch.Tensor) -> torch.Tensor:
    """Return the finite elements in float64: `isfinite` knows not every 8-bit float."""
    wide = value.double()
    return wide[wide.isfinite()]


@cache
def _state(answer: Answer, *, is_alone: bool = False) -> _State:
    """Return the state of this process; `is_alone` if the candidate is never loaded in it."""
    return _State(answer, is_alone=is_alone)


class ReferenceWatch:
    """Notices a call of the reference's code while the context lasts, by whatever name it was imported."""

    def __init__(self, answer: Answer, guarded: tuple[str, str, int] | None) -> None:
        self._name = answer.reference.name
        self._guarded = guarded
        self._is_called = False

    def __enter__(self) -> None:
        if self._guarded is not None:
            sys.setprofile(self._see)

    def __exit__(self, kind: object, error: object, at: object) -> None:
        sys.setprofile(None)
        if self._is_called:
            raise ReferenceCalled(f"the candidate calls the reference {self._name}")

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        del argument
        if event == "call" and not self._is_called:
            code = frame.f_code
            self._is_called = (code.co_filename, code.co_name, code.co_firstlineno) == self._guarded


def _arguments(
    answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int], wanted: torch.dtype | None
) -> list[Any]:
    made: list[Any] = []
    for argument in answer.arguments:
        if argument.tensor:
            value = inputs[argument.tensor]
            dtype = getattr(torch, argument.element) if argument.element else value.dtype
            if dtype.is_floating_point and wanted is not None:
                dtype = wanted
            made.append(value if dtype == value.dtype else value.to(dtype))
        else:
            made.append(sizes[argument.dim] if argument.dim else argument.value)
    return made


def _built(answer: Answer, model: Any) -> Any:
    assert answer.init_inputs is not None
    torch.default_generator.manual_seed(answer.weights_seed)
    given = load(answer.init_inputs)()
    torch.default_generator.manual_seed(answer.weights_seed)
    return model(*given)


def _shared_weights(reference: Any, candidate: Any) -> tuple[str, ...]:
    """Return the weights that both models have, by their names and shapes."""
    theirs = candidate.state_dict()
    return tuple(
        name for name, value in reference.state_dict().items() if name in theirs and theirs[name].shape == value.shape
    )


def _vary(reference: Any, names: Iterable[str], seed: int) -> None:
    """Make weights random that are all equal, such as those of norms: they would hide that a kernel forgets them."""
    weights = reference.state_dict()
    for name in names:
        value = weights[name]
        if value.is_floating_point() and value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
            generator = torch.Generator().manual_seed(seed_of(seed, name))
            moved = torch.rand(value.shape, generator=generator) - (0.0 if "var" in name else 0.5)
            value.add_(moved.to(value.dtype))


def _share(reference: Any, names: Iterable[str], candidate: Any) -> None:
    ours, theirs = reference.state_dict(), candidate.state_dict()
    for name in names:
        theirs[name].copy_(ours[name])


def _other_values(kept: torch.Tensor) -> torch.Tensor:
    """Return values of the same domain: those of the tensor, in another order, and some of them twice.

    So sums and norms differ.  The first and the last element stay, for a candidate may tell inputs apart by them.
    """
    made = kept.reshape(-1).clone()
    if len(made) < FEWEST_BETWEEN:
        return made.flip(0).reshape(kept.shape)
    made[1:-1] = made[1:-1].flip(0)
    made[2:-1:2] = made[1:-2:2]
    return made.reshape(kept.shape)


def _refuse_changes(answer: Answer, inputs: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    for name, value in inputs.items():
        if name not in answer.mutated and key_of({name: value}) != key_of({name: kept[name]}):
            changed = (value.detach() != kept[name]) & ~(value.detach().isnan() & kept[name].isnan())
            at = [int(part) for part in changed.nonzero()[0]] if bool(changed.any()) else []
            raise InputChanged(f"the candidate changes its input {name} in place, first at {at}")


def _wants_gradient(inputs: Mapping[str, Any]) -> bool:
    return torch.is_grad_enabled() and any(value.requires_grad for value in inputs.values())
