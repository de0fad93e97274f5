"""The oracles that judge memory events."""

from dataclasses import replace
from typing import Any

import pytest

from harness.model.case import LaneFill
from harness.model.run import (
    Access,
    AddressSpace,
    AssertFailed,
    Completed,
    Crashed,
    FalseAssumption,
    FalseHint,
    ForeignArgument,
    Hint,
    HintBreach,
    NarrowAtomic,
    OrderDependence,
    Overlap,
    Refilled,
    Source,
    Stray,
    ThreadRace,
    UndefinedLanes,
    UninitialisedRead,
    UnwrittenUse,
)
from harness.model.verdict import Severity
from harness.oracles.base import Oracle
from harness.oracles.bounds import InBounds
from harness.oracles.compiler_hint import CompilerHintsHold, Promise
from harness.oracles.device_assert import DeviceAssertsHold
from harness.oracles.order_dependence import NoOrderDependence
from harness.oracles.thread_race import NoThreadRace
from harness.oracles.undefined_lanes import UndefinedLaneIndependence
from harness.oracles.uninitialised_read import HANDED_OVER, INTEGERS, UNCOMPARED, USED, NoUninitialisedReads
from harness.oracles.unwritten import FullyWritten
from harness.oracles.write_overlap import PARTLY_SAME, SAME, NoWriteOverlap
from tests.oracles.facts import (
    KERNEL,
    LINE_207,
    case,
    judge,
    launch,
    only_failure,
    raised,
    result,
    run,
    signature,
    site,
)

OVERLAP = Overlap(site=site(), same_bytes=True, cells=32, first_cells=((2, 0), (2, 1)), programs=(0, 1))
STRAY = Stray(site=site(), access=Access.STORE, region=AddressSpace.OUTSIDE_STORAGE, lanes=31, program=3, element=8256)
LANES = UndefinedLanes(site=site("w", source=LINE_207), lanes=4)

OVER_MEMORY: tuple[Oracle, ...] = (
    InBounds(),
    NoWriteOverlap(),
    CompilerHintsHold(),
    NoOrderDependence(),
    NoThreadRace(),
    NoUninitialisedReads(),
    FullyWritten(),
    UndefinedLaneIndependence(),
)


@pytest.mark.parametrize("oracle", OVER_MEMORY, ids=lambda oracle: oracle.name)
class TestEveryMemoryOracle:
    def test_passes_without_events(self, oracle: Oracle) -> None:
        assert judge(oracle, run()) == ["pass"]

    def test_abstains_if_the_case_did_not_complete(self, oracle: Oracle) -> None:
        crashed = Crashed(signal="SIGSEGV", status=None, log_tail="")
        assert judge(oracle, run(ending=crashed)) == ["abstain: the process died of SIGSEGV"]

    def test_abstains_on_engines_that_do_not_trace_memory(self, oracle: Oracle) -> None:
        assert judge(oracle, run(engine="cuda")) == ["abstain: the cuda engine does not see memory accesses"]

    def test_abstains_without_launches(self, oracle: Oracle) -> None:
        assert judge(oracle, run(launches=())) == ["abstain: no kernel was launched"]


