"""The oracles that judge launches and resources."""

from dataclasses import replace

import pytest

from harness.model.case import Scale
from harness.model.kernel_resources import Resources
from harness.model.run import Launch, Overlap
from harness.model.verdict import Abstain, Severity
from harness.oracles.base import Evidence
from harness.oracles.completes import Completes
from harness.oracles.launch_limits import WithinLaunchLimits
from harness.oracles.resources import FitsResources
from harness.oracles.scratch_memory import ScratchMemory
from harness.oracles.write_overlap import NoWriteOverlap
from harness.search.judge import Examination
from tests.oracles.facts import KERNEL, SMALL, case, judge, launch, only_failure, raised, run, signature, site

NO_ALLOCATOR = (
    "Kernel requires a runtime memory allocation, but no allocator was set. "
    "Use triton.set_allocator to specify an allocator."
)


def overlap_in(launch_index: int) -> Overlap:
    at = replace(site(), launch=launch_index)
    return Overlap(site=at, same_bytes=True, cells=1, first_cells=((2, 0),), programs=(0, 1))


LARGE = replace(SMALL, shared_bytes=131_072)


class TestLaunchLimits:
    def test_passes_the_largest_launch_that_cuda_accepts(self) -> None:
        assert judge(WithinLaunchLimits(), run(launches=(launch(grid=(2**31 - 1, 65535, 65535), num_warps=32),))) == [
            "pass"
        ]

    @pytest.mark.parametrize(
        ("broken", "place", "severity"),
        [
            (launch(grid=(2**31, 1, 1)), "grid x", Severity.ERROR),
            (launch(grid=(1, 65536, 1)), "grid y", Severity.ERROR),
            (launch(grid=(1, 1, 65536)), "grid z", Severity.ERROR),
            (launch(grid=(1, 0, 1)), "empty grid y", Severity.WARNING),
            (launch(num_warps=64), "threads", Severity.ERROR),
            (launch(grid=(2**30, 1, 1), num_ctas=2), "grid x", Severity.ERROR),
            (launch(num_ctas=32), "cluster", Severity.ERROR),
            (launch(num_ctas=16), "cluster", Severity.WARNING),
        ],
    )
    def test_each_limit_fails_separately(self, broken: Launch, place: str, severity: Severity) -> None:
        fail = only_failure(WithinLaunchLimits(), run(launches=(broken,)))
        assert fail.signature == signature("launch-limits", place, severity=severity)

    def test_a_cluster_of_sixteen_blocks_is_within_the_limits_of_an_h100(self) -> None:
        of = replace(case(), device=replace(case().device, capability=(9, 0)))
        assert judge(WithinLaunchLimits(), run(of=of, launches=(launch(num_ctas=16),))) == ["pass"]

    def test_a_grid_along_y_is_an_error_in_an_oversized_case_too(self) -> None:
        oversized = replace(case(), scale=Scale.OVERSIZED)
        fail = only_failure(WithinLaunchLimits(), run(of=oversized, launches=(launch(grid=(1, 65536, 1)),)))
        assert fail.signature == signature("launch-limits", "grid y", severity=Severity.ERROR)

    def test_more_rows_than_programs_along_x_in_an_oversized_case_are_no_finding(self) -> None:
        oversized = replace(case(), scale=Scale.OVERSIZED)
        (verdict,) = WithinLaunchLimits().judge(Evidence(run=run(of=oversized, launches=(launch(grid=(2**31, 1, 1)),))))
        assert verdict == Abstain(
            oracle="launch-limits",
            reason="an oversized case has more rows than a grid may have programs along x: 2147483648 in "
            "layer_norm_bwd_kernel",
        )

    def test_the_message_has_request_and_limit(self) -> None:
        assert judge(WithinLaunchLimits(), run(launches=(launch(grid=(1, 65536, 1)),))) == [
            "error: layer_norm_bwd_kernel was launched with 65536 programs along y, where CUDA allows 65535 "
            "(grid (1, 65536, 1))"
        ]

    def test_a_kernel_launched_twice_beyond_a_limit_fails_once(self) -> None:
        assert len(judge(WithinLaunchLimits(), run(launches=(launch(num_warps=64), launch(num_warps=64))))) == 1

    def test_the_launch_of_a_finding_is_the_one_that_failed(self) -> None:
        launches = (launch(grid=(4, 1, 1)), launch(grid=(0, 1, 1)), launch(grid=(7, 1, 1)))
        empty = run(launches=launches)
        fail = only_failure(WithinLaunchLimits(), empty)
        assert "0 programs along x" in fail.message
        assert Examination(run=empty, verdicts=(fail,)).launch_of(fail) == launches[1]
        ended = run(launches=launches, ending=raised(config_count=1))
        fail = only_failure(Completes(), ended)
        assert Examination(run=ended, verdicts=(fail,)).launch_of(fail) == launches[2]
        overlap = run(launches=launches, memory=(overlap_in(1),))
        fail = only_failure(NoWriteOverlap(), overlap)
        assert Examination(run=overlap, verdicts=(fail,)).launch_of(fail) == launches[1]

    def test_judges_the_launches_before_an_exception(self) -> None:
        assert len(judge(WithinLaunchLimits(), run(launches=(launch(num_warps=64),), ending=raised()))) == 1
        assert judge(WithinLaunchLimits(), run(ending=raised())) == [
            "abstain: RuntimeError was raised in phase backward"
        ]


