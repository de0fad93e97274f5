"""Compiles kernels for a GPU, and executes a launch of what the compiler made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from harness.engines.ptx.ptx_text import parse
from tests.engines.ptx.ptx_programs import Array, Launched, launch

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Ptx:
    """A compiled kernel."""

    text: str
    shared_bytes: int
    scratch_bytes: int = 0
    """Of global memory, for each program."""

    def without(self, instruction: str) -> "Ptx":
        """Return the kernel without the lines that contain a text; at least one does."""
        lines = self.text.splitlines(keepends=True)
        left = [line for line in lines if instruction not in line]
        assert len(left) < len(lines)
        return Ptx("".join(left), self.shared_bytes, self.scratch_bytes)

    def run(self, arguments: Sequence[Array | float], grid: int = 1) -> Launched:
        """Execute a launch of `grid` CTAs, on NumPy arrays whose content it changes."""
        cluster = parse(self.text).cluster
        scratch = [np.zeros(self.scratch_bytes * grid, np.uint8)] if self.scratch_bytes else []
        return launch(
            self.text,
            [*arguments, *scratch],
            programs=grid // cluster,
            shared_bytes=self.shared_bytes,
            cluster=cluster,
        )


def kinds(launched: Launched) -> set[str]:
    """Return the kinds of the flaws of a launch."""
    return {flaw.kind for flaw in launched.flaws}


def compiled(
    cache: Path,
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int,
    *,
    warps: int = 4,
    ctas: int = 1,
) -> Ptx:
    """Compile a kernel of Triton or Gluon; integers and pointers are multiples of 16."""
    make = GluonASTSource if kernel.is_gluon() else ASTSource
    at = {name: (kernel.arg_names.index(name),) for name in kernel.arg_names}
    types = {name: signature.get(name, "constexpr") for name in kernel.arg_names}
    source = make(
        kernel,
        types,
        {at[name]: value for name, value in constants.items()},
        {at[name]: [["tt.divisibility", ALIGNMENT]] for name, kind in signature.items() if kind != "fp32"},
    )
    with knobs.cache.scope():
        knobs.cache.dir = str(cache)
        options = {"num_warps": warps, "num_ctas": ctas}
        built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return Ptx(built.asm["ptx"], built.metadata.shared, built.metadata.global_scratch_size)
