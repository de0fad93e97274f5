"""Calls of programs through `torch.compile`, on the virtual GPU or on hardware."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from harness.engines.torch.cpu_tensors import EmulatedGpu
from harness.engines.torch.inductor.device_guard import install_device_guard
from harness.engines.torch.inductor.inductor_emulation import EMULATION, check_release
from harness.errors import CannotExecute

if TYPE_CHECKING:
    from harness.engines.torch.inductor.inductor_seam import EmulatedInductor

DISABLED = "TORCHDYNAMO_DISABLE"
ON_HARDWARE: Mapping[str, Any] = {
    "compile_threads": 1,
    "use_static_cuda_launcher": False,
    "use_static_triton_launcher": False,
}
"""Options of Inductor on hardware, as far as the release has them: Triton's driver sees each launch of this process."""


class _Compiled:
    """The program that was compiled last.  The runs of one case share it."""

    key: object = None
    call: Callable[..., Any]


_latest = _Compiled()


def call_compiled(
    program: Callable[..., Any], options: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Compile a program for these arguments and call it.

    A call with the arguments of the call before, up to their values, takes the compiled program of that one.

    Raises:
        CannotExecute: the virtual GPU does not know this release of Inductor, or a mode follows single operators.
    """
    key = (_identity(program), *options.items(), *_kinds(args), *_kinds(kwargs.items()), torch.is_grad_enabled())
    with _in_program():
        if EMULATION.choice is None:
            return _call_on_hardware(key, program, options, args, kwargs)
        inductor = _warmed_up()
        if inductor.is_followed():
            raise CannotExecute("a compiled program operator by operator, as exact arithmetic does,")
        key = (*key, *sorted(EMULATION.choice.requested.items()))
        if key != _latest.key:
            inductor.forget()
            _latest.key, _latest.call = key, inductor.compiled(program, options)
        if not any(part is inductor.eager for part in EMULATION.parts):
            EMULATION.parts.append(inductor.eager)
        return inductor.call(_latest.call, args, kwargs)


@cache
def emulated() -> "EmulatedInductor":
    """Return Inductor for the emulated device; the first call installs it.

    Raises:
        CannotExecute: the virtual GPU cannot compile programs here.
    """
    if EmulatedGpu.kind != "cuda":
        raise CannotExecute("programs of torch.compile for Intel's GPUs")
    from harness.engines.torch.inductor.inductor_seam import EmulatedInductor  # noqa: PLC0415 - of known releases alone

    assert EMULATION.choice is not None, "an engine emulates a device first"
    check_release(torch.__version__)
    install_device_guard(EMULATION.folder)
    inductor = EmulatedInductor(EMULATION.choice)
    inductor.install()
    return inductor


@cache
def _warmed_up() -> "EmulatedInductor":
    inductor = emulated()
    inductor.warm_up()
    return inductor


def warm_up() -> None:
    """Install Inductor for the emulated device, and compile a small program; nothing on hardware.

    Raises:
        CannotExecute: the virtual GPU cannot compile programs here.
    """
    if EMULATION.choice is not None:
        with _in_program():
            _warmed_up()


def _call_on_hardware(
    key: object,
    program: Callable[..., Any],
    options: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    config: Any = import_module("torch._inductor.config")
    known = {name: value for name, value in ON_HARDWARE.items() if hasattr(config, name)}
    with config.patch(known):
        if key != _latest.key:
            torch.compiler.reset()
            _latest.key, _latest.call = key, torch.compile(program, **options)
        return _latest.call(*args, **kwargs)


@contextmanager
def _in_program() -> Generator[None]:
    """Let Dynamo compile while the context lasts.  It is off in workers: libraries have nothing to compile there."""
    disabled, EMULATION.is_in_program = os.environ.pop(DISABLED, None), True
    config: Any = import_module("torch._dynamo.config")
    try:
        with config.patch(disable=False):
            yield
    finally:
        EMULATION.is_in_program = False
        if disabled is not None:
            os.environ[DISABLED] = disabled


def _identity(program: Callable[..., Any], outer: tuple[object, ...] = ()) -> object:
    """Return what tells programs apart: code and the values that it closes over.  `outer` has the functions around."""
    code = getattr(program, "__code__", program)
    if any(program is function for function in outer):  # a function may close over itself
        return code
    cells = getattr(program, "__closure__", None) or ()
    return code, _kinds((cell.cell_contents for cell in cells), (*outer, program))


def _kinds(values: Iterable[Any], outer: tuple[object, ...] = ()) -> tuple[object, ...]:
    """Return what a compiled program may depend on: shapes, strides and types of tensors, all other values."""
    return tuple(_kind(value, outer) for value in values)


def _kind(value: Any, outer: tuple[object, ...]) -> object:
    match value:
        case torch.Tensor():
            return (*value.shape, *value.stride(), value.storage_offset(), value.dtype, value.requires_grad)
        case tuple() | list():
            return _kinds(value, outer)
        case FunctionType():
            return _identity(value, outer)
        case _:
            return value
