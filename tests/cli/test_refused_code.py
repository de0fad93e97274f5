"""What the virtual GPU does not execute abstains by name, with real kernels and real imports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

HEAD = """
from harness.suite import beside, op, tensor, tokens, width

DECLARED = {"dims": {"T": tokens(64, grows=False), "D": width(16)}, "inputs": {"x": tensor("T", "D")}}
"""
OP = """

@op(**DECLARED)
def {name}(x):
    import torch

{body}

{name}.reference(lambda x: x * 1)
"""
GLUON = """
kernel = beside(__file__, "refused_kernels.py").{kernel}
y = torch.empty_like(x)
kernel[(1,)](x, y, x.numel(), BLOCK=1024)
return y
"""
LIBRARY = """
\"\"\"A library whose compiled part is missing.\"\"\"

def needs_its_compiled_part():
    from compiled_library import _C

def needs_its_own_module():
    import compiled_library.not_there

def needs_another_library():
    try:
        import no_such_library
    except ImportError:
        raise RuntimeError("install no_such_library first")
"""
REFUSED = {
    "gluon": (GLUON.format(kernel="copy_in_gluon"), "ttng.init_barrier (copy_in_gluon, refused_kernels.py:"),
    "tuned_gluon": (
        GLUON.format(kernel="tuned_copy_in_gluon"),
        "ttng.init_barrier (copy_in_gluon, refused_kernels.py:",
    ),
    "inline_extension": (
        """
from torch.utils.cpp_extension import load_inline

return load_inline("same", "torch::Tensor same(torch::Tensor x) { return x; }", functions=["same"]).same(x)
""",
        "a C++ extension (torch.utils.cpp_extension.load_inline)",
    ),
    "extension": (
        """
import torch.utils.cpp_extension

return torch.utils.cpp_extension.load(name="same", sources=["same.cu"]).same(x)
""",
        "a C++ extension (torch.utils.cpp_extension.load)",
    ),
    "shared_library": (
        """
import ctypes

ctypes.CDLL("libcudart.so.12").cudaDeviceSynchronize()
""",
        "native code in libcudart.so.12, which is not there",
    ),
    "operator": (
        "return torch.ops.compiled_library.same(x)",
        "torch.ops.compiled_library.same: no extension that defines it is loaded",
    ),
    "operator_library": (
        'torch.ops.load_library("/nowhere/libsame.so")',
        "native code in /nowhere/libsame.so, which is not there",
    ),
    "compiled_module": (
        "import compiled_library as library\n\nlibrary.needs_its_compiled_part()",
        "compiled code in compiled_library._C, which is not built",
    ),
    "missing_library": (
        "import compiled_library as library\n\nlibrary.needs_another_library()",
        "no_such_library, which is not installed",
    ),
    "generator": ('torch.Generator("cuda")', "native code of torch for CUDA (Cannot get CUDA generator"),
    "memory_pool": ("torch.cuda.MemPool()", "torch.cuda.MemPool, which needs torch with CUDA"),
    "memory_snapshot": (
        "torch.cuda.memory_snapshot()",
        "torch._C._cuda_memorySnapshot, which needs torch with CUDA",
    ),
    "driver_question": (
        """
import triton

assert not hasattr(triton.runtime.driver.active.utils, "cuOccupancyMaxActiveClusters")
triton.runtime.driver.active.utils.cuOccupancyMaxActiveClusters()
""",
        "a question to the CUDA driver (driver.active.utils.cuOccupancyMaxActiveClusters)",
    ),
}
BROKEN = {
    "own_module": (
        "import compiled_library as library\n\nlibrary.needs_its_own_module()",
        "No module named 'compiled_library.not_there'",
    ),
    "wrong_operator": ("return torch.ops.aten.no_such_operator(x)", "no attribute 'no_such_operator'"),
}
"""Mistakes of a library, which must stay failures."""


def suite_of(bodies: dict[str, tuple[str, str]]) -> str:
    return HEAD + "".join(
        OP.format(name=name, body="\n".join(f"    {line}" for line in body.strip().splitlines()))
        for name, (body, _) in bodies.items()
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the report of one search of all ops."""
    project = Project(tmp_path_factory.mktemp("refused"))
    project.write("suites/refused.py", suite_of(REFUSED | BROKEN))
    project.write(
        "suites/refused_kernels.py", Path(__file__).with_name("refused_kernels.py").read_text(encoding="utf-8")
    )
    project.write("library/compiled_library/__init__.py", LIBRARY)
    cases = str(2 * len(REFUSED | BROKEN))
    options = ("--cases", cases, "--device", "h200", "--seed", "1", "--with", "library", "--json", "r.json")
    done = project.harness("fuzz", "suites/refused.py", *options)
    return done.status, json.loads((project.folder / "r.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_virtual_gpu_cannot_follow_abstains_by_name(name: str, searched: tuple[int, dict[str, Any]]) -> None:
    _, report = searched
    (row,) = (row for row in report["op_checks"] if row["op"].endswith(f":{name}"))
    assert (row["passed"], row["failed"], row["abstained"] > 0) == (0, 0, True)
    reasons = row["abstain_reasons"]  # of a kernel one for each build, with the file of its TTIR
    assert reasons
    assert all(reason.startswith(f"the engine cannot execute {REFUSED[name][1]}") for reason in reasons)


def test_mistakes_of_the_library_are_still_found(searched: tuple[int, dict[str, Any]]) -> None:
    status, report = searched
    assert status == 1
    found = {finding["op"].rpartition(":")[2]: finding["message"] for finding in report["findings"]}
    assert {name: BROKEN[name][1] in message for name, message in found.items()} == dict.fromkeys(BROKEN, True)
