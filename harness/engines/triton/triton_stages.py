"""The stages of Triton's compiler, one after another, and its autotuners' whole lists.  A seam, as `triton_seam` is.

A build goes through the stages of `triton.compile`, with two differences.  Nothing is looked up or kept in Triton's
cache, and the front end may run in another process than the rest: a TTIR text is between them.
`test_triton_stages.py` compares both ways.
"""

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import get_ptxas_version
from triton.compiler.compiler import make_backend
from triton.runtime.autotuner import Autotuner

from harness.engines.triton.compile_steps import CompileStep, compile_through
from harness.engines.triton.front_end import ReadOptions
from harness.engines.triton.later_stages import ASSEMBLY
from harness.engines.triton.triton_releases import TESTED
from harness.engines.triton.triton_seam import usable_configs
from harness.errors import CannotExecute
from harness.model.device import Vendor
from harness.model.kernel_build import CompileTarget
from harness.patches import PATCHES

LAST_STAGES = {Vendor.NVIDIA: "cubin", Vendor.AMD: "amdgcn"}
"""The last stage whose result has a fact.  On AMD GPUs the assembly has them all."""


def target_of(target: CompileTarget) -> GPUTarget:
    """Return Triton's own target."""
    arch = int(target.arch) if target.vendor is Vendor.NVIDIA else target.arch
    return GPUTarget(str(target.vendor), arch, target.warp_size)


def compiler_version(target: CompileTarget) -> str:
    """Return the versions that decide what a target's builds become: Triton's, and that of its assembler."""
    if target.vendor is Vendor.AMD:
        return triton.__version__
    return f"{triton.__version__} {get_ptxas_version(int(target.arch)).strip().splitlines()[-1]}"


# --- front end -------------------------------------------------------------------------------------------------------


def front_end(source: Any, target: CompileTarget, options: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """Return the TTIR of an `ASTSource`, and the options that it follows from.  Exceptions of Triton pass through."""
    there = target_of(target)
    driver: Any = triton.runtime.driver.active
    driver.get_current_target = lambda: there  # the front end asks the driver, whatever the target is
    try:
        backend: Any = make_backend(there)
        parsed = backend.parse_options(dict(options))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, parsed, source.language)
        if "ttir" not in stages:
            raise CannotExecute("a Gluon kernel")
        codegen, modules = backend.get_codegen_implementation(parsed), backend.get_module_map()
        watched: Any = ReadOptions(parsed)
        module = source.make_ir(there, watched, codegen, modules, context)
        return str(stages["ttir"](module, {})), frozenset(watched.read)
    finally:
        del driver.get_current_target


