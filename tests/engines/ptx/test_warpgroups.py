"""Products of warpgroups: which registers they write when they land."""

import numpy as np
import pytest

from tests.engines.ptx.ptx_programs import kernel_of, launch

THREADS = 128
DYNAMIC = ".extern .shared .align 128 .b8 tile[];"
ONES = """
mov.u32 %r1, tile;
mad.lo.s32 %r2, %r0, 16, %r1;
mov.b32 %r3, 0x3c003c00;
st.shared.v4.b32 [%r2], {%r3, %r3, %r3, %r3};
fence.proxy.async.shared::cta;
bar.sync 0;
bfe.u32 %r4, %r1, 4, 14;
cvt.u64.u32 %rd10, %r4;
mov.u32 %r9, %ctaid.x;
mov.b32 %r10, 0f00000000;
mov.b32 %r11, %r10;
mov.b32 %r12, %r10;
mov.b32 %r13, %r10;
mov.b32 %r14, 0f40E00000;
mov.pred %p1, -1;
setp.eq.u32 %p2, %r9, 0;
"""
"""A tile of ones of 16 bits, whose descriptor is `%rd10`, a sum of zeros, and a seven in `%r14`."""
PRODUCT = """
@!%p2 bra $other;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, %rd10, %rd10, %p1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
bra $met;
$other:
mov.b32 %r14, %r10;
$met:
wgmma.wait_group.sync.aligned 0;
mad.lo.s32 %r15, %r9, 128, %r0;
mad.wide.u32 %rd12, %r15, 4, %rd0;
st.global.b32 [%rd12], %r14;
"""


@pytest.mark.usefixtures("_both_executors")
def test_another_cta_may_copy_the_register_of_a_pending_sum() -> None:
    out = np.zeros(2 * THREADS, np.float32)
    text = kernel_of(ONES + PRODUCT, pointers=1, threads=THREADS, declarations=DYNAMIC)
    launched = launch(text, [out], programs=2, shared_bytes=16 * THREADS)
    assert launched.flaws == ()
    assert (out[:THREADS] == 7).all()
    assert (out[THREADS:] == 0).all()
