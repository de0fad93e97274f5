"""Shared memory, barriers and asynchronous copies: what a missing wait shows, and what is no race."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.engines.ptx.ptx_programs import HEAD, Launched, kernel_of, launch

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("_both_executors")
THREADS = 64
DYNAMIC = ".extern .shared .align 16 .b8 tile[];"
ADDRESSES = """
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 2;
add.s32 %r3, %r1, %r2;
xor.b32 %r4, %r2, 128;
add.s32 %r5, %r1, %r4;
mul.wide.u32 %rd10, %r0, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
"""
"""`%r3` is the thread's own cell, `%r5` that of the same lane in the other warp; `%rd11` loads, `%rd12` stores."""


def kinds(launched: Launched) -> list[str]:
    return [flaw.kind for flaw in launched.flaws]


def run(body: str, *, shared_bytes: int = 4 * THREADS) -> tuple[Launched, Array]:
    """Run a body on numbers 1 to 64, and return what it leaves in the second array."""
    text = kernel_of(ADDRESSES + body, pointers=2, threads=THREADS, declarations=DYNAMIC)
    x, y = np.arange(1, THREADS + 1, dtype=np.uint32), np.zeros(THREADS, np.uint32)
    return launch(text, [x, y], shared_bytes=shared_bytes), y


SWAPPED = np.concatenate([np.arange(33, 65), np.arange(1, 33)])
STORED = "ld.global.b32 %r6, [%rd11]; st.shared.b32 [%r3], %r6;"
LOADED = "ld.shared.b32 %r7, [%r5]; st.global.b32 [%rd12], %r7;"


def test_a_barrier_orders_two_warps() -> None:
    launched, y = run(f"{STORED} bar.sync 0; {LOADED}")
    assert kinds(launched) == []
    assert (y == SWAPPED).all()


def test_without_a_barrier_two_warps_race() -> None:
    launched, _ = run(f"{STORED} {LOADED}")
    (flaw,) = launched.flaws
    assert (flaw.kind, flaw.instruction.opcode, flaw.warp) == ("race in shared memory", "ld.shared.b32", 0)
    assert flaw.other is not None
    assert (flaw.other.opcode, flaw.other_warp) == ("st.shared.b32", 1)


def test_a_tile_stored_again_before_all_have_loaded_it_is_a_race() -> None:
    again = "add.s32 %r6, %r6, 7; st.shared.b32 [%r3], %r6;"
    assert kinds(run(f"{STORED} bar.sync 0; {LOADED} {again}")[0]) == ["race in shared memory"]
    assert kinds(run(f"{STORED} bar.sync 0; {LOADED} bar.sync 0; {again}")[0]) == []


def test_stores_of_equal_bytes_by_several_warps_are_no_race() -> None:
    assert kinds(run("mov.b32 %r6, 5; st.shared.b32 [tile], %r6; bar.sync 0;")[0]) == []
    assert kinds(run("st.shared.b32 [tile], %r0; bar.sync 0;")[0]) == ["race in shared memory"]


def test_matrices_of_equal_bytes_stored_by_several_warps_are_no_race() -> None:
    rows = "and.b32 %r6, %r0, 7; mad.lo.s32 %r6, %r6, 16, %r1; and.b32 %r7, %r0, 31;"
    stored = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r7}; bar.sync 0;"
    assert kinds(run(f"{rows} {stored}")[0]) == []
    assert kinds(run(f"{rows} mov.b32 %r7, %r0; {stored}")[0]) == ["race in shared memory"]


def test_matrices_of_bytes_are_stored_transposed() -> None:
    """Each byte holds its row times 8 plus its column: lane 4g + t has columns 2t, 2t + 1 of rows g and g + 8."""
    numbers = (
        "and.b32 %r6, %r0, 31; shr.u32 %r7, %r6, 2; and.b32 %r4, %r6, 3; shl.b32 %r7, %r7, 3; shl.b32 %r4, %r4, 1; "
        "add.s32 %r7, %r7, %r4; mad.lo.s32 %r7, %r7, 16843009, 1094713600;"
    )
    rows = "and.b32 %r6, %r0, 7; mad.lo.s32 %r6, %r6, 16, %r1;"
    stored = "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r6], {%r7}; bar.sync 0;"
    loaded = "and.b32 %r4, %r2, 127; add.s32 %r4, %r4, %r1; ld.shared.b32 %r8, [%r4]; st.global.b32 [%rd12], %r8;"
    launched, y = run(f"{numbers} {rows} {stored} {loaded}")
    assert kinds(launched) == []
    matrix = np.arange(128, dtype=np.uint8).reshape(16, 8)
    assert (y[:32].view(np.uint8).reshape(8, 16) == matrix.T).all()


def test_atomics_of_several_warps_are_no_race() -> None:
    body = "mov.b32 %r6, 0; st.shared.b32 [tile], %r6; bar.sync 0; atom.shared.add.u32 %r7, [tile], 1;"
    assert kinds(run(body)[0]) == []


def test_named_barriers_order_those_that_meet_there() -> None:
    launched, y = run(f"{STORED} bar.sync 3, 64; {LOADED}")
    assert kinds(launched) == []
    assert (y == SWAPPED).all()


def test_memory_that_nothing_wrote_is_found() -> None:
    assert kinds(run(LOADED)[0]) == ["uninitialised shared memory"]


