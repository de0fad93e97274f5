"""Decides which launches run in native code.

A kernel is compiled with little effort once the machine has spent as much time on it as that takes, in this process and
in earlier ones.  It is compiled again, with more effort, once the first code has run for as long as that takes.  If no
later process uses the code, both take some times as long.  A background thread compiles, without the GIL while LLVM
works.  Until then, and for launches that native code does not support or bails out of, the machine executes.  A launch
of a long case waits for the better code.  Results are the same.
"""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

from harness.engines.ttir.ir import Module, operation_locations
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.native import calling_convention, code_cache, kernel, llvm_jit
from harness.engines.virtual.native.cores import Cores
from harness.engines.virtual.native.llvm_jit import Effort
from harness.engines.virtual.native.lowering import Target
from harness.engines.virtual.native.native_launch import (
    LoadedKernel,
    NativeLaunch,
    elements_match,
    pointee_bytes,
    tracked,
)
from harness.engines.virtual.native.product_code import ProductBlock, text
from harness.engines.virtual.native.repeated_launch import LaunchValues, RepeatedLaunch
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.errors import CannotExecute, UsageError, unknown
from harness.model.device import vendor_of

EXECUTOR_VARIABLE = "HARNESS_EXECUTOR"
SECONDS_TO_COMPILE = 0.005
SECONDS_PER_OPERATION = {Effort.LEAST: 0.0002, Effort.USUAL: 0.0007}
"""The approximate compile time on one core of a current server."""
SECONDS_PER_ELEMENT = 1e-9
"""The approximate time of the machine for an element of an operation's result."""
PATIENCE = 4.0
"""Of code that no later process uses: the times that compiling takes which the machine takes first."""


class ExecutorMode(StrEnum):
    """The value of the environment variable `HARNESS_EXECUTOR`."""

    NUMPY = "numpy"
    NATIVE = "native"
    AUTO = "auto"


def executor_mode(environment: Mapping[str, str]) -> ExecutorMode:
    """Read the executor from an environment.  An empty variable counts as unset.

    Raises:
        UsageError: the value names no executor.
    """
    choice = environment.get(EXECUTOR_VARIABLE) or ExecutorMode.AUTO
    if choice not in set(ExecutorMode):
        raise UsageError(f"{EXECUTOR_VARIABLE}: {unknown('executor', choice, list(ExecutorMode))}")
    return ExecutorMode(choice)


@dataclass(slots=True)
class _CompiledVariant:
    """One kernel with one set of tracked arguments, and the state of its compilation."""

    name: str
    """That of its code in the cache."""
    budget_s: float
    """Time that its launches may still take before it is compiled, or compiled with more effort."""
    code: LoadedKernel | None = None
    effort: Effort = Effort.LEAST
    """How well `code` is compiled."""
    declined: str = ""
    """The reason if native code does not support the kernel."""
    compilation: "Future[code_cache.Compiled] | None" = None


@dataclass(slots=True)
class _Kernel:
    module: Module
    pointee_bytes: tuple[int, ...]
    variants: dict[frozenset[int], _CompiledVariant] = field(default_factory=dict[frozenset[int], _CompiledVariant])


class NativeBackend(Protocol):
    """An executor that is tried before the machine."""

    def execute(self, launch: PreparedLaunch, events: EventCollector) -> bool:
        """Return True if it executed the launch; otherwise memory is unchanged."""
        ...

    def record_machine_time(self, launch: PreparedLaunch, seconds: float) -> None:
        """Account for the time that the machine took for a launch that `execute` declined."""
        ...


