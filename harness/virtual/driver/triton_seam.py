"""The seam to Triton: every private name of Triton that the harness touches.  `test_triton_seam.py` checks releases.

It installs our driver, cuts the compiler's pipeline after TTIR, chooses autotune configs and compiles TTIR to a cubin.
"""

import importlib
import tempfile
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import get_ptxas, get_ptxas_version
from triton.compiler.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from triton.runtime.cache import triton_key
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from harness.errors import CannotExecute, CannotRunHere
from harness.model.ending import REFUSED_BUILDS
from harness.model.kernel_assembly import KernelAssembly
from harness.ops import flight_recorder
from harness.virtual.driver.source_paths import KernelSource

VERSIONS = ("3.6", "3.7", "3.8", "3.9")
"""The releases whose private names were checked; others may work."""

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


NOT_TUNED = ChosenConfig("", 0, 1)


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
        self._raised: str | None = None
        """The error of a kernel since an autotuner last began to try a config."""

    def install(self) -> None:
        """Replace methods of `Autotuner` and `JITFunction` in this process, for good."""
        self._choose_configs()
        self._record_calls()
        self._record_swallowed_errors()
        _record_compiling()

    def _record_calls(self) -> None:
        original = JITFunction.run
        chooser = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                with flight_recorder.calling(self.fn.__name__, chooser.chosen.text):
                    return original(self, *args, **kwargs)
            except Exception as error:
                chooser.failed = chooser.failed or (self.fn.__name__, chooser.chosen.count)
                chooser._raised = _summary(error)
                raise

        JITFunction.run = run

    def _record_swallowed_errors(self) -> None:
        """Record errors that an autotuner catches: it takes such a config for slow and does not report it."""
        original = Autotuner._bench  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam
        chooser = self

        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
            chooser._raised = None
            timings = original(self, *args, config=config, **meta)
            if chooser._raised is not None:  # the kernel raised, but `_bench` did not
                flight_recorder.swallowed(self.base_fn.__name__, chooser._raised, str(config))
            return timings

        Autotuner._bench = bench  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def _choose_configs(self) -> None:
        original = Autotuner.run
        chooser = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            all_configs = self.configs
            usable = self.prune_configs(kwargs) if len(all_configs) > 1 else all_configs
            requested = chooser.requested.get(self.base_fn.__name__, 0)
            failed, refusals = chooser.failed, dict[str, Exception]()
            try:
                for index in ((requested + step) % len(usable) for step in range(len(usable))):
                    self.configs = [usable[index]]
                    refused = tuple(f"{config}: {_summary(error)}" for config, error in refusals.items())
                    chooser.current.append(ChosenConfig(str(usable[index]), index, len(usable), refused))
                    try:
                        return original(self, *args, **kwargs)
                    except Exception as error:
                        if type(error).__name__ not in REFUSED_BUILDS and not isinstance(error, CannotRunHere):
                            raise
                        refusals[str(usable[index])] = error
                        chooser.failed = failed
                    finally:
                        chooser.current.pop()
            finally:
                self.configs = all_configs
            chooser.failed = failed or (self.base_fn.__name__, len(usable))
            # No config works.  Report a limit of this machine before the kernel's own errors.
            unknown = (error for error in refusals.values() if isinstance(error, CannotRunHere))
            raise next(unknown, next(iter(refusals.values())))

        Autotuner.run = run

    @property
    def chosen(self) -> ChosenConfig:
        """The config of the launch under way."""
        return self.current[-1] if self.current else NOT_TUNED


def _record_compiling() -> None:
    original = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        with flight_recorder.compiling(self.fn.__name__):
            return original(self, *args, **kwargs)

    JITFunction._do_compile = compile_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def _summary(error: Exception) -> str:
    """Return the kind of an error and the line of its message that names the reason."""
    # Errors of the front end begin with a piece of code and name the reason in the last line.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    line = lines[-1 if lines[0].startswith("at ") else 0][:ERROR_LENGTH]
    return f"{type(error).__name__}{f' ({line})' if line else ''}"


