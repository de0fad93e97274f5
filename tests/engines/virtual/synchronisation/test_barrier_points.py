"""Barriers in PTX, by the lines of the TTIR that they come from."""

from harness.engines.virtual.synchronisation.barrier_points import barrier_points, line_of, numbered_lines

TTIR = """#loc = loc("kernel.py":1:0)
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("x"(#loc))) {
    %0 = tt.load %x : !tt.ptr<f32> loc(#loc3)
    %1 = "tt.reduce"(%0) ({
    ^bb0(%a: f32 loc(callsite(#loc at #loc))):
    }) : (tensor<4xf32>) -> f32 loc(callsite(#loc2 at #loc3))
  } loc(#loc)
} loc(#loc)
#loc2 = loc("kernel.py":2:0)"""


def test_each_operation_gets_the_line_on_which_it_ends() -> None:
    lines = numbered_lines(TTIR).split("\n")
    ends = [line.partition(" loc(")[2] for line in lines]
    assert ends == [
        '"kernel.py":1:0)', "", '"x"(#loc))) {', '"ttir":4:0)', "", "callsite(#loc at #loc))):", '"ttir":7:0)',
        '"ttir":8:0)', "#loc)", '"kernel.py":2:0)',
    ]  # fmt: skip
    assert (line_of('loc("ttir":7:0)'), line_of("loc(#loc2)")) == (7, 0)


def test_a_barrier_is_before_or_after_the_accesses_of_its_operation() -> None:
    points = barrier_points("""
        .loc 1 3 0
        bar.sync 0;
        @%p1 st.global.b32 [ %rd1 + 0 ], { %r1 };
        .loc 1 4 0
        ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
        barrier.cta.sync.aligned.all 0;
        .loc 1 5 0
        ld.global.b32 { %r1 }, [ %rd1 + 0 ];
        bar.warp.sync -1;
        .loc 1 6 0
        bar.sync 0;
    """)
    assert (points.before, points.after) == ({3, 6}, {4, 6})


def test_a_barrier_between_accesses_or_without_a_line_counts_on_both_sides() -> None:
    points = barrier_points("""
        .loc 1 3 0
        st.global.b32 [ %rd1 + 0 ], { %r1 };
        bar.sync 0;
        st.global.b32 [ %rd2 + 0 ], { %r1 };
        .loc 1 4 0
        ld.global.b32 { %r1 }, [ %rd1 + 0 ];
        .loc 1 0 0
        bar.sync 0;
    """)
    assert (points.before, points.after) == ({3, 4}, {3, 4})