class TestWriteOverlap:
    def test_equal_bytes_are_a_warning(self) -> None:
        fail = only_failure(NoWriteOverlap(), run(memory=(OVERLAP,)))
        assert fail.signature == signature("write-overlap", "layernorm.py:431", severity=Severity.WARNING)
        assert fail.message == (
            "dx[2, 0] and 31 more cells were stored by programs 0 and 1, with the same bytes (layernorm.py:431)"
        )

    def test_different_bytes_are_an_error(self) -> None:
        one_cell = replace(OVERLAP, same_bytes=False, cells=1)
        fail = only_failure(NoWriteOverlap(), run(memory=(one_cell,)))
        assert fail.signature == signature("write-overlap", "layernorm.py:431")
        assert fail.message == "dx[2, 0] was stored by programs 0 and 1, with different bytes (layernorm.py:431)"

    def test_a_store_and_an_atomic_are_an_error_that_names_both_programs(self) -> None:
        mixed = replace(OVERLAP, same_bytes=False, cells=1, programs=(1, 0), atomic=True)
        fail = only_failure(NoWriteOverlap(), run(memory=(mixed,)))
        assert fail.signature == signature("write-overlap", "layernorm.py:431")
        assert fail.message == (
            "dx[2, 0] was stored by program 1 and updated by an atomic of program 0 (layernorm.py:431)"
        )

    def test_overlaps_at_one_line_are_one_failure_with_the_worst_event(self) -> None:
        second = replace(OVERLAP, site=site(launch=1), same_bytes=False, cells=2)
        assert judge(NoWriteOverlap(), run(memory=(OVERLAP, second))) == [
            "error: dx[2, 0] and 1 more cell were stored by programs 0 and 1, with different bytes "
            "(layernorm.py:431, in 2 launches)"
        ]

    def test_two_lines_are_two_failures(self) -> None:
        other = replace(OVERLAP, site=site("dw", source=LINE_207))
        places = [line.rpartition(" ")[2] for line in judge(NoWriteOverlap(), run(memory=(OVERLAP, other)))]
        assert places == ["(layernorm.py:431)", "(layernorm.py:207)"]

    def test_an_overlap_counts_even_if_the_case_raised_later(self) -> None:
        fail = only_failure(NoWriteOverlap(), run(memory=(OVERLAP,), ending=raised()))
        assert fail.signature.oracle == "write-overlap"

    def test_without_a_source_line_the_argument_is_the_place(self) -> None:
        fail = only_failure(NoWriteOverlap(), run(memory=(replace(OVERLAP, site=site(source=None)),)))
        assert fail.signature == signature("write-overlap", "dx", severity=Severity.WARNING)


class TestThreadRace:
    RACE = ThreadRace(
        site=site(),
        earlier=LINE_207,
        accesses=(Access.STORE, Access.LOAD),
        cells=3,
        first_cells=((2, 0),),
        program=5,
        positions=((2, 0), (31,)),
        warps=(1, 0),
    )

    def test_the_message_names_both_lines_elements_and_warps(self) -> None:
        fail = only_failure(NoThreadRace(), run(memory=(self.RACE,)))
        assert fail.signature == signature("thread-race", "layernorm.py:431")
        assert fail.message == (
            "dx[2, 0] is stored by warp 1 as element [2, 0] of a tile (layernorm.py:207), then loaded by warp 0 as "
            "element [31] of a tile, in program 5 and without a barrier between the two, as are 2 more cells "
            "(layernorm.py:431)"
        )

    def test_two_stores_of_a_scalar_at_one_line_are_named_once(self) -> None:
        stores = (Access.STORE, Access.STORE)
        race = replace(self.RACE, earlier=self.RACE.site.source, accesses=stores, positions=((), ()), cells=1)
        assert judge(NoThreadRace(), run(memory=(race,))) == [
            "error: dx[2, 0] is stored by warp 1, then again stored by warp 0, in program 5 and without a barrier "
            "between the two (layernorm.py:431)"
        ]

    def test_atomics_of_one_program_on_a_shared_cell_are_an_error(self) -> None:
        event = NarrowAtomic(site=site(), cells=1, first_cells=((7,),), programs=(0, 3))
        fail = only_failure(NoThreadRace(), run(memory=(event,)))
        assert fail.message == ('dx[7] was updated by programs 0 and 3, by atomics of scope "cta" (layernorm.py:431)')

    def test_a_launch_that_could_not_be_decided_makes_it_abstain(self) -> None:
        unknown = launch(threads_unknown="the layout #ttg.new")
        assert judge(NoThreadRace(), run(launches=(unknown,))) == [
            "abstain: layer_norm_bwd_kernel: the layout #ttg.new"
        ]


def test_a_read_of_what_another_program_stores_is_an_error() -> None:
    event = OrderDependence(site=site("x"), cells=3, first_cells=((5,),), programs=(1, 0))
    fail = only_failure(NoOrderDependence(), run(memory=(event,)))
    assert fail.signature == signature("order-dependence", "layernorm.py:431")
    assert fail.message == (
        "x[5] and 2 more cells were read by program 1 of the launch in which program 0 stores there (layernorm.py:431)"
    )


def test_a_read_by_several_programs_names_only_the_writer() -> None:
    event = OrderDependence(site=site("x"), cells=1, first_cells=((16,),), programs=(1, 1))
    assert judge(NoOrderDependence(), run(memory=(event,))) == [
        "error: x[16] was read by another program of the launch in which program 1 stores there (layernorm.py:431)"
    ]


