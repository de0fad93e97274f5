"""Every private name of Triton that the harness touches; `test_triton_seam.py` says for which versions.

Owns: putting our driver in place, cutting the compiler's pipeline after TTIR, choosing autotune configs, asking for
scratch memory as Triton's own launcher does, and compiling a TTIR text to the end.
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
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas_version
from triton.compiler.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from triton.runtime.cache import triton_key
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from harness.errors import CannotRunHere
from harness.model.ending import REFUSED_BUILDS
from harness.ops import flight_recorder

VERSIONS = ("3.6", "3.7", "3.8", "3.9")
"""The releases whose private names were read; others may work."""

SHORT = 100
STAGE_HOOK_KEY = "kernel-harness: ttir only"
WHOLE = "-whole"
"""What the name of the cache of whole kernels ends in.

The virtual engine keeps "cubins" that are none under the same keys (Triton 3.6 to 3.8).
"""

version: str = triton.__version__


@dataclass(frozen=True, slots=True)
class Chosen:
    """The autotune config under which a kernel is being launched."""

    text: str
    index: int
    count: int
    refused: tuple[str, ...] = ()
    """What came of the configs that were tried before it."""


NOT_TUNED = Chosen("", 0, 1)


class ConfigChooser:
    """Makes every autotuner take the config that the case names, without benchmarking.

    One that the autotuner would skip, because it does not compile or does not fit, gives way to the next, as it would.
    """

    def __init__(self) -> None:
        self.wanted: Mapping[str, int] = {}
        self.current: list[Chosen] = []
        self.failed: tuple[str, int] | None = None
        """The kernel whose build or launch raised first, and how many configs it has; set to None before a case.

        One that is skipped for another config did not raise.
        """
        self._raised: str | None = None
        """What a kernel raised since an autotuner last began to try a config."""

    def install(self) -> None:
        """Stand in for methods of `Autotuner` and `JITFunction` in this process, for good."""
        self._choose_configs()
        self._note_calls()
        self._note_swallowed()
        _note_compiling()

    def _note_calls(self) -> None:
        original = JITFunction.run
        chooser = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                with flight_recorder.calling(self.fn.__name__, chooser.chosen.text):
                    return original(self, *args, **kwargs)
            except Exception as error:
                chooser.failed = chooser.failed or (self.fn.__name__, chooser.chosen.count)
                chooser._raised = _in_short(error)
                raise

        JITFunction.run = run

    def _note_swallowed(self) -> None:
        """An autotuner takes some errors of a config for its being slow, and tells nobody."""
        original = Autotuner._bench  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam
        chooser = self

        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
            chooser._raised = None
            timings = original(self, *args, config=config, **meta)
            if chooser._raised is not None:  # it came out of the kernel, but not out of here
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
            wanted = chooser.wanted.get(self.base_fn.__name__, 0)
            failed, refusals = chooser.failed, dict[str, Exception]()
            try:
                for index in ((wanted + step) % len(usable) for step in range(len(usable))):
                    self.configs = [usable[index]]
                    told = tuple(f"{config}: {_in_short(error)}" for config, error in refusals.items())
                    chooser.current.append(Chosen(str(usable[index]), index, len(usable), told))
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
            unknown = (error for error in refusals.values() if isinstance(error, CannotRunHere))
            raise next(unknown, next(iter(refusals.values())))

        Autotuner.run = run

    @property
    def chosen(self) -> Chosen:
        """The config of the launch that is under way."""
        return self.current[-1] if self.current else NOT_TUNED


def _note_compiling() -> None:
    original = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        with flight_recorder.compiling(self.fn.__name__):
            return original(self, *args, **kwargs)

    JITFunction._do_compile = compile_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def _in_short(error: Exception) -> str:
    """Kind and the line that says what was wrong: in errors of the front end the last, after a piece of code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    line = lines[-1 if lines[0].startswith("at ") else 0][:SHORT]
    return f"{type(error).__name__}{f' ({line})' if line else ''}"


def load_by(
    look: Callable[[Any], None], refused: Callable[[str, Exception], Exception], *, shared_bytes_per_block: int
) -> None:
    """Stand, in this process, for good, around Triton's loading of kernels onto a GPU that pretends to be another.

    `look` is shown each `CompiledKernel` before, and may raise; `refused` says what to raise for a kernel of that name
    that the compiler or the GPU refuses.  Triton goes by the hardware's shared memory, whatever it tells libraries.
    """
    module: Any = importlib.import_module("triton.compiler.compiler")
    module.max_shared_mem = lambda _device: shared_bytes_per_block
    load = CompiledKernel._init_handles  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    build = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def load_kernel(self: Any) -> None:
        look(self)
        try:
            load(self)
        except OutOfResources as error:
            self._run = None  # else it would raise by itself the next time
            raise refused(self.src.fn.__name__, error) from None

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return build(self, *args, **kwargs)
        except PTXASError as error:
            raise refused(self.fn.__name__, error) from None

    CompiledKernel._init_handles = load_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    JITFunction._do_compile = compile_kernel  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def shared_bytes_on(kernel: Any, arch: int, options: Mapping[str, Any]) -> int:
    """What a block takes of shared memory where the source of a `CompiledKernel` is compiled for another architecture.

    Whatever Triton raises goes through.
    """
    driver: Any = triton.runtime.driver.active
    there = target(arch, 32)
    driver.get_current_target = lambda: there  # the front end asks
    try:
        with flight_recorder.compiling(kernel.src.fn.__name__):
            return int(triton.compile(kernel.src, target=there, options=dict(options)).metadata.shared)
    finally:
        del driver.get_current_target


