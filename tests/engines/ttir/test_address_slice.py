"""What is left of a kernel that only touches memory."""

from harness.engines.ttir.address_slice import address_slice
from harness.engines.ttir.ir import TtirRegion
from harness.engines.ttir.parser import parse

KERNEL = """
module {{
  tt.func public @kernel(%a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %c: !tt.ptr<f32>, %n: i32) attributes {{}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant 0.000000e+00 : f32
    %yes = arith.constant true
{body}
    tt.return
  }}
}}
"""
LOOP = """
    %end:2 = scf.for %i = %zero to %n step %one iter_args(%sum = %none, %p = %c) -> (f32, !tt.ptr<f32>)  : i32 {
      %x = tt.load %p : !tt.ptr<f32>
      %more = arith.addf %sum, %x : f32
      %next = tt.addptr %p, %one : !tt.ptr<f32>, i32
      scf.yield %more, %next : f32, !tt.ptr<f32>
    }
    %root = math.exp %end#0 : f32
    tt.store %c, %root : !tt.ptr<f32>
"""
INDIRECT = """
    %at = tt.load %a : !tt.ptr<i32>
    %q = tt.addptr %b, %at : !tt.ptr<i32>, i32
    %value = tt.load %q : !tt.ptr<i32>
    %twice = arith.addi %value, %value : i32
    tt.store %q, %twice : !tt.ptr<i32>
"""
CONDITIONAL = """
    %flag = tt.load %a : !tt.ptr<i32>
    %set = arith.cmpi sgt, %flag, %zero : i32
    %r = scf.if %set -> (i32) {
      %x = tt.load %b : !tt.ptr<i32>
      scf.yield %x : i32
    } else {
      scf.yield %one : i32
    }
    tt.store %b, %r : !tt.ptr<i32>
"""
ATOMIC = "    %old = tt.atomic_rmw add, acq_rel, gpu, %a, %one, %yes : (!tt.ptr<i32>, i32, i1) -> i32"


def names(region: TtirRegion) -> list[str]:
    constants = {"arith.constant", "tt.return"}
    return [operation.name for operation in region.all_operations() if operation.name not in constants]


def sliced(body: str) -> list[str]:
    part = address_slice(parse(KERNEL.format(body=body)))
    assert part is not None
    return names(part.module.kernel.body)


def test_a_loop_carries_only_what_addresses_follow_from() -> None:
    assert sliced(LOOP) == ["scf.for", "slice.load", "tt.addptr", "scf.yield", "slice.store"]
    part = address_slice(parse(KERNEL.format(body=LOOP)))
    assert part is not None
    (loop,) = (one for one in part.module.kernel.body.all_operations() if one.name == "scf.for")
    assert (len(loop.operands), len(loop.results), len(loop.regions[0].entry.arguments)) == (4, 1, 2)
    assert part.loads == ()


def test_a_load_that_decides_an_address_stays() -> None:
    assert sliced(INDIRECT) == ["tt.load", "tt.addptr", "slice.load", "slice.store"]
    part = address_slice(parse(KERNEL.format(body=INDIRECT)))
    assert part is not None
    assert len(part.loads) == 1


def test_a_condition_stays_without_the_values_that_it_chooses() -> None:
    part = ["tt.load", "arith.cmpi", "scf.if", "slice.load", "scf.yield", "scf.yield", "slice.store"]
    assert sliced(CONDITIONAL) == part


def test_a_loop_that_touches_nothing_is_left_out() -> None:
    assert "scf.for" not in sliced(LOOP.replace("%x = tt.load %p : !tt.ptr<f32>", "%x = arith.addf %sum, %sum : f32"))


def test_a_kernel_with_atomics_has_no_slice() -> None:
    assert address_slice(parse(KERNEL.format(body=ATOMIC))) is None
