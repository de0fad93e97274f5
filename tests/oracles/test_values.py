"""The oracles that compare values: with the reference, at another SM count, with another config."""

from dataclasses import replace

import pytest

from harness.model.run import FormMismatch, GpuJudgement, Result, ResultForm, TimedOut, UninitialisedRead
from harness.model.verdict import Abstain, Outcome, Severity
from harness.oracles import registry
from harness.oracles.config_invariance import ConfigInvariance
from harness.oracles.float64_values import NEAR, WRONG, Float64Values
from harness.oracles.likely_cause import MEMORY
from harness.oracles.result_structure import ResultStructure
from harness.oracles.sm_invariance import SM_COUNTS, SmInvariance
from tests.oracles.facts import KERNEL, case, judge, launch, only_failure, raised, result, run, signature, site

NAN = float("nan")


class TestValues:
    def test_passes_results_within_their_tolerance(self) -> None:
        assert judge(Float64Values(), run(results=(result(whole=1.0, worst_tile=1.0),))) == ["pass"]

    def test_one_wrong_tile_is_enough(self) -> None:
        fail = only_failure(Float64Values(), run(results=(result("y"), result("d:x", whole=0.3, worst_tile=12.4))))
        assert fail.signature == signature("float64-values", "d:x", kernel="")
        assert fail.message == "d:x[3, 0] is 0.5 where the float64 reference gives 0.25: 12.4 times the tolerance"

    @pytest.mark.parametrize(("times", "meaning"), [(1.02, NEAR), (9.9, NEAR), (10.0, WRONG), (1e6, WRONG)])
    def test_a_small_error_may_be_the_kernels_own_rounding(self, times: float, meaning: str) -> None:
        fail = only_failure(Float64Values(), run(results=(result(whole=times, worst_tile=0.5),)))
        assert fail.meaning == meaning

    @pytest.mark.parametrize("kind", ["int32", "bool"])
    def test_integers_are_wrong_by_no_tolerance(self, kind: str) -> None:
        wrong = replace(result(whole=1e9), kind=kind)
        wrong = replace(wrong, whole=replace(wrong.whole, got=3.0, expected=4.0))
        (message,) = judge(Float64Values(), run(results=(wrong,)))
        assert message == "error: y[3, 0] is 3 where the float64 reference gives 4: integers are equal, or wrong"

    def test_a_value_that_may_follow_from_memory_says_so(self) -> None:
        read = UninitialisedRead(site=site("bins"), cells=1, first_cells=((0,),), program=0, is_integer=True)
        fail = only_failure(Float64Values(), run(results=(result(whole=1e9),), memory=(read,)))
        assert fail.meaning == MEMORY

    def test_every_wrong_result_fails_once(self) -> None:
        wrong = (result("y", whole=2.0, worst_tile=3.0), result("d:x", whole=4.0))
        assert len(judge(Float64Values(), run(results=wrong))) == 2

    def test_a_definition_that_the_gpu_computes_otherwise_is_a_warning(self) -> None:
        judgement = GpuJudgement(is_checked=True, differing=("d:x",))
        fail = only_failure(Float64Values(), replace(run(results=(result(),)), judged_on_gpu=judgement))
        assert fail.signature.severity is Severity.WARNING
        assert fail.message == "in float64, the definition of d:x gives other values on the GPU than on the CPU"
        checked = replace(run(results=(result(),)), judged_on_gpu=GpuJudgement(is_checked=True))
        assert judge(Float64Values(), checked) == ["pass"]

    def test_nan_fails(self) -> None:
        assert judge(Float64Values(), run(results=(result(whole=NAN, worst_tile=NAN, nonfinite=4),))) == [
            "error: y[3, 0] is 0.5 where the float64 reference gives 0.25: beyond the tolerance; "
            "4 cells are NaN or infinite"
        ]

    def test_a_non_finite_cell_fails_even_if_the_ratio_is_small(self) -> None:
        assert len(judge(Float64Values(), run(results=(result(nonfinite=1),)))) == 1

    def test_abstains_if_no_element_can_be_checked(self) -> None:
        nothing, something = replace(result(), unjudged=129 * 64), replace(result("d:x"), unjudged=129 * 64 - 1)
        (verdict,) = judge(Float64Values(), run(results=(nothing,)))
        assert verdict == "abstain: every result leaves the range of the case's type"
        assert judge(Float64Values(), run(results=(nothing, something))) == ["pass"]

    def test_abstains_without_results(self) -> None:
        assert judge(Float64Values(), run(results=())) == ["abstain: the op has no floating-point result to compare"]

    def test_abstains_if_the_case_did_not_complete(self) -> None:
        assert judge(Float64Values(), run(results=(), ending=TimedOut(limit_s=30.0, log_tail=""))) == [
            "abstain: no answer came within 30 s"
        ]


