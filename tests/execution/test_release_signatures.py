"""A suite's call that does not fit the release abstains; a library that calls itself wrongly fails."""

import functools
from dataclasses import replace
from typing import Any

import pytest

from harness.execution.execution import Execution
from harness.execution.poison import FreshMemory
from harness.model.run import Ending, Raised, Unsupported
from tests.execution.ops_for_tests import LAYER_NORM, case

SUITE = "harness_suite_norm_12345678"

LIBRARY: dict[str, Any] = {"__name__": "lib.ops", "functools": functools}
exec(  # noqa: S102 - a library whose frames have its name
    """
def layer_norm(x, eps):
    return x / eps

def guarded(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

guarded_norm = guarded(layer_norm)

def broken(x):
    return layer_norm(x, epsilon=1.0)
""",
    LIBRARY,
)


def ending_of(call: str, requires: tuple[str, ...] = ("lib",)) -> Ending:
    """Return how a case ends whose suite makes this call."""
    names: dict[str, Any] = {**LIBRARY, "__name__": SUITE}
    exec(f"def norm(x):\n    return {call}\n", names)  # noqa: S102 - as above
    op = replace(LAYER_NORM, call=names["norm"], requires=requires)
    return Execution(FreshMemory).run(op, case())[0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("layer_norm(x, epsilon=1.0)", "layer_norm() got an unexpected keyword argument 'epsilon'"),
        ("guarded_norm(x, epsilon=1.0)", "layer_norm() got an unexpected keyword argument 'epsilon'"),
        ("layer_norm(x)", "layer_norm() missing 1 required positional argument: 'eps'"),
        ("layer_norm(x, 1.0, 2.0)", "layer_norm() takes 2 positional arguments but 3 were given"),
    ],
)
def test_a_call_of_the_suite_that_does_not_bind_abstains(call: str, text: str) -> None:
    ending = ending_of(call)
    assert isinstance(ending, Unsupported)
    assert ending.what == f"a call that this release does not take ({text})"


def test_a_name_that_a_module_of_the_library_lacks_abstains() -> None:
    ending = ending_of("functools.rms_norm(x)")
    assert isinstance(ending, Unsupported)
    assert ending.what == "functools.rms_norm, which is not in this release"


@pytest.mark.parametrize("call", ["broken(x)", "layer_norm(x, None)", "layer_norm(x, 'a')"])
def test_an_error_inside_the_library_is_its_own(call: str) -> None:
    assert isinstance(ending_of(call), Raised)


def test_a_suite_without_a_library_answers_for_its_calls() -> None:
    assert isinstance(ending_of("layer_norm(x)", requires=()), Raised)
