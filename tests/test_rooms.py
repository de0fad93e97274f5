"""The rooms of the house: who may import whom, what stays light, and that the pins of both environments agree."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "harness"

ROOMS = (
    "model",
    "devices",
    "ops",
    "oracles",
    "virtual",
    "cuda",
    "workers",
    "search",
    "mutation",
    "repro_runtime",
    "findings",
    "bisection",
    "region",
    "reports",
    "corpus",
    "pytest_plugin",
    "cli",
)
"""From the ground up.  A room imports itself, rooms before it, and leaves."""

LEAVES = {
    "errors": set[str](),
    "suite": {"errors", "model"},
    "wire": {"errors", "model"},
    "libraries": {"errors"},
    "tables": {"errors"},
}
"""Modules that any room but `model` may import, each with the rooms and leaves that it may import itself."""

LIGHT = (
    "harness",
    "harness.suite",
    "harness.wire",
    "harness.libraries",
    "harness.devices",
    "harness.cuda.gpus.assignment",
    "harness.cuda.gpus.canary",
    "harness.cuda.gpus.inventory",
    "harness.cuda.gpus.health",
    "harness.cuda.gpus.leases",
    "harness.oracles",
    "harness.search",
    "harness.repro_runtime",
    "harness.bisection",
    "harness.region",
    "harness.findings",
    "harness.reports",
    "harness.corpus",
    "harness.mutation.measurement",
    "harness.workers",
    "harness.pytest_plugin",
    "harness.pytest_plugin.gpu_workers",
    "harness.cli",
)
"""What the parent process imports: none of it may load torch or Triton, which cost seconds and can start CUDA."""

pytestmark = pytest.mark.once


def test_every_room_is_in_the_order() -> None:
    rooms = {path.stem for path in HARNESS.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert rooms - {"__init__"} - set(ROOMS) - set(LEAVES) == set()


def test_imports_point_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in sorted(HARNESS.rglob("*.py"))
        for line, target in _imports_of_harness(path)
        if target not in _allowed(_room_of(path))
    ]
    assert wrong == []


def test_the_nouns_need_only_the_standard_library() -> None:
    imported = {name for path in (HARNESS / "model").glob("*.py") for _, name in _imports(path)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"harness"} == set()


@pytest.mark.parametrize("module", LIGHT)
def test_the_parent_process_loads_neither_torch_nor_triton(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"there is no {module} yet")
    program = f"import sys, {module}; sys.exit(', '.join(sorted({{'torch', 'triton'}} & set(sys.modules))) or None)"
    child = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")


def test_the_two_environments_differ_in_triton_alone() -> None:
    oldest, newest = (_pins(ROOT / "constraints" / name) for name in ("ci.txt", "ci-triton-3.9.txt"))
    assert oldest ^ newest == {"triton==3.6.0", "triton==3.9.0"}


def _pins(file: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def _room_of(path: Path) -> str:
    return path.relative_to(HARNESS).with_suffix("").parts[0]


def _allowed(room: str) -> set[str]:
    if room in LEAVES:
        return LEAVES[room] | {room, "__init__"}
    before = set(ROOMS[: ROOMS.index(room) + 1]) if room in ROOMS else set[str]()
    return before | {"__init__"} | (set[str]() if room == "model" else set(LEAVES))


def _imports_of_harness(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of the harness, those inside functions too."""
    for line, name in _imports(path):
        top, _, rest = name.partition(".")
        if top == "harness":
            yield line, rest.partition(".")[0] or "__init__"


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module="harness", names=names):
                yield from ((node.lineno, _member(alias.name)) for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield node.lineno, module
            case _:
                pass


def _member(name: str) -> str:
    """`from harness import oracles` names a room, `from harness import __version__` does not."""
    return f"harness.{name}" if (HARNESS / name).is_dir() or (HARNESS / f"{name}.py").is_file() else "harness"
