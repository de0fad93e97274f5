"""Generates Inductor's C++ wrappers of a program with descriptor kernels, as on a GPU that is not there.

    python -m ci.generate_wrappers h200 [FOLDER]

The installed torch lowers the program, compiles its kernels with Triton and writes both wrappers: lazy, and compiled
ahead.  FOLDER has the Python sources of another release.  Its own files `cpp_wrapper_gpu.py` and
`cuda/device_op_overrides.py` then write the functions that launch the kernels.  The wrappers are C++ text; nothing
compiles or runs them.  Prints one line of JSON.
"""

# This file touches private names of torch: `test_wrapper_scratch.py` fails when a release moves one.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportArgumentType=false

import ast
import dataclasses
import importlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.library import wrap_triton

from ci.kernels_scratch import BLOCK, double_kernel, triple_kernel
from harness.catalogue import find
from harness.engines.torch.cpu_tensors import CpuTensors
from harness.engines.torch.torch_emulation import emulate_torch
from harness.engines.triton import triton_seam
from harness.engines.triton.driver import VirtualDriver
from harness.model.device import DeviceProfile

COLUMNS = 16
LAUNCH_WRITERS = ("torch._inductor.codegen.cpp_wrapper_gpu", "torch._inductor.codegen.cuda.device_op_overrides")


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """What the compiler says of one autotune config of a kernel."""

    block: int
    """Rows of a program."""
    scratch_bytes: int
    """Of a CTA."""
    ctas: int
    """Of a program."""


class _Written(BaseException):
    """The wrapper is written.  Not an Exception: Inductor would catch that."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _CompilingDriver(VirtualDriver):
    """Compiles kernels to cubins, records their metadata and launches nothing."""

    def __init__(self, profile: DeviceProfile) -> None:
        super().__init__(profile, lambda _: None)
        self.builds: dict[str, dict[int, Build]] = {}
        """By kernel and block."""
        self.launcher_cls = self._record
        self.utils.load_binary = lambda *_: (1, 1, 0, 0, profile.max_threads_per_block)

    def _record(self, source: Any, metadata: Any) -> Callable[..., None]:
        # `ROWS` and `BLOCK` are constants of our kernels; those of Inductor's own kernels have other names.
        constants = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items()}
        if (block := constants.get("ROWS", constants.get("BLOCK"))) is not None:
            self.builds.setdefault(source.fn.__name__, {})[block] = Build(
                block, metadata.global_scratch_size, metadata.num_ctas
            )
        return lambda *_: None


def main(arguments: Sequence[str]) -> None:
    """Print the wrappers and the builds of their kernels."""
    with tempfile.TemporaryDirectory(prefix="inductor-") as folder:
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=f"{folder}/triton")
        driver = _pretend(find(arguments[0]))
        has_lazy = True
        if len(arguments) > 1:
            has_lazy = _take_writers(Path(arguments[1]))
        ahead, symbols = _wrapper(ahead=True)
        lazy = _wrapper(ahead=False)[0] if has_lazy else None
    builds = {
        kernel: [dataclasses.asdict(build) for _, build in sorted(found.items())]
        for kernel, found in driver.builds.items()
    }
    print(json.dumps({"lazy": lazy, "ahead": ahead, "symbols": symbols, "builds": builds}))


def _pretend(device: DeviceProfile) -> _CompilingDriver:
    """Make torch, Triton and Inductor take this process for one with that GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    emulate_torch(device)
    torch.overrides._pop_mode()  # noqa: SLF001 - the mode of `emulate_torch`: only the autotuning block needs it
    for name in ("_exchange_device", "_maybe_exchange_device"):
        setattr(torch.cuda, name, lambda _: 0)
    driver = _CompilingDriver(device)
    triton_seam.set_driver(driver)
    heuristics: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    heuristics.CachingAutotuner.bench = lambda *_, **__: 1.0
    helpers: Any = importlib.import_module("torch._inductor.runtime.triton_helpers")
    helpers.set_driver_to_gpu = lambda: None
    _stop_after_text()
    return driver


