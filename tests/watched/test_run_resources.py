"""`harness run` compiles each launched kernel for the emulated GPU, and says which does not fit."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ROOT, Finished, Project

pytestmark = pytest.mark.slow

TESTS = """
import pytest
import too_much_shared_memory
import torch


@pytest.mark.parametrize("n", [32, 128])
def test_product(n):
    x = torch.randn(n, n, dtype=torch.float16, device="cuda")
    too_much_shared_memory.product(x, x, tile=128, stages=5)


def test_small():
    x = torch.randn(16, 16, dtype=torch.float16, device="cuda")
    too_much_shared_memory.product(x, x, tile=32, stages=2)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    kernel = ROOT / "suites" / "planted" / "kernels" / "too_much_shared_memory.py"
    project = Project(tmp_path)
    project.write(kernel.name, kernel.read_text(encoding="utf-8"))
    project.write("test_product.py", TESTS)
    return project


def ran(project: Project, *options: str) -> tuple[Finished, dict[str, Any]]:
    on = ("run", *options, "--json", "report.json", "--", "pytest", "-q", "-p", "no:cacheprovider")
    done = project.process(*on)
    return done, json.loads((project.folder / "report.json").read_text(encoding="utf-8"))


def test_a_kernel_that_does_not_fit_is_a_finding(project: Project) -> None:
    done, report = ran(project, "--device", "rtx-pro-6000")
    (finding,) = report["findings"]
    assert (finding["oracle"], finding["kernel"], finding["sightings"]) == ("resources", "product_kernel", 2)
    assert finding["confirmation"] == "confirmed"
    assert "needs 131072 bytes of shared memory, where rtx-pro-6000 has 101376" in finding["message"]
    assert finding["watched"]["test"] == "test_product.py::test_product[32]"
    assert finding["watched"]["called_from"]["file"] == str(project.folder / "too_much_shared_memory.py")
    assert (done.status, report["builds"], report["compiled_builds"]) == (1, 2, 2)
    assert "3 passed" in done.out


@pytest.mark.nightly
def test_the_same_kernel_fits_a_gpu_with_more_memory(project: Project) -> None:
    done, report = ran(project, "--device", "b200")
    assert (done.status, report["findings"]) == (0, [])
    assert "resources checked for 2 of 2 compiled kernels\n" in done.out


@pytest.mark.nightly
def test_nothing_is_compiled_where_resources_are_not_asked(project: Project) -> None:
    done, report = ran(project, "--device", "rtx-pro-6000", "--oracle", "bounds")
    assert (done.status, report["builds"]) == (0, 0)