def test_a_read_of_what_another_program_updates_is_an_error() -> None:
    event = OrderDependence(site=site("x"), cells=1, first_cells=((5,),), programs=(1, 0), atomic=True)
    assert judge(NoOrderDependence(), run(memory=(event,))) == [
        "error: x[5] was read by program 1 of the launch in which program 0 updates it by an atomic (layernorm.py:431)"
    ]


@pytest.mark.parametrize(("is_whole", "meaning"), [(True, SAME), (False, PARTLY_SAME)])
def test_the_same_bytes_in_some_cells_alone_are_not_the_same_work(meaning: str, *, is_whole: bool) -> None:
    assert only_failure(NoWriteOverlap(), run(memory=(replace(OVERLAP, is_whole=is_whole),))).meaning == meaning


@pytest.mark.parametrize("broken", [{"results": ()}, {"results": (result(nonfinite=1),)}])
def test_a_read_of_uninitialised_memory_is_an_error(broken: dict[str, Any]) -> None:
    event = UninitialisedRead(site=site("mean"), cells=1, first_cells=((128,),), program=4)
    fail = only_failure(NoUninitialisedReads(), run(memory=(event,), **broken))
    assert fail.signature == signature("uninitialised-read", "layernorm.py:431")
    assert fail.message == "mean[128] was read by program 4 before anything was stored there (layernorm.py:431)"


@pytest.mark.parametrize("sound", [{"results": (result(whole=7.0),)}, {"results": (), "ending": raised()}])
def test_an_uninitialised_read_is_a_warning_if_no_nan_reaches_a_result(sound: dict[str, Any]) -> None:
    event = UninitialisedRead(site=site("mean"), cells=1, first_cells=((128,),), program=4)
    fail = only_failure(NoUninitialisedReads(), run(memory=(event,), **sound))
    assert fail.signature == signature("uninitialised-read", "layernorm.py:431", severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("facts", "severity", "meaning"),
    [
        ({"results": (result(whole=7.0),)}, Severity.ERROR, USED),
        ({"results": (result(),)}, Severity.WARNING, INTEGERS),
        ({"results": (result(),), "memory": (STRAY,)}, Severity.ERROR, USED),
        ({"results": (), "is_undefined": True}, Severity.WARNING, UNCOMPARED),
    ],
    ids=["wrong result", "right result", "stray address", "no definition"],
)
def test_a_read_of_integers_that_nothing_stored_is_judged_by_its_harm(
    facts: dict[str, Any], severity: Severity, meaning: str
) -> None:
    event = UninitialisedRead(site=site("bins"), cells=1, first_cells=((0,),), program=0, is_integer=True)
    fail = only_failure(
        NoUninitialisedReads(), replace(run(), **{**facts, "memory": (event, *facts.get("memory", ()))})
    )
    assert (fail.signature.severity, fail.meaning) == (severity, meaning)


class TestUnwrittenUse:
    USE = UnwrittenUse(
        site=site("sums"),
        operator="torch.Tensor.sum",
        used_at=LINE_207,
        dtype="float32",
        shape=(4, 3),
        cells=6,
        first_cell=(2, 0),
    )

    def test_it_names_the_operator_the_allocation_and_the_kernel(self) -> None:
        fail = only_failure(NoUninitialisedReads(), run(memory=(self.USE,)))
        assert fail.signature == signature("uninitialised-read", "layernorm.py:431")
        assert fail.message == (
            "torch.Tensor.sum (layernorm.py:207) uses 6 of 12 elements, from [2, 0] on, that nothing has written, "
            f"allocated at layernorm.py:431; {KERNEL} stored there last, through sums"
        )

    def test_without_a_launch_no_kernel_is_named(self) -> None:
        alone = replace(self.USE, site=replace(site(""), kernel=""), shape=(), cells=1, first_cell=())
        fail = only_failure(NoUninitialisedReads(), run(memory=(alone,)))
        assert fail.signature == signature("uninitialised-read", "layernorm.py:431", kernel="")
        assert fail.launch_index is None
        assert fail.message == (
            "torch.Tensor.sum (layernorm.py:207) uses 1 element that nothing has written, "
            "allocated at layernorm.py:431; no kernel stored there"
        )

    def test_memory_that_the_host_gets_is_a_warning(self) -> None:
        handed_over = replace(self.USE, operator="torch.Tensor.numpy", cells=12, is_handed_over=True)
        fail = only_failure(NoUninitialisedReads(), run(memory=(handed_over,)))
        assert (fail.signature.severity, fail.meaning) == (Severity.WARNING, HANDED_OVER)
        assert fail.message.startswith("torch.Tensor.numpy (layernorm.py:207) hands the host 12 elements that nothing")

    def test_uses_of_one_allocation_are_one_failure_beside_those_of_kernels(self) -> None:
        read = UninitialisedRead(site=site(), cells=1, first_cells=((0, 0),), program=0)
        verdicts = judge(NoUninitialisedReads(), run(memory=(read, self.USE, replace(self.USE, operator="torch.max"))))
        assert [line.partition(" ")[2].partition(" ")[0] for line in verdicts] == ["dx[0,", "torch.Tensor.sum"]


