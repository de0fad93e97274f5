"""The order in which diverged threads run: those that a warp's exchange needs meet before it."""

import numpy as np
import pytest

from harness.engines.ptx.native.native_runs import NativePolicy
from harness.engines.ptx.wave_runner import INTERPRETED
from tests.engines.ptx.ptx_programs import NATIVE, executed_by, kernel_of, launch

TRIPS = 8
LOOP = f"""
mov.u32 %r1, 0;
bra.uni $BODY;
$LATCH:
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, {TRIPS};
@!%p1 bra $END;
$BODY:
mad.lo.u32 %r2, %r1, 100, %r0;
shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
mul.wide.u32 %rd10, %r1, 128;
mad.wide.u32 %rd10, %r0, 4, %rd10;
add.u64 %rd11, %rd0, %rd10;
st.global.b32 [%rd11], %r3;
setp.ne.u32 %p2, %r0, 0;
@%p2 bra $LATCH;
mov.u32 %r4, 0;
$SLOW:
add.u32 %r4, %r4, 1;
setp.lt.u32 %p3, %r4, 5;
@%p3 bra $SLOW;
bra.uni $LATCH;
$END:
"""
"""The end of the loop stands before its body, as LLVM places it, and the first thread stays longer in each trip."""


@pytest.mark.parametrize("policy", [INTERPRETED, NATIVE], ids=["interpreted", "native"])
def test_a_shuffle_waits_for_threads_that_stay_longer_in_a_loop(policy: NativePolicy) -> None:
    seen = np.full((TRIPS, 32), -1, np.int32)
    with executed_by(policy):
        assert launch(kernel_of(LOOP, pointers=1), [seen]).stuck is None
    assert seen.tolist() == [[100 * trip] * 32 for trip in range(TRIPS)]
