"""Prints how much scratch memory Inductor's C++ wrapper gives a kernel that makes tensor descriptors, on a GPU.

    python -m ci.report_inductor_scratch

Triton's own launcher tells how much the launch needs: it asks an allocator for it.  The wrapper's C++ code tells what
it allocates.  Exit status: 0 if that is enough, 1 if it is too little, 2 if the code declares no scratch memory in a
known form.  `docs/results/inductor.md` keeps what it prints.  `ci/check_inductor_scratch.py` needs no GPU.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

from ci.kernels_scratch import BLOCK, double_kernel
from ci.wrapper_scratch import UnknownForm, allocated_bytes

ROWS = 4096


def double(x: torch.Tensor, launch: Callable[[Any], Any] = lambda kernel: kernel) -> torch.Tensor:
    """Return twice x; the kernel is launched as `launch` returns it."""
    y = torch.empty_like(x)
    rows, columns = x.shape
    launch(double_kernel)[(triton.cdiv(rows, BLOCK),)](x, y, rows, columns, BLOCK=BLOCK)
    return y


def needed_bytes(x: torch.Tensor) -> int:
    """Return how many bytes Triton's launcher asks for."""
    asked = list[int]()

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        asked.append(size)
        return torch.empty(size, dtype=torch.int8, device=x.device)

    triton.set_allocator(allocate)
    double(x)
    return sum(asked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of 16 columns (default: {ROWS})")
    x = torch.randn(parser.parse_args().rows, BLOCK, device="cuda")
    needed = needed_bytes(x)
    print(f"torch {torch.__version__}, Triton {triton.__version__}, {torch.cuda.get_device_name()}")
    print(f"grid: {triton.cdiv(len(x), BLOCK)} programs; the launch needs {needed} bytes of scratch memory", flush=True)
    with tempfile.TemporaryDirectory(prefix="inductor-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        return judged(x, needed, Path(folder))


def judged(x: torch.Tensor, needed: int, cache: Path) -> int:
    """Run the compiled function, print what its wrapper allocates, and return the exit status."""
    registered = torch.library.triton_op("kernel_harness::double", mutates_args={})(in_graph)
    compiled = torch.compile(lambda value: registered(value + 1) * 3, options={"cpp_wrapper": True})
    try:
        result = compiled(x)
        torch.cuda.synchronize()
        outcome = "right" if torch.allclose(result, (x + 1) * 6) else "wrong"
    except RuntimeError as error:
        outcome = str(error).splitlines()[0]
    print(f"result: {outcome}")
    programs = -(-len(x) // BLOCK)
    try:
        allocated = allocated_bytes(
            "".join(file.read_text(encoding="utf-8") for file in cache.rglob("*.cpp")),
            "double_kernel",
            grid=(programs, 1, 1),
            scratch_bytes=needed // programs,
        )
    except UnknownForm as error:
        print(f"the C++ wrapper is not in a known form: {error}")
        return 2
    print(f"the C++ wrapper allocates: {allocated} bytes")
    return int(allocated < needed)


def in_graph(x: torch.Tensor) -> torch.Tensor:
    return double(x, torch.library.wrap_triton)


if __name__ == "__main__":
    sys.exit(main())
