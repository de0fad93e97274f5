"""Import stubs for modules that a library imports around its kernels, and that no kernel needs.

Two kinds of modules get stubs:

* Modules of a framework that is not installed.  A library may import `transformers` or a similar framework for layers
  and models that no op here uses.  If the import of an op's module fails because a framework is missing, a parent
  package whose own `__init__` imports the framework becomes an empty package: its `__init__` does not run.  If the
  module itself imports names of the framework, the framework's modules are stubs.
* Modules without a kernel of a package that an op's `stubs` name.  vLLM or SGLang need a GPU, a compiled extension and
  dozens of distributions to be imported as a whole.  A module of such a package whose text has `triton.jit` is imported
  from its file.  A package is empty, but for the modules and packages in it.  Every other module is a stub.

All names exist in a stub.  A stub is false, so a question after what is there gets a no.  Some stubs may be called
while modules are imported.  A call of a stub from a case raises: the case abstains, and names the stub.
"""

import builtins
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

from packaging.version import Version

from harness.engines.torch.import_hooks import ImportRule, add_rule
from harness.errors import MissingPart, SuiteError

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
"""The `__version__` of a framework's stub: libraries compare it when they are imported."""

LOGGERS = frozenset({"logger", "logging"})
"""Names whose calls, and those of everything below them, have no effect: `transformers.utils.logging.get_logger`."""

LAZY_SUBMODULES = {"torch.distributed": ("tensor",)}
"""Submodules that libraries use without importing them (Liger 0.6.5 to 0.8.2), since frameworks usually have."""

KERNEL_MARKS = (b"triton.jit", b"triton.autotune")
"""A file of a stubbed package with one of them is imported."""

PROVIDED = "MODULES"
"""The name in a file of stubs: the names that modules have, by module."""
IMPORTED = "IMPORTED"
"""The name in a file of stubs: modules without a kernel that are imported from their files nevertheless.

`lib.ops.*` stands for all modules below the package `lib.ops`, with the `__init__` of packages below it.
"""

LOGGER_WORD = re.compile(r"[a-z]+")
"""A part of a name, so that those of `lib.logger.init_logger` are loggers."""

Called = Callable[[str, tuple[Any, ...], Mapping[str, Any]], Any]
"""Gets the full name of a stub that is called, and the arguments; returns the result."""


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
            elif missing is None or not _stub_framework(missing):
                raise


def import_submodules_on_use() -> None:
    """Have an access to one of `LAZY_SUBMODULES` import it, in a process that has loaded torch."""
    for package, names in LAZY_SUBMODULES.items():
        if (module := sys.modules.get(package)) is not None and "__getattr__" not in vars(module):
            module.__getattr__ = _import_on_use(package, names)


def stub_package(package: str, provided: ModuleType) -> None:
    """Import only the modules with kernels of the package from now on.

    Args:
        package: a top-level name, such as `vllm`.
        provided: the suite's file of stubs.  Its `MODULES` maps names of modules to their names and values; modules of
            other distributions may be among them.  Its `IMPORTED` names modules to be imported as they are.

    Raises:
        SuiteError: the file has neither of them, or another file has stubbed the package.
    """
    modules: Mapping[str, Mapping[str, object]] | None = getattr(provided, PROVIDED, None)
    imported: Sequence[str] | None = getattr(provided, IMPORTED, None)
    file = str(provided.__file__)
    if modules is None and imported is None:
        raise SuiteError(f"{file} provides no stubs for {package}: define {PROVIDED} or {IMPORTED}")
    stubbed = _StubbedPackage(package, modules or {}, frozenset(imported or ()), file)
    rule = ImportRule(owner=f"the stubs of {package}", covers=stubbed.covers, find=stubbed.find, file=file)
    if (known := add_rule(rule)).file != file:
        raise SuiteError(f"{known.file} and {file} provide stubs for {package}: use one file")