@dataclass(slots=True)
class NativeCode:
    """The native code of one process."""

    choice: ExecutorMode = ExecutorMode.NUMPY
    folder: Path | None = None
    """The folder of compiled kernels; None keeps none."""
    awaited: Effort = Effort.USUAL
    """How well the code is compiled that a launch waits for."""
    patience: float = 1.0
    """The times that compiling takes which launches take before."""
    _kernels: dict[int, _Kernel] = field(default_factory=dict[int, _Kernel])
    _products: dict[ProductBlock, llvm_jit.Code] = field(default_factory=dict[ProductBlock, llvm_jit.Code])
    cores: Cores = field(default_factory=Cores)
    _pool: ThreadPoolExecutor | None = None

    @classmethod
    def passing(cls, choice: ExecutorMode, folder: Path | None) -> Self:
        """Return native code for processes that are the last to use the folder: most kernels have a dozen launches."""
        return cls(choice, folder, awaited=Effort.LEAST, patience=PATIENCE)

    def execute(self, launch: PreparedLaunch, events: EventCollector) -> bool:
        code = self.code_for(launch)
        if code is None:
            return False
        context, binding, began = launch.context, launch.binding, time.perf_counter()
        native_launch = NativeLaunch(code, binding.values, binding.arguments, context.grid)
        is_clean = native_launch.run(self.cores, context.lane_fill, events, context.entered)
        if not code.is_best:
            target = _target(launch)
            variant = self._variant(launch, target)
            self._record_native_time(launch.module, variant, target, time.perf_counter() - began)
        return is_clean

    def _record_native_time(self, module: Module, variant: _CompiledVariant, target: Target, seconds: float) -> None:
        """Account for the time of code that could be better; once its budget is spent, it is compiled again."""
        variant.budget_s -= seconds
        if variant.budget_s < 0 and variant.effort is Effort.LEAST:
            self._start_compiling(module, variant, target, Effort.USUAL)

    def repeatable(self, launch: PreparedLaunch) -> "RepeatableLaunch | None":
        """Return what repeats a launch that was just executed; None if preparing it does not matter."""
        target = _target(launch)
        variant = self._variant(launch, target)
        table = variant.code and RepeatedLaunch.of(launch, variant.code.slots, self.cores)
        return table and RepeatableLaunch(self, launch.module, target, variant, table)

    def repeat(self, repeatable: "RepeatableLaunch", values: LaunchValues) -> bool:
        """Return True if the launch was executed; otherwise memory is unchanged."""
        variant = repeatable.variant
        code = self._finished_code(repeatable.module, variant, waits=False)
        if code is None or (self.choice is ExecutorMode.NATIVE and self._is_worse(variant)):
            return False
        began = time.perf_counter()
        is_clean = repeatable.table.run(code, values, self.cores.scratch(1)[0])
        if not code.is_best:
            seconds = time.perf_counter() - began
            self._record_native_time(repeatable.module, variant, repeatable.target, seconds)
        return is_clean

    def code_for(self, launch: PreparedLaunch) -> LoadedKernel | None:
        """Return the code of a launch, after it is compiled if the launch waits for it; None without any."""
        if not self._may_execute(launch):
            return None
        module, target = launch.module, _target(launch)
        variant = self._variant(launch, target)
        waits = launch.is_long or self.choice is ExecutorMode.NATIVE
        code = self._finished_code(module, variant, waits=waits)
        if waits and (code is None or self._is_worse(variant)):
            self._start_compiling(module, variant, target, self.awaited)
            code = self._finished_code(module, variant, waits=True)
        return code

    def _is_worse(self, variant: _CompiledVariant) -> bool:
        """Return True if the code is not as good as what a launch waits for."""
        return variant.effort is Effort.LEAST and self.awaited is not Effort.LEAST

    def record_machine_time(self, launch: PreparedLaunch, seconds: float) -> None:
        """Account for the machine's time; once the kernel's budget is spent, compilation starts."""
        if not self._may_execute(launch):
            return
        target = _target(launch)
        variant = self._variant(launch, target)
        if variant.code is not None or variant.declined:
            return
        variant.budget_s -= seconds
        if variant.budget_s < 0:
            self._start_compiling(launch.module, variant, target, Effort.LEAST)
        else:
            code_cache.Store(self.folder).add_machine_seconds(variant.name, seconds)

    def declined(self, launch: PreparedLaunch) -> str:
        """The reason why a launch has no native code; empty if it has, or if compilation is pending."""
        if not elements_match(self._kernel(launch.module).pointee_bytes, launch.binding.arguments):
            return "arguments in elements of other types"
        return self._variant(launch, _target(launch)).declined

    def _may_execute(self, launch: PreparedLaunch) -> bool:
        if self.choice is ExecutorMode.NUMPY:
            return False
        return elements_match(self._kernel(launch.module).pointee_bytes, launch.binding.arguments)

    def _kernel(self, module: Module) -> _Kernel:
        if id(module) not in self._kernels:
            self._kernels[id(module)] = _Kernel(module, pointee_bytes(module.kernel))
        return self._kernels[id(module)]

    # --- compiling ---

    def _variant(self, launch: PreparedLaunch, target: Target) -> _CompiledVariant:
        module = launch.module
        variants = self._kernel(module).variants
        if target.tracked not in variants:
            store = code_cache.Store(self.folder)
            name = code_cache.key(launch.text, target, llvm_jit.host())
            budget_s = self._budget_s(module, Effort.LEAST) - store.machine_seconds(name)
            variants[target.tracked] = variant = _CompiledVariant(name, budget_s)
            if (stored := store.find(name)) is not None:
                self._take(module, variant, stored)
            elif budget_s < 0:
                self._start_compiling(module, variant, target, Effort.LEAST)
        return variants[target.tracked]

    def _start_compiling(self, module: Module, variant: _CompiledVariant, target: Target, effort: Effort) -> None:
        if variant.declined or variant.compilation is not None:
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "native code")
        # Python that exits takes no more work: the machine executes the launch of a thread that is left.
        with suppress(RuntimeError):
            variant.compilation = self._pool.submit(_compile, module, target, effort, variant.name, self.folder)

    def _finished_code(self, module: Module, variant: _CompiledVariant, *, waits: bool) -> LoadedKernel | None:
        if variant.compilation is not None and (waits or variant.compilation.done()):
            try:
                self._take(module, variant, variant.compilation.result())
            except CannotExecute as error:
                variant.declined = error.what
            variant.compilation = None
        return variant.code

    def _take(self, module: Module, variant: _CompiledVariant, compiled: code_cache.Compiled) -> None:
        """Load the code that was compiled."""
        locations = operation_locations(module)
        places = [(locations[site.operation], site.argument) for site in compiled.sites]
        used = {block.symbol: self._product_code(block) for block in compiled.products}
        code = llvm_jit.Code(compiled.image, kernel.SYMBOL, used)
        slots = tuple(calling_convention.parameter_slots(module.kernel))
        is_best = compiled.effort is not Effort.LEAST
        variant.code = LoadedKernel(code, compiled.arena_bytes, places, slots, is_best)
        variant.effort = compiled.effort
        variant.budget_s = self._budget_s(module, Effort.USUAL)

    def _budget_s(self, module: Module, effort: Effort) -> float:
        return self.patience * _seconds_to_compile(module, effort)

    def _product_code(self, block: ProductBlock) -> llvm_jit.Code:
        """Return the code that sums products, compiled once for a CPU."""
        if block not in self._products:
            store, host = code_cache.Store(self.folder), llvm_jit.host()
            name = code_cache.product_key(block, host)
            compiled = store.find(name)
            if compiled is None:
                compiled = code_cache.Compiled(llvm_jit.compile_object(text(block, has_fma=host.has_fma)), 0, ())
                store.keep(name, compiled)
            self._products[block] = llvm_jit.Code(compiled.image, block.symbol)
        return self._products[block]


