"""Libraries that suites need and that are not there: found before any process starts, without importing anything.

Fork servers check again what they load.  They can also tell a library that is broken from one that is missing.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from harness import libraries
from harness.errors import LibraryError
from harness.model.op import Op
from harness.search.options import Options
from harness.suite_files import is_shipped
from harness.workers.zygote.import_stubs import FRAMEWORKS
from harness.workers.zygote.suite_imports import imports_of


def refuse_missing_distributions(options: Options) -> None:
    """Check what the ops require by name, before `--with` installs anything.

    Raises:
        LibraryError: something is neither installed nor named by `--with`.
    """
    for suite, ops in _by_suite(options.ops):
        required = dict.fromkeys(names for op in ops for names in op.libraries)
        if missing := libraries.lacking(required, options.libraries):
            is_public = is_shipped(suite, options.project)
            raise LibraryError(libraries.absence(suite, missing, is_public=is_public))


def refuse_missing_modules(options: Options, library_paths: Iterable[str]) -> None:
    """Check what the ops import, after `--with` has installed what it names.

    Raises:
        LibraryError: no op of a suite can import its library.
    """
    folders = tuple(library_paths)
    for suite, ops in _by_suite(options.ops):
        missing = [next(_missing_modules(op, folders), "") for op in ops]
        if all(missing):
            # A module's name says nothing about the name of its distribution.
            names = tuple(dict.fromkeys(missing))
            raise LibraryError(libraries.absence(suite, names, is_public=False, verb="imports"))


def _by_suite(ops: Iterable[Op]) -> Iterator[tuple[str, tuple[Op, ...]]]:
    in_order = sorted(ops, key=lambda op: op.suite)
    return ((suite, tuple(same)) for suite, same in groupby(in_order, key=lambda op: op.suite))


def _missing_modules(op: Op, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield the top-level modules that the op's own functions import and that are nowhere."""
    for function in (op.call, op.reference):
        for module, _ in imports_of(function):
            root = module.partition(".")[0]
            if root and root not in FRAMEWORKS and not libraries.importable(root, folders):
                yield root
