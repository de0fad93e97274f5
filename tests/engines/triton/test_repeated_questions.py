"""Triton's front end gets the answers that Python gives, from less work."""

import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import triton.language as tl

from harness.engines.triton.repeated_questions import OutermostFilters, RememberedSignatures


class Bound:
    def method(self, x: int, *, _semantic: object = None) -> int:
        return x


@pytest.mark.parametrize(
    "function",
    [tl.load, Bound().method, Bound.method, partial(tl.load, mask=None), Bound, len],
    ids=["function", "bound method", "method", "partial", "class", "built-in"],
)
def test_signatures_are_those_of_python(function: Callable[..., object]) -> None:
    remembered = RememberedSignatures()
    for _ in range(2):
        assert remembered.signature(function) == inspect.signature(function)


def test_a_signature_is_read_once_for_all_objects() -> None:
    remembered = RememberedSignatures()
    first = remembered.signature(Bound().method)
    assert remembered.signature(Bound().method) is first
    assert remembered.signature(Bound.method) is not first
    assert remembered.Parameter is inspect.Parameter


def test_nested_blocks_keep_the_filters_of_the_outermost() -> None:
    shared = OutermostFilters()
    before = list(warnings.filters)
    with shared.catch_warnings():
        shared.simplefilter("ignore", DeprecationWarning)
        outer = list(warnings.filters)
        with shared.catch_warnings():
            shared.simplefilter("ignore", DeprecationWarning)
            assert warnings.filters == outer != before
            warnings.warn("old", DeprecationWarning, stacklevel=1)
        assert warnings.filters == outer
    assert warnings.filters == before


def test_filters_come_back_after_an_exception() -> None:
    shared = OutermostFilters()
    before = list(warnings.filters)
    with suppress(KeyError), shared.catch_warnings(), shared.catch_warnings():
        shared.simplefilter("ignore")
        raise KeyError
    assert warnings.filters == before
