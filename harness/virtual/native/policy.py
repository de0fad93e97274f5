"""Which launches run in native code: those of kernels on which the machine has spent as long as compiling takes.

Compiling goes on beside the case, in a thread that leaves Python to others while LLVM works.  Until it is done, and
wherever native code does not know something or meets a doubt, the machine executes.  What comes out is the same.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from harness.errors import CannotExecute, UsageError, unknown
from harness.model.case import LaneFill
from harness.virtual.binding import Binding
from harness.virtual.grid import LaunchGrid
from harness.virtual.memory.events import EventCollector
from harness.virtual.native import code_cache, kernel, llvm_jit
from harness.virtual.native.lowering import Target, numbered
from harness.virtual.native.native_launch import Attempt, Launchable, Room, fits, tracked
from harness.virtual.ttir.ir import Module

EXECUTOR_VARIABLE = "HARNESS_EXECUTOR"
SECONDS_TO_COMPILE = 0.05
SECONDS_FOR_AN_OPERATION = 0.0008
"""About what LLVM takes, on one core of a current server."""


class Executor(StrEnum):
    """What executes launches."""

    NUMPY = "numpy"
    NATIVE = "native"
    AUTO = "auto"


def executor_of(environment: Mapping[str, str]) -> Executor:
    """The executor that an environment asks for.

    Raises:
        UsageError: there is none of that name.
    """
    wanted = environment.get(EXECUTOR_VARIABLE, Executor.AUTO)
    if wanted not in set(Executor):
        raise UsageError(f"{EXECUTOR_VARIABLE}: {unknown('executor', wanted, list(Executor))}")
    return Executor(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One launch that is to be executed."""

    module: Module
    build: str
    """A digest of the module's text without source locations."""
    binding: Binding
    grid: LaunchGrid
    lane_fill: LaneFill


@dataclass(slots=True)
class _Known:
    """What is known of one kernel with one set of tracked arguments."""

    patience_s: float
    """How long the machine may still run it before it is compiled."""
    code: Launchable | None = None
    declined: str = ""
    """What native code does not know in it."""
    under_way: "Future[code_cache.Compiled] | None" = None
    name: str = ""


@dataclass(slots=True)
class _Kernel:
    module: Module
    variants: dict[frozenset[int], _Known] = field(default_factory=dict[frozenset[int], _Known])


class Executing(Protocol):
    """What may execute a launch before the machine does."""

    def execute(self, work: Work, events: EventCollector) -> bool:
        """Whether it did."""
        ...

    def took(self, work: Work, seconds: float) -> None:
        """Hear how long the machine took where it did not."""
        ...


@dataclass(slots=True)
class NativeCode:
    """The native code of one process."""

    wanted: Executor = Executor.NUMPY
    folder: Path | None = None
    """Where compiled kernels are kept."""
    _kernels: dict[int, _Kernel] = field(default_factory=dict[int, _Kernel])
    _room: Room = field(default_factory=Room)
    _pool: ThreadPoolExecutor | None = None

    def execute(self, work: Work, events: EventCollector) -> bool:
        """Whether native code executed the launch; where not, nothing has changed and the machine is to execute it."""
        module, binding = work.module, work.binding
        if self.wanted is Executor.NUMPY or not fits(module.kernel, binding.arguments):
            return False
        known = self._known(work, tracked(binding.arguments))
        code = self._code(module, known)
        if code is None:
            return False
        attempt = Attempt(module.kernel, binding.values, binding.arguments, work.grid)
        return attempt.run(code, self._room, work.lane_fill, events)

    def took(self, work: Work, seconds: float) -> None:
        """Hear how long the machine took for a launch; after long enough, the kernel is compiled."""
        if self.wanted is Executor.NUMPY or not fits(work.module.kernel, work.binding.arguments):
            return
        arguments = tracked(work.binding.arguments)
        known = self._known(work, arguments)
        known.patience_s -= seconds
        if known.patience_s < 0:
            self._begin(work.module, known, arguments)

    def declined(self, work: Work) -> str:
        """Why there is no code for a launch; empty where there is, or may still be."""
        if not fits(work.module.kernel, work.binding.arguments):
            return "arguments in elements of other types"
        return self._known(work, tracked(work.binding.arguments)).declined

    # --- compiling ---

    def _known(self, work: Work, arguments: frozenset[int]) -> _Known:
        module = work.module
        variants = self._kernels.setdefault(id(module), _Kernel(module)).variants
        if arguments not in variants:
            operations = sum(1 for _ in module.kernel.body.all_operations())
            known = _Known(SECONDS_TO_COMPILE + SECONDS_FOR_AN_OPERATION * operations)
            known.name = code_cache.key(work.build, _target(arguments), llvm_jit.host())
            kept = code_cache.Store(self.folder).find(known.name)
            variants[arguments] = known
            if kept is not None:
                known.code = _loaded(module, kept)
            elif self.wanted is Executor.NATIVE:
                self._begin(module, known, arguments)
        return variants[arguments]

    def _begin(self, module: Module, known: _Known, arguments: frozenset[int]) -> None:
        if known.code is not None or known.declined or known.under_way is not None:
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "native code")
        known.under_way = self._pool.submit(_compile, module, _target(arguments), known.name, self.folder)

    def _code(self, module: Module, known: _Known) -> Launchable | None:
        if known.under_way is not None and (self.wanted is Executor.NATIVE or known.under_way.done()):
            try:
                known.code = _loaded(module, known.under_way.result())
            except CannotExecute as error:
                known.declined = error.what
            known.under_way = None
        return known.code


def _target(arguments: frozenset[int]) -> Target:
    host = llvm_jit.host()
    return Target(width=host.width, has_fma=host.has_fma, tracked=arguments)


def _compile(module: Module, target: Target, name: str, folder: Path | None) -> code_cache.Compiled:
    lowered = kernel.lower(module, target)
    try:
        image = llvm_jit.compile_object(lowered.text)
    except RuntimeError as error:  # what llvmlite raises: our code is wrong, the launch need not be
        raise CannotExecute(f"LLVM: {str(error).splitlines()[0]}") from error
    compiled = code_cache.Compiled(image, lowered.arena_bytes, lowered.sites)
    code_cache.Store(folder).keep(name, compiled)
    return compiled


def _loaded(module: Module, compiled: code_cache.Compiled) -> Launchable:
    operations = numbered(module)
    places = [(operations[site.operation].location, site.argument) for site in compiled.sites]
    return Launchable(llvm_jit.Code(compiled.image, kernel.SYMBOL), compiled.arena_bytes, places)