class TestResources:
    def test_passes_what_fits(self) -> None:
        assert judge(FitsResources(), run(), resources={"b1": SMALL}) == ["pass"]

    def test_abstains_until_every_build_is_known(self) -> None:
        assert judge(FitsResources(), run(), resources={}) == [
            "abstain: not compiled to the end: layer_norm_bwd_kernel"
        ]

    def test_abstains_if_this_machine_cannot_compile(self) -> None:
        unknown = Resources.not_known("OSError: [Errno 28] No space left on device\nmore")
        assert judge(FitsResources(), run(), resources={"b1": unknown}) == [
            "abstain: layer_norm_bwd_kernel could not be compiled here: OSError: [Errno 28] No space left on device"
        ]

    def test_a_shortage_fails_although_another_build_is_unknown(self) -> None:
        launches = (launch(), launch(build="b2"))
        resources = {"b1": replace(SMALL, shared_bytes=131_072), "b2": Resources.not_known("ended by SIGKILL")}
        fail = only_failure(FitsResources(), run(launches=launches), resources=resources)
        assert fail.signature == signature("resources", "shared memory")

    @pytest.mark.parametrize(
        ("needed", "place"),
        [
            (replace(SMALL, shared_bytes=101_377), "shared memory"),
            (replace(SMALL, tensor_memory_columns=513), "tensor memory"),
            (replace(SMALL, threads=1025, registers_per_thread=1), "threads"),
            (replace(SMALL, threads=512, registers_per_thread=129), "registers"),
            (replace(SMALL, failure="ptxas fatal: bad\nmore"), "compiler"),
        ],
    )
    def test_each_shortage_is_a_failure(self, needed: Resources, place: str) -> None:
        fail = only_failure(FitsResources(), run(), resources={"b1": needed})
        assert fail.signature == signature("resources", place)

    def test_the_message_has_need_and_limit(self) -> None:
        assert judge(FitsResources(), run(), resources={"b1": replace(SMALL, shared_bytes=131_072)}) == [
            "error: layer_norm_bwd_kernel (BT: 32, num_warps: 4) needs 131072 bytes of shared memory, "
            "where rtx-pro-6000 has 101376"
        ]

    def test_a_config_that_an_autotuner_would_skip_passes(self) -> None:
        tuned = run(launches=(launch(config_count=6),))
        assert judge(FitsResources(), tuned, resources={"b1": replace(SMALL, shared_bytes=131_072)}) == ["pass"]

    @pytest.mark.parametrize(
        ("index", "others", "place", "severity"),
        [
            (0, (LARGE, SMALL), "shared memory of the first config", Severity.WARNING),
            (1, (SMALL, LARGE), "", None),
            (1, (LARGE, LARGE), "shared memory", Severity.ERROR),
            (0, (LARGE, Resources.failed("no such type")), "shared memory", Severity.ERROR),
            (0, (LARGE, Resources.not_known("no disk")), "shared memory of the first config", Severity.WARNING),
        ],
    )
    def test_an_autotuned_kernel_is_judged_by_all_its_configs(
        self, index: int, others: tuple[Resources, Resources], place: str, severity: Severity | None
    ) -> None:
        builds = ("b1", "b2")
        tuned = launch(config_count=2, config_index=index, config_builds=builds, build=builds[index])
        resources: dict[str, Resources] = dict(zip(builds, others, strict=True))
        if severity is None:
            assert judge(FitsResources(), run(launches=(tuned,)), resources=resources) == ["pass"]
            return
        fail = only_failure(FitsResources(), run(launches=(tuned,)), resources=resources)
        assert fail.signature == signature("resources", place, severity=severity)

    def test_a_config_without_ttir_counts_as_one_that_cannot_run(self) -> None:
        tuned = launch(config_count=2, config_builds=("b1", ""))
        fail = only_failure(FitsResources(), run(launches=(tuned,)), resources={"b1": LARGE})
        assert fail.message.startswith(f"{KERNEL} (BT: 32, num_warps: 4) has no config left: none of 2 can run")

    def test_a_config_that_does_not_fit_abstains_until_the_others_are_known(self) -> None:
        tuned = launch(config_count=2, config_builds=("b1", "b2"))
        assert judge(FitsResources(), run(launches=(tuned,)), resources={"b1": LARGE}) == [
            f"abstain: not compiled to the end: {KERNEL}"
        ]
        assert judge(FitsResources(), run(launches=(tuned,)), resources={"b1": SMALL}) == ["pass"]

    def test_local_memory_has_a_limit_in_a_thread_and_one_on_the_gpu(self) -> None:
        for spilled, seen in (
            (524_289, "bytes of local memory in a thread"),
            (400_000, "bytes of local memory for all SMs"),
        ):
            fail = only_failure(FitsResources(), run(), resources={"b1": replace(SMALL, spill_bytes=spilled)})
            assert fail.signature == signature("resources", "local memory")
            assert seen in fail.message
        assert judge(FitsResources(), run(), resources={"b1": replace(SMALL, spill_bytes=16_512)}) == ["pass"]

    def test_a_refusal_of_the_only_config_fails(self) -> None:
        refusal = raised("out of resource: shared memory", kind="OutOfResources", config_count=1)
        fail = only_failure(FitsResources(), run(launches=(), ending=refusal))
        assert fail.signature == signature("resources", "OutOfResources")
        assert fail.message == (
            "layer_norm_bwd_kernel cannot be launched on rtx-pro-6000: out of resource: shared memory"
        )

    def test_a_refusal_of_every_config_fails(self) -> None:
        refusal = raised("out of resource: shared memory", kind="OutOfResources", config_count=6)
        fail = only_failure(FitsResources(), run(launches=(), ending=refusal))
        assert fail.signature == signature("resources", "OutOfResources")
        assert fail.message == (
            "none of the 6 configs of layer_norm_bwd_kernel can be launched on rtx-pro-6000: "
            "out of resource: shared memory"
        )

    def test_abstains_if_the_refused_kernel_is_unknown(self) -> None:
        assert judge(FitsResources(), run(launches=(), ending=raised(kind="PTXASError"))) == [
            "abstain: PTXASError in a kernel, which may be autotuned and skip this config"
        ]

    def test_abstains_on_other_exceptions(self) -> None:
        assert judge(FitsResources(), run(ending=raised())) == ["abstain: RuntimeError was raised in phase backward"]


class TestScratchMemory:
    def test_passes_a_case_that_completed(self) -> None:
        assert judge(ScratchMemory(), run()) == ["pass"]

    def test_fails_without_an_allocator(self) -> None:
        fail = only_failure(ScratchMemory(), run(ending=raised(NO_ALLOCATOR, config_count=1)))
        assert fail.signature == signature("scratch-memory", "layernorm.py:431")
        assert fail.message == (
            f"{KERNEL} needs scratch memory on sm_120, and in backward no allocator is set (layernorm.py:431)"
        )

    def test_abstains_on_other_exceptions(self) -> None:
        assert judge(ScratchMemory(), run(ending=raised())) == ["abstain: RuntimeError was raised in phase backward"]
