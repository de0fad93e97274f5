"""Calls of a candidate by the ops of generated suites, in a worker.

The reference says first if a case is legal.  Then the candidate is called, and its effects are examined: inputs that it
changed, calls of the reference, outputs that are the same for other inputs.  The candidate may corrupt its own process,
so what torch and the harness need is put back after each call.  `referee` compares its outputs once more, in a process
that never imports it.
"""

import gc
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import torch
import triton
from torch.func import functional_call

import harness
from harness.checks.answer import (
    BACKWARD,
    BACKWARD_WORK,
    CHANCE,
    CONTROL,
    LEGAL,
    NO_BACKWARD,
    REFUSED,
    WORK,
    Answer,
    OriginFault,
)
from harness.checks.answer_code import code_of, load
from harness.checks.code_watch import Place, place_of, watch_of
from harness.checks.joined_backward import Gradients, joined
from harness.checks.kept_outputs import bytes_of, gradients_key, key_of, send_names, send_outputs
from harness.checks.number_traits import is_sorted
from harness.checks.reference import Reference, arguments_of, built
from harness.checks.value_origins import ValueOrigins, is_constant
from harness.engines.torch.torch_seam import active_modes, plain_torch
from harness.execution.case_execution import ending_by_text
from harness.execution.hypothesis_notes import note
from harness.execution.result_forms import named
from harness.model.run import OutOfMemory

KNOWN = frozenset({"builtins", "harness", "numpy", "torch", "triton"})
LIBRARIES = tuple(str(Path(module.__file__ or "").parent) + os.sep for module in (harness, torch, triton))
MOST_REMEMBERED = 256
MOST_NAMED = 8
"""How many operators of torch a note names."""
CONTROLLING = frozenset({REFUSED, NO_BACKWARD, "CannotExecute", "OutOfMemoryError", "NotImplementedError"})
"""Exceptions that a harness may take for the end of a case which shows nothing."""
NOT_ITS_OWN = (
    *LIBRARIES,
    *(str(place) + os.sep for place in (Path(os.__file__).parent, Path(torch.__file__).parents[1])),
)
"""Code that runs in threads of the harness: its own and that of Python."""
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LOOKS, LOOK_S = 3, 0.002
"""How often one looks at new threads, and how long one waits after each look."""
DEEPEST = 3
"""How deep in dictionaries and lists tensors of a candidate are looked for."""
FEWEST_BETWEEN = 5
"""From so many elements on, the ends of a tensor stay as they are when a candidate is called with other values."""
DISTINCT_VALUES = 4
"""Finite values that an output must have to be no right result of other inputs, as the zeros of one column may be."""


def is_forged(error: Exception) -> bool:
    """Return True if the candidate raised an exception by which others explain that a case shows nothing.

    Those of the harness come from its own files, and those of compilers from theirs.  The reference has computed the
    same case, so memory suffices, and a module that is missing is the candidate's.
    """
    by_text = ending_by_text(error)
    if isinstance(error, MemoryError | ImportError) or isinstance(by_text, OutOfMemory):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code.co_filename.startswith(LIBRARIES):
        return False
    if not _is_known(type(error)):  # its name, too, is what the candidate likes
        return True
    is_ours = type(error).__module__.partition(".")[0] == "harness" or type(error).__name__ in CONTROLLING
    return is_ours or by_text is not None


def _is_known(kind: type[Exception]) -> bool:
    """Return True for an exception of Python, torch, Triton, NumPy or the harness."""
    if type(kind) is not type:
        return False
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] in KNOWN and getattr(module, kind.__name__, None) is kind


class InputChanged(Exception):
    """The candidate changed an input in place that the reference leaves as it is."""


class ReferenceCalled(Exception):
    """The candidate called the reference."""


class ProcessForked(Exception):
    """The candidate forked its process."""


class OutsideReached(Exception):
    """The candidate tried what its process is kept from: to write files, start processes, send signals or connect."""


