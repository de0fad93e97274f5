"""The seam to Triton: every private name of Triton that the harness touches.  `test_triton_seam.py` checks releases.

It installs our driver, cuts the compiler's pipeline after TTIR, and chooses autotune configs.
"""

import gc
import importlib
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import triton
from triton import knobs
from triton.backends.compiler import Language
from triton.backends.nvidia.compiler import CUDABackend, get_ptxas, get_ptxas_version
from triton.compiler.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from triton.runtime.cache import triton_key
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction, KernelInterface

from harness.engines.triton.argument_reading import read_arguments_without_modes
from harness.engines.triton.compile_steps import CompileStep, compile_through
from harness.engines.triton.front_end import FRONT_END_IGNORES, read_options, share_front_end_runs, to_ttir
from harness.engines.triton.later_stages import NOT_COMPILED, REFUSALS, compile_texts_on_request, target, whole_pipeline
from harness.engines.triton.source_paths import KernelSource
from harness.engines.triton.triton_releases import TESTED
from harness.errors import CannotExecute, CannotRunHere
from harness.execution import flight_recorder
from harness.model.device import Arch
from harness.model.kernel_assembly import KernelAssembly
from harness.patches import PATCHES

ERROR_LENGTH = 100
"""Characters of an error's message that are kept."""
STAGE_HOOK_KEY = "kernel-harness: ttir only"
FULL_CACHE_SUFFIX = "-whole"
"""The suffix of the cache of completely compiled kernels.

The virtual engine stores TTIR instead of cubins, under the same keys (Triton 3.6 to 3.8), so it needs its own cache.
"""

version: str = triton.__version__


@dataclass(frozen=True, slots=True)
class ChosenConfig:
    """The autotune config under which a kernel is being launched."""

    text: str
    index: int
    count: int
    refused: tuple[str, ...] = ()
    """The configs that were tried before it, each with its error."""
    builds: tuple["ConfigBuild", ...] = ()
    """Those of all configs after pruning, in their order; empty unless they were asked for."""


@dataclass(frozen=True, slots=True)
class ConfigBuild:
    """What a config makes of a kernel at one call; the TTIR is empty if it does not compile so far."""

    ttir: str
    metadata: Any


NOT_TUNED = ChosenConfig("", 0, 1)


