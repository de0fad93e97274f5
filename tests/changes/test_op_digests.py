"""An op's digest depends on what the op reaches by syntax, however far away, and on nothing else."""

import shutil
from pathlib import Path

import pytest

from harness.changes.op_digests import SourcePlace, changed_places, digests, touched
from harness.changes.source_tree import SourceTree
from harness.model.op import Op
from harness.suite import load_suite

SUITE = """
from harness.suite import beside, op, tensor, tokens

INPUTS = {"x": tensor("T")}
KERNELS = "kernels/own.py"

@op(dims={"T": tokens()}, inputs=INPUTS)
def double(x):
    from lib import doubling

    return doubling.double(x)

@double.reference
def _(x):
    return x + x

@op(dims={"T": tokens()}, inputs=INPUTS)
def own(x):
    return beside(__file__, KERNELS).triple(x)

@own.reference
def _(x):
    return scaled(x, 3)

def scaled(x, factor):
    return factor * x

@op(dims={"T": tokens()}, inputs=INPUTS)
def starred(x):
    from lib.starred import quadruple

    return quadruple(x)
"""
LIBRARY = {
    "lib/__init__.py": "from .public import *\nfrom . import doubling\n",
    "lib/public.py": "VERSION = 1\n",
    "lib/doubling.py": '''
"""Doubles."""
import triton
from lib import shared
from lib.tuning import CONFIGS as TUNED

from .host import launch

@triton.autotune(configs=TUNED, key=["n"])
@triton.jit
def double_kernel(x, y, n, BLOCK: triton.language.constexpr):
    """Double each element."""
    shared.store(y, shared.twice(x), BLOCK)  # once

@triton.jit
def other_kernel(x):
    pass

def double(x):
    return launch(double_kernel, x)
''',
    "lib/shared.py": """
from triton import jit
from .deep.arithmetic import sum_of

@jit
def twice(x):
    return sum_of(x, x)

@jit
def store(y, values, BLOCK):
    pass

@jit
def unused(x):
    return x
""",
    "lib/deep/__init__.py": "",
    "lib/deep/arithmetic.py": "import triton\n\n@triton.jit\ndef sum_of(a, b):\n    return a + b\n",
    "lib/tuning.py": """
import os
import triton

SIZES = [32, 64]
CONFIGS = [triton.Config({"BLOCK": size}) for size in SIZES]
if os.environ.get("MORE"):
    CONFIGS.append(triton.Config({"BLOCK": 128}))
""",
    "lib/host.py": """
LIMIT = 4096
GRID = {"rows": 1}
GRID["columns"] = 2

def launch(kernel, x):
    n = min(x.numel(), LIMIT)
    kernel[(GRID["rows"],)](x, n)
    return x
""",
    "lib/starred.py": "from lib.many import *\n\ndef quadruple(x):\n    return twofold(twofold(x))\n",
    "lib/many.py": "def twofold(x):\n    return 2 * x\n\ndef beside_it(x):\n    return x\n",
    "lib/tables/sizes.json": "[1]\n",
}
OWN = "import triton\n\n@triton.jit\ndef triple_kernel(x):\n    pass\n\ndef triple(x):\n    triple_kernel[(1,)](x)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a suite, and a library in its folder `library`."""
    files = {f"library/{name}": text for name, text in LIBRARY.items()}
    for name, text in {**files, "suites/three.py": SUITE, "suites/kernels/own.py": OWN}.items():
        path = tmp_path / "first" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "first"


def ops_of(project: Path) -> tuple[Op, ...]:
    return load_suite("suites/three.py", project)


def digests_of(project: Path) -> dict[str, str]:
    found = digests(ops_of(project), [project / "library"], project)
    return {op.rpartition(":")[2]: digest for op, digest in found.items()}


def tree_of(project: Path) -> SourceTree:
    return SourceTree([project / "library"], project)


def changed(project: Path, file: str, old: str, new: str) -> Path:
    """Return a copy of the project in which a text of a file is replaced."""
    copied = project.with_name("second")
    shutil.copytree(project, copied)
    text = (copied / file).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (copied / file).write_text(text.replace(old, new), encoding="utf-8")
    return copied