class RefusalForged(Exception):
    """The candidate raised what only the harness raises, or claimed that memory ran out."""


class OutputForged(Exception):
    """An output is an object of a class that the candidate may have written."""


class LeftRunning(Exception):
    """The candidate left something that runs its code after its call, when outputs are judged."""


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
        InputChanged, ReferenceCalled, ProcessForked, OutsideReached, RefusalForged, OutputForged, LeftRunning,
            NoBackward: as their classes say.
        NotALegalCase: the candidate or the reference fails, and the reference fails for these inputs.
        Exception: whatever the candidate raises, if the reference does not.
    """
    candidate = _candidate(answer)
    with plain_torch():
        kept = {name: value.detach().clone() for name, value in inputs.items()}
        key = key_of(kept)
    wants_gradients = torch.is_grad_enabled() and any(value.requires_grad for value in inputs.values())
    work = candidate.reference.work(kept, sizes)  # an illegal case judges no access of the candidate
    backward_work = candidate.reference.backward_work(kept, sizes) if wants_gradients else 0
    candidate.load()
    before = candidate.call_with_other_values(inputs, kept, key, sizes) if again else ""
    invoked = candidate.invocation(inputs, sizes)
    origins = ValueOrigins((*inputs.values(), *candidate.tensors()), candidate.left)
    returned = candidate.called(invoked.call, origins)
    with plain_torch():
        _refuse_forged(returned)
        candidate.send(key, returned)
        note(f"{CONTROL}{LEGAL}")
        _refuse_changes(answer, inputs, kept)
        outputs = named(returned)
        candidate.note_outputs(key, outputs, before)
        for fault, may_be_chance in origins.faults(outputs, kept):
            note(f"{CONTROL}{fault}{CHANCE if may_be_chance else ''}")
        _note_work(WORK, origins.work, work)
    if not wants_gradients:
        return tuple(returned) if isinstance(returned, list) else returned
    candidate.may_have_changed = True
    if not any(output.requires_grad for output in outputs.values()):
        raise NoBackward("no output of the candidate requires a gradient")
    backward = _BackwardPass(
        candidate=candidate,
        invoked=invoked,
        origins=origins,
        outputs=tuple(outputs.values()),
        inputs=kept,
        work=backward_work,
    )
    return joined(returned, invoked.sources, backward)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BackwardPass:
    """The backward pass of a candidate, examined like its call."""

    candidate: "_Candidate"
    invoked: "_Invocation"
    origins: ValueOrigins
    outputs: Sequence[torch.Tensor]
    inputs: Mapping[str, torch.Tensor]
    """Copies from before the call."""
    work: int
    """The arithmetic of the reference's backward pass."""

    def __call__(self, cotangents: Gradients) -> Gradients:
        """Return the gradients of the call's sources, as the candidate computes them."""
        candidate, origins = self.candidate, self.origins
        pairs = [pair for pair in zip(self.outputs, cotangents, strict=True) if pair[1] is not None]
        outputs, passed = (tuple(part) for part in zip(*pairs, strict=True))
        with plain_torch():
            kept = tuple(value.detach().clone() for value in passed)
            origins.begin_backward(passed)
        compute = partial(torch.autograd.grad, outputs, self.invoked.leaves, passed, allow_unused=True)
        gradients: Gradients = candidate.called(compute, origins)
        with plain_torch():
            if candidate.keeper:
                key = gradients_key(self.inputs, self.invoked.wanted, kept)
                candidate.send(key, self.invoked.of_inputs(gradients))
            self._note_origins(
                gradients, {**self.inputs, **{f"cotangent {at}": value for at, value in enumerate(kept)}}
            )
            _note_work(BACKWARD_WORK, origins.work, self.work)
        return gradients

    def _note_origins(self, gradients: Gradients, given: Mapping[str, torch.Tensor]) -> None:
        """Note faults of all gradients that kernels stored: torch may add up some of them.

        The share of torch's operators tells whether torch computed the others.
        """
        faults = [frozenset(self.origins.faults({"d": value}, given)) for value in gradients if value is not None]
        stored = [each for each in faults if OriginFault.KEPT not in {fault for fault, _ in each}]
        if stored and all(stored):
            for fault, may_be_chance in frozenset.union(*stored):
                note(f"{BACKWARD}{fault}{CHANCE if may_be_chance else ''}")


