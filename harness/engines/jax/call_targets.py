"""The model of jaxlib's two call targets, which launch and tune the kernels of jax-triton.

The older target tunes a kernel while the executable runs.  The FFI target tunes it while the executable initialises:
operations that produce the kernel's inputs have not run yet, so those inputs hold whatever was in memory.  Both launch
each config on the call's own buffers, and restore aliased inputs once, after all benchmarks.  A clock decides nothing
here: every config is launched once, and the case says which one is taken.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from harness.engines.jax.gpu_triton import (
    AnyKernelCall,
    ArrayParameter,
    ScalarParameter,
    TritonAutotunedKernelCall,
    TritonKernelCall,
)
from harness.engines.jax.jax_kernels import LaunchKind
from harness.engines.jax.ready_operands import Ready
from harness.engines.jax.xla_ffi import XlaBuffer
from harness.engines.torch.torch_seam import plain_torch
from harness.engines.triton.driver import VirtualDriver
from harness.engines.triton.triton_seam import ChosenConfig
from harness.errors import CannotExecute

GARBAGE = 0x7F
"""Every byte of memory that nothing has produced yet.  As an integer it is far beyond any extent."""


class TunedWhile(StrEnum):
    """When a call target tunes."""

    EXECUTION = "execution"
    """The older target, `triton_kernel_call`, which jax-triton 0.3.1 calls."""
    INITIALISATION = "initialisation"
    """The FFI target, `triton_kernel_call_ffi`."""


class AliasRule(StrEnum):
    """Which aliased inputs tuning restores."""

    BUFFERS = "buffers"
    """jaxlib's rule: both indices count the inputs and then the outputs, and both must name one buffer.

    jax-triton 0.3.1 passes the index of the output among the outputs, so it names an input.
    """
    OUTPUTS = "outputs"
    """The second index counts the outputs, as in `input_output_aliases` of jax-triton."""
    NONE = "none"
    """No input is restored, as for a caller that passes no aliases."""


_RESTORED = {
    AliasRule.BUFFERS: "aliased inputs are restored by the index of buffers",
    AliasRule.OUTPUTS: "aliased inputs are restored by the index of outputs",
    AliasRule.NONE: "no aliased input is restored",
}


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """The call target that is modelled."""

    tuned_while: TunedWhile = TunedWhile.EXECUTION
    aliases: AliasRule = AliasRule.BUFFERS

    @property
    def model(self) -> str:
        """The words that a finding shows."""
        while_ = {TunedWhile.EXECUTION: "runs", TunedWhile.INITIALISATION: "initialises"}[self.tuned_while]
        return f"of jaxlib's call target: kernels are tuned while the executable {while_}; {_RESTORED[self.aliases]}"


@dataclass(slots=True)
class JaxExecutable:
    """The calls of one executable, and what happened while it ran."""

    driver: VirtualDriver
    settings: TargetSettings
    calls: Mapping[int, AnyKernelCall]
    ready: Mapping[int, Ready]
    error: BaseException | None = None
    """The first exception of a launch, which XLA must not see: it would keep the text alone."""


class CallTargets:
    """Serves the calls of executables, by their numbers."""

    def __init__(self) -> None:
        self._executables: dict[int, JaxExecutable] = {}
        self._tuned: dict[int, int] = {}
        """The config that each tuned call takes."""
        self._lock = threading.RLock()
        """XLA may run independent calls on threads of its own."""

    def add(self, executable: JaxExecutable) -> None:
        self._executables.update(dict.fromkeys(executable.calls, executable))

    def remove(self, executable: JaxExecutable) -> None:
        for number in executable.calls:
            self._executables.pop(number, None)
            self._tuned.pop(number, None)

    def execute(self, number: int, arguments: list[XlaBuffer], results: list[XlaBuffer]) -> None:
        """Execute one call; keep what it raises, and skip the calls that follow."""
        with self._lock:
            executable = self._executables[number]  # an executable runs only while its calls are served
            if executable.error is None:
                try:
                    self._execute(executable, number, arguments, results)
                except BaseException as error:  # noqa: BLE001 - it is raised again when XLA has returned
                    executable.error = error

    def _execute(
        self, executable: JaxExecutable, number: int, arguments: list[XlaBuffer], results: list[XlaBuffer]
    ) -> None:
        with plain_torch():
            inputs, outputs = [argument.tensor() for argument in arguments], [result.tensor() for result in results]
            buffers = (*inputs, *outputs)
            owned = {tensor.data_ptr() for tensor in inputs}
            assert executable.driver.support is not None, "the driver runs no models"
            for output in outputs:
                if output.data_ptr() not in owned:
                    executable.driver.support.poison(output)
            match executable.calls[number]:
                case TritonKernelCall() as call:
                    _launch(executable, call, buffers, LaunchKind(model=executable.settings.model))
                case TritonAutotunedKernelCall() as tuned:
                    if number not in self._tuned:
                        self._tuned[number] = _tune(executable, tuned, _as_tuned(executable, number, inputs, outputs))
                    config = _configs(tuned)[self._tuned[number]]
                    call, _ = tuned.calls[config.index]
                    _launch(executable, call, buffers, LaunchKind(model=executable.settings.model, config=config))


def _as_tuned(
    executable: JaxExecutable, number: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> "_Buffers":
    """Return the buffers of a call as they are when it is tuned."""
    if executable.settings.tuned_while is TunedWhile.EXECUTION:
        return _Buffers((*inputs, *outputs), len(inputs))
    known = executable.ready.get(number, ())
    if len(known) != len(inputs):
        raise CannotExecute("a JAX executable whose program cannot be read, to tell which inputs are ready early,")
    ready = zip(inputs, known, strict=True)
    replaced = {tensor.data_ptr(): _garbage(tensor) for tensor, is_ready in ready if not is_ready}
    addresses = {tensor.data_ptr() for tensor in inputs}
    # By the time the kernel runs, an output no longer holds what a benchmark stored.
    replaced |= {tensor.data_ptr(): _garbage(tensor) for tensor in outputs if tensor.data_ptr() not in addresses}
    return _Buffers(tuple(replaced.get(tensor.data_ptr(), tensor) for tensor in (*inputs, *outputs)), len(inputs))


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Inputs and then outputs."""

    tensors: tuple[torch.Tensor, ...]
    inputs: int

    def aliased(self, aliases: Sequence[tuple[int, int, int]], rule: AliasRule) -> Iterator[torch.Tensor]:
        """Yield the inputs that tuning restores."""
        for operand, result, _ in aliases:
            match rule:
                case AliasRule.BUFFERS:
                    other = result
                case AliasRule.OUTPUTS:
                    other = self.inputs + result
                case AliasRule.NONE:
                    continue
            if self.tensors[operand].data_ptr() == self.tensors[other].data_ptr():
                yield self.tensors[operand]


