"""What the seam to Inductor refuses, and what it needs of the machine."""

import subprocess
import sys

import pytest

from harness.errors import CannotExecute
from tests.inductor.children import report_of

pytestmark = pytest.mark.slow


def test_another_release_of_torch_is_refused_with_the_command() -> None:
    from harness.inductor.inductor_seam import check_release

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
