"""Calls of JAX functions on torch tensors: `harness.suite.jax_call`."""

import functools
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.engines.jax import jax_seam
from harness.engines.jax.call_targets import AliasRule, CallTargets, JaxExecutable, TargetSettings, TunedWhile
from harness.engines.jax.gpu_triton import AnyKernelCall
from harness.engines.jax.jax_imports import prepare_imports
from harness.engines.jax.ready_operands import Ready, ready_operands
from harness.engines.jax.xla_ffi import XlaBuffer
from harness.engines.torch.torch_seam import plain_torch
from harness.engines.triton.driver import VirtualDriver
from harness.engines.triton.triton_seam import active_driver
from harness.errors import CannotExecute, SuiteError

Function = Callable[..., Any]
MOST_ELEMENTS = 2**31
"""The elements of a tensor beyond which a case is oversized: its tensors have no memory."""

MOST_COMPILED = 16
"""Compiled functions that are kept: a case is run several times, with arguments of the same shapes."""

_numbers = itertools.count()
_targets = CallTargets()
_running = threading.RLock()
"""Held while an executable runs: the numbers of its calls belong to one run at a time."""
_compiled: OrderedDict[Any, "_Compiled"] = OrderedDict()


def call(function: Function, tensors: Sequence[torch.Tensor], *, tuned_while: str, aliases: str) -> Any:
    """Compile and run a JAX function, as `harness.suite.jax_call` describes.

    Raises:
        SuiteError: a setting is unknown.
        MissingPart: JAX is missing or of an unknown release.
        CannotExecute: the engine does not run JAX, the case is oversized, or the process was forked too late.
    """
    try:
        settings = TargetSettings(TunedWhile(tuned_while), AliasRule(aliases))
    except ValueError as error:
        known = ", ".join((*TunedWhile, *AliasRule))
        raise SuiteError(f"jax_call has an unknown setting: {error}; known: {known}") from None
    driver = active_driver()
    if not isinstance(driver, VirtualDriver) or driver.support is None:
        raise CannotExecute("a JAX call on another engine than the virtual GPU")
    if any(tensor.numel() >= MOST_ELEMENTS for tensor in tensors):
        raise CannotExecute("an oversized case in JAX")
    jax = _jax()
    run = functools.partial(_run, jax, driver, settings)
    wanted = [tensor.requires_grad and torch.is_grad_enabled() for tensor in tensors]
    if not any(wanted):
        with plain_torch():
            results = run(function, [_array(jax, tensor) for tensor in tensors])
        flat, tree = jax.tree_util.tree_flatten(results)
        return jax.tree_util.tree_unflatten(tree, [_tensor(result) for result in flat])
    differentiated = _Differentiated(jax, run, function, wanted)
    flat = _Gradients.apply(differentiated, *tensors)
    return jax.tree_util.tree_unflatten(differentiated.tree, flat)


def _jax() -> Any:
    """Return the module `jax`.

    Raises:
        CannotExecute: this process was forked from one that has used JAX, whose threads are missing here.
    """
    process, jax = _loaded()
    if process != os.getpid():
        raise CannotExecute("JAX in a forked child of a process that has used it")
    return jax