def set_driver(driver: object) -> None:
    """Make `driver` the one that Triton asks about the device."""
    triton.runtime.driver.set_active(cast("Any", driver))


def target(arch: int, warp_size: int) -> GPUTarget:
    """Triton's name for what to compile for."""
    return GPUTarget("cuda", arch, warp_size)


def hash_compiler() -> None:
    """Have Triton hash its own 200 MB, which enter every cache key, for all processes forked from this one."""
    triton_key()


def ask_assembler(arch: int) -> None:
    """Have Triton ask ptxas for its version, as every compile for this architecture would in its own process."""
    get_ptxas_version(arch)


def compile_to_ttir_only() -> None:
    """Cut the pipeline after TTIR, in this process, for good; the "cubin" that Triton then loads is the TTIR's text.

    In Triton 3.6 to 3.8 the cut does not enter the cache's key: the process needs a TRITON_CACHE_DIR of its own.
    """
    knobs.runtime.add_stages_inspection_hook = cast("Any", _cut_after_ttir)  # its signature changed in 3.9


def build_launcher(source: Any, metadata: Any) -> None:
    """Have Triton 3.6 write and compile the C code by which it launches a kernel, into its cache.

    Later releases launch every kernel by the same code.  Without NVIDIA's driver there is nothing to link it with.
    """
    module: Any = importlib.import_module("triton.backends.nvidia.driver")
    if hasattr(module, "make_launcher"):
        with suppress(AssertionError):  # libcuda.so cannot be found
            module.CudaLauncher(source, metadata)


def build_utilities() -> None:
    """Have Triton compile the C code by which it speaks to NVIDIA's driver, into its cache, where there is a driver."""
    module: Any = importlib.import_module("triton.backends.nvidia.driver")
    with suppress(AssertionError):  # libcuda.so cannot be found
        module.CudaUtils()


def _cut_after_ttir(
    backend: Any = None, stages: MutableMapping[str, Any] | None = None, *_: Any, **__: Any
) -> tuple[str, str] | None:
    if backend is None or stages is None:  # Triton 3.9 asks for what enters the cache's key
        return STAGE_HOOK_KEY, STAGE_HOOK_KEY
    first = stages["ttir"]
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
    """Call `listener` with the seconds that each compile took (Python front end and TTIR passes)."""

    def heard(*, times: Any, **_: Any) -> None:
        listener(times.total / 1e6)

    knobs.compilation.listener = heard


def ask_for_scratch(size_bytes: int, align: int, stream: int) -> None:
    """Ask the allocator that this thread sees, as Triton's launcher does; without one, Triton's own error is raised."""
    _allocation._allocator.get()(size_bytes, align, stream)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam


@dataclass(frozen=True, slots=True)
class Built:
    """What the whole pipeline made of a TTIR text."""

    metadata: Mapping[str, Any]
    cubin: bytes


def compile_whole(ttir: str, arch: int, options: Mapping[str, Any]) -> Built:
    """Compile a TTIR text to a cubin; needs no GPU.  Whatever Triton raises goes through."""
    with _whole_pipeline(), tempfile.TemporaryDirectory(prefix="kernel-harness-") as folder:
        path = Path(folder) / "kernel.ttir"
        path.write_text(ttir)
        compiled = triton.compile(str(path), target=target(arch, 32), options=dict(options))
        return Built(compiled.metadata._asdict(), compiled.asm["cubin"])


@contextmanager
def _whole_pipeline() -> Generator[None]:
    hook = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = None
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = hook


class NotHere(RuntimeError):
    """A launch cannot be made on the real GPU, or is another there."""


class RealLauncher:
    """Compiles launches to the end and makes them on the real GPU, whatever GPU this process wears otherwise."""

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
        """One launch of what `compiled` made, which may ask for scratch memory; returns before the GPU is done.

        Raises:
            NotHere: the GPU at hand does not have what it needs.
        """
        allocator = _allocation._allocator.set(cast("Any", scratch))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the seam
        try:
            with self._worn():
                kernel[grid](*arguments, stream=0)
        except OutOfResources as error:
            raise NotHere(str(error)) from None
        finally:
            _allocation._allocator.reset(allocator)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the seam

    def compiled(self, source: Any, options: Mapping[str, Any], ttir: str, *, ptxas_optimises: bool = True) -> Any:
        """What Triton's whole pipeline makes of an `ASTSource` that is this TTIR on the virtual GPU.

        Raises:
            NotHere: it cannot be compiled for the GPU at hand, or moves its blocks in another way there.
        """
        key = f"{source.hash()} {sorted(options.items())} {ptxas_optimises}"
        if key not in self._compiled:
            try:
                with self._worn(), knobs.nvidia.scope():
                    if not ptxas_optimises:
                        knobs.nvidia.disable_ptxas_opt = True
                        knobs.cache.dir = str(self._cache / "unoptimised")  # it is no part of the cache's key
                    self._compiled[key] = triton.compile(source, target=self._target, options=dict(options))
            except PTXASError as error:
                raise NotHere(str(error).splitlines()[0]) from None
            except RuntimeError as error:  # of MLIR's passes
                raise NotHere(f"Triton {triton.__version__} cannot compile it: {str(error).splitlines()[0]}") from None
        if "tt.descriptor" in self._compiled[key].asm["ttir"] and "tt.descriptor" not in ttir:
            raise NotHere("its tensor descriptors are plain pointers on the virtual GPU, which need no alignment")
        return self._compiled[key]

    @contextmanager
    def _worn(self) -> Generator[None]:
        worn = triton.runtime.driver.active
        set_driver(self._driver)
        try:
            with _whole_pipeline(), knobs.cache.scope():
                knobs.cache.dir = str(self._cache)
                yield
        finally:
            set_driver(worn)