class TestStructure:
    SHAPE = FormMismatch(
        name="y",
        got=ResultForm(kind="float32", shape=(3, 7)),
        expected=ResultForm(kind="float32", shape=(5, 7)),
    )

    def test_passes_if_results_were_compared(self) -> None:
        assert judge(ResultStructure(), run(results=(result(),))) == ["pass"]
        assert judge(ResultStructure(), run(results=())) == ["abstain: no result was compared"]

    def test_a_case_passes_if_its_structure_alone_was_asked_for(self) -> None:
        facts = run(results=(result(),))
        assert registry.outcome(facts, registry.judge_all(facts, {}, {}, (), (ResultStructure(),))) is Outcome.PASS

    def test_all_mismatches_are_one_failure(self) -> None:
        missing = replace(self.SHAPE, name="d:x", got=None)
        fail = only_failure(ResultStructure(), run(results=(), mismatches=(self.SHAPE, missing)))
        assert fail.signature == signature("result-structure", "y shape", kernel="")
        assert fail.message == (
            "y is float32 of shape (3, 7) where the definition gives float32 of shape (5, 7); "
            "d:x is missing where the definition gives float32 of shape (5, 7)"
        )

    @pytest.mark.parametrize(
        ("mismatch", "place"),
        [
            (replace(SHAPE, got=None), "y missing"),
            (replace(SHAPE, expected=None), "y superfluous"),
            (replace(SHAPE, got=ResultForm(kind="float64", shape=(5, 7))), "y float64 for float32"),
            (replace(SHAPE, got=ResultForm(kind="dict", shape=None)), "y dict for float32"),
        ],
    )
    def test_the_place_names_what_differs(self, mismatch: FormMismatch, place: str) -> None:
        assert only_failure(ResultStructure(), run(results=(), mismatches=(mismatch,))).signature.place == place

    def test_other_oracles_claim_nothing_about_results_of_another_form(self) -> None:
        facts = run(results=(), mismatches=(self.SHAPE,))
        assert registry.paired_runs(facts) == ()
        silent = {
            verdict.oracle
            for verdict in registry.judge_all(facts, {}, {})
            if isinstance(verdict, Abstain) and verdict.reason == registry.NO_SUCH_RESULT
        }
        assert silent == {
            *("sm-invariance", "config-invariance", "order-invariance", "tuning-invariance", "undefined-lanes"),
            *("repeat-call", "graph-replay", "row-invariance"),
            *("wrong-value", "precision", "float64-values", "unwritten", "repeatability"),
        }