def intercept_loading(
    check: Callable[[Any], None], refused: Callable[[str, Exception], Exception], *, shared_bytes_per_block: int
) -> None:
    """Wrap Triton's loading of kernels onto a hardware GPU that emulates another one, in this process, for good.

    Args:
        check: is called with each `CompiledKernel` before it is loaded, and may raise.
        refused: returns the exception for a kernel of that name which the compiler or the GPU refuses.
        shared_bytes_per_block: the limit that Triton compares with; by default it asks the hardware.
    """
    module: Any = importlib.import_module("triton.compiler.compiler")
    module.max_shared_mem = lambda _device: shared_bytes_per_block
    load = CompiledKernel._init_handles  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    build = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def load_kernel(self: Any) -> None:
        check(self)
        try:
            load(self)
        except OutOfResources as error:
            self._run = None  # otherwise Triton keeps a `_run` that raises its own error next time
            raise refused(self.src.fn.__name__, error) from None

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return build(self, *args, **kwargs)
        except PTXASError as error:
            raise refused(self.fn.__name__, error) from None

    CompiledKernel._init_handles = load_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    JITFunction._do_compile = compile_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def shared_bytes_on(kernel: Any, arch: int, options: Mapping[str, Any]) -> int:
    """Return the shared memory of a block when the source of a `CompiledKernel` is compiled for another architecture.

    Exceptions of Triton pass through.
    """
    driver: Any = triton.runtime.driver.active
    there = target(arch, 32)
    driver.get_current_target = lambda: there  # the front end asks the driver, whatever `target` says
    try:
        with flight_recorder.compiling(kernel.src.fn.__name__):
            return int(triton.compile(kernel.src, target=there, options=dict(options)).metadata.shared)
    finally:
        del driver.get_current_target


def assemble_otherwise(assembly: KernelAssembly, arch: int) -> None:
    """Assemble the kernels that `assembly` names in its way, in this process, for good.

    The builds get a cache of their own: some of these knobs are no part of the keys of Triton's cache.
    """
    build = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    name = "-".join(filter(None, (Path(assembly.ptxas).name, "" if assembly.optimises else "unoptimised")))
    newer = getattr(knobs.nvidia, "ptxas_blackwell", None)
    tool = "ptxas_blackwell" if newer is not None and get_ptxas(arch).path == newer.path else "ptxas"

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        if assembly.kernels and self.fn.__name__ not in assembly.kernels:
            return build(self, *args, **kwargs)
        with knobs.nvidia.scope(), knobs.cache.scope():
            if not assembly.optimises:
                knobs.nvidia.disable_ptxas_opt = True
            if assembly.ptxas:
                setattr(knobs.nvidia, tool, assembly.ptxas)
            knobs.cache.dir = str(Path(knobs.cache.dir, name))
            return build(self, *args, **kwargs)

    JITFunction._do_compile = compile_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def set_driver(driver: object) -> None:
    """Make `driver` the one that Triton asks about the device."""
    triton.runtime.driver.set_active(cast("Any", driver))


def target(arch: int, warp_size: int) -> GPUTarget:
    """Return Triton's compilation target."""
    return GPUTarget("cuda", arch, warp_size)


def hash_compiler() -> None:
    """Make Triton hash its own files before processes are forked from this one.

    The hash of these 200 MB is part of every cache key.
    """
    triton_key()


def query_ptxas_version(arch: int) -> None:
    """Make Triton cache the version of ptxas.  Otherwise every process asks ptxas once per architecture."""
    get_ptxas_version(arch)