def _garbage(tensor: torch.Tensor) -> torch.Tensor:
    garbage = torch.empty(tensor.shape, dtype=tensor.dtype)
    if tensor.dtype is torch.bool:
        return garbage.fill_(1)  # no other byte is a boolean
    garbage.reshape(-1).view(torch.uint8).fill_(GARBAGE)
    return garbage


def _configs(tuned: TritonAutotunedKernelCall) -> tuple[ChosenConfig, ...]:
    return tuple(ChosenConfig(text, index, len(tuned.calls)) for index, (_, text) in enumerate(tuned.calls))


def _tune(executable: JaxExecutable, tuned: TritonAutotunedKernelCall, buffers: _Buffers) -> int:
    """Launch every config, restore what is to be restored, and return the config that the case asks for."""
    restored = tuple(buffers.aliased(tuned.aliases, executable.settings.aliases))
    before = [tensor.clone() for tensor in restored]
    for config in _configs(tuned):
        call, _ = tuned.calls[config.index]
        kind = LaunchKind(model=executable.settings.model, config=config, is_benchmark=True)
        _launch(executable, call, buffers.tensors, kind)
    for tensor, content in zip(restored, before, strict=True):
        tensor.copy_(content)
    assert executable.driver.support is not None, "the driver runs no models"
    kernel = tuned.calls[0][0].kernel.build.kernel
    return executable.driver.support.chooser.requested.get(kernel, 0) % len(tuned.calls)


def _launch(
    executable: JaxExecutable, call: TritonKernelCall, buffers: Sequence[torch.Tensor], kind: LaunchKind
) -> None:
    arrays, arguments = iter(buffers), list[object]()
    for parameter in call.parameters:
        match parameter:
            case ArrayParameter(bytes_to_zero=count):
                array = next(arrays)
                if count:
                    array.reshape(-1).view(torch.uint8)[:count].zero_()
                arguments.append(array)
            case ScalarParameter(value=value):
                arguments.append(value)
    call.kernel.build.launch(executable.driver, (call.grid_x, call.grid_y, call.grid_z), arguments, kind)
