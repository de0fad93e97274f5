"""What the seam to Inductor refuses, and what it needs of the machine."""

import subprocess
import sys
from dataclasses import replace

import pytest

from harness.engines.torch.inductor.inductor_emulation import check_release
from harness.errors import CannotExecute
from harness.model.verdict import Severity, Signature
from tests.engines.torch.inductor.compiling_children import report_of

pytestmark = pytest.mark.slow


def test_another_release_of_torch_is_refused_with_the_command() -> None:
    check_release("2.13.1+cu130")
    with pytest.raises(
        CannotExecute, match=r"^Inductor of torch 2\.9\.1 \(known: 2\.13; pip install 'torch==2\.13\.\*'\)"
    ):
        check_release("2.9.1")


def test_a_missing_compiler_is_named(tmp_path: object) -> None:
    found = report_of("program_without_compiler.py", CXX="no-such-compiler", HARNESS_CACHE=str(tmp_path))
    assert found["what"].startswith("a compiled program without a C++ compiler (no-such-compiler;")


def test_the_harness_loads_inductor_for_a_suite_that_compiles_alone() -> None:
    program = (
        "import sys; import harness, harness.suite, harness.pytest_plugin, harness.cli;"
        "from harness.suite import compiled; compiled(len); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_one_bug_of_a_generated_kernel_has_one_signature_for_all_sizes() -> None:
    kernel = "triton_poi_fused_add_0"
    first, second = (
        Signature(oracle="bounds", severity=Severity.ERROR, op=op, kernel=kernel, place=f"{kernel}.py:{line}")
        for op, line in (("suites/a.py:f", 28), ("suites/a.py:f", 30))
    )
    assert first == second
    assert str(first) == f"bounds: {kernel} {kernel}.py"
    assert replace(first, op="suites/b.py:g") != first
