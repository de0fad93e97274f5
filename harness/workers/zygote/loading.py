"""Loading in fork servers: engine, torch and Triton for all devices, then one device, its suites and libraries.

The order matters: libraries read the device when they are imported, and keep what they read.
"""

import importlib
import importlib.metadata
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from harness.engines.jax.jax_imports import prepare_imports
from harness.engines.jax.jax_releases import LIBRARY, check_releases
from harness.engines.triton.builds import BUILDS_VARIABLE, KEPT_TTIR_VARIABLE, PASSING_VARIABLE
from harness.errors import CannotExecute, MissingPart, SuiteError
from harness.execution.engine import Engine, MovableEngine
from harness.extras import missing_dependency, remedy_for_import
from harness.garbage import without_collections
from harness.libraries import absence, name_of
from harness.model.op import Op
from harness.patches import PATCHES
from harness.suite import BUILTINS, beside, load_suite
from harness.suite_files import is_shipped, located
from harness.workers.protocol import ChildError, FaultKind
from harness.workers.spec import BUILDS, WorkerSpec
from harness.workers.zygote.import_stubs import import_past_frameworks, import_submodules_on_use, stub_package
from harness.workers.zygote.source_blocks import getblock
from harness.workers.zygote.suite_imports import imports_of, imports_of_helpers

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a thread does not survive a fork, and leaves its locks locked.
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHDYNAMO_DISABLE": "1",  # a kernel library on a machine without its GPU has nothing to compile.
    "FLA_DISABLE_TENSOR_CACHE": "1",  # FLA's cache would hand one case's tensors to the next.
    "TRITON_DEFAULT_FP_FUSION": "1",  # the default; Triton 3.9 warns at every compile unless it is set.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available() must not start CUDA before the fork.
}
LAST_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The state that device servers inherit from the shared zygote."""

    engine: Engine
    server: int
    """The process id of the shared zygote, or of the server that emulates a device for others."""
    emulating: MovableEngine | None = None
    """The same engine, if it emulates the device of all servers that are forked from this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The state that workers inherit from their device server."""

    spec: WorkerSpec
    engine: Engine
    ops: Mapping[str, Op]
    """By id: `suites/fla/norm.py:rms_norm`."""
    server: int
    """The device server's process id."""


def prepare(factory: str) -> Prepared:
    """Load what depends on neither device nor libraries under test: the engine, with torch and Triton."""
    os.environ.update(ENVIRONMENT)
    why = "Triton asks for the lines of each kernel while a library is imported"
    PATCHES.replace(inspect, "getblock", getblock, why=why, releases="Python 3.10 to 3.14")
    with without_collections():
        engine = _engine(factory)
        engine.prepare()
    return Prepared(engine=engine, server=os.getpid())


def load(spec: WorkerSpec, prepared: Prepared) -> Loaded | ChildError:
    """Make this process ready to fork workers.  A suite or library that cannot be loaded is returned as an error."""
    with without_collections():
        return _load(spec, prepared)


def _load(spec: WorkerSpec, prepared: Prepared) -> Loaded | ChildError:
    engine = prepared.engine
    if prepared.emulating is None:
        _emulate(spec, engine)
    else:
        _set_folders(spec)
        prepared.emulating.move()
    try:
        suites = {suite: load_suite(suite, Path(spec.project)) for suite in spec.suites}
        _stub_packages(suites.values(), Path(spec.project))
    except SuiteError as error:
        return ChildError(kind=FaultKind.SUITE, message=str(error))
    for suite, ops in suites.items():
        is_public = is_shipped(suite, Path(spec.project))
        if obstacle := _missing(suite, ops, spec.library_paths, is_public=is_public) or _unimportable(suite, ops):
            return ChildError(kind=FaultKind.LIBRARY, message=obstacle)
        if not engine.traits.is_hardware and (obstacle := _jax_obstacle(ops)):
            return ChildError(kind=FaultKind.LIBRARY, message=f"{suite}: {obstacle}")
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    _warm_up_inductor()
    if obstacle := engine.obstacle():
        return ChildError(kind=FaultKind.LIBRARY, message=obstacle)
    return Loaded(
        spec=spec, engine=engine, ops={op.id: op for ops in suites.values() for op in ops}, server=os.getpid()
    )


def emulate(spec: WorkerSpec, prepared: Prepared, modules: Iterable[str]) -> Prepared:
    """Emulate the device of the spec, and import modules, for servers of suites that are forked from this process."""
    engine = prepared.engine
    assert isinstance(engine, MovableEngine), "other engines have no such process"
    with without_collections():
        _emulate(spec, engine)
        for module in modules:
            importlib.import_module(module)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
    return replace(prepared, server=os.getpid(), emulating=engine)


