"""What stands in for frameworks that a library imports around its kernels, where they are not installed.

A kernel library may import `transformers` or its like when its package is imported, for layers and models that no op
here touches.  Only where the import of an op's module fails for want of such a framework, two things are tried:

* a package above the wanted module whose own `__init__` wants the framework is entered without running that `__init__`;
* where the wanted module itself wants names of the framework, it gets names that raise as soon as they are called.

What fails for any other reason fails as ever, and so does a kernel that really calls into the framework.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, NoReturn

from harness.errors import MissingPart

FRAMEWORKS = frozenset(
    {
        "accelerate",
        "bitsandbytes",
        "datasets",
        "huggingface_hub",
        "peft",
        "transformers",
        "trl",
        "unsloth_zoo",
        "xformers",
    }
)
"""What holds models and trainers, never a kernel that a suite guards."""

OLDER_THAN_ANY = "0"
"""The release of a stand-in: libraries compare it when they are imported."""

LENT = {"torch.distributed": ("tensor",)}
"""Submodules that libraries read without importing them (Liger 0.6.5 to 0.8.2): frameworks around them do that."""


def import_past_frameworks(module: str, names: Sequence[str] = ()) -> None:
    """Import what `from module import names` would, with stand-ins for frameworks that are missing.

    Raises:
        Whatever the import raises, where no framework is missing or a stand-in does not help.
    """
    while True:
        try:
            __import__(module, fromlist=names)
        except ImportError as error:
            missing = _framework_missing(error)
            if missing is None:
                raise
            package = _package_begun(error, module)
            if package is not None:
                _enter(package)
            elif not _stand_in_for(missing):
                raise
        else:
            return


def lend_submodules() -> None:
    """Let the submodules in `LENT` be imported by being read, in a process that has torch."""
    for package, lent in LENT.items():
        if (module := sys.modules.get(package)) is not None and "__getattr__" not in vars(module):
            module.__getattr__ = _lending(package, lent)


def _lending(package: str, lent: Sequence[str]) -> Any:
    def read(name: str) -> ModuleType:
        if name not in lent:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return read


def _framework_missing(error: BaseException) -> str | None:
    """The framework for want of which an import failed, also where the library says so in words of its own."""
    for one in _chain(error):
        if isinstance(one, ModuleNotFoundError) and (root := str(one.name).partition(".")[0]) in FRAMEWORKS:
            return root
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _package_begun(error: BaseException, module: str) -> str | None:
    """The outermost package above the wanted module whose `__init__` was running when the import failed."""
    parts = module.split(".")
    above = {".".join(parts[:count]) for count in range(1, len(parts))}
    for one in _chain(error):
        trace = one.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_code.co_name == "<module>" and (name := frame.f_globals.get("__name__")) in above:
                return name
    return None


def _enter(package: str) -> None:
    """Put an empty package in the place of this one: its modules can be imported, its `__init__` does not run."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    bare = ModuleType(package)
    bare.__path__ = list(spec.submodule_search_locations)
    bare.__spec__ = spec
    sys.modules[package] = bare
    parent, _, name = package.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, bare)


def _stand_in_for(framework: str) -> bool:
    """Let the framework be imported; false where that was done before and did not help."""
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.append(finder)  # the last that is asked: what is installed always comes first
    if framework in finder.frameworks:
        return False
    finder.frameworks.add(framework)
    return True


class _Finder(MetaPathFinder, Loader):
    """Finds modules of frameworks that are not there."""

    def __init__(self) -> None:
        self.frameworks: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module of a framework, as far as names go."""
        del path, target
        if fullname.partition(".")[0] not in self.frameworks:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Answer any name but those that Python itself asks for."""
        own = module.__name__

        def read(name: str) -> "_Absent":
            if name.startswith("__"):
                raise AttributeError(f"the stand-in for {own!r} has no attribute {name!r}")
            return _Absent(f"{own}.{name}")

        module.__getattr__ = read
        vars(module)["__version__"] = OLDER_THAN_ANY


class _Absent:
    """A name of a framework that is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "_Absent":
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is not installed")
        return _Absent(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """It can be a base class: of models, which no op makes."""
        del bases
        return ()

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        del args, kwargs
        raise MissingPart(
            f"{self._name} is called, but {self._name.partition('.')[0]} is not installed: "
            f"add --with {self._name.partition('.')[0]}"
        )