class TestSmInvariance:
    @pytest.mark.parametrize("seed", [1, 7, 9, 15])
    def test_most_cases_request_no_paired_run(self, seed: int) -> None:
        assert SmInvariance().paired_runs(run(of=case(seed=seed))) == ()

    @pytest.mark.parametrize("seed", [0, 8, 16, 800])
    @pytest.mark.parametrize("sm_count", [*SM_COUNTS, 188])
    def test_one_case_in_eight_requests_another_sm_count(self, seed: int, sm_count: int) -> None:
        (other,) = SmInvariance().paired_runs(run(of=case(seed=seed, sm_count=sm_count)))
        assert other.device.sm_count != sm_count
        assert other == case(seed=seed, sm_count=other.device.sm_count)

    def test_a_case_that_raised_requests_no_paired_run(self) -> None:
        assert SmInvariance().paired_runs(run(of=case(seed=0), ending=raised())) == ()

    def test_passes_within_both_tolerances(self) -> None:
        other = run(of=case(seed=0, sm_count=1), results=(result(sketch=(1.015, 2.0)),))
        assert judge(SmInvariance(), run(of=case(seed=0)), other) == ["pass"]

    def test_fails_beyond_both_tolerances(self) -> None:
        other = run(of=case(seed=0, sm_count=1), results=(result(sketch=(1.0, 2.03)),))
        fail = only_failure(SmInvariance(), run(of=case(seed=0)), other)
        assert fail.signature == signature("sm-invariance", "y", kernel="")
        assert fail.message == (
            "y differs beyond rounding between 188 and 1 SM: most in y[64, 32] to y[128, 63] (elements 4128 to 8255 "
            "of 8256), whose sums with random signs differ by 0.03: 1.5 times the 0.02 that rounding allows; 1 of its "
            "2 parts differs"
        )

    @pytest.mark.parametrize(
        ("other", "where"),
        [
            (result(sketch=(NAN, 2.0)), "where one run has NaN or infinity; 1 of its 2 parts differs"),
            (
                result(sketch=(9.0, 5.0)),
                "differ by 8: 400 times the 0.02 that rounding allows; 2 of its 2 parts differ",
            ),
            (replace(result(), shape=(64, 129)), ": its shape is (129, 64) in one run and (64, 129) in the other"),
            (result("z"), ": the other run has no such result"),
        ],
    )
    def test_a_difference_names_its_kind(self, other: Result, where: str) -> None:
        fail = only_failure(SmInvariance(), run(of=case(seed=0)), run(of=case(seed=0, sm_count=1), results=(other,)))
        assert fail.message.endswith(where)

    def test_a_difference_of_one_element_names_it(self) -> None:
        one = replace(result(sketch=(1.0, 2.0, 3.0)), shape=(3,))
        other = run(of=case(seed=0, sm_count=1), results=(replace(one, sketch=(1.0, 4.0, 3.0)),))
        fail = only_failure(SmInvariance(), run(of=case(seed=0), results=(one,)), other)
        assert "most in y[1] (element 1 of 3), whose sums" in fail.message

    def test_results_in_one_tensor_of_one_kernel_fail_once(self) -> None:
        def results(sketch: float) -> tuple[Result, ...]:
            pair = (result("d:x", sketch=(sketch,)), result("d:residual", sketch=(sketch,)))
            return tuple(replace(one, writer=(KERNEL, "dx")) for one in pair)

        other = run(of=case(seed=0, sm_count=1), results=results(1.0))
        fail = only_failure(SmInvariance(), run(of=case(seed=0), results=results(2.0)), other)
        assert fail.signature == signature("sm-invariance", "dx")

    def test_nan_agrees_with_nan_and_with_nothing_else(self) -> None:
        nan = run(of=case(seed=0), results=(result(sketch=(NAN, 2.0)),))
        assert judge(SmInvariance(), nan, nan) == ["pass"]
        assert len(judge(SmInvariance(), nan, run(of=case(seed=0, sm_count=1)))) == 1
        assert judge(SmInvariance(), nan, run(of=case(seed=0, sm_count=1)))[0].startswith("error")

    def test_abstains_without_its_paired_run(self) -> None:
        assert judge(SmInvariance(), run()) == ["abstain: this case was not run at another SM count"]

    def test_abstains_if_the_paired_run_did_not_complete(self) -> None:
        other = run(of=case(seed=0, sm_count=304), ending=raised())
        assert judge(SmInvariance(), run(of=case(seed=0)), other) == [
            "abstain: with 304 SMs, RuntimeError was raised in phase backward"
        ]


