"""Import stubs for frameworks that a library imports around its kernels and that are not installed.

A kernel library may import `transformers` or a similar framework when its package is imported, for layers and models
that no op here uses.  There are two remedies if the import of an op's module fails because a framework is missing:

* A parent package whose own `__init__` imports the framework becomes an empty package: its `__init__` does not run.
* A module that itself imports names of the framework gets stubs, which raise when they are called.

Stubs of a few kinds may be called, since modules call them when they are imported: loggers, versions, decorators that
compile, and questions after what is available.  Other errors of the import are raised, and so is a call of a kernel
into the framework.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

from packaging.version import Version

from harness.errors import MissingPart

FRAMEWORKS = frozenset(
    {
        "accelerate",
        "bitsandbytes",
        "datasets",
        "huggingface_hub",
        "transformer_engine_torch",
        "peft",
        "transformers",
        "trl",
        "unsloth_zoo",
        "xformers",
    }
)
"""Distributions of models and trainers, never of a kernel that a suite tests."""

WITH_EXTENSION = frozenset({"transformer_engine"})
"""Packages whose `__init__` refuses to work without a compiled extension, which no kernel in Triton needs."""

OLDER_THAN_ANY = "0"
"""The `__version__` of a stub: libraries compare it when they are imported."""

LOGGERS = frozenset({"logger", "logging"})
"""Names whose calls, and those of everything below them, have no effect: `transformers.utils.logging.get_logger`."""

LAZY_SUBMODULES = {"torch.distributed": ("tensor",)}
"""Submodules that libraries use without importing them (Liger 0.6.5 to 0.8.2), since frameworks usually have."""


def import_past_frameworks(
    module: str,
    global_names: Mapping[str, object] | None = None,
    local_names: Mapping[str, object] | None = None,
    names: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Do `from module import names`, with stubs for missing frameworks.  The parameters are those of `__import__`.

    Raises:
        Exception: the error of the import, if no framework is missing or a stub does not help.
    """
    while True:
        try:
            return builtins.__import__(module, global_names, local_names, names or (), level)
        except Exception as error:
            if (missing := _framework_missing(error)) is not None:
                package = _package_in_progress(error, module)
            elif (package := _half_package(error)) is None:
                raise
            if package is not None:
                _replace_by_empty(package)
            elif missing is None or not _add_stub(missing):
                raise


def import_submodules_on_use() -> None:
    """Have an access to one of `LAZY_SUBMODULES` import it, in a process that has loaded torch."""
    for package, names in LAZY_SUBMODULES.items():
        if (module := sys.modules.get(package)) is not None and "__getattr__" not in vars(module):
            module.__getattr__ = _import_on_use(package, names)


def _import_on_use(package: str, names: Sequence[str]) -> Any:
    def read(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return read


def _framework_missing(error: BaseException) -> str | None:
    """The missing framework that made the import fail; the library may have raised an error of its own for it."""
    for one in _chain(error):
        if isinstance(one, ModuleNotFoundError) and (root := str(one.name).partition(".")[0]) in FRAMEWORKS:
            return root
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _package_in_progress(error: BaseException, module: str) -> str | None:
    """The outermost parent package of the module whose `__init__` was running when the import failed."""
    parts = module.split(".")
    above = {".".join(parts[:count]) for count in range(1, len(parts))}
    for one in _chain(error):
        trace = one.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_code.co_name == "<module>" and (name := frame.f_globals.get("__name__")) in above:
                return name
    return None


def _half_package(error: BaseException) -> str | None:
    """The outermost package of `WITH_EXTENSION` whose `__init__` was running when the import failed."""
    for one in _chain(error):
        trace = one.__traceback__
        while trace is not None:
            names, trace = trace.tb_frame.f_globals, trace.tb_next
            name = str(names.get("__name__", ""))
            if "__path__" in names and name.partition(".")[0] in WITH_EXTENSION:
                return name
    return None


def _replace_by_empty(package: str) -> None:
    """Put an empty package in the place of this one.  Its modules can be imported; its `__init__` does not run."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    empty = ModuleType(package)
    empty.__path__ = list(spec.submodule_search_locations)
    empty.__spec__ = spec
    sys.modules[package] = empty
    parent, _, name = package.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, empty)


def _add_stub(framework: str) -> bool:
    """Make the framework importable; False if a stub was added before and did not help."""
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.append(finder)  # at the end, so that an installed module comes first
    if framework in finder.frameworks:
        return False
    finder.frameworks.add(framework)
    return True


class _Finder(MetaPathFinder, Loader):
    """Finds stubs of modules of missing frameworks."""

    def __init__(self) -> None:
        self.frameworks: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] not in self.frameworks:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module every attribute, except those with two underscores that Python itself looks up."""
        own = module.__name__

        def read(name: str) -> "_Stub":
            if name.startswith("__"):
                raise AttributeError(f"the import stub for {own!r} has no attribute {name!r}")
            return _Stub(f"{own}.{name}")

        module.__getattr__ = read
        vars(module)["__version__"] = OLDER_THAN_ANY


class _Stub:
    """A name of a framework that is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "_Stub":
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is not installed")
        return _Stub(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Allow it as a base class, of models that no op makes."""
        del bases
        return ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = self._name.split(".")
        if not LOGGERS.isdisjoint(path):
            return self
        for name, answer in ANSWERS.items():
            if name.fullmatch(path[-1]):
                return answer(*args, **kwargs)
        raise MissingPart(f"{self._name} is called, but {path[0]} is not installed: add --with {path[0]}")


def _decorated(function: Any = None, **settings: Any) -> Any:
    """Leave the function as it is.  It is not given if the decorator is called with settings alone."""
    del settings
    return _decorated if function is None else function


def _unavailable(*args: object, **kwargs: object) -> bool:
    del args, kwargs
    return False


ANSWERS: Mapping[re.Pattern[str], Callable[..., Any]] = {
    re.compile(r"Version"): Version,
    re.compile(r"torch_compile"): _decorated,
    re.compile(r"is_\w+_available"): _unavailable,
}
"""What stubs return that modules call when they are imported, by their last name."""
