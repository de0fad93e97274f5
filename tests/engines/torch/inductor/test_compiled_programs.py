"""Programs of `torch.compile` run with Inductor's kernels on the virtual GPU (written for torch 2.13.0)."""

from functools import cache
from typing import Any

import pytest

from tests.engines.torch.inductor.compiling_children import report_of

pytestmark = pytest.mark.slow


@cache
def facts() -> Any:
    return report_of("program_compiled.py", "b200")


@pytest.mark.parametrize("name", ["rows", "again", "dynamic", "product", "tuned", "another", "constant", "on_cuda"])
def test_a_program_agrees_with_its_definition(name: str) -> None:
    found = facts()[name]
    assert (found["ending"], found["failures"]) == ("Completed", []), found["why"]
    assert "d:x" in found["results"]


def test_forward_and_backward_are_launches_of_generated_kernels() -> None:
    assert [name[:17] for name in facts()["rows"]["kernels"]] == ["triton_per_fused_"] * 2


def test_what_torch_computes_of_a_program_is_counted() -> None:
    assert facts()["product"]["eager"] == {"aten.mm": 3}
    assert facts()["rows"]["eager"] == {}


def test_a_graph_break_is_counted() -> None:
    assert [name[:13] for name in facts()["broken"]["eager"]] == ["a graph break"]


def test_templates_of_products_are_an_axis_of_configs() -> None:
    (first, count), another = facts()["tuned"]["configs"][0], facts()["another"]["configs"][0]
    assert (first, another, count > 1) == (0, [1, count], True)


def test_a_wrong_index_is_found_at_its_line_of_the_generated_kernel() -> None:
    found = facts()["lookup"]
    assert found["file"] == f"{found['kernels'][1]}.py"
    assert any(one.startswith(f"device-assert: {found['kernels'][1]} {found['file']}") for one in found["failures"])


def test_the_file_of_a_kernel_names_the_line_of_the_user() -> None:
    assert facts()["lookup"]["begins"].startswith("# from program_compiled.py:")