class TestConfigInvariance:
    TUNED = launch(config_count=6)

    def test_requests_another_config_of_an_autotuned_kernel(self) -> None:
        tuned = run(of=case(seed=24), launches=(self.TUNED,))
        assert ConfigInvariance().paired_runs(tuned) == (case(seed=24, configs={KERNEL: 3}),)

    def test_never_requests_the_config_that_ran(self) -> None:
        tuned = run(of=case(seed=24), launches=(launch(config_count=6, config_index=3),))
        assert ConfigInvariance().paired_runs(tuned) == (case(seed=24, configs={KERNEL: 4}),)

    def test_a_case_with_a_refused_config_is_not_paired_with_itself(self) -> None:
        tuned = run(of=case(seed=24, configs={KERNEL: 3}), launches=(self.TUNED,))
        assert registry.paired_runs(tuned, (ConfigInvariance(),)) == ()

    def test_keeps_the_configs_of_the_other_kernels(self) -> None:
        tuned = run(of=case(seed=0, configs={"other": 2}), launches=(self.TUNED,))
        (other,) = ConfigInvariance().paired_runs(tuned)
        assert other.configs == {"other": 2, KERNEL: 1}

    def test_abstains_if_no_kernel_is_autotuned(self) -> None:
        assert ConfigInvariance().paired_runs(run(of=case(seed=0))) == ()
        assert judge(ConfigInvariance(), run(of=case(seed=0))) == ["abstain: no kernel of this case is autotuned"]

    def test_passes_if_both_configs_agree(self) -> None:
        tuned = run(of=case(seed=0), launches=(self.TUNED,))
        other = run(of=case(seed=0, configs={KERNEL: 1}), launches=(launch(config_count=6, config_index=1),))
        assert judge(ConfigInvariance(), tuned, other) == ["pass"]

    def test_abstains_if_the_gpu_refuses_the_other_config(self) -> None:
        tuned = run(of=case(seed=0), launches=(self.TUNED,))
        assert judge(ConfigInvariance(), tuned, replace(tuned, case=case(seed=0, configs={KERNEL: 1}))) == [
            "abstain: layer_norm_bwd_kernel ran with config [BT: 32, num_warps: 4] again, since the GPU refuses another"
        ]

    def test_a_difference_names_both_configs(self) -> None:
        tuned = run(of=case(seed=0), launches=(self.TUNED,))
        other = run(
            of=case(seed=0, configs={KERNEL: 1}),
            launches=(launch(config_count=6, config_index=1, config="BT: 64, num_warps: 4"),),
            results=(result(sketch=(5.0, 2.0)),),
        )
        fail = only_failure(ConfigInvariance(), tuned, other)
        assert fail.signature == signature("config-invariance", "y", severity=Severity.ERROR)
        assert fail.message == (
            "y differs beyond rounding between configs [BT: 32, num_warps: 4] and [BT: 64, num_warps: 4] "
            "of layer_norm_bwd_kernel: most in y[0, 0] to y[64, 31] (elements 0 to 4127 of 8256), whose sums with "
            "random signs differ by 4: 200 times the 0.02 that rounding allows; 1 of its 2 parts differs"
        )

    def test_a_config_that_the_definition_refutes_is_named(self) -> None:
        tuned = run(of=case(seed=0), launches=(self.TUNED,))
        other = run(
            of=case(seed=0, configs={KERNEL: 1}),
            launches=(launch(config_count=6, config_index=1, config="BT: 64, num_warps: 4"),),
            results=(result(sketch=(5.0, 2.0), worst_tile=9.0),),
        )
        assert (
            "of layer_norm_bwd_kernel, of which [BT: 64, num_warps: 4] is wrong: most in"
            in only_failure(ConfigInvariance(), tuned, other).message
        )

    def test_abstains_if_the_other_config_raised(self) -> None:
        tuned = run(of=case(seed=0), launches=(self.TUNED,))
        other = run(of=case(seed=0, configs={KERNEL: 1}), launches=(), ending=raised(kind="OutOfResources"))
        assert judge(ConfigInvariance(), tuned, other) == [
            "abstain: with config number 1 of layer_norm_bwd_kernel, OutOfResources was raised in phase backward"
        ]
