"""Compiles kernels for a GPU, or takes PTX as text, and executes one launch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton
from numpy.typing import NDArray
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from harness.engines.ptx.launch import PtxLaunch, pack_parameters
from harness.engines.ptx.memories import Flaw, Flaws, GlobalMemory, GlobalWatch
from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.threads import LaunchShape
from harness.engines.ptx.wave_runner import PreparedKernel, StuckThreads

Array = NDArray[Any]
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

    def run(self, arguments: Sequence[Array | float], grid: int = 1) -> "PtxRun":
        """Execute a launch of `grid` CTAs, on NumPy arrays whose content it changes."""
        kernel, memory, flaws = parse(self.text), GlobalMemory(), Flaws()
        buffers = [*arguments]
        if self.scratch_bytes:
            buffers.append(np.zeros(self.scratch_bytes * grid, np.uint8))
        values = [
            memory.add(f"argument {number}", buffer.reshape(-1).view(np.uint8)).address
            if isinstance(buffer, np.ndarray)
            else buffer
            for number, buffer in enumerate(buffers)
        ]
        launch = PtxLaunch(
            prepared=PreparedKernel(kernel),
            shape=LaunchShape(grid=(grid, 1, 1), threads=kernel.threads, cluster=kernel.cluster),
            memory=memory,
            parameters=pack_parameters(kernel, values),
            shared_bytes=self.shared_bytes,
            watch=GlobalWatch(),
            flaws=flaws,
        )
        return PtxRun(launch.run(), tuple(flaws.seen.values()))


@dataclass(frozen=True, slots=True)
class PtxRun:
    """What a launch showed, apart from what it stored."""

    stuck: StuckThreads | None
    flaws: tuple[Flaw, ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of its flaws."""
        return {flaw.kind for flaw in self.flaws}


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