class TestBounds:
    def test_a_store_outside_the_storage_is_an_error(self) -> None:
        fail = only_failure(InBounds(), run(memory=(STRAY,)))
        assert fail.signature == signature("bounds", "layernorm.py:431")
        assert fail.message == (
            "program 3 stores 31 lanes of dx outside the storage, the first at element 8256 (layernorm.py:431)"
        )

    @pytest.mark.parametrize(
        ("access", "region", "severity"),
        [
            (Access.LOAD, AddressSpace.IN_GAP, Severity.WARNING),
            (Access.STORE, AddressSpace.IN_GAP, Severity.ERROR),
            (Access.ATOMIC, AddressSpace.IN_GAP, Severity.ERROR),
            (Access.LOAD, AddressSpace.OUTSIDE_VIEW, Severity.ERROR),
            (Access.LOAD, AddressSpace.OUTSIDE_STORAGE, Severity.ERROR),
            (Access.LOAD, AddressSpace.NULL, Severity.ERROR),
            (Access.LOAD, AddressSpace.UNKNOWN_POINTER, Severity.ERROR),
        ],
    )
    def test_only_a_load_from_a_gap_is_a_warning(
        self, access: Access, region: AddressSpace, severity: Severity
    ) -> None:
        stray = replace(STRAY, access=access, region=region)
        assert only_failure(InBounds(), run(memory=(stray,))).signature.severity is severity

    def test_a_line_with_gap_loads_and_outside_loads_is_an_error(self) -> None:
        gap = replace(STRAY, access=Access.LOAD, region=AddressSpace.IN_GAP)
        outside = replace(STRAY, access=Access.LOAD, lanes=1)
        assert judge(InBounds(), run(memory=(gap, outside))) == [
            "error: program 3 loads 1 lane of dx outside the storage, at element 8256 (layernorm.py:431)"
        ]

    def test_a_null_pointer_has_no_element(self) -> None:
        null = replace(STRAY, access=Access.ATOMIC, region=AddressSpace.NULL)
        assert judge(InBounds(), run(memory=(null,))) == [
            "error: program 3 atomically updates 31 lanes through a null pointer (layernorm.py:431)"
        ]


def test_each_result_with_unwritten_cells_is_an_error() -> None:
    results = (result("y"), result("d:x", unwritten=64), result("d:w", unwritten=1))
    assert judge(FullyWritten(), run(results=results)) == [
        "error: d:x[128, 0] and 63 more cells of 8256 were never stored",
        "error: d:w[128, 0] of 8256 was never stored",
    ]