class AutotunerProcedure(Protocol):
    """Replaces what autotuners do in a second run of a case: `harness.engines.triton.autotuner_seam` has them.

    Each method gets Triton's own one as `original`, with its arguments bound.
    """

    def call(self, tuner: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call an autotuned kernel with these arguments."""
        ...

    def bench(self, tuner: Any, original: Callable[[], Any], config: Any) -> Any:
        """Return the times of a config."""
        ...

    def launch(self, kernel: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a kernel, autotuned or not, with the parameters of its config among the keyword arguments."""
        ...


class ConfigChooser:
    """Makes every autotuner take the config that the case names, without benchmarking.

    A config that does not compile or does not fit is skipped for the next one, as the autotuner does.
    """

    def __init__(self) -> None:
        self.requested: Mapping[str, int] = {}
        """Index of the config to take, by name of the kernel."""
        self.current: list[ChosenConfig] = []
        """A stack: a kernel's launch may launch another kernel."""
        self.failed: tuple[str, int] | None = None
        """The kernel whose build or launch raised first, and its number of configs; set to None before a case.

        A config that is skipped for another one does not count.
        """
        self.autotuned: set[str] = set()
        """The kernels with several configs that were called; cleared before a case."""
        self.compiles_all = False
        """True to compile every config of a call to TTIR, beside the one that is launched."""
        self.forced: Mapping[str, Any] = {}
        """By name of a kernel, the config that it takes whatever its pruning says."""
        self.procedure: AutotunerProcedure | None = None
        """What autotuners do instead of taking the config that the case names; None in a case's own run."""
        self._raised: str | None = None
        """The error of a kernel since an autotuner last began to try a config."""

    def install(self) -> None:
        """Replace methods of `Autotuner` and `JITFunction` in this process.

        Libraries have autotuners of their own, most of them subclasses or copies of Triton's.  A copy is a class of
        kernels with a method `_bench`.  Those that are defined later are found when they are.
        """
        self._choose_configs(Autotuner)
        self._record_calls()
        self._record_swallowed_errors(Autotuner)
        self._find_other_autotuners()
        _record_compiling()
        read_arguments_without_modes()

    def _find_other_autotuners(self) -> None:
        chooser = self
        kernels: Any = KernelInterface

        def init_subclass(cls: type[Any], **options: Any) -> None:
            super(kernels, cls).__init_subclass__(**options)
            if "_bench" in vars(cls):
                chooser._record_swallowed_errors(cls)
                if "run" in vars(cls) and not issubclass(cls, Autotuner):
                    chooser._choose_configs(cls)

        _replace(kernels, "__init_subclass__", classmethod(init_subclass), "find the autotuners of libraries")

    def _record_calls(self) -> None:
        original = JITFunction.run
        chooser = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = partial(original, self, *args, **kwargs)
            try:
                with flight_recorder.calling(self.fn.__name__, chooser.chosen.text):
                    return call() if chooser.procedure is None else chooser.procedure.launch(self, call, args, kwargs)
            except Exception as error:
                chooser.failed = chooser.failed or (self.fn.__name__, chooser.chosen.count)
                chooser._raised = summary_of(error)
                raise

        _replace(JITFunction, "run", run, "note each call of a kernel and what it raises")

    def _record_swallowed_errors(self, autotuner: type[Any]) -> None:
        """Record errors that an autotuner catches: it takes such a config for slow and does not report it."""
        original = autotuner._bench  # noqa: SLF001 - this file is the seam
        chooser = self

        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
            measure = partial(original, self, *args, config=config, **meta)
            if chooser.procedure is not None:
                return chooser.procedure.bench(self, measure, config)
            chooser._raised = None
            timings = measure()
            if chooser._raised is not None:  # the kernel raised, but `_bench` did not
                flight_recorder.swallowed(kernel_name(self), chooser._raised, str(config))
            return timings

        _replace(autotuner, "_bench", bench, "note the errors that an autotuner swallows")

    def _choose_configs(self, autotuner: type[Any]) -> None:
        original = autotuner.run
        chooser = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = partial(original, self, *args, **kwargs)
            if chooser.procedure is not None:
                return chooser.procedure.call(self, call, args, kwargs)
            kernel = kernel_name(self)
            if len(self.configs) > 1:
                chooser.autotuned.add(kernel)
            if (forced := chooser.forced.get(kernel)) is not None:
                return chooser.choose(self, call, [forced])
            usable = usable_configs(self, args, kwargs)
            every = chooser.compiles_all and len(usable) > 1
            return chooser.choose(self, call, usable, chooser._compiled(self, usable, args, kwargs) if every else ())

        _replace(autotuner, "run", run, "take the config that the case names")

    def _compiled(
        self, tuner: Any, usable: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[ConfigBuild, ...]:
        """Compile the configs of a call to TTIR, without a launch.  One that fails is no failure of the case.

        Configs that the front end cannot tell apart are compiled once.
        """
        failed, raised, builds = self.failed, self._raised, list[ConfigBuild]()
        compiled: dict[object, Any] = {}
        for config in usable:
            settings = _settings_of(tuner, config, args, kwargs)
            ignored = {name: settings[name] for name in FRONT_END_IGNORES & settings.keys()}
            # A hook may read anything.
            key = (
                id(config)
                if config.pre_hook is not None
                else str(sorted({**settings, **dict.fromkeys(ignored)}.items()))
            )
            if key not in compiled or (compiled[key] and ignored.keys() & read_options(compiled[key])):
                compiled[key] = self._warmed_up(tuner, config, args, kwargs)
            kernel = compiled[key]
            metadata = kernel and kernel.metadata._replace(**ignored)
            builds.append(ConfigBuild(kernel.asm["ttir"] if kernel else "", metadata))
        self.failed, self._raised = failed, raised
        return tuple(builds)

    @staticmethod
    def _warmed_up(tuner: Any, config: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the kernel that Triton compiles for a config; None if it compiles none."""
        with suppress(Exception):
            if config.pre_hook is not None:
                config.pre_hook({**dict(zip(tuner.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()})
            return tuner.fn.run(*args, **{**kwargs, "warmup": True}, **config.all_kwargs())
        return None

    def choose(
        self, tuner: Any, call: Callable[[], Any], usable: Sequence[Any], builds: tuple[ConfigBuild, ...] = ()
    ) -> Any:
        """Call an autotuned kernel with the first of these configs that works, from the requested one on."""
        all_configs = tuner.configs
        requested = self.requested.get(kernel_name(tuner), 0)
        failed, refusals = self.failed, dict[str, Exception]()
        try:
            for index in ((requested + step) % len(usable) for step in range(len(usable))):
                tuner.configs = [usable[index]]
                refused = tuple(f"{config}: {summary_of(error)}" for config, error in refusals.items())
                try:
                    with self.launching(ChosenConfig(str(usable[index]), index, len(usable), refused, builds)):
                        return call()
                except Exception as error:
                    if not isinstance(error, (*REFUSALS, CannotRunHere)):
                        raise
                    refusals[str(usable[index])] = error
                    self.failed = failed
        finally:
            tuner.configs = all_configs
        self.failed = failed or (kernel_name(tuner), len(usable))
        # No config works.  Report a limit of this machine before the kernel's own errors.
        unknown = (error for error in refusals.values() if isinstance(error, CannotRunHere))
        raise next(unknown, next(iter(refusals.values())))

    @contextmanager
    def following(self, procedure: AutotunerProcedure) -> Generator[None]:
        """Let autotuners follow a procedure while the context lasts."""
        self.procedure = procedure
        try:
            yield
        finally:
            self.procedure = None

    @contextmanager
    def launching(self, config: ChosenConfig) -> Generator[None]:
        """Record launches as launches with this config while the context lasts."""
        self.current.append(config)
        try:
            yield
        finally:
            self.current.pop()

    def launching_as(self, text: str, index: int, count: int) -> AbstractContextManager[None]:
        """Record launches as launches with a config that a compiler's own autotuner has, while the context lasts."""
        return self.launching(ChosenConfig(text, index, count))

    @property
    def chosen(self) -> ChosenConfig:
        """The config of the launch under way."""
        return self.current[-1] if self.current else NOT_TUNED


def _replace(owner: Any, name: str, replacement: object, why: str) -> None:
    PATCHES.replace(owner, name, replacement, why=why, releases=TESTED)


def _record_compiling() -> None:
    def note(kernel: Any, compile_kernel: Callable[[], Any], *_: Any) -> Any:
        with flight_recorder.compiling(kernel.fn.__name__):
            return compile_kernel()

    compile_through(CompileStep.NOTE, note, "note which kernel is being compiled, for hangs and crashes")


def _settings_of(tuner: Any, config: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters and options of a config, those included that heuristics set."""
    settings: dict[str, Any] = config.all_kwargs()
    kernel = tuner.fn
    while hasattr(kernel, "fn") and hasattr(kernel, "values"):  # a `Heuristics`
        for name, heuristic in kernel.values.items():
            with suppress(Exception):  # compiling fails in the same way
                settings[name] = heuristic({**dict(zip(kernel.arg_names, args, strict=False)), **kwargs, **settings})
        kernel = kernel.fn
    return settings


def kernel_name(tuner: Any) -> str:
    """Return the name of the kernel that an autotuner tunes."""
    while hasattr(tuner, "fn"):
        tuner = tuner.fn
    return tuner.__name__


def usable_configs(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the configs that survive pruning for these arguments."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    return tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs


def reason_of(error: Exception) -> str:
    """Return the line of an error's message that names the reason."""
    # Errors of the front end begin with a piece of code and name the reason in the last line.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return lines[-1 if lines[0].startswith("at ") else 0][:ERROR_LENGTH]


def summary_of(error: Exception) -> str:
    """Return the kind of an error and the reason."""
    line = reason_of(error)
    return f"{type(error).__name__}{f' ({line})' if line else ''}"


def intercept_loading(
    check: Callable[[Any], None], refused: Callable[[str, Exception], Exception], *, shared_bytes_per_block: int
) -> None:
    """Wrap Triton's loading of kernels onto a hardware GPU that emulates another one, in this process.

    Args:
        check: is called with each `CompiledKernel` before it is loaded, and may raise.
        refused: returns the exception for a kernel of that name which the compiler or the GPU refuses.
        shared_bytes_per_block: the limit that Triton compares with; by default it asks the hardware.
    """
    module: Any = importlib.import_module("triton.compiler.compiler")
    _replace(module, "max_shared_mem", lambda _device: shared_bytes_per_block, "load builds for the hardware")
    load = CompiledKernel._init_handles  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def load_kernel(self: Any) -> None:
        check(self)
        try:
            load(self)
        except OutOfResources as error:
            self._run = None  # otherwise Triton keeps a `_run` that raises its own error next time
            raise refused(self.src.fn.__name__, error) from None

    def explain(kernel: Any, compile_kernel: Callable[[], Any], *_: Any) -> Any:
        try:
            return compile_kernel()
        except PTXASError as error:
            raise refused(kernel.fn.__name__, error) from None

    _replace(CompiledKernel, "_init_handles", load_kernel, "check a build against the emulated GPU before it is loaded")
    compile_through(CompileStep.EXPLAIN, explain, "explain why ptxas refuses the build for the hardware")


def shared_bytes_on(kernel: Any, arch: Arch, options: Mapping[str, Any]) -> int:
    """Return the shared memory of a block when the source of a `CompiledKernel` is compiled for another architecture.

    Exceptions of Triton pass through.
    """
    driver: Any = triton.runtime.driver.active
    there = target(arch)
    driver.get_current_target = lambda: there  # the front end asks the driver, whatever `target` says
    try:
        with flight_recorder.compiling(kernel.src.fn.__name__):
            return int(triton.compile(kernel.src, target=there, options=dict(options)).metadata.shared)
    finally:
        del driver.get_current_target


def assemble_otherwise(assembly: KernelAssembly, arch: int) -> None:
    """Assemble the kernels that `assembly` names in its way, in this process.

    The builds get a cache of their own: some of these knobs are no part of the keys of Triton's cache.
    """
    name = "-".join(filter(None, (Path(assembly.ptxas).name, "" if assembly.optimises else "unoptimised")))
    newer = getattr(knobs.nvidia, "ptxas_blackwell", None)
    tool = "ptxas_blackwell" if newer is not None and get_ptxas(arch).path == newer.path else "ptxas"

    def assemble(kernel: Any, compile_kernel: Callable[[], Any], *_: Any) -> Any:
        if assembly.kernels and kernel.fn.__name__ not in assembly.kernels:
            return compile_kernel()
        with knobs.nvidia.scope(), knobs.cache.scope():
            if not assembly.optimises:
                knobs.nvidia.disable_ptxas_opt = True
            if assembly.ptxas:
                setattr(knobs.nvidia, tool, assembly.ptxas)
            knobs.cache.dir = str(Path(knobs.cache.dir, name))
            return compile_kernel()

    compile_through(CompileStep.ASSEMBLE, assemble, "repeat a failure with another assembler")


def set_driver(driver: object) -> None:
    """Make `driver` the one that Triton asks about the device."""
    _replace(triton.runtime.driver, "_active", driver, "it answers for the emulated GPU")


def forget_kernels() -> None:
    """Drop what is compiled in this process, before another driver becomes active.

    A kernel stays with the driver that loaded it, and Triton 3.9 unloads a dropped one with the active driver.
    """
    for function in _objects_of(JITFunction):
        function.device_caches.clear()
    for kernel in _objects_of(CompiledKernel):  # a holder loads it again
        kernel.module = kernel._run = None  # noqa: SLF001 - this file is the seam


def _objects_of(kind: type) -> list[Any]:
    # `isinstance` asks objects for their class, and proxies of others warn or raise then.
    return [candidate for candidate in gc.get_objects() if issubclass(type(candidate), kind)]


def active_driver() -> Any:
    """Return the driver that Triton asks about the device."""
    return triton.runtime.driver.active


def hash_compiler() -> None:
    """Make Triton hash its own files before processes are forked from this one.

    The hash of these 200 MB is part of every cache key.
    """
    triton_key()


def query_ptxas_version(arch: Arch) -> None:
    """Make Triton cache the version of ptxas.  Otherwise every process asks ptxas once per architecture."""
    if isinstance(arch, int):
        get_ptxas_version(arch)


def compile_to_ttir_only() -> None:
    """Cut the pipeline after TTIR, in this process.  Triton then loads the TTIR's text as the "cubin".

    In Triton 3.6 to 3.8 the cut is no part of the cache's key, so the process needs its own TRITON_CACHE_DIR.
    A program that reads a later stage of a kernel, as in `kernel.asm["ptx"]`, gets it compiled then.
    """
    # The hook's signature changed in 3.9.
    _replace(knobs.runtime, "add_stages_inspection_hook", _cut_after_ttir, "compile to TTIR only")
    share_front_end_runs(lambda: knobs.runtime.add_stages_inspection_hook is _cut_after_ttir)
    compile_texts_on_request()


def build_launcher(source: Any, metadata: Any) -> None:
    """Make Triton 3.6 compile the C code that launches one kernel, into its cache.

    Later releases launch every kernel with the same code.  Without NVIDIA's driver there is nothing to link it with.
    """
    module: Any = importlib.import_module("triton.backends.nvidia.driver")
    if hasattr(module, "make_launcher"):
        with suppress(AssertionError):  # libcuda.so cannot be found
            module.CudaLauncher(source, metadata)


def build_utilities() -> None:
    """Make Triton compile its interface to NVIDIA's driver, into its cache, if there is a driver."""
    module: Any = importlib.import_module("triton.backends.nvidia.driver")
    with suppress(AssertionError):  # libcuda.so cannot be found
        module.CudaUtils()


def _cut_after_ttir(
    backend: Any = None,
    stages: MutableMapping[str, Any] | None = None,
    options: Any = None,
    language: Any = None,
    *_: Any,
    **__: Any,
) -> tuple[str, str] | None:
    if backend is None or stages is None:  # Triton 3.9 calls the hook without arguments for the cache's key
        return STAGE_HOOK_KEY, STAGE_HOOK_KEY
    del options
    name = "ttgir" if language is Language.GLUON else "ttir"  # Gluon has layouts from the beginning
    first = stages.get(name)
    if first is None:
        raise CannotExecute("a kernel that begins below TTIR")
    stages.clear()
    stages[name] = partial(to_ttir, first)
    stages[backend.binary_ext] = _text_as_binary
    return None


def _text_as_binary(module: Any, metadata: MutableMapping[str, Any]) -> bytes:
    text = str(module)
    name = text.partition("tt.func public @")[2].partition("(")[0].strip('"')
    metadata.update({"name": name, **NOT_COMPILED})
    return text.encode()


def on_compile(listener: Callable[[float], None]) -> None:
    """Call `listener` with the seconds of each compilation (Python front end and TTIR passes)."""

    def on_times(*, times: Any, **_: Any) -> None:
        listener(times.total / 1e6)

    _replace(knobs.compilation, "listener", on_times, "measure the time of front ends")


def on_load(hook: Callable[..., None]) -> None:
    """Call `hook` with module, function, name, files and digest of each kernel that is loaded (Triton 3.6 to 3.9)."""
    knobs.runtime.kernel_load_end_hook.add(cast("Any", hook))


def instrument(mode: str) -> None:
    """Compile a sanitizer of Triton 3.9 into each kernel."""
    _replace(knobs.compilation, "instrumentation_mode", mode, "compile a sanitizer into each kernel")


def reserve_shared_memory(shared_bytes: int) -> None:
    """Make each program take at least so much shared memory, as Triton 3.9 has it."""
    parse = CUDABackend.parse_options

    def parse_options(self: Any, opts: Any) -> Any:
        return parse(self, {**opts, "min_shared_mem": shared_bytes})

    _replace(CUDABackend, "parse_options", parse_options, "let GSan see one program per SM")


def gsan() -> Any:
    """Return the module of Triton's global-memory sanitizer (Triton 3.9)."""
    return importlib.import_module("triton.experimental.gsan")


def kernel_source(kernel: Any) -> KernelSource:
    """Return where a `JITFunction` is defined, as Triton's front end computes it."""
    lines: list[str] = kernel.raw_src
    before = next((index for index, line in enumerate(lines) if line.strip().startswith("def ")), 0)
    return KernelSource(
        file=kernel.fn.__code__.co_filename,
        line=kernel.starting_line_number + before,
        lines=len(lines) - before,
    )


def has_allocator() -> bool:
    """Return True if an allocator of scratch memory is set in this context."""
    allocator: Any = cast("Any", _allocation)._allocator.get()  # noqa: SLF001 - this file is the seam
    watched = allocator.watched if isinstance(allocator, _WatchedAllocator) else allocator
    return not isinstance(watched, _allocation.NullAllocator)


@dataclass(frozen=True, slots=True)
class _WatchedAllocator:
    watched: Any
    watch: "AllocationWatch"

    def __call__(self, size_bytes: int, align: int, stream: int) -> object:
        return self.watch(self.watched, size_bytes, align, stream)


AllocationWatch = Callable[[Callable[[int, int, int], object], int, int, int], object]
"""Takes an allocator and its arguments, and returns the allocator's result."""


def watch_allocations(watch: AllocationWatch) -> None:
    """Make Triton's launcher call `watch` with this thread's allocator and its arguments, in this process."""
    variable: Any = _allocation._allocator  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam

    class Watched:
        def get(self) -> Any:
            return _WatchedAllocator(variable.get(), watch)

        def set(self, allocator: object) -> Any:
            return variable.set(allocator)

        def reset(self, token: Any) -> None:
            variable.reset(token)

    _replace(_allocation, "_allocator", Watched(), "watch the allocation of kernels' scratch memory")


def allocate_scratch(size_bytes: int, align: int, stream: int) -> object:
    """Call this thread's allocator, as Triton's launcher does.  Without one, Triton raises its own error."""
    return _allocation._allocator.get()(size_bytes, align, stream)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam


class HardwareCannotLaunch(RuntimeError):
    """A launch is impossible on the hardware GPU, or would differ there."""


class HardwareLauncher:
    """Compiles kernels completely and launches them on the hardware GPU, while the process emulates another GPU."""

    def __init__(self, arch: int, cache: Path) -> None:
        from triton.backends.nvidia.driver import CudaDriver  # noqa: PLC0415 - it needs NVIDIA's driver

        self._driver = CudaDriver()
        self._target = target(arch)
        self._cache = cache
        self._compiled: dict[str, Any] = {}

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        scratch: Callable[[int, int, int | None], Any],
    ) -> None:
        """Launch a result of `compiled`, without waiting for the GPU.  `scratch` allocates the kernel's scratch memory.

        Raises:
            HardwareCannotLaunch: the hardware GPU lacks a resource that the kernel needs.
        """
        allocator = _allocation._allocator.set(cast("Any", scratch))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the seam
        try:
            with self._emulated_driver():
                kernel[grid](*arguments, stream=0)
        except OutOfResources as error:
            raise HardwareCannotLaunch(str(error)) from None
        finally:
            _allocation._allocator.reset(allocator)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the seam

    def compiled(self, source: Any, options: Mapping[str, Any], ttir: str, *, ptxas_optimises: bool = True) -> Any:
        """Compile an `ASTSource`, which is `ttir` on the virtual GPU, for the hardware GPU.

        Raises:
            HardwareCannotLaunch: it cannot be compiled for the hardware GPU, or accesses memory differently there.
        """
        key = f"{source.hash()} {sorted(options.items())} {ptxas_optimises}"
        if key not in self._compiled:
            try:
                with self._emulated_driver(), knobs.nvidia.scope():
                    if not ptxas_optimises:
                        knobs.nvidia.disable_ptxas_opt = True
                        knobs.cache.dir = str(self._cache / "unoptimised")  # the knob is no part of the cache's key
                    self._compiled[key] = triton.compile(source, target=self._target, options=dict(options))
            except PTXASError as error:
                raise HardwareCannotLaunch(str(error).splitlines()[0]) from None
            except RuntimeError as error:  # from MLIR's passes
                reason = str(error).splitlines()[0]
                raise HardwareCannotLaunch(f"Triton {triton.__version__} cannot compile it: {reason}") from None
        own_ttir = self._compiled[key].asm.get("ttir", "")  # kernels in Gluon have none
        if "tt.descriptor" in own_ttir and "tt.descriptor" not in ttir:
            raise HardwareCannotLaunch(
                "its tensor descriptors are plain pointers on the virtual GPU, which need no alignment"
            )
        return self._compiled[key]

    @contextmanager
    def _emulated_driver(self) -> Generator[None]:
        emulated = triton.runtime.driver.active
        triton.runtime.driver.set_active(self._driver)
        try:
            with whole_pipeline(), knobs.cache.scope():
                knobs.cache.dir = str(self._cache)
                yield
        finally:
            triton.runtime.driver.set_active(emulated)