@functools.cache
def _loaded() -> tuple[int, Any]:
    prepare_imports()
    return os.getpid(), jax_seam.load(_targets.execute)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A function compiled for arguments of certain shapes and types."""

    run: Callable[..., Any]
    calls: Mapping[int, AnyKernelCall]
    ready: Mapping[int, Ready]


def _compile(jax: Any, function: Function, arguments: Sequence[Any]) -> _Compiled:
    calls: dict[int, AnyKernelCall] = {}

    def recorded(call: AnyKernelCall) -> int:
        number = next(_numbers)
        calls[number] = call
        return number

    def fresh(*arrays: Any) -> Any:  # a new function each time, since JAX keeps what it lowered for an older one
        return function(*arrays)

    with jax_seam.recording(recorded):
        compiled = jax.jit(fresh).lower(*arguments).compile()
    return _Compiled(compiled, calls, ready_operands(jax_seam.text_of(compiled), jax_seam.TARGET))


def _run(
    jax: Any, driver: VirtualDriver, settings: TargetSettings, function: Function, arguments: Sequence[Any]
) -> Any:
    """Compile and run a function of arrays, and return its results once they are there.

    As `jax.jit` does, it compiles a function once for arguments of certain shapes and types.
    """
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    key = (function, tree, *((leaf.shape, leaf.dtype) for leaf in leaves))
    with _running:
        compiled = _compiled.pop(key, None) or _compile(jax, function, arguments)
        _compiled[key] = compiled
        if len(_compiled) > MOST_COMPILED:
            _compiled.popitem(last=False)
        executable = JaxExecutable(driver, settings, compiled.calls, compiled.ready)
        _targets.add(executable)
        try:
            results = jax.block_until_ready(compiled.run(*arguments))
        finally:
            _targets.remove(executable)
    if executable.error is not None:
        raise executable.error
    return results


class _Differentiated:
    """A function and its gradients, each compiled with `jax.vjp`."""

    def __init__(self, jax: Any, run: Callable[..., Any], function: Function, wanted: list[bool]) -> None:
        self._jax = jax
        self._run = run
        self._function = function
        self._wanted = wanted
        self._pullback: Any = None
        self._floating: list[bool] = []
        self.tree: Any = None

    def forward(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        arrays = [_array(self._jax, tensor) for tensor in tensors]
        floating: list[bool] = []
        trees: list[Any] = []

        def split(*arrays: Any) -> tuple[list[Any], list[Any]]:
            """Return the floating-point results, and the others."""
            flat, tree = self._jax.tree_util.tree_flatten(self._function(*arrays))
            trees.append(tree)
            floating[:] = [self._jax.numpy.issubdtype(result.dtype, np.floating) for result in flat]
            pairs = list(zip(flat, floating, strict=True))
            return (
                [result for result, is_floating in pairs if is_floating],
                [result for result, is_floating in pairs if not is_floating],
            )

        def linearised(*arrays: Any) -> Any:
            def partly(*wanted: Any) -> Any:
                values = iter(wanted)
                return split(*(next(values) if is_wanted else array for array, is_wanted in pairs))

            pairs = list(zip(arrays, self._wanted, strict=True))
            return self._jax.vjp(partly, *(array for array, is_wanted in pairs if is_wanted), has_aux=True)

        floats, self._pullback, integers = self._run(linearised, arrays)
        self._floating, self.tree = floating, trees[-1]
        first, second = iter(floats), iter(integers)
        return [_tensor(next(first) if is_floating else next(second)) for is_floating in floating]

    def backward(self, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        pairs = zip(gradients, self._floating, strict=True)
        cotangents = [_array(self._jax, gradient) for gradient, is_floating in pairs if is_floating]
        pulled = self._run(lambda pullback, cotangents: pullback(cotangents), [self._pullback, cotangents])
        values = iter(pulled)
        return [_tensor(next(values)) if is_wanted else None for is_wanted in self._wanted]

    @property
    def not_differentiable(self) -> list[int]:
        return [index for index, is_floating in enumerate(self._floating) if not is_floating]


class _Gradients(torch.autograd.Function):
    """Joins torch's autograd and JAX's."""

    @staticmethod
    def forward(ctx: Any, differentiated: _Differentiated, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with plain_torch():
            results = differentiated.forward(tensors)
        ctx.differentiated = differentiated
        ctx.mark_non_differentiable(*(results[index] for index in differentiated.not_differentiable))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        with plain_torch():
            return None, *ctx.differentiated.backward(gradients)


def _array(jax: Any, tensor: torch.Tensor) -> Any:
    """Return a copy of a tensor as an array of JAX, in the type that JAX gives such numbers."""
    plain = tensor.detach().contiguous()
    dtype = jax.numpy.dtype(str(plain.dtype).removeprefix("torch."))
    values = plain.reshape(-1).view(torch.uint8).numpy().view(dtype).reshape(tuple(plain.shape))
    return jax.device_put(np.array(values, dtype=jax.dtypes.canonicalize_dtype(dtype)))


def _tensor(array: Any) -> torch.Tensor:
    """Return a tensor in the memory of an array, which it keeps alive."""
    dtype: torch.dtype = getattr(torch, str(array.dtype))
    return XlaBuffer(jax_seam.address_of(array), dtype, tuple(array.shape)).tensor(owner=array)