class TestUndefinedLanes:
    def test_requests_no_paired_run_since_the_engine_runs_the_case_twice(self) -> None:
        assert UndefinedLaneIndependence().paired_runs(run(memory=(LANES,))) == ()

    def test_abstains_if_the_case_itself_has_other_values_in_undefined_lanes(self) -> None:
        filled = run(of=case(lane_fill=LaneFill.ODD), memory=(LANES,))
        assert judge(UndefinedLaneIndependence(), filled) == [
            "abstain: this case is itself the one with other values in undefined lanes"
        ]

    def test_passes_without_undefined_lanes(self) -> None:
        assert judge(UndefinedLaneIndependence(), run()) == ["pass"]

    def test_passes_if_no_bit_changes(self) -> None:
        assert judge(UndefinedLaneIndependence(), run(memory=(LANES,), refilled=refilled(y="aa"))) == ["pass"]

    def test_warns_if_a_result_changes(self) -> None:
        fail = only_failure(UndefinedLaneIndependence(), run(memory=(LANES,), refilled=refilled(y="bb")))
        assert fail.signature == signature("undefined-lanes", "y", kernel="", severity=Severity.WARNING)
        assert fail.message == (
            "y changes with what the lanes hold that are masked off without `other` in the load of w (layernorm.py:207)"
        )
        assert fail.source == LINE_207

    def test_fails_once_at_the_store_of_the_first_changed_result(self) -> None:
        launches = (launch(kernel="forward"), launch(kernel="backward"))
        later = replace(LANES, site=site("dy", launch=1))
        written = replace(result(), writer=("forward", "y"))
        changing = run(
            results=(written, result("d:x")),
            memory=(later, LANES),
            launches=launches,
            refilled=Refilled(ending=Completed(), digests={"y": "bb", "d:x": "bb"}),
        )
        fail = only_failure(UndefinedLaneIndependence(), changing)
        assert fail.signature == signature("undefined-lanes", "y", kernel="forward", severity=Severity.WARNING)
        assert fail.message == (
            "y, d:x change with what the lanes hold that are masked off without `other` in the load of w "
            "(layernorm.py:207)"
        )

    def test_abstains_if_the_case_ran_once(self) -> None:
        assert judge(UndefinedLaneIndependence(), run(memory=(LANES,))) == [
            "abstain: the case was not computed with other values in undefined lanes"
        ]

    def test_abstains_if_the_second_run_did_not_complete(self) -> None:
        failed = run(memory=(LANES,), refilled=Refilled(ending=raised(), digests={}))
        assert judge(UndefinedLaneIndependence(), failed) == [
            "abstain: with other values in undefined lanes, RuntimeError was raised in phase backward"
        ]


def refilled(y: str) -> Refilled:
    return Refilled(ending=Completed(), digests={"y": y})


def test_a_failed_assertion_is_an_error_at_its_line() -> None:
    event = AssertFailed(site=site(""), message="", lanes=1, program=0)
    fail = only_failure(DeviceAssertsHold(), run(memory=(event,)))
    assert fail.signature == signature("device-assert", "layernorm.py:431")
    assert fail.message == f"an assertion failed in 1 lane of {KERNEL}, first in program 0 (layernorm.py:431)"


def false_hint(breach: HintBreach, seen: tuple[int, ...], *values: int) -> FalseHint:
    return FalseHint(
        site=site("x"),
        hint=Hint.CONTIGUITY,
        values=values,
        breach=breach,
        access=Source(file="layernorm.py", line=433),
        width=8,
        lanes=16,
        program=3,
        seen=seen,
    )


JOINED = "in program 3 it joins 8 lanes of x at layernorm.py:433"


@pytest.mark.parametrize(
    ("event", "place", "message"),
    [
        (
            FalseAssumption(site=site(""), programs=2, program=1),
            "layernorm.py:431",
            f"tl.assume is false in 2 programs of {KERNEL}, first in program 1 (layernorm.py:431)",
        ),
        (
            false_hint(HintBreach.APART, (200, 0, 1), 128),
            "layernorm.py:431",
            f"tl.max_contiguous(128) is false: {JOINED}, of which x[200] and x[0] are 1 lane apart (layernorm.py:431)",
        ),
        (
            false_hint(HintBreach.MISALIGNED, (4, 8), 1, 16),
            "layernorm.py:431",
            f"tl.max_contiguous([1, 16]) is false: {JOINED}, which begin at x[4], 8 bytes beyond a multiple of their "
            "size (layernorm.py:431)",
        ),
        (
            false_hint(HintBreach.UNEVEN, (3,), 128),
            "layernorm.py:431",
            f"tl.max_contiguous(128) is false: {JOINED}, of which the mask has 3 (layernorm.py:431)",
        ),
        (
            ForeignArgument(site=replace(site("N"), source=None), promised="1", passed="= 24"),
            "N",
            f"{KERNEL} was launched with N = 24, through a build for 1 (N)",
        ),
    ],
    ids=["assumption", "lanes apart", "misaligned lanes", "uneven mask", "argument of another build"],
)
def test_a_false_promise_to_the_compiler_is_an_error(event: Promise, place: str, message: str) -> None:
    fail = only_failure(CompilerHintsHold(), run(memory=(event,)))
    assert fail.signature == signature("compiler-hint", place)
    assert fail.message == message
