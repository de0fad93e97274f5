"""The facts of a kernel that follow from its TTIR and options.  Every engine reports them, read once for each build."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.triton_seam import ChosenConfig, version
from harness.engines.ttir.block_lines import BlockLines
from harness.engines.ttir.ir import Module, module_fact
from harness.engines.ttir.kept_modules import KeptModules
from harness.engines.ttir.own_names import without_locations
from harness.engines.ttir.parser import parse_signature
from harness.engines.ttir.waiting_kernels import uses_atomics
from harness.errors import CannotExecute
from harness.model.device import Arch
from harness.model.run import Launch

AMD_OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "allow_flush_denorm")
BUILD_OPTIONS = (
    *("num_warps", "num_ctas", "num_stages", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid"),
    *AMD_OPTIONS,
)
_INTEGERS = re.compile(r"%\S+ = arith\.constant (?:dense<)?-?\d+>?(?= : )|%c-?\d+\w*")


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The facts of one build of a kernel."""

    module: Module
    lines: BlockLines
    text: str
    """The digest of the text without source locations: builds that differ in options alone share it."""
    build: str
    """The digest of the build."""
    options: Mapping[str, Any]
    tile_sizes: tuple[int, ...]
    dot_precisions: tuple[str, ...]
    atomics: bool


def options_of(metadata: Any) -> dict[str, Any]:
    """Return the part of a compiled kernel's metadata that decides how its TTIR is compiled further."""
    return {name: getattr(metadata, name) for name in BUILD_OPTIONS if hasattr(metadata, name)}


def read_kernel_facts(ttir: str, arch: Arch, options: Mapping[str, Any], modules: KeptModules) -> KernelFacts:
    """Return the facts of the build with this TTIR, architecture and options.

    Raises:
        CannotExecute: there is no text, or it cannot be parsed.
    """
    if not ttir:
        raise CannotExecute("a kernel without TTIR, such as one in Gluon")
    return _facts(*modules.read(ttir), ttir, arch, options)


def read_signature(ttir: str, arch: Arch, options: Mapping[str, Any]) -> KernelFacts:
    """Return the facts of a build that follow from its signature: those for an engine that does not execute TTIR.

    Raises:
        CannotExecute: the signature cannot be read.
    """
    module = parse_signature(ttir)
    return _facts(module, BlockLines(module), ttir, arch, options)


def _facts(module: Module, lines: BlockLines, ttir: str, arch: Arch, options: Mapping[str, Any]) -> KernelFacts:
    return KernelFacts(
        module,
        lines,
        _hashed(ttir).hexdigest(),
        build_digest(ttir, arch, options),
        options,
        _tile_sizes(module),
        _dot_precisions(module),
        atomics=uses_atomics(module),
    )


def unread_launch(request: LaunchRequest, arch: Arch, chosen: ChosenConfig, scratch_bytes: int) -> Launch:
    """Return the record of one launch of a kernel whose TTIR is missing or cannot be parsed."""
    metadata = request.metadata
    return Launch(
        kernel=request.source.fn.__name__,
        source=None,
        grid=request.grid,
        config=chosen.text or f"num_warps: {metadata.num_warps}",
        config_index=chosen.index,
        config_count=chosen.count,
        refused=chosen.refused,
        num_warps=metadata.num_warps,
        num_ctas=getattr(metadata, "num_ctas", 1),
        constants={},
        tile_sizes=(),
        build=build_digest(request.ttir, arch, options_of(metadata)),
        scratch_bytes=scratch_bytes,
    )


def launch_of(
    facts: KernelFacts,
    request: LaunchRequest,
    chosen: ChosenConfig,
    scratch_bytes: int,
    config_builds: tuple[str, ...] = (),
) -> Launch:
    """Return the record of one launch."""
    metadata = request.metadata
    return Launch(
        kernel=request.source.fn.__name__,
        source=facts.module.source(facts.module.kernel.location),
        grid=request.grid,
        config=chosen.text or f"num_warps: {metadata.num_warps}, num_stages: {metadata.num_stages}",
        config_index=chosen.index,
        config_count=chosen.count,
        config_builds=config_builds,
        refused=chosen.refused,
        num_warps=metadata.num_warps,
        num_ctas=getattr(metadata, "num_ctas", 1),
        constants=_constants(request.source),
        tile_sizes=facts.tile_sizes,
        build=facts.build,
        scratch_bytes=scratch_bytes,
        atomics=facts.atomics,
        dot_precisions=facts.dot_precisions,
        model=request.model,
        is_benchmark=request.is_benchmark,
    )


def build_digest(ttir: str, arch: Arch, options: Mapping[str, Any]) -> str:
    """Return a digest of the compiler's input: TTIR without source locations, options, architecture, Triton version."""
    digest = _hashed(ttir).copy()
    digest.update("\n".join(("", str(arch), json.dumps(options, sort_keys=True), version)).encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1024)
def _hashed(ttir: str) -> Any:
    """Return the hash of a text without source locations, to be copied: a text has builds for many options."""
    return hashlib.sha256(without_locations(ttir).encode())


def shape_digest(ttir: str) -> str:
    """Return a digest that is equal for kernels that differ only in the values of integer constants."""
    return hashlib.sha256(_INTEGERS.sub("arith.constant", without_locations(ttir)).encode()).hexdigest()[:16]


def _constants(source: Any) -> dict[str, int | float | bool | str | None]:
    names = source.fn.arg_names
    constants: dict[str, int | float | bool | str | None] = {}
    for path, value in source.constants.items():
        plain = value if isinstance(value, int | float | str) or value is None else str(value)
        constants[names[path[0]] if isinstance(path, tuple) else str(path)] = plain
    return constants


@module_fact
def _tile_sizes(module: Module) -> tuple[int, ...]:
    sizes: set[int] = set()
    for operation in module.kernel.body.all_operations():
        if operation.name in {"tt.load", "tt.store"}:
            sizes.update(extent for extent in operation.operand_types[0].shape if extent > 1)
    return tuple(sorted(sizes))


@module_fact
def _dot_precisions(module: Module) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                str(operation.attributes.get("inputPrecision", "ieee"))
                for function in module.functions.values()
                for operation in function.body.all_operations()
                if operation.name == "tt.dot" and operation.operand_types[0].element == "f32"
            }
        )
    )