@dataclass(frozen=True, slots=True)
class RepeatableLaunch:
    """What native code needs to execute launches of one pattern again."""

    native: NativeCode
    module: Module
    target: Target
    variant: _CompiledVariant
    table: RepeatedLaunch

    def run(self, values: LaunchValues) -> bool:
        """Return True if the launch was executed; otherwise memory is unchanged."""
        return self.native.repeat(self, values)


def _target(launch: PreparedLaunch) -> Target:
    host, vendor = llvm_jit.host(), vendor_of(launch.context.arch)
    return Target(width=host.width, has_fma=host.has_fma, tracked=tracked(launch.binding.arguments), vendor=vendor)


def _seconds_to_compile(module: Module, effort: Effort) -> float:
    return SECONDS_TO_COMPILE + SECONDS_PER_OPERATION[effort] * len(operation_locations(module))


def _compile(module: Module, target: Target, effort: Effort, name: str, folder: Path | None) -> code_cache.Compiled:
    lowered = kernel.lower(module, target)
    try:
        image = llvm_jit.compile_object(lowered.text, effort)
    except RuntimeError as error:  # llvmlite rejects our IR: the machine still can execute the launch
        raise CannotExecute(f"LLVM: {str(error).splitlines()[0]}") from error
    compiled = code_cache.Compiled(image, lowered.arena_bytes, lowered.sites, effort, lowered.products)
    code_cache.Store(folder).keep(name, compiled)
    return compiled
