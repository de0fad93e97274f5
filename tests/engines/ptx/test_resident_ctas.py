"""CTAs that wait for each other: as many as the GPU holds run side by side, and others start when these end."""

import numpy as np
import pytest

from tests.engines.ptx.ptx_programs import Launched, kernel_of, launch

pytestmark = pytest.mark.usefixtures("_both_executors")
THREADS = 64
CELL = 3
"""The element that CTAs poll."""
BARRIER = f"""
add.s64 %rd1, %rd0, {4 * CELL};
mov.u32 %r1, %nctaid.x;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra $met;
atom.global.gpu.relaxed.add.u32 %r2, [%rd1], 1;
$again:
atom.global.gpu.relaxed.add.u32 %r2, [%rd1], 0;
setp.lt.u32 %p2, %r2, %r1;
@%p2 bra $again;
$met:
bar.sync 0;
"""
LAST_TELLS_FIRST = f"""
add.s64 %rd1, %rd0, {4 * CELL};
mov.u32 %r1, %nctaid.x;
mov.u32 %r2, %ctaid.x;
sub.s32 %r1, %r1, 1;
setp.eq.u32 %p1, %r2, %r1;
mov.b32 %r3, 1;
@%p1 st.global.b32 [%rd1], %r3;
setp.ne.u32 %p2, %r2, 0;
@%p2 bra $end;
$again:
ld.volatile.global.b32 %r4, [%rd1];
setp.eq.u32 %p3, %r4, 0;
@%p3 bra $again;
st.global.b32 [%rd0], %r4;
$end:
"""


def run(body: str, *, programs: int, resident: int) -> tuple[Launched, np.ndarray]:
    cells = np.zeros(8, np.uint32)
    text = kernel_of(body, pointers=1, threads=THREADS)
    return launch(text, [cells], programs=programs, most_ctas=resident), cells


def test_a_barrier_among_all_resident_ctas_is_passed() -> None:
    launched, cells = run(BARRIER, programs=4, resident=4)
    assert launched.stuck is None
    assert cells[CELL] == 4


def test_a_barrier_among_more_ctas_than_fit_is_a_deadlock() -> None:
    launched, _ = run(BARRIER, programs=5, resident=4)
    assert launched.stuck is not None
    (polled,) = launched.stuck.polled
    assert polled.instruction.root == "atom"
    assert polled.places.tolist() == [[0, 1, 2, 3], [4 * CELL] * 4]
    assert (launched.stuck.ctas, launched.stuck.not_started) == (4, 1)


def test_a_cta_that_waits_for_a_later_one_goes_on_once_others_end() -> None:
    launched, cells = run(LAST_TELLS_FIRST, programs=5, resident=2)
    assert launched.stuck is None
    assert cells[0] == 1


def test_a_cta_alone_waits_for_ever_for_one_that_never_starts() -> None:
    launched, _ = run(LAST_TELLS_FIRST, programs=5, resident=1)
    assert launched.stuck is not None
    assert launched.stuck.not_started == 4