@pytest.mark.parametrize(
    ("file", "old", "new", "place"),
    [
        ("deep/arithmetic.py", "a + b", "b + a", "lib/deep/arithmetic.py: sum_of"),
        ("host.py", "4096", "8192", "lib/host.py: LIMIT"),
        ("host.py", "(GRID[", "(1 + GRID[", "lib/host.py: launch"),
        ("host.py", '["columns"] = 2', '["columns"] = 3', "lib/host.py: GRID"),
        ("tuning.py", "[32, 64]", "[32, 128]", "lib/tuning.py: SIZES"),
        ("tuning.py", '"MORE"', '"MANY"', "lib/tuning.py: CONFIGS"),
        ("doubling.py", 'key=["n"]', "key=[]", "lib/doubling.py: double_kernel"),
        ("doubling.py", "CONFIGS as TUNED", "SIZES as TUNED", "lib/tuning.py: CONFIGS"),
        ("tables/sizes.json", "1", "2", "lib/tables/sizes.json"),
        ("shared.py", "from triton import jit", "from numba import jit", "lib/shared.py: jit"),
    ],
)
def test_a_change_of_what_an_op_reaches_touches_it(folder: Path, file: str, old: str, new: str, place: str) -> None:
    other = changed(folder, f"library/lib/{file}", old, new)
    before, after = digests_of(folder), digests_of(other)
    assert before["double"] != after["double"]
    assert before["own"] == after["own"]
    double = next(each for each in touched(ops_of(other), tree_of(folder), tree_of(other)) if each.op.name == "double")
    assert place in map(str, double.places)
    assert (double.is_new, double.changes_own_kernels) == (False, False)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("doubling.py", "Double each element.", "Double every element."),
        ("doubling.py", "  # once", "  # still once"),
        ("doubling.py", "def other_kernel(x):\n    pass", "def other_kernel(x):\n    return"),
        ("shared.py", "    return x\n", "    return -x\n"),
        ("public.py", "1", "2"),
    ],
)
def test_what_no_op_reaches_touches_none(folder: Path, file: str, old: str, new: str) -> None:
    other = changed(folder, f"library/lib/{file}", old, new)
    assert digests_of(folder) == digests_of(other)
    assert touched(ops_of(other), tree_of(folder), tree_of(other)) == ()


def test_changed_code_is_named_although_no_op_reaches_it(folder: Path) -> None:
    other = changed(folder, "library/lib/shared.py", "    return x\n", "    return -x\n")
    found = changed_places(["lib/shared.py", "lib/host.py"], tree_of(folder), tree_of(other))
    assert found == {SourcePlace(file="lib/shared.py", name="unused")}


def test_a_star_import_reaches_the_whole_module(folder: Path) -> None:
    other = changed(folder, "library/lib/many.py", "    return x\n", "    return -x\n")
    before, after = digests_of(folder), digests_of(other)
    assert {name for name in before if before[name] != after[name]} == {"starred"}


def test_a_kernel_beside_a_suite_is_the_ops_own(folder: Path) -> None:
    other = changed(folder, "suites/kernels/own.py", "    pass", "    return")
    (own,) = touched(ops_of(other), tree_of(folder), tree_of(other))
    assert (own.op.name, own.kernels, own.changes_own_kernels) == ("own", ("triple_kernel",), True)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("return x + x", "return 2 * x", {"double"}),
        ("factor * x", "x * factor", {"own"}),
        ('INPUTS = {"x": tensor("T")}', 'INPUTS = {"x": tensor("T", optional=True)}', {"double", "own", "starred"}),
    ],
)
def test_a_change_of_a_declaration_touches_its_ops(folder: Path, old: str, new: str, names: set[str]) -> None:
    other = changed(folder, "suites/three.py", old, new)
    found = touched(ops_of(other), tree_of(folder), tree_of(other))
    assert {each.op.name for each in found} == names
    assert not any(each.changes_own_kernels for each in found)


def test_an_op_that_the_earlier_tree_lacks_is_new(folder: Path) -> None:
    other = changed(folder, "suites/three.py", "def starred", "def unstarred")
    (new,) = touched(ops_of(other), tree_of(folder), tree_of(other))
    assert (new.op.name, new.is_new) == ("unstarred", True)


def test_the_place_of_a_checkout_does_not_count(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("elsewhere"))
    assert digests_of(folder) == digests_of(folder.with_name("elsewhere"))


def test_a_file_that_is_no_python_counts_whole(folder: Path) -> None:
    other = changed(folder, "library/lib/host.py", "def launch(kernel, x):", "def launch(kernel, x:")
    assert digests_of(folder)["double"] != digests_of(other)["double"]


def test_a_table_of_lazy_names_is_followed(folder: Path) -> None:
    lazy = 'import sys\nTABLE = {"doubling": "doubles.doubling"}\nfor name in TABLE:\n    sys.modules[name] = None\n'
    for project in (folder, changed(folder, "library/lib/public.py", "1", "3")):
        package = project / "library" / "lib"
        (package / "doubles").mkdir()
        (package / "doubles" / "__init__.py").write_text("")
        (package / "doubling.py").rename(package / "doubles" / "doubling.py")
        text = (package / "doubles" / "doubling.py").read_text(encoding="utf-8")
        (package / "doubles" / "doubling.py").write_text(text.replace("from .host", "from ..host"), encoding="utf-8")
        (package / "__init__.py").write_text(lazy, encoding="utf-8")
    other = folder.with_name("second")
    assert digests_of(folder) == digests_of(other)
    host = other / "library" / "lib" / "host.py"
    host.write_text(host.read_text(encoding="utf-8").replace("4096", "1"), encoding="utf-8")
    assert digests_of(folder)["double"] != digests_of(other)["double"]