def _import_on_use(package: str, names: Sequence[str]) -> Any:
    def read(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return read


def _framework_missing(error: BaseException) -> str | None:
    """The missing framework that made the import fail; the library may have raised an error of its own for it."""
    for cause in _chain(error):
        if isinstance(cause, ModuleNotFoundError) and (root := _root(str(cause.name))) in FRAMEWORKS:
            return root
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of the error and of the errors before it, each from the outermost."""
    for cause in _chain(error):
        trace = cause.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next


def _package_in_progress(error: BaseException, module: str) -> str | None:
    """The outermost parent package of the module whose `__init__` was running when the import failed."""
    parts = module.split(".")
    above = {".".join(parts[:count]) for count in range(1, len(parts))}
    for frame in _frames(error):
        if frame.f_code.co_name == "<module>" and (name := frame.f_globals.get("__name__")) in above:
            return name
    return None


def _half_package(error: BaseException) -> str | None:
    """The outermost package of `WITH_EXTENSION` whose `__init__` was running when the import failed."""
    for frame in _frames(error):
        name = str(frame.f_globals.get("__name__", ""))
        if "__path__" in frame.f_globals and _root(name) in WITH_EXTENSION:
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


def _stub_framework(framework: str) -> bool:
    """Make the framework importable; False if it was before and that did not help."""

    def find(fullname: str, _: ModuleSpec | None) -> ModuleSpec:
        return ModuleSpec(fullname, _StubLoader(_of_framework, {"__version__": OLDER_THAN_ANY}), is_package=True)

    rule = ImportRule(owner=f"the framework {framework}", covers=partial(_is_within, package=framework), find=find)
    return add_rule(rule, after_python=True) is rule


def _of_framework(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return what a stub of a framework returns, or raise."""
    path = name.split(".")
    if not LOGGERS.isdisjoint(path):
        return _Stub(name, _of_framework)
    for pattern, answer in ANSWERS.items():
        if pattern.fullmatch(path[-1]):
            return answer(*args, **kwargs)
    raise MissingPart(f"{name} is called, but {path[0]} is not installed: add --with {path[0]}")


def _decorated(function: Any = None, **settings: Any) -> Any:
    """Leave the function as it is.  There is none yet if the decorator is called with settings alone."""
    del settings
    return _decorated if function is None else function


ANSWERS: Mapping[re.Pattern[str], Callable[..., Any]] = {
    re.compile(r"Version"): Version,
    re.compile(r"torch_compile"): _decorated,
    re.compile(r"is_\w+_available"): lambda *_, **__: False,
}
"""The results of a framework's stubs that modules call when they are imported, by their last name."""


class _StubbedPackage:
    """One package of which only the modules with kernels are imported, and the modules that its file provides."""

    def __init__(
        self, package: str, modules: Mapping[str, Mapping[str, object]], imported: frozenset[str], file: str
    ) -> None:
        self._package = package
        self._modules = modules
        self._imported = imported
        self._file = file
        self._imports = 0
        """The imports of modules with kernels that are in progress."""

    def covers(self, module: str) -> bool:
        return _root(module) == self._package or any(
            _is_within(module, name) or _is_within(name, module) for name in self._modules
        )

    def find(self, fullname: str, installed: ModuleSpec | None) -> ModuleSpec | None:
        is_inside = _root(fullname) == self._package
        if not is_inside and installed is not None:  # another distribution, and it is installed
            return None
        if is_inside and installed is None and fullname not in self._modules:
            return None  # this release has no such module
        provided = self._modules.get(fullname)
        if provided is None and installed is not None and self._is_imported(fullname, installed):
            installed.loader = _KernelLoader(fullname, str(installed.origin), self._note_import)
            return installed
        spec = ModuleSpec(fullname, _StubLoader(self._called, provided or {}, has_modules=True), is_package=True)
        spec.submodule_search_locations = list((installed and installed.submodule_search_locations) or ())
        return spec

    def _is_imported(self, fullname: str, spec: ModuleSpec) -> bool:
        if not isinstance(spec.loader, SourceFileLoader) or spec.origin is None:
            return False
        if any(_matches(fullname, pattern) for pattern in self._imported):
            return True
        text = Path(spec.origin).read_bytes()
        return any(mark in text for mark in KERNEL_MARKS)

    def _note_import(self, step: int) -> None:
        self._imports += step

    def _called(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return a decorated function as it is, and a stub for all other arguments; raise in a case.

        Loggers may be called in a case, too.
        """
        if not self._imports and not LOGGERS.isdisjoint(LOGGER_WORD.findall(name)):
            return _Stub(f"{name}(…)", self._called)
        if not self._imports:
            module, attribute = _module_and_name(name)
            raise MissingPart(
                f"{name} is called, but only the kernels of {self._package} are imported: provide it in {self._file}, "
                f'by MODULES["{module}"] = {{"{attribute}": …}}'
            )
        match args:
            case (FunctionType() | type() as decorated,) if not kwargs:
                return decorated
            case _:
                return _Stub(f"{name}(…)", self._called)


class _KernelLoader(SourceFileLoader):
    """Imports a module from its file; stubs may be called meanwhile."""

    def __init__(self, fullname: str, path: str, note_import: Callable[[int], None]) -> None:
        super().__init__(fullname, path)
        self._note_import = note_import

    def exec_module(self, module: ModuleType) -> None:
        self._note_import(1)
        try:
            super().exec_module(module)
        finally:
            self._note_import(-1)


class _StubLoader(Loader):
    """Makes a module of every name, except those with two underscores that Python itself looks up."""

    def __init__(self, called: Called, provided: Mapping[str, object], *, has_modules: bool = False) -> None:
        self._called = called
        self._provided = provided
        self._has_modules = has_modules
        """True if some of its names may be modules that can be imported."""

    def exec_module(self, module: ModuleType) -> None:
        own = module.__name__

        def read(name: str) -> object:
            if name == "__version__" and (installed := _version_of(_root(own))):
                return installed
            if name.startswith("__"):
                raise AttributeError(f"the import stub for {own!r} has no attribute {name!r}")
            full_name = f"{own}.{name}"
            if self._has_modules:
                try:  # `from package import module` asks for the attribute first
                    return importlib.import_module(full_name)
                except ModuleNotFoundError as error:
                    if error.name != full_name:
                        raise
            return _Stub(full_name, self._called)

        vars(module).update(self._provided)
        module.__getattr__ = read


class _Stub:
    """A name of a module that is not imported."""

    def __init__(self, name: str, called: Called) -> None:
        self._name = name
        self._called = called

    def __getattr__(self, name: str) -> "_Stub":
        if name.startswith("__"):
            raise AttributeError(f"the import stub {self._name} has no attribute {name!r}")
        return _Stub(f"{self._name}.{name}", self._called)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(self._name, args, kwargs)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: object) -> "_Stub":
        return _Stub(f"{self._name}[…]", self._called)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Allow it as a base class, of layers and models that no op makes."""
        del bases
        return ()

    def _itself(self, other: object) -> "_Stub":
        del other
        return self

    def _no(self, other: object) -> bool:
        del other
        return False

    __or__ = __ror__ = _itself
    __contains__ = __lt__ = __le__ = __gt__ = __ge__ = _no


def _version_of(package: str) -> str:
    """Return the version of the distribution of this name; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _module_and_name(full_name: str) -> tuple[str, str]:
    """Return the module in which a stub's full name begins, and the name in it."""
    parts = re.split(r"[.(\[]", full_name)
    modules = [".".join(parts[:count]) for count in range(1, len(parts)) if ".".join(parts[:count]) in sys.modules]
    module = modules[-1] if modules else parts[0]
    return module, parts[module.count(".") + 1]


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _matches(module: str, pattern: str) -> bool:
    """Return True for the module that the pattern names, and for those below the package before its `.*`."""
    package = pattern.removesuffix(".*")
    return module == pattern if package == pattern else module.startswith(f"{package}.")


def _root(module: str) -> str:
    return module.partition(".")[0]