@dataclass(slots=True)
class RecordedBuild:
    """One config of a call, as far as Triton prepares it before it compiles."""

    config: str
    index: int
    is_kept: bool
    fn: Any = None
    """The `JITFunction`."""
    source: Any = None
    """The `ASTSource`; None if preparing it raised."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, int, int] | None = None
    error: Exception | None = None


@dataclass(slots=True)
class RecordedCall:
    """One call of a kernel, with all configs of its autotuner if it has one."""

    kernel: str
    is_tuned: bool
    builds: list[RecordedBuild] = field(default_factory=list[RecordedBuild])


class CallRecorder:
    """Makes kernels record instead of compile and launch, in this process."""

    def __init__(self, on_call: Callable[[RecordedCall], None]) -> None:
        self._on_call = on_call
        self._call: RecordedCall | None = None
        """The call of the outermost autotuner under way."""
        self._config: tuple[str, int, bool] = ("", 0, True)
        """Text, index and survival of the config under way."""

    def install(self) -> None:
        """Replace methods of `Autotuner` and `JITFunction` in this process."""
        recorder = self

        def record(kernel: Any, compile_kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            del compile_kernel
            return recorder._record(kernel, *args, **kwargs)

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            return recorder._try_all(self, args, kwargs)

        compile_through(CompileStep.COLLECT, record, "record a build in place of compiling it")
        PATCHES.replace(Autotuner, "run", run, why="record every config of a call", releases=TESTED)

    def _try_all(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run every config in its order, those that pruning drops too."""
        is_outermost = self._call is None
        call = self._call = self._call or RecordedCall(tuner.base_fn.__name__, is_tuned=True)
        before, failures = self._config, list[Exception]()
        try:
            kept = usable_configs(tuner, args, kwargs)
            for index, config in enumerate(tuner.configs):
                self._config = (str(config), index, any(config is survivor for survivor in kept))
                if error := self._try(tuner, config, args, kwargs):
                    failures.append(error)
        finally:
            self._config, tuner.nargs = before, None
            if is_outermost:
                self._call = None
        if is_outermost:
            self._on_call(call)
        if len(failures) == len(tuner.configs):
            raise failures[0]

    def _try(self, tuner: Any, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Run one config; record and return the exception that it raises before its front end."""
        assert self._call is not None
        count = len(self._call.builds)
        try:
            if config.pre_hook is not None:  # it may set block shapes of descriptors, which are part of their types
                config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
            tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        except Exception as error:  # noqa: BLE001 - a config that raises is one that an autotuner may never take
            if len(self._call.builds) == count:
                text, index, is_kept = self._config
                self._call.builds.append(RecordedBuild(text, index, is_kept))
            self._call.builds[-1].error = error
            return error
        return None

    def _record(self, kernel: Any, *args: Any, **kwargs: Any) -> "_NotLaunched":
        """Record one build in the place of `JITFunction._do_compile`."""
        names = ("key", "signature", "device", "constexprs", "options", "attrs", "warmup")
        values = dict(zip(names, args, strict=False)) | kwargs
        text, index, is_kept = self._config
        options = dict(values["options"].__dict__)
        build = RecordedBuild(text or _launch_options(options), index, is_kept)
        build.fn, build.options = kernel, options
        build.source = kernel.ASTSource(kernel, values["signature"], values["constexprs"], values["attrs"])
        if self._call is not None:
            self._call.builds.append(build)
            return _NotLaunched(build, lambda: None)
        call = RecordedCall(kernel.__name__, is_tuned=False, builds=[build])
        if values["warmup"]:  # nothing will be launched
            self._on_call(call)
        return _NotLaunched(build, lambda: self._on_call(call))


def _launch_options(options: Mapping[str, Any]) -> str:
    return f"num_warps: {options['num_warps']}, num_stages: {options['num_stages']}"


class _NotLaunched:
    """What Triton launches in the place of a compiled kernel: records the grid."""

    function = 0
    packed_metadata = ()

    def __init__(self, build: RecordedBuild, launched: Callable[[], None]) -> None:
        self._build = build
        self._launched = launched

    def launch_metadata(self, *_: Any) -> None:
        return None

    def run(self, x: int, y: int, z: int, *_: Any) -> None:
        self._build.grid = (int(x), int(y), int(z))
        self._launched()


# --- back end --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StagedBuild:
    """What the stages after TTIR leave."""

    metadata: Mapping[str, Any]
    binary: bytes
    """The cubin; the assembly's text for an AMD GPU."""
    log: str
    """The messages of ptxas."""
    assembly: str
    """The PTX, or AMD's assembly."""


def compile_stages(ttir: Path, target: CompileTarget, options: Mapping[str, Any]) -> StagedBuild:
    """Compile a file of TTIR.  Exceptions of Triton pass through."""
    backend: Any = make_backend(target_of(target))
    parsed = backend.parse_options(dict(options))
    context: Any = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module: Any = ir.parse_mlir_module(str(ttir), context)
    module.context = context
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, Language.TRITON)
    metadata: dict[str, Any] = {"target": target_of(target), **parsed.__dict__}
    printed, assembly = io.StringIO(), ""
    names = list(stages)
    last = names.index(LAST_STAGES[target.vendor])
    with knobs.nvidia.scope(), contextlib.redirect_stdout(printed):
        knobs.nvidia.dump_ptxas_log = True
        for name in names[names.index("ttir") + 1 : last + 1]:
            module = stages[name](module, metadata)
            if name == ASSEMBLY[target.vendor]:
                assembly = str(module)
    binary = module if isinstance(module, bytes) else str(module).encode()
    return StagedBuild(metadata, binary, printed.getvalue(), assembly)