def _program(x: torch.Tensor, extent: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Launch both kernels with grids that follow from the sizes of the inputs."""
    rows, columns = x.shape
    y, z = extent.shape
    doubled, tripled = torch.empty_like(x), torch.empty_like(x)
    wrap_triton(double_kernel)[triton.cdiv(rows, BLOCK), y, z](x, doubled, rows, columns, BLOCK=BLOCK)
    wrap_triton(triple_kernel)[lambda meta: (triton.cdiv(rows, meta["ROWS"]), y, z)](
        x, tripled, rows, columns, COLUMNS=COLUMNS
    )
    return doubled, tripled


def _wrapper(*, ahead: bool) -> tuple[str, dict[str, str]]:
    """Return the wrapper, and its names for the sizes that decide the grid."""
    from torch._inductor import compile_fx, config  # noqa: PLC0415 - it asks for the GPU

    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = _dynamic(mode, "x", torch.empty(4096, COLUMNS, device="meta"), fixed=1)
    extent = _dynamic(mode, "extent", torch.empty(5, 7, device="meta"))
    graph = make_fx(_program)(x, extent)
    sizes: dict[str, Any] = {"rows": x.shape[0], "y": extent.shape[0], "z": extent.shape[1]}
    settings = {
        "cpp_wrapper": True,
        "compile_threads": 1,
        "force_disable_caches": True,
        "use_static_cuda_launcher": False,
        "triton.autotune_at_compile_time": ahead,
    }
    try:
        with config.patch(settings), mode, tracing(TracingContext(mode)):
            compile_fx.compile_fx_inner(graph, [x, extent], cpp_wrapper=True, aot_mode=ahead)
    except _Written as written:
        return written.text, {name: str(size.node.expr) for name, size in sizes.items()}
    raise AssertionError("Inductor wrote no C++ wrapper")


def _dynamic(mode: FakeTensorMode, name: str, like: torch.Tensor, fixed: int | None = None) -> torch.Tensor:
    """Return a fake CUDA tensor whose sizes are symbols, but for one dimension."""
    from torch._dynamo.source import ConstantSource  # noqa: PLC0415 - it asks for the GPU

    kinds = [DimDynamic.STATIC if i == fixed else DimDynamic.DYNAMIC for i in range(like.dim())]
    sized = mode.from_tensor(
        like, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds), source=ConstantSource(name)
    )
    with mode:
        return torch.empty_strided(sized.shape, sized.stride(), device="cuda")


def _stop_after_text() -> None:
    """Raise the wrapper's text where Inductor would compile it, and run the autotuning block on CPU tensors."""
    graph_lowering: Any = importlib.import_module("torch._inductor.graph").GraphLowering
    write = graph_lowering.codegen_with_cpp_wrapper

    def codegen(self: Any) -> None:
        raise _Written(write(self)[0].value)

    graph_lowering.codegen_with_cpp_wrapper = codegen
    wrapper: Any = importlib.import_module("torch._inductor.codegen.wrapper").PythonWrapperCodegen
    autotune = wrapper.generate_and_run_autotune_block

    def autotune_on_cpu(self: Any) -> None:
        with CpuTensors():
            autotune(self)

    wrapper.generate_and_run_autotune_block = autotune_on_cpu


def _take_writers(folder: Path) -> bool:
    """Make another release write the launch functions; return False if it has no lazy path."""
    from torch._inductor.codegen import common, cpp_wrapper_gpu  # noqa: PLC0415 - it asks for the GPU

    ours = common.get_device_op_overrides("cuda")
    writer, overrides = (_load(name, folder) for name in LAUNCH_WRITERS)
    common.register_device_op_overrides("cuda", ours)
    parts = [field.name for field in dataclasses.fields(writer.DeferredTritonCallWrapper)]

    def generate(self: Any, wrapper: Any) -> None:
        theirs = object.__new__(writer.CppWrapperGpu)
        theirs.__dict__ |= wrapper.__dict__ | {"device_codegen": overrides.CUDADeviceOpOverrides()}
        writer.DeferredTritonCallWrapper(**{part: getattr(self, part) for part in parts}).generate(theirs)

    deferred: Any = cpp_wrapper_gpu.DeferredTritonCallWrapper
    deferred.generate = generate
    return hasattr(writer.DeferredTritonCallWrapper, "generate_lazy")


def _load(name: str, folder: Path) -> ModuleType:
    """Run a module of another release, as part of this torch and under another name."""
    path = _file(name, folder)
    parent, _, last = name.rpartition(".")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), parent)
            _complete(source, [imported.name for imported in node.names], folder)
    alias = f"{parent}.other_release_{last}"
    spec = importlib.util.spec_from_file_location(alias, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _complete(name: str, wanted: Sequence[str], folder: Path) -> None:
    """Define the names that a module of this torch lacks and the same module of the other release has."""
    if not name.startswith("torch._inductor"):
        return
    module = importlib.import_module(name)
    for missing in (each for each in wanted if not hasattr(module, each) and _file(name, folder).is_file()):
        _define(missing, module, ast.parse(_file(name, folder).read_text(encoding="utf-8")))


def _define(name: str, module: ModuleType, source: ast.Module) -> None:
    """Run the statement of another release's module that defines a name, after those that it needs itself."""
    (statement,) = (node for node in source.body if name in _defined(node))
    code = compile(ast.Module([statement], type_ignores=[]), f"{module.__name__} of the other release", "exec")
    while not hasattr(module, name):
        try:
            exec(code, module.__dict__)  # noqa: S102 - code of a release of torch
        except NameError as error:
            _define(error.name, module, source)


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [imported.asname or imported.name for imported in names]
        case _:
            return []


def _file(name: str, folder: Path) -> Path:
    return folder.joinpath(*name.split(".")).with_suffix(".py")


if __name__ == "__main__":
    main(sys.argv[1:])
