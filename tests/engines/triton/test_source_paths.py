"""A kernel from Triton's cache has the source locations of the release that runs, not of the one that compiled it."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from harness.engines.triton.source_paths import KernelSource, relocated
from harness.model.run import Stray
from tests.engines.conftest import Gpu, line_of

SHARED = """\
import triton
import triton.language as tl


@triton.jit
def stored_beyond(out, N):
    tl.store(out + N, 1.0)  # shared stray
"""
KERNEL = """\
import triton
import triton.language as tl
from {package}.shared import stored_beyond


@triton.heuristics({heuristics})
@triton.jit
def cached_kernel(out, N, ONE: tl.constexpr):
    stored_beyond(out, N)
    tl.store(out + N + ONE, 1.0)  # own stray
"""
ONE_LINE = '{"ONE": lambda args: 1}'
THREE_LINES = '{\n    "ONE": lambda args: 1,\n}'


def release(folder: Path, package: str, heuristics: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Write and import a release of a small library."""
    place = folder / package
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "shared.py").write_text(SHARED)
    (place / "kernels.py").write_text(KERNEL.format(package=package, heuristics=heuristics))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()
    return importlib.import_module(f"{package}.kernels")


def forget(package: str) -> None:
    """Remove the library from the imported modules, as in a process of another release."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def lines_of_strays(gpu: Gpu, module: ModuleType) -> set[tuple[str, int]]:
    """Launch the module's kernel, and return file and line of each stray access."""
    gpu.begin()
    module.cached_kernel[(1,)](torch.zeros(8), 8)
    sources = [event.site.source for event in gpu.memory if isinstance(event, Stray)]
    return {(source.file, source.line) for source in sources if source}


@pytest.mark.parametrize(("package", "later"), [("same_lines", ONE_LINE), ("moved_lines", THREE_LINES)])
def test_a_cached_kernel_names_the_files_of_the_release_that_runs(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, later: str
) -> None:
    for version, heuristics in (("1.0", ONE_LINE), ("1.1", later)):
        folder = tmp_path / version
        with monkeypatch.context() as patch:
            module = release(folder, package, heuristics, patch)
            own, shared = str(folder / package / "kernels.py"), str(folder / package / "shared.py")
            assert lines_of_strays(gpu, module) == {
                (own, line_of(own, "own stray")),
                (shared, line_of(shared, "shared stray")),
            }
            source = gpu.seen[0].source
            assert source is not None
            assert (source.file, source.line) == (own, line_of(own, "own stray") - 2)
            forget(package)


TTIR = """\
#loc = loc("/old/lib/a.py":10:0)
#loc1 = loc("/old/lib/a.py":12:4)
#loc2 = loc("/old/lib/a.py":40:4)
#loc3 = loc("/old/common/b.py":7:4)
#loc4 = loc(callsite(#loc3 at #loc1))
#loc5 = loc("/gone/nowhere.py":1:2)
"""


def test_lines_outside_the_kernel_do_not_move() -> None:
    kernel = KernelSource(file="/new/lib/a.py", line=13, lines=5)
    assert relocated(TTIR, kernel, lambda: ("/new/lib/a.py", "/new/common/b.py")).splitlines() == [
        '#loc = loc("/new/lib/a.py":13:0)',
        '#loc1 = loc("/new/lib/a.py":15:4)',
        '#loc2 = loc("/new/lib/a.py":40:4)',
        '#loc3 = loc("/new/common/b.py":7:4)',
        "#loc4 = loc(callsite(#loc3 at #loc1))",
        '#loc5 = loc("/gone/nowhere.py":1:2)',
    ]


def test_a_kernel_that_moved_to_another_folder_keeps_its_callees() -> None:
    kernel = KernelSource(file="/new/moved/a.py", line=10, lines=5)
    text = relocated(TTIR, kernel, lambda: ("/new/moved/a.py", "/new/common/b.py", "/new/moved/b.py"))
    assert '#loc3 = loc("/new/common/b.py":7:4)' in text
