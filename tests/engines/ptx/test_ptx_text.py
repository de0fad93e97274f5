"""PTX is read as it is written."""

import numpy as np

from tests.engines.ptx.ptx_programs import kernel_of, launch

INDEXED_BRANCH = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 .ptr .global .align 16 result)
.reqntid 32
{
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [result];
	mov.u32 	%r1, %tid.x;
	mad.wide.u32 	%rd2, %r1, 4, %rd1;
	rem.u32 	%r2, %r1, 3;
	$L_targets: .branchtargets
		$L_one,
		$L_two,
		$L_three;
	brx.idx 	%r2, $L_targets;
$L_one:
	mov.b32 	%r3, 10;
	bra.uni 	$L_end;
$L_two:
	mov.b32 	%r3, 20;
	bra.uni 	$L_end;
$L_three:
	mov.b32 	%r3, 30;
$L_end:
	st.global.b32 	[%rd2], %r3;
	ret;
}
"""


def test_an_indexed_branch_leads_each_thread_to_its_label() -> None:
    result = np.zeros(32, np.int32)
    launch(INDEXED_BRANCH, [result])
    np.testing.assert_array_equal(result, np.array([10, 20, 30])[np.arange(32) % 3])


def test_a_register_of_a_packed_type_has_the_width_of_its_parts() -> None:
    result = np.zeros(32, np.uint32)
    body = "{ .reg .f16x2 %both; mov.b32 %both, 0x3c003c00; add.f16x2 %both, %both, %both; mov.b32 %r1, %both; }"
    stored = "mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.b32 [%rd1], %r1;"
    launch(kernel_of(f"{body} {stored}", pointers=1), [result])
    assert (result == 0x40004000).all()


def test_a_constant_may_be_binary() -> None:
    result = np.zeros(32, np.uint32)
    stored = "mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.b32 [%rd1], %r1;"
    launch(kernel_of(f"mov.b32 %r1, 0b101; {stored}", pointers=1), [result])
    assert (result == 5).all()