def compile_to_ttir_only() -> None:
    """Cut the pipeline after TTIR, in this process, for good.  Triton then loads the TTIR's text as the "cubin".

    In Triton 3.6 to 3.8 the cut is no part of the cache's key, so the process needs its own TRITON_CACHE_DIR.
    """
    knobs.runtime.add_stages_inspection_hook = cast("Any", _cut_after_ttir)  # its signature changed in 3.9


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
    first = stages.get("ttir")
    if first is None:
        raise CannotExecute("a Gluon kernel" if language is Language.GLUON else "a kernel that begins below TTIR")
    stages.clear()
    stages["ttir"] = first
    stages["cubin"] = _text_as_binary
    return None


def _text_as_binary(module: Any, metadata: MutableMapping[str, Any]) -> bytes:
    text = str(module)
    name = text.partition("tt.func public @")[2].partition("(")[0].strip('"')
    metadata.update(
        {
            "name": name,
            "shared": 0,
            "tmem_size": 0,
            "global_scratch_size": 0,
            "global_scratch_align": 1,
            "profile_scratch_size": 0,
            "profile_scratch_align": 1,
        }
    )
    return text.encode()


def on_compile(listener: Callable[[float], None]) -> None:
    """Call `listener` with the seconds of each compilation (Python front end and TTIR passes)."""

    def on_times(*, times: Any, **_: Any) -> None:
        listener(times.total / 1e6)

    knobs.compilation.listener = on_times


def kernel_source(kernel: Any) -> KernelSource:
    """Return where a `JITFunction` is defined, as Triton's front end computes it."""
    lines: list[str] = kernel.raw_src
    before = next((index for index, line in enumerate(lines) if line.strip().startswith("def ")), 0)
    return KernelSource(
        file=kernel.fn.__code__.co_filename,
        line=kernel.starting_line_number + before,
        lines=len(lines) - before,
    )


def allocate_scratch(size_bytes: int, align: int, stream: int) -> None:
    """Call this thread's allocator, as Triton's launcher does.  Without one, Triton raises its own error."""
    _allocation._allocator.get()(size_bytes, align, stream)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam


@dataclass(frozen=True, slots=True)
class CompiledBinary:
    """The result of the whole compiler pipeline."""

    metadata: Mapping[str, Any]
    cubin: bytes


def compile_to_cubin(ttir: str, arch: int, options: Mapping[str, Any]) -> CompiledBinary:
    """Compile a TTIR text to a cubin, which needs no GPU.  Exceptions of Triton pass through."""
    with _whole_pipeline(), tempfile.TemporaryDirectory(prefix="kernel-harness-") as folder:
        path = Path(folder) / "kernel.ttir"
        path.write_text(ttir)
        compiled = triton.compile(str(path), target=target(arch, 32), options=dict(options))
        return CompiledBinary(compiled.metadata._asdict(), compiled.asm["cubin"])


@contextmanager
def _whole_pipeline() -> Generator[None]:
    hook = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = None
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = hook


class HardwareCannotLaunch(RuntimeError):
    """A launch is impossible on the hardware GPU, or would differ there."""


class HardwareLauncher:
    """Compiles kernels completely and launches them on the hardware GPU, while the process emulates another GPU."""

    def __init__(self, arch: int, cache: Path) -> None:
        from triton.backends.nvidia.driver import CudaDriver  # noqa: PLC0415 - it needs NVIDIA's driver

        self._driver = CudaDriver()
        self._target = target(arch, 32)
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
        if "tt.descriptor" in self._compiled[key].asm["ttir"] and "tt.descriptor" not in ttir:
            raise HardwareCannotLaunch(
                "its tensor descriptors are plain pointers on the virtual GPU, which need no alignment"
            )
        return self._compiled[key]

    @contextmanager
    def _emulated_driver(self) -> Generator[None]:
        emulated = triton.runtime.driver.active
        set_driver(self._driver)
        try:
            with _whole_pipeline(), knobs.cache.scope():
                knobs.cache.dir = str(self._cache)
                yield
        finally:
            set_driver(emulated)
