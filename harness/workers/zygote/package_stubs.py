"""Import stubs for the part of a package that holds no kernel: what an op's `stubs` asks for.

vLLM or SGLang need a GPU, a compiled extension and dozens of distributions to be imported as a whole.  Their kernels
need a few names of the package.  So of such a package

* a module whose text has `triton.jit` is imported from its file, as usual;
* a package is empty, but for the modules and packages in it: its `__init__` does not run;
* every other module is a stub.  All names exist in it.

A stub may be called while a module of the package is imported: it then decorates nothing and returns a stub.  It is
false, so a question after what is there gets a no.  A call of a stub from a case raises: the case abstains, and names
the stub.  The suite's file of stubs provides the names for which that does not suffice.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from harness.errors import MissingPart, SuiteError

KERNEL_MARKS = (b"triton.jit", b"triton.autotune")
"""A file with one of them is imported."""

PROVIDED = "MODULES"
"""The name in a file of stubs: the names that modules have, by module."""
IMPORTED = "IMPORTED"
"""The name in a file of stubs: modules without a kernel that are imported from their files nevertheless."""


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
    if modules is None and imported is None:
        raise SuiteError(f"{provided.__file__} provides no stubs for {package}: define {PROVIDED} or {IMPORTED}")
    file = str(provided.__file__)
    before = [one.file for one in sys.meta_path if isinstance(one, _PackageFinder) and one.package == package]
    if any(other != file for other in before):
        raise SuiteError(f"{before[0]} and {file} provide stubs for {package}: use one file")
    if not before:
        sys.meta_path.insert(0, _PackageFinder(package, modules or {}, frozenset(imported or ()), file))


class _PackageFinder(MetaPathFinder):
    """Finds the modules of one package, and those that its file of stubs provides."""

    def __init__(
        self, package: str, modules: Mapping[str, Mapping[str, object]], imported: frozenset[str], file: str
    ) -> None:
        self.package = package
        self.file = file
        self._modules = modules
        self._imported = imported
        self._state = _State(package, file)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        inside = fullname.partition(".")[0] == self.package
        if not inside and not any(_is_within(fullname, name) or _is_within(name, fullname) for name in self._modules):
            return None
        real = PathFinder.find_spec(fullname, path)
        if not inside and real is not None:  # another distribution, and it is installed
            return None
        if real is None and fullname not in self._modules and inside:
            return None  # this release has no such module
        provided = self._modules.get(fullname)
        if provided is None and real is not None and self._is_imported(fullname, real):
            real.loader = _KernelLoader(fullname, str(real.origin), self._state)
            return real
        spec = ModuleSpec(fullname, _StubLoader(self._state, provided or {}), is_package=True)
        spec.submodule_search_locations = list((real and real.submodule_search_locations) or ())
        return spec

    def _is_imported(self, fullname: str, spec: ModuleSpec) -> bool:
        if not isinstance(spec.loader, SourceFileLoader) or spec.origin is None:
            return False
        text = Path(spec.origin).read_bytes()
        return fullname in self._imported or any(mark in text for mark in KERNEL_MARKS)


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


class _State:
    """Counts the imports in progress, and says in a message where a suite provides names."""

    def __init__(self, package: str, file: str) -> None:
        self.package = package
        self.file = file
        self.imports = 0


class _KernelLoader(SourceFileLoader):
    """Imports a module from its file; stubs may be called meanwhile."""

    def __init__(self, fullname: str, path: str, state: _State) -> None:
        super().__init__(fullname, path)
        self._state = state

    def exec_module(self, module: ModuleType) -> None:
        self._state.imports += 1
        try:
            super().exec_module(module)
        finally:
            self._state.imports -= 1


class _StubLoader(Loader):
    """Makes a module in which every name exists."""

    def __init__(self, state: _State, provided: Mapping[str, object]) -> None:
        self._state = state
        self._provided = provided

    def exec_module(self, module: ModuleType) -> None:
        own = module.__name__

        def read(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(f"the import stub for {own!r} has no attribute {name!r}")
            submodule = f"{own}.{name}"
            try:  # `from package import module` asks for the attribute first
                return importlib.import_module(submodule)
            except ModuleNotFoundError as error:
                if error.name != submodule:
                    raise
            return _PackageStub(submodule, self._state)

        vars(module).update(self._provided)
        module.__getattr__ = read


class _PackageStub:
    """A name of the part of a package that is not imported."""

    def __init__(self, name: str, state: _State) -> None:
        self._name = name
        self._state = state

    def __getattr__(self, name: str) -> "_PackageStub":
        if name.startswith("__"):
            raise AttributeError(f"the import stub {self._name} has no attribute {name!r}")
        return _PackageStub(f"{self._name}.{name}", self._state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._state.imports:
            raise MissingPart(
                f"{self._name} is called, but only the kernels of {self._state.package} are imported: "
                f"provide it in {self._state.file}"
            )
        match args:
            case (FunctionType() | type() as decorated,) if not kwargs:
                return decorated
            case _:
                return _PackageStub(f"{self._name}(…)", self._state)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __contains__(self, item: object) -> bool:
        return False

    def __getitem__(self, key: object) -> "_PackageStub":
        return _PackageStub(f"{self._name}[…]", self._state)

    def __or__(self, other: object) -> "_PackageStub":
        return self

    def __ror__(self, other: object) -> "_PackageStub":
        return self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Allow it as a base class, of layers that no op makes."""
        del bases
        return ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return False
