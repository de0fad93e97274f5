"""The parameters that accesses reach: pointers are followed, and an unknown pointer may be any parameter."""

import pytest

from harness.engines.ttir.parser import parse
from harness.engines.ttir.reach import PointerReach

KERNEL = """
module {{
  tt.func public @kernel(%a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %c: !tt.ptr<i32>, %n: i32) attributes {{}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %yes = arith.constant true
{body}
    tt.return
  }}
  tt.func private @aside(%p: !tt.ptr<i32>) attributes {{noinline = true}} {{
    tt.return
  }}
}}
"""
ADD = "    %old = tt.atomic_rmw add, acq_rel, gpu, %{parameter}, %one, %yes : (!tt.ptr<i32>, i32, i1) -> i32"
LOOP = """
    %end = scf.for %i = %zero to %n step %one iter_args(%p = %a) -> (!tt.ptr<i32>)  : i32 {
      %x = tt.load %p : !tt.ptr<i32>
      %next = tt.addptr %p, %one : !tt.ptr<i32>, i32
      scf.yield %next : !tt.ptr<i32>
    }
    tt.store %end, %one : !tt.ptr<i32>
"""
SWAPPED = """
    %p:2 = scf.for %i = %zero to %n step %one iter_args(%x = %a, %y = %b) -> (!tt.ptr<i32>, !tt.ptr<i32>)  : i32 {
      scf.yield %y, %x : !tt.ptr<i32>, !tt.ptr<i32>
    }
    tt.store %p#0, %one : !tt.ptr<i32>
"""
CHOSEN = """
    %p = scf.if %yes -> (!tt.ptr<i32>) {
      scf.yield %a : !tt.ptr<i32>
    } else {
      scf.yield %b : !tt.ptr<i32>
    }
    tt.store %p, %one : !tt.ptr<i32>
"""
BY_ADDRESS = """
    %number = tt.ptr_to_int %a : !tt.ptr<i32> -> i64
    %p = tt.int_to_ptr %number : i64 -> !tt.ptr<i32>
    %q = arith.select %yes, %p, %b : !tt.ptr<i32>
    tt.store %q, %one : !tt.ptr<i32>
"""
WHILE = """
    %p = scf.while (%x = %a) : (!tt.ptr<i32>) -> !tt.ptr<i32> {
      scf.condition(%yes) %x : !tt.ptr<i32>
    } do {
    ^bb0(%y: !tt.ptr<i32>):
      scf.yield %y : !tt.ptr<i32>
    }
    tt.store %p, %one : !tt.ptr<i32>
"""
CALL = """
    tt.call @aside(%a) : (!tt.ptr<i32>) -> ()
"""


def reached(body: str) -> tuple[str | None, str | None, str | None]:
    """Return the names of the parameters that stores, loads and stores, and atomics reach; None for any."""
    kernel = parse(KERNEL.format(body=body)).kernel
    reach = PointerReach(kernel)
    names = {parameter.slot: parameter.name.strip("%") for parameter in kernel.parameters}
    stored, plain, atomic = (
        None if slots is None else "".join(sorted(names[slot] for slot in slots))
        for slots in (reach.stored, reach.plain, reach.atomic)
    )
    return stored, plain, atomic


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(ADD.format(parameter="c"), ("", "", "c"), id="an atomic alone"),
        pytest.param(LOOP + ADD.format(parameter="c"), ("a", "a", "c"), id="a pointer that a loop moves on"),
        pytest.param(SWAPPED, ("ab", "ab", ""), id="pointers that a loop swaps"),
        pytest.param(CHOSEN, ("ab", "ab", ""), id="one of two"),
        pytest.param(BY_ADDRESS, (None, None, ""), id="a pointer made of an integer"),
        pytest.param(WHILE, (None, None, ""), id="a loop without a bound"),
        pytest.param(CALL, (None, None, None), id="a call that gets a pointer"),
    ],
)
def test_pointers_are_followed_or_may_be_any(body: str, expected: tuple[str | None, str | None, str | None]) -> None:
    assert reached(body) == expected
