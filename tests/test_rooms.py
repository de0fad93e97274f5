"""The rooms of the house: who may import whom, which names stand twice, and what stays light."""

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ci.house import module_imports, names_that_stand_twice, strongly_connected
from tests.cli.command_line import cpu_seconds_of_children

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "harness"

ROOMS = (
    "model",
    "documents",
    "changes",
    "engines.torch",
    "execution",
    "oracles",
    "engines.ttir",
    "engines.triton",
    "engines.virtual",
    "engines.comparison",
    "engines.ptx",
    "engines.jax",
    "engines.cuda",
    "workers",
    "engines.contract",
    "compiling",
    "search",
    "drafts",
    "repro_runtime",
    "findings",
    "findings.bisection",
    "findings.region",
    "gate",
    "fleet",
    "night",
    "watched",
    "matrix",
    "upgrade",
    "reports",
    "checks",
    "pytest_plugin",
    "cli",
)
"""From the ground up.  A room imports itself, rooms before it, and leaves."""

SUB_ROOMS = {
    "engines.virtual": ("numbers", "memory", "synchronisation", "operations", "native"),
    "engines.ptx": ("native",),
    "engines.cuda": ("memory", "gpus", "sanitizers"),
    "engines.torch": ("inductor",),
    "workers": ("supervision", "zygote", "fork_servers", "sanitized"),
    "findings": ("reduction", "repro"),
    "reports": ("html",),
}
"""The folders inside a room, from the ground up.  None imports a later one, directly or through files of the room."""

LEAVES = {
    "errors": set[str](),
    "garbage": set[str](),
    "settings": {"errors"},
    "suite": {"engines.jax", "engines.torch", "errors", "model", "suite_files"},
    "catalogue": {"errors", "model"},
    "suite_files": {"errors", "model"},
    "syntax_trees": set[str](),
    "wire": {"errors", "model"},
    "extras": {"errors"},
    "libraries": {"errors", "extras"},
    "tables": {"errors"},
    "kernel_tests": {"errors", "model", "oracles", "suite"},
    "project_settings": {"errors"},
    "wording": set[str](),
    "patches": set[str](),
}
"""Modules that any room may import, each with the rooms and leaves that it may import itself.

`model` imports `syntax_trees` alone.
"""

LIGHT = (
    "harness",
    "harness.suite",
    "harness.wire",
    "harness.libraries",
    "harness.catalogue",
    "harness.changes.op_digests",
    "harness.engines.cuda.gpus.assignment",
    "harness.engines.cuda.gpus.canary",
    "harness.engines.cuda.gpus.inventory",
    "harness.engines.cuda.gpus.health",
    "harness.engines.cuda.gpus.leases",
    "harness.oracles",
    "harness.search",
    "harness.checks.answer",
    "harness.checks.checker",
    "harness.documents",
    "harness.drafts.repository",
    "harness.repro_runtime",
    "harness.findings.bisection",
    "harness.findings.region",
    "harness.compiling.background_compiler",
    "harness.compiling.compilers",
    "harness.matrix.measuring",
    "harness.upgrade.upgrading",
    "harness.findings",
    "harness.night",
    "harness.night.bug_history",
    "harness.night.night_settings",
    "harness.reports",
    "harness.workers",
    "harness.pytest_plugin",
    "harness.pytest_plugin.items",
    "harness.cli",
    *(f"harness.cli.{path.stem}" for path in sorted((HARNESS / "cli").glob("[a-z]*.py"))),
)
"""Modules of the parent process.  None may load torch or Triton, which cost seconds and can start CUDA."""

IMPORT_EACH = """
import importlib, sys

for module in sys.argv[1:]:
    importlib.import_module(module)
    if loaded := {"torch", "triton", "jax"} & set(sys.modules):
        sys.exit(f"{module} loads {', '.join(sorted(loaded))}")
"""

VERSION_LIMIT_S = 0.25
"""CPU time of `harness --version`."""


def test_every_room_is_in_the_order() -> None:
    rooms = {_room_of(path) for path in HARNESS.rglob("*.py")}
    assert rooms - {"__init__", "engines"} == {*ROOMS, *LEAVES}


def test_imports_between_rooms_point_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in sorted({*HARNESS.rglob("*.py")} - {HARNESS / "__init__.py"})  # it names what the rooms offer
        for line, target in _imports_of_harness(path)
        if target not in _allowed(_room_of(path))
    ]
    assert wrong == []