def _emulate(spec: WorkerSpec, engine: Engine) -> None:
    _set_folders(spec)
    for name in spec.unset:
        os.environ.pop(name, None)
    os.environ.update(spec.environment)
    sys.path[:0] = (*spec.variant_paths, *spec.library_paths)
    importlib.invalidate_caches()
    engine.emulate(spec.device)
    import_submodules_on_use()
    if not engine.traits.is_hardware:  # on hardware, JAX is imported as it is installed
        prepare_imports()
    BUILTINS["__import__"] = import_past_frameworks


def _set_folders(spec: WorkerSpec) -> None:
    scratch = Path(spec.confined_to[0] if spec.confined_to else spec.scratch).resolve()
    os.environ["TRITON_CACHE_DIR"] = str(scratch / "triton")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
    os.environ[BUILDS_VARIABLE] = str(scratch / BUILDS)
    os.environ[KEPT_TTIR_VARIABLE] = str(scratch / "unsupported")
    os.environ[PASSING_VARIABLE] = "1" if spec.confined_to else ""


def _warm_up_inductor() -> None:
    """Compile something if a suite compiles: otherwise each child spends seconds on the first program."""
    calls = sys.modules.get("harness.engines.torch.inductor.compiled_calls")
    if calls is not None:
        with suppress(CannotExecute):  # each case reports it
            calls.warm_up()


def _stub_packages(suites: Iterable[tuple[Op, ...]], project: Path) -> None:
    for op in chain.from_iterable(suites):
        for package, file in op.stubs.items():
            stub_package(package, beside(str(located(op.suite, project)), file))


def _jax_obstacle(ops: tuple[Op, ...]) -> str:
    """Import JAX for ops that require it; return why it cannot be used, or an empty text.  It starts no thread yet."""
    if not any("jax" in names for op in ops for names in op.libraries):
        return ""
    try:
        check_releases()
        importlib.import_module(LIBRARY)
    except MissingPart as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a library may raise anything; the message quotes it
        return f"JAX cannot be imported: {type(error).__name__}: {error}"
    return ""


def _engine(factory: str) -> Engine:
    """Return the engine.

    Raises:
        MissingPart: an engine of the harness needs a package that is not installed.
    """
    module, _, name = factory.partition(":")
    try:
        return getattr(importlib.import_module(module), name)()
    except ModuleNotFoundError as error:
        if _root(module) != "harness":  # an engine of somebody else
            raise
        raise missing_dependency("the engine", error) from error


def _missing(suite: str, ops: tuple[Op, ...], folders: Iterable[str], *, is_public: bool) -> str:
    """A message that names the missing distributions that the suite requires; empty if there are none.

    A folder of bare sources, such as a checkout, has no metadata.  It may be any distribution, so none is missing.
    """
    if not all(any(importlib.metadata.distributions(path=[folder])) for folder in folders):
        return ""
    required = dict.fromkeys(names for op in ops for names in op.libraries)
    missing = [names[0] for names in required if not any(map(_is_installed, names))]
    if not missing:
        return ""
    return absence(suite, missing, is_public=is_public)


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(name_of(distribution))
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _unimportable(suite: str, ops: tuple[Op, ...]) -> str:
    """Why no op of the suite can import its library; empty if one can, since a release may lack what others test."""
    obstacles = [obstacle for op in ops if (obstacle := _import_for(op))]
    if not obstacles or len(obstacles) < len(ops):
        return ""
    return f"{suite}: the library under test cannot be imported: {obstacles[0]}"


def _import_for(op: Op) -> str:
    """Import what the op's functions would import when called.  Returns the error; empty if there was none.

    Not counted are errors in imports of helpers, since not every case calls them, and modules that this release of the
    library lacks: their cases abstain.
    """
    for function in (op.call, op.reference):
        for module, names in imports_of(function):
            try:
                import_past_frameworks(module, names=names)
            except (Exception, SystemExit) as error:  # noqa: BLE001 — a library may raise anything; the message quotes it
                if _is_lacking(module, error):
                    continue
                if other := _other_package(module, error):
                    return f"{_root(module)} imports {other}, which is not installed: {remedy_for_import(other)}"
                lines = "".join(traceback.format_exception(error)).splitlines()[-LAST_LINES:]
                return f"{type(error).__name__}: {error}\n" + "\n".join(lines)
    for function in (op.call, op.reference):
        for module, names in imports_of_helpers(function):
            with suppress(Exception, SystemExit):
                import_past_frameworks(module, names=names)
    return ""


def _other_package(module: str, error: BaseException) -> str:
    """Return the missing package that the library of the module imports; empty if the error is another one."""
    missing = _root(error.name) if isinstance(error, ModuleNotFoundError) and error.name else ""
    return "" if missing == _root(module) else missing


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_lacking(module: str, error: BaseException) -> bool:
    """Return True if the library is there, but not this module of it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or "." not in error.name:
        return False
    return module == error.name or module.startswith(f"{error.name}.")