def _note_work(heading: str, done: Counter[str], work: int) -> None:
    """Note what torch's operators did beside the reference's `work`."""
    if work and done:
        shares = {name: round(count / work, 4) for name, count in done.most_common(MOST_NAMED)}
        note(f"{heading}{json.dumps(shares)}")


def define(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Call the reference, with floating-point tensors of any one type."""
    candidate = _candidate(answer)
    if candidate.may_have_changed:
        candidate.restore()
    return candidate.reference.defined(inputs, sizes)


class _Candidate:
    """The candidate of an answer in this process, beside its reference."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.reference = Reference(answer)
        self._loaded: Callable[..., Any] | None = None
        self.may_have_changed = False
        """True if code of the candidate may have run since the last `restore`: its backward pass."""
        self._earlier: dict[object, tuple[str, str]] = {}
        self.left: dict[int, Any] = {}
        """As `ValueOrigins` continues it."""
        self._sent: set[str] = set()
        """The keys of what the keeper has."""
        self._own_names: dict[str, str] = {}
        """The candidate's names of weights by those in the reference."""
        self._arguments: list[torch.Tensor] = []
        self._weights: dict[str, torch.Tensor] = {}
        """The weights of the case under way."""
        self.has_forked = False
        self._is_in_candidate = False
        os.register_at_fork(before=self._note_fork)
        code = code_of(self.reference.function)
        self.guarded = place_of(code) if code is not None else None

    @property
    def keeper(self) -> str:
        """The address to which outputs are sent; empty if nobody keeps them."""
        return self._answer.keeper

    def send(self, key: str, returned: Any) -> None:
        """Send outputs or gradients to the keeper, if there is one: only once, for it keeps what arrives first."""
        if self.keeper and key not in self._sent:
            send_outputs(self.keeper, key, returned)
            self._sent.add(key)

    @property
    def function(self) -> Callable[..., Any]:
        assert self._loaded is not None, "it is loaded first"
        return self._loaded

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that the candidate has before a call: weights, and tables beside its code."""
        if isinstance(self.function, torch.nn.Module):
            for module in self.function.modules():
                yield from _tensors_in(vars(module))
        yield from self._arguments
        yield from self._weights.values()
        yield from _tensors_in(vars(sys.modules.get(self.function.__module__, object)))

    def load(self) -> None:
        """Import the candidate at the first call: an import may crash or hang, and then the case says so."""
        if self._loaded is not None:
            return
        try:
            with self.spoils(), ValueOrigins(left=self.left):
                loaded = load(self._answer.candidate)
                if self._answer.is_model:
                    loaded = built(self._answer, loaded)
        except PermissionError as error:
            raise OutsideReached(f"the candidate reaches outside its process: {error}") from error
        if self._answer.is_model:
            with plain_torch(), torch.no_grad():
                self._share_weights(loaded)
        self._loaded = loaded

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

    def restore(self) -> None:
        self.may_have_changed = False
        for name in self.reference.originals.restore():
            note(f"{CONTROL}replaces {name}")

    def called(self, invoke: Callable[[], Any], origins: ValueOrigins) -> Any:
        """Return what the candidate returns; errors are those of `call`."""
        before, threads, returned, forged = _running(), _threads(), None, ""
        try:
            with self.spoils(), _ReferenceWatch(self._answer, self.guarded), origins:
                returned = invoke()
        except _Watched as watched:
            raise ReferenceCalled(str(watched)) from None
        except Exception as error:
            self.refuse_forks()
            if isinstance(error, PermissionError):
                raise OutsideReached(f"the candidate reaches outside its process: {error}") from error
            if not is_forged(error):
                raise
            name = type(error).__name__ if _is_known(type(error)) else "an exception of its own"
            # Without its text, and outside this block, where it would be the context: by these it would be believed.
            forged = f"the candidate raises {name} where the reference computes"
        if forged:
            raise RefusalForged(forged)
        self.refuse_forks()
        left = [what for what, now in _running().items() if now != before[what]]
        if _runs_foreign_code(_threads() - threads):
            left.append("a thread")
        if left:
            raise LeftRunning(f"after its call the candidate leaves {' and '.join(left)}")
        return returned

    def invocation(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> "_Invocation":
        """Return the call of the candidate, with the weights of the case."""
        with plain_torch():
            own = {name: _leaf(value) for name, value in inputs.items()}
            moved = self.reference.weights(inputs)
            self._weights = {self._own_names[name]: _leaf(value) for name, value in moved.items()}
        arguments = arguments_of(self._answer, own, sizes)
        self._arguments = [value for value in arguments if isinstance(value, torch.Tensor)]
        call = partial(self.function, *arguments)
        if moved:
            assert isinstance(self.function, torch.nn.Module), "others have no weights"
            call = partial(functional_call, self.function, self._weights, tuple(arguments))
        pairs = zip((*inputs.values(), *moved.values()), (*own.values(), *self._weights.values()), strict=True)
        pairs = [(source, leaf) for source, leaf in pairs if leaf.requires_grad]
        return _Invocation(
            call=call,
            sources=tuple(source for source, _ in pairs),
            leaves=tuple(leaf for _, leaf in pairs),
            wanted={name: value for name, value in inputs.items() if value.requires_grad},
        )

    def call_with_other_values(
        self, inputs: Mapping[str, Any], kept: Mapping[str, Any], kept_key: str, sizes: Mapping[str, int]
    ) -> str:
        """Call the candidate with other values in the same memory, and put the case's values back.

        Returns the key of the outputs; empty if the values are no others, or if the candidate fails.
        """
        with plain_torch():
            choice = random.Random(kept_key)  # noqa: S311 - reproducible, not secret
            other = choice.choice((_other_values, _nearly_same_values))
            other_values = {
                name: value.clone() if _is_ordered(value) else other(value, choice) for name, value in kept.items()
            }
            for name, value in inputs.items():
                value.data.copy_(other_values[name])
        key = ""
        try:
            with torch.no_grad():
                call = self.invocation(inputs, sizes).call
            with self.spoils(), torch.no_grad(), ValueOrigins(left=self.left):
                returned = call()
            with plain_torch():
                # Nearly the same values may have the same outputs; a kept one is wrong for the case itself.
                is_telling = other is _other_values and key_of(other_values) != kept_key
                key = key_of(named(returned)) if is_telling else ""
        except Exception:  # noqa: BLE001, S110 - the second call, with the case's own values, decides
            pass
        with plain_torch():
            for name, value in inputs.items():
                value.data.copy_(kept[name])
        return key

    def note_outputs(self, input_key: str, outputs: Mapping[str, Any], other_key: str) -> None:
        """Note outputs that are constant, or the same as those for other inputs, which may have the other key."""
        if not outputs or any(value.numel() < 2 or not _has_finite(value) for value in outputs.values()):
            return
        if all(not bool((value != 0).any()) for value in outputs.values()):
            note(f"{CONTROL}zeros")
        elif all(is_constant(value) for value in outputs.values()):
            note(f"{CONTROL}constant")
        form = tuple((name, tuple(value.shape), value.dtype) for name, value in outputs.items())
        output_key = key_of(outputs)
        before = self._earlier.get(form)
        is_earlier = before is not None and before[0] != input_key and before[1] == output_key
        if (is_earlier or other_key == output_key) and _tell_inputs_apart(outputs):
            note(f"{CONTROL}repeated")
        if len(self._earlier) < MOST_REMEMBERED:
            self._earlier.setdefault(form, (input_key, output_key))

    def refuse_forks(self) -> None:
        if self.has_forked:
            raise ProcessForked("the candidate forks its process")

    def _note_fork(self) -> None:
        self.has_forked = self.has_forked or self._is_in_candidate

    def _share_weights(self, candidate: Any) -> None:
        """Give the candidate's module the weights of the reference's that have the same names and shapes."""
        weights, own_weights = self.reference.model.state_dict(), candidate.state_dict()
        self._own_names = _paired(weights, own_weights)
        names = tuple(self._own_names)
        # Weights that the candidate has nowhere are no constants all the same.
        others = {value.shape for name, value in own_weights.items() if name not in self._own_names.values()}
        lacking = tuple(name for name, value in weights.items() if name not in names and value.shape not in others)
        self.reference.vary_weights((*names, *lacking))
        for name, own_name in self._own_names.items():
            own_weights[own_name].copy_(weights[name])
        self.reference.move_weights(names)
        if self._answer.keeper:
            send_names(self._answer.keeper, (*names, *lacking))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Invocation:
    """A call of the candidate, and what it has gradients of."""

    call: Callable[[], Any]
    sources: tuple[torch.Tensor, ...]
    """Inputs and weights of the case that require gradients."""
    leaves: tuple[torch.Tensor, ...]
    """What the candidate gets in their place, in the same memory."""
    wanted: Mapping[str, torch.Tensor]
    """The inputs that require gradients; weights follow from some of them."""

    def of_inputs(self, gradients: Gradients) -> tuple[torch.Tensor, ...]:
        """Return the gradients of the inputs, from those of the sources."""
        pairs = [pair for pair in zip(self.sources, gradients, strict=True) if pair[1] is not None]
        if not pairs:
            return tuple(map(torch.zeros_like, self.wanted.values()))
        sources, found = zip(*pairs, strict=True)
        with torch.enable_grad():
            chained = torch.autograd.grad(
                sources, tuple(self.wanted.values()), found, retain_graph=True, allow_unused=True
            )
        typed = cast("Gradients", chained)  # torch's stubs ignore allow_unused
        return tuple(
            torch.zeros_like(value) if gradient is None else gradient
            for value, gradient in zip(self.wanted.values(), typed, strict=True)
        )


def _leaf(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_(value.requires_grad)


@cache
def _candidate(answer: Answer) -> _Candidate:
    return _Candidate(answer)


class _Watched(Exception):
    """As `ReferenceCalled`, which a candidate may raise itself."""


class _ReferenceWatch:
    """Notices a call of the reference's code while the context lasts.

    Raises:
        _Watched: at its end, if there was one.
    """

    def __init__(self, answer: Answer, guarded: Place | None) -> None:
        self._name = answer.reference.name
        self._watch = watch_of(guarded)

    def __enter__(self) -> None:
        self._watch.begin()

    def __exit__(self, kind: object, error: object, at: object) -> None:
        if self._watch.end():
            raise _Watched(f"the candidate calls the reference {self._name}")


def _nearly_same_values(kept: torch.Tensor, choice: random.Random) -> torch.Tensor:
    """Return the values with a random one of them in a random other place: a few probed elements stay as they are."""
    moved = kept.reshape(-1).clone()
    if len(moved):
        moved[choice.randrange(len(moved))] = moved[choice.randrange(len(moved))]
    return moved.reshape(kept.shape)


def _tensors_in(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    match values:
        case torch.Tensor():
            yield values
        case dict() if depth < DEEPEST:
            for value in tuple(values.values()):
                yield from _tensors_in(value, depth + 1)
        case list() | tuple() if depth < DEEPEST:
            for value in tuple(values):
                yield from _tensors_in(value, depth + 1)
        case _:
            pass


def _paired(weights: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the names of the candidate's weights by the reference's.

    Weights of the same name and shape belong together; the others do in their order, if their shapes are the same.
    """
    pairs = {name: name for name, value in weights.items() if name in own and own[name].shape == value.shape}
    rest, own_rest = ([name for name in names if name not in pairs] for names in (weights, own))
    if [weights[name].shape for name in rest] == [own[name].shape for name in own_rest]:
        pairs |= dict(zip(rest, own_rest, strict=True))
    return pairs


def _running() -> dict[str, object]:
    """Return what may run code between the calls of a candidate."""
    return {
        "a mode of torch": active_modes(),
        "a timer": tuple(map(signal.getitimer, TIMERS)),
        "a signal's handler": tuple(map(signal.getsignal, sorted(signal.valid_signals()))),
        "a trace function": (sys.gettrace(), sys.getprofile(), gc.callbacks[:]),
    }


def _threads() -> frozenset[int]:
    return frozenset(sys._current_frames())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented


def _runs_foreign_code(threads: frozenset[int]) -> bool:
    """Return True if one of these threads runs code that is not the harness's, each time that one looks."""
    foreign = threads
    for _ in range(LOOKS):
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
        foreign = frozenset(
            thread
            for thread in foreign & frames.keys()
            if not all(
                each.f_code.co_filename.startswith(NOT_ITS_OWN) for each, _ in traceback.walk_stack(frames[thread])
            )
        )
        if not foreign:
            return False
        time.sleep(LOOK_S)  # code that Python generates, as of a dataclass, has no file for a moment
    return True


def _tell_inputs_apart(outputs: Mapping[str, torch.Tensor]) -> bool:
    """Return True if other inputs hardly ever give the same outputs."""
    return all(len(_finite(value).unique()) >= DISTINCT_VALUES for value in outputs.values())


def _has_finite(value: torch.Tensor) -> bool:
    return bool(value.isfinite().any()) if value.itemsize > 1 else bool(len(_finite(value)))


def _finite(value: torch.Tensor) -> torch.Tensor:
    """Return the finite elements in float64: `isfinite` knows not every 8-bit float."""
    wide = value.double()
    return wide[wide.isfinite()]


def _is_ordered(value: torch.Tensor) -> bool:
    """Return True if rows are sorted: in another order they may be illegal, as boundaries of sequences are."""
    return is_sorted(value) and not is_constant(value)


def _other_values(kept: torch.Tensor, _: random.Random) -> torch.Tensor:
    """Return values of the same domain: those of the tensor, in another order, and some of them twice.

    So sums and norms differ.  The first and the last element stay, for a candidate may tell inputs apart by them.
    """
    moved = kept.reshape(-1).clone()
    if len(moved) < FEWEST_BETWEEN:
        return moved.flip(0).reshape(kept.shape)
    moved[1:-1] = moved[1:-1].flip(0)
    moved[2:-1:2] = moved[1:-2:2]
    return moved.reshape(kept.shape)


def _refuse_forged(returned: Any) -> None:
    """Raise `OutputForged` unless the outputs are plain: methods of a subclass would answer as the candidate likes."""
    if isinstance(returned, tuple | list) and type(returned) not in {tuple, list}:
        raise OutputForged(f"the outputs are a {type(returned).__name__}, no plain tuple")
    for part in returned if isinstance(returned, tuple | list) else (returned,):
        if isinstance(part, torch.Tensor) and type(part) not in {torch.Tensor, torch.nn.Parameter}:
            raise OutputForged(f"an output is a {type(part).__name__}, no plain tensor")


def _is_same(value: torch.Tensor, other: torch.Tensor) -> bool:
    has_form = (value.shape, value.dtype) == (other.shape, other.dtype)
    return has_form and bytes_of(value) == bytes_of(other)


def _refuse_changes(answer: Answer, inputs: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    for name, value in inputs.items():
        if name not in answer.mutated and not _is_same(value, kept[name]):
            changed = (value.detach() != kept[name]) & ~(value.detach().isnan() & kept[name].isnan())
            at = [int(part) for part in changed.nonzero()[0]] if bool(changed.any()) else []
            raise InputChanged(f"the candidate changes its input {name} in place, first at {at}")