def test_every_sub_room_is_in_the_order() -> None:
    folders = {".".join(file.relative_to(HARNESS).parent.parts) for file in HARNESS.glob("*/**/__init__.py")}
    listed = {f"{room}.{sub_room}" for room, sub_rooms in SUB_ROOMS.items() for sub_room in sub_rooms}
    assert folders == {*ROOMS, *listed, "engines"}


def test_imports_between_sub_rooms_point_one_way() -> None:
    imported = _imports_of_units()
    wrong = [
        f"{room}/{lower} reaches {room}/{upper}"
        for room, sub_rooms in SUB_ROOMS.items()
        for number, lower in enumerate(sub_rooms)
        for upper in sub_rooms[number + 1 :]
        if f"harness.{room}.{upper}" in _reachable(imported, f"harness.{room}.{lower}")
    ]
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    assert _cycles(module_imports()) == []


def test_no_sub_room_imports_a_file_that_imports_it() -> None:
    assert _cycles(_imports_of_units()) == []


def test_no_name_of_a_file_or_public_class_stands_twice() -> None:
    assert names_that_stand_twice() == {}


def test_the_nouns_need_only_the_standard_library() -> None:
    imported = {name for path in (HARNESS / "model").glob("*.py") for _, name in _imports(path)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"harness"} == set()


def test_the_parent_process_loads_neither_torch_nor_triton_nor_jax() -> None:
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *LIGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stderr) == (0, "")


def test_printing_the_version_is_quick() -> None:
    assert min(_cpu_seconds("harness.cli", "--version") for _ in range(3)) < VERSION_LIMIT_S


def test_the_help_of_harness_loads_no_command() -> None:
    program = "import sys; from harness.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print(*sorted(name for name in sys.modules if name.startswith('harness')))"
    child = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    *text, modules = child.stdout.splitlines()
    light = {
        "harness",
        "harness.cli",
        "harness.cli.command",
        "harness.errors",
        "harness.extras",
        "harness.garbage",
        "harness.settings",
    } | {"harness.wording"}
    assert set(modules.split()) == light
    commands = {
        path.stem.replace("_", "-")
        for path in (HARNESS / "cli").glob("*.py")
        if re.search(r"^def run\(\w+: argparse\.Namespace\)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert commands == {line.split()[0] for line in text if line.startswith("    ") and line[4] != " "}


def test_the_two_environments_differ_in_triton_alone() -> None:
    oldest, newest = (_pins(ROOT / "constraints" / name) for name in ("ci.txt", "ci-triton-3.9.txt"))
    assert oldest ^ newest == {"triton==3.6.0", "triton==3.9.0"}


def _cpu_seconds(*program: str) -> float:
    begun = cpu_seconds_of_children()
    subprocess.run([sys.executable, "-m", *program], cwd=ROOT, env=os.environ, capture_output=True, check=True)
    return cpu_seconds_of_children() - begun


def _pins(file: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    return [sorted(component) for component in strongly_connected(graph) if len(component) > 1]


def _imports_of_units() -> dict[str, set[str]]:
    """Return the imports between units.  A unit is a sub-room, or a file that is in none."""
    units: dict[str, set[str]] = defaultdict(set)
    for module, imported in module_imports().items():
        units[_unit_of(module)] |= {_unit_of(other) for other in imported} - {_unit_of(module)}
    return units


def _unit_of(module: str) -> str:
    room = _room(module)
    inside = module.removeprefix(f"harness.{room}").strip(".").partition(".")[0]
    return f"harness.{room}.{inside}" if inside in SUB_ROOMS.get(room, ()) else module


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    reached, ahead = set[str](), [start]
    while ahead:
        for node in graph.get(ahead.pop(), set()) - reached:
            reached.add(node)
            ahead.append(node)
    return reached


def _room_of(path: Path) -> str:
    return _room(".".join(("harness", *path.relative_to(HARNESS).with_suffix("").parts)))


def _room(module: str) -> str:
    """Return the room or leaf of a module: the longest prefix of its name that is a room, else its first part."""
    _, *parts = module.removesuffix(".__init__").split(".")
    prefixes = (".".join(parts[:length]) for length in (2, 1))
    return next((prefix for prefix in prefixes if prefix in ROOMS), parts[0] if parts else "__init__")


def _allowed(room: str) -> set[str]:
    if room in LEAVES:
        return LEAVES[room] | {room, "__init__"}
    before = set(ROOMS[: ROOMS.index(room) + 1]) if room in ROOMS else set[str]()
    return before | {"__init__"} | ({"syntax_trees"} if room == "model" else set(LEAVES))


def _imports_of_harness(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and room of every import of the harness, those inside functions too."""
    for line, name in _imports(path):
        if name.partition(".")[0] == "harness":
            yield line, _room(name)


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
