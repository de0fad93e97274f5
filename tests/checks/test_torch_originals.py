"""The snapshot of torch and the harness: whatever a candidate replaces is seen and put back."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import pytest
import torch

from harness.checks import candidate_calls, kept_outputs, number_traits, shared_snapshot
from harness.checks.torch_originals import Originals


@pytest.fixture(scope="module")
def originals() -> Originals:
    return Originals()


@contextmanager
def _put_back(owner: Any, name: str) -> Generator[None]:
    """Put an attribute back although the snapshot failed to."""
    kept = vars(owner)[name]
    try:
        yield
    finally:
        setattr(owner, name, kept)


def test_nothing_is_put_back_where_nothing_was_replaced(originals: Originals) -> None:
    assert (originals.is_changed, originals.restore()) == (False, ())


@pytest.mark.parametrize(
    ("owner", "name"),
    [(torch, "allclose"), (torch.nn.Linear, "forward"), (kept_outputs, "NAMES")],
)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_attribute_is_put_back(originals: Originals, owner: Any, name: str, *, is_deleted: bool) -> None:
    before = vars(owner)[name]
    with _put_back(owner, name):
        if is_deleted:
            delattr(owner, name)
        else:
            setattr(owner, name, lambda *_: True)
        assert originals.is_changed
        assert [each.rpartition(".")[2] for each in originals.restore()] == [name]
        assert vars(owner)[name] is before


def test_the_code_of_a_function_is_put_back(originals: Originals) -> None:
    function, code = number_traits.is_sorted, number_traits.is_sorted.__code__
    assert isinstance(function, FunctionType)
    try:
        function.__code__ = (lambda value: True).__code__  # noqa: ARG005 - it has the parameter of the function
        (name,) = originals.restore()
        assert name.endswith(".is_sorted")
        assert function.__code__ is code
    finally:
        function.__code__ = code


def test_what_a_closure_holds_is_put_back(originals: Originals) -> None:
    cell = _cell_of(torch.Tensor.__rsub__)
    kept = cell.cell_contents
    try:
        cell.cell_contents = None
        assert originals.is_changed
        assert originals.restore()
        assert cell.cell_contents is kept
    finally:
        cell.cell_contents = kept


def test_a_new_method_that_hides_an_inherited_one_is_removed(originals: Originals) -> None:
    assert "sum" not in vars(torch.Tensor)
    torch.Tensor.sum = lambda *_: 0  # type: ignore[method-assign]
    try:
        assert originals.restore() == ("torch.Tensor.sum",)
    finally:
        if "sum" in vars(torch.Tensor):
            del torch.Tensor.sum


def test_the_shared_snapshot_keeps_what_calls_candidates() -> None:
    kept = vars(candidate_calls)["is_forged"]
    snapshot = shared_snapshot.originals()
    with _put_back(candidate_calls, "is_forged"):
        candidate_calls.is_forged = lambda _: False
        assert snapshot.restore() == ("harness.checks.candidate_calls.is_forged",)
        assert vars(candidate_calls)["is_forged"] is kept


def _cell_of(function: Callable[..., Any]) -> Any:
    assert isinstance(function, FunctionType)
    assert function.__closure__ is not None
    return function.__closure__[0]
