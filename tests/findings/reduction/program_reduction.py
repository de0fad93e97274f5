"""Reduces a kernel whose programs take more rows than they advance by, on an emulated GPU, and prints the result.

python program_reduction.py FOLDER
"""

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from triton.compiler.errors import CompilationError

from harness.catalogue import find
from harness.engines.torch.torch_emulation import emulate_torch
from harness.engines.triton import triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import VirtualDriver
from harness.engines.virtual.engine_settings import EngineSettings
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.execution.poison import FreshMemory
from harness.findings.reduction import reduce_kernel
from harness.model.run import MemoryEvent, Overlap

FOLDER = Path(sys.argv[1])

ORIGIN = '''
import torch
import triton
import triton.language as tl


@triton.jit
def mean(b_x, D: tl.constexpr):
    """Of each row."""
    return tl.sum(b_x, axis=1) / D


@triton.jit
def centre_kernel(
    x, w, dx, T, D: tl.constexpr, BS: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, HAS_W: tl.constexpr
):
    i_s = tl.program_id(0)
    o_d = tl.arange(0, BD)
    m_d = o_d < D
    if HAS_W:
        b_w = tl.load(w + o_d, mask=m_d, other=0.0).to(tl.float32)
    # a tile is longer than what a program advances by
    for i_t in range(i_s * BS, i_s * BS + BS, BT):
        o_t = i_t + tl.arange(0, BT)
        m_x = (o_t < T)[:, None] & m_d[None, :]
        p_x = x + o_t[:, None] * D + o_d[None, :]
        p_dx = dx + o_t[:, None] * D + o_d[None, :]
        b_x = tl.load(p_x, mask=m_x, other=0.0).to(tl.float32)
        b_dx = b_x - mean(b_x, D)[:, None]
        if HAS_W:
            b_dx = b_dx * b_w[None, :]
        tl.store(p_dx, b_dx.to(p_dx.dtype.element_ty), mask=m_x)


def main():
    T, D = 2, 1
    x = torch.ones(T, D, dtype=torch.float32, device="cuda")
    dx = torch.empty(T, D, dtype=torch.float32, device="cuda")
    centre_kernel[(T,)](x, None, dx, T=T, D=D, BS=1, BT=16, BD=1, HAS_W=False, num_warps=2)
'''


class Gpu:
    """Runs a text's `main` and tells what its launches did to memory."""

    def __init__(self) -> None:
        device = find("rtx-pro-6000")
        emulate_torch(device)
        chooser, self._fresh = triton_seam.ConfigChooser(), FreshMemory()
        self._launches = Launches(
            device,
            lambda: chooser.chosen,
            self._fresh.poison_of,
            lambda ttir, options: compile_resources(ttir, device.arch, options),
            EngineSettings(executor=ExecutorMode.NUMPY),
        )
        triton_seam.set_driver(VirtualDriver(device, self._launches))
        triton_seam.compile_to_ttir_only()

    def run(self, text: str) -> list[MemoryEvent]:
        name = f"kernel_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        path = FOLDER / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        self._launches.case_launches = VirtualCaseLaunches()
        with self._fresh:
            spec.loader.exec_module(module)
            module.main()
        return self._launches.case_launches.memory


class IsInteresting:
    """Whether a text's programs store the same cell as those of the first text, and nothing else is wrong."""

    def __init__(self, gpu: Gpu, origin: str) -> None:
        self._gpu = gpu
        self._expected = self._seen(origin)

    def __call__(self, text: str) -> bool:
        try:
            return self._seen(text) == self._expected
        except (CompilationError, AttributeError, TypeError, NameError, ValueError, RuntimeError, IndexError):
            return False

    def _seen(self, text: str) -> list[object]:
        return [
            (event.site.argument, event.same_bytes, event.first_cells, event.programs)
            if isinstance(event, Overlap)
            else type(event).__name__
            for event in self._gpu.run(text)
        ]


if __name__ == "__main__":
    sys.stdout.write(reduce_kernel(ORIGIN, IsInteresting(Gpu(), ORIGIN), seconds=100))
