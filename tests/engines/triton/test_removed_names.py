"""Names that a release of Triton lacks, as its front end reports them."""

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.engines.triton.removed_names import removed_name
from tests.engines.triton import removed_names_kernels as kernels

HAS_BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)


def error_of(kernel: Any) -> Exception | None:
    source = ASTSource(kernel, {"x": "*fp32"}, {}, {})
    try:
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    except Exception as error:  # noqa: BLE001 - its kind is the subject
        return error
    return None


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (kernels.missing_function, "triton.language.no_such_function"),
        (kernels.missing_method, "triton.language.core.tensor.no_such_method"),
        (kernels.wrong_keyword, ""),
    ],
)
def test_a_missing_name_is_reported_with_its_owner(kernel: Any, name: str) -> None:
    error = error_of(kernel)
    assert error is not None
    assert removed_name(error) == name


def test_block_pointers_are_removed_since_triton_3_9() -> None:
    error = error_of(kernels.block_pointer)
    removed = removed_name(error) if error else None
    assert removed == (None if HAS_BLOCK_POINTERS else "triton.language.make_block_ptr")


def test_a_name_that_another_library_lacks_is_not_tritons() -> None:
    with pytest.raises(AttributeError) as raised:
        pytest.no_such_name  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]
    assert removed_name(raised.value) == ""