def test_an_address_outside_shared_memory_is_found() -> None:
    launched, _ = run(f"{STORED} ld.shared.b32 %r7, [%r3+{4 * THREADS}];")
    assert set(kinds(launched)) >= {"outside shared memory"}


def test_a_misaligned_vector_is_found() -> None:
    text = kernel_of("ld.global.v2.b32 {%r1, %r2}, [%rd0+4];", pointers=1)
    with pytest.raises(Exception, match=r"misaligned access: ld\.global\.v2\.b32"):
        launch(text, [np.zeros(64, np.uint32)])


COPY = "cp.async.ca.shared.global [%r3], [%rd11], 4; cp.async.commit_group;"


def test_a_copy_lands_at_its_wait_and_not_before() -> None:
    landed, y = run(f"{COPY} cp.async.wait_group 0; bar.sync 0; {LOADED}")
    assert kinds(landed) == []
    assert (y == SWAPPED).all()
    early, y = run(f"{COPY} bar.sync 0; {LOADED} cp.async.wait_group 0;")
    assert "uninitialised shared memory" in kinds(early)
    assert (y == 0xFFFFFFFF).all()


def test_a_wait_that_leaves_one_group_lands_the_earlier_one() -> None:
    second = "cp.async.ca.shared.global [%r3+256], [%rd11], 4; cp.async.commit_group;"
    launched, y = run(f"{COPY} {second} cp.async.wait_group 1; bar.sync 0; {LOADED}", shared_bytes=512)
    assert kinds(launched) == []
    assert (y == SWAPPED).all()


def test_an_mbarrier_orders_who_arrives_before_who_waits() -> None:
    body = f"""
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [tile+{4 * THREADS}], {THREADS};
    bar.sync 0;
    {STORED}
    mbarrier.arrive.shared.b64 _, [tile+{4 * THREADS}];
    {{
    .reg .pred done;
    waiting:
    mbarrier.try_wait.parity.shared.b64 done, [tile+{4 * THREADS}], 0;
    @!done bra waiting;
    }}
    {LOADED}
    """
    launched, y = run(body, shared_bytes=4 * THREADS + 8)
    assert kinds(launched) == []
    assert (y == SWAPPED).all()


def test_threads_that_wait_for_ever_are_named() -> None:
    body = "setp.lt.u32 %p1, %r0, 32; @%p1 bra after; bar.sync 0; after: bar.sync 1;"
    launched, _ = run(body)
    assert launched.stuck is not None
    assert {(instruction.opcode, warp) for instruction, _, warp in launched.stuck.waiting} == {
        ("bar.sync", 0),
        ("bar.sync", 1),
    }


def test_an_mbarrier_that_nobody_made_is_found() -> None:
    with pytest.raises(Exception, match="memory that is no mbarrier"):
        run("mbarrier.arrive.shared.b64 _, [tile];")


def test_a_loop_that_waits_for_another_warp_ends() -> None:
    body = """
    setp.lt.u32 %p1, %r0, 32;
    @!%p1 bra storing;
    looking:
    ld.volatile.global.b32 %r6, [%rd1];
    setp.eq.u32 %p2, %r6, 0;
    @%p2 bra looking;
    bra after;
    storing:
    mov.b32 %r7, 9;
    st.global.b32 [%rd1], %r7;
    after:
    """
    launched, y = run(body)
    assert launched.stuck is None
    assert y[0] == 9


def test_lanes_that_part_meet_again_before_a_shuffle() -> None:
    body = """
    and.b32 %r6, %r0, 1;
    setp.eq.u32 %p1, %r6, 0;
    @%p1 bra even;
    mov.b32 %r7, 100;
    bra after;
    even:
    mov.b32 %r7, 200;
    after:
    shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1;
    st.global.b32 [%rd12], %r8;
    """
    _, y = run(body)
    assert y.tolist() == [100, 200] * (THREADS // 2)


def test_a_peer_must_not_end_while_its_shared_memory_is_used() -> None:
    def both(last: str) -> Launched:
        body = f"""
        mov.u32 %r1, tile;
        mov.u32 %r2, %cluster_ctarank;
        st.shared.b32 [tile], %r2;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        xor.b32 %r3, %r2, 1;
        mapa.shared::cluster.u32 %r4, %r1, %r3;
        ld.shared::cluster.b32 %r5, [%r4];
        {last}
        """
        return launch(kernel_of(body, pointers=0, declarations=DYNAMIC), [], shared_bytes=4, cluster=2)

    assert kinds(both("")) == ["shared memory of a CTA that has ended"]
    assert kinds(both("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")) == []


def test_a_call_is_inlined_with_its_parameters() -> None:
    text = f"""{HEAD}
    .func (.param .b32 result) twice(.param .b32 number)
    {{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [number];
    shl.b32 %r2, %r1, 1;
    st.param.b32 [result], %r2;
    ret;
    }}
    .visible .entry kernel(.param .u64 p0)
    .reqntid 32
    {{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.x;
    {{
    .param .b32 param0;
    st.param.b32 [param0], %r1;
    .param .b32 retval0;
    call.uni (retval0), twice, (param0);
    ld.param.b32 %r2, [retval0];
    }}
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.b32 [%rd3], %r2;
    ret;
    }}
    """
    y = np.zeros(32, np.uint32)
    launch(text, [y])
    assert y.tolist() == list(range(0, 64, 2))
