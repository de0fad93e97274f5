"""Private names of Triton stand in `harness/engines/triton` alone, so a new release is compared with one room."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import triton

from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES
from tests.engines.conftest import Gpu

HARNESS = Path(__file__).parents[3] / "harness"
SEAM = HARNESS / "engines" / "triton"
PUBLIC_MODULES = re.compile(r"triton(\.language|\.tools\.tensor_descriptor|\.experimental(\.gluon(\.language.*)?)?)?$")
PUBLIC = {*triton.__all__, "__version__"} - {"runtime", "testing", "tools"}
PRIVATE_ATTRIBUTES = {
    "_do_compile",
    "_bench",
    "_init_handles",
    "_allocation",
    "add_stages_inspection_hook",
    "kernel_load_end_hook",
    "prune_configs",
}


def private_names(file: Path) -> Iterator[str]:
    """Yield each use of Triton in a file that is no public name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if is_private_module(alias.name))
            case ast.ImportFrom(module=str(module), names=names):
                if is_private_module(module):
                    yield module
                elif module == "triton":
                    yield from (f"triton.{each.name}" for each in names if each.name not in PUBLIC)
            case ast.Attribute(value=ast.Name(id="triton"), attr=name) if name not in PUBLIC:
                yield f"triton.{name}"
            case ast.Attribute(attr=name) if name in PRIVATE_ATTRIBUTES:
                yield name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(text))]):
                if is_private_module(text):
                    yield text
            case _:
                pass


def is_private_module(name: str) -> bool:
    return name.partition(".")[0] == "triton" and not PUBLIC_MODULES.match(name)


def test_only_the_seam_has_private_names() -> None:
    files = [file for file in sorted(HARNESS.rglob("*.py")) if not file.is_relative_to(SEAM)]
    private = {str(file.relative_to(HARNESS)): names for file in files if (names := sorted(set(private_names(file))))}
    assert private == {}


def test_the_reader_sees_private_names() -> None:
    assert "triton.runtime.jit" in set(private_names(SEAM / "triton_seam.py"))


def test_nothing_in_the_seam_is_replaced_outside_the_registry() -> None:
    assigned = re.compile(
        r"^\s*(?:JITFunction|Autotuner|CompiledKernel|CUDABackend|_allocation|knobs(?:\.\w+)?|kernels|autotuner|module)"
        r"\.\w+ = ",
        re.MULTILINE,
    )
    within_a_scope = {
        "knobs.nvidia.disable_ptxas_opt",
        "knobs.cache.dir",
        "knobs.compilation.always_compile",
        "knobs.compilation.disable_line_info",
        "knobs.compilation.listener",
        "knobs.runtime.add_stages_inspection_hook",
        "knobs.nvidia.dump_ptxas_log",
        "module.context",
    }
    """Set while a context lasts; `module.context` is an attribute that MLIR's own module gets."""
    texts = {file: file.read_text(encoding="utf-8") for file in SEAM.glob("*.py")}
    names = {match.strip(" =") for text in texts.values() for match in assigned.findall(text)}
    assert names <= within_a_scope


def test_patches_say_why_and_for_which_releases(gpu: Gpu) -> None:
    del gpu  # it makes them
    assert {"run", "_bench", "_do_compile", "add_stages_inspection_hook"} <= {patch.name for patch in PATCHES}
    of_triton = [patch for patch in PATCHES if "Triton" in patch.releases]
    assert {(bool(patch.why), patch.releases) for patch in of_triton} == {(True, TESTED)}
