"""The oracles that judge what autotuners do in a run in which they tune."""

from dataclasses import replace

from harness.model.run import Completed, Run
from harness.model.tuning import (
    ForcedRun,
    InterruptedRun,
    KeyCheck,
    KeySweep,
    SharedEntry,
    TriedConfig,
    TunedRun,
    TunerCall,
)
from harness.model.verdict import Severity
from harness.oracles.autotuner_choice import AutotunerChoice
from harness.oracles.autotuner_key import AutotunerKey
from harness.oracles.autotuner_threads import AutotunerThreads
from harness.oracles.tuning_invariance import TuningInvariance
from tests.oracles.facts import KERNEL, SMALL, judge, launch, only_failure, raised, run, signature

SMALL_TILES, LARGE_TILES = "BT: 16, num_warps: 4", "BT: 32, num_warps: 4"
CALL = TunerCall(
    kernel=KERNEL,
    key={"D": "64"},
    types=("torch.float32",),
    configs=2,
    tried=(TriedConfig(config=LARGE_TILES), TriedConfig(config=SMALL_TILES)),
    fastest=LARGE_TILES,
    chosen=LARGE_TILES,
)
CHOICE, INVARIANCE, KEY = AutotunerChoice(), TuningInvariance(), AutotunerKey()


def tuned(call: TunerCall = CALL, *, digest: str = "aa", **changes: object) -> Run:
    """Return a run whose second run, with this call, has a result of this digest."""
    second = TunedRun(ending=Completed(), digests={"y": digest}, calls=(call,), same_configs=True)
    return replace(run(launches=(launch(config_count=2),)), tuned=replace(second, **changes))


def failed(config: str, error: str) -> TriedConfig:
    return TriedConfig(config=config, error=error, message="shared memory")


class TestAutotunerChoice:
    def test_passes_if_the_fastest_config_was_chosen_and_launched(self) -> None:
        assert judge(CHOICE, tuned()) == ["pass"]

    def test_abstains_if_no_autotuner_tuned(self) -> None:
        for quiet in (run(), tuned(replace(CALL, tried=()))):
            assert judge(CHOICE, quiet) == ["abstain: no autotuner tuned in this case"]

    def test_one_of_many_configs_may_be_too_large(self) -> None:
        too_large = failed(LARGE_TILES, "OutOfResources")
        call = replace(CALL, tried=(too_large, CALL.tried[1]), fastest=SMALL_TILES, chosen=SMALL_TILES)
        assert judge(CHOICE, tuned(call)) == ["pass"]

    def test_another_error_that_was_swallowed_is_a_warning(self) -> None:
        wrong = failed(LARGE_TILES, "PTXASError")
        call = replace(CALL, tried=(wrong, CALL.tried[1]), fastest=SMALL_TILES, chosen=SMALL_TILES)
        fail = only_failure(CHOICE, tuned(call))
        assert fail.signature == signature("autotuner-choice", "PTXASError", severity=Severity.WARNING)
        assert fail.message == (
            "the autotuner of layer_norm_bwd_kernel swallowed an error of config [BT: 32, num_warps: 4]: "
            "PTXASError (shared memory)"
        )

    def test_a_choice_among_failures_alone_is_an_error(self) -> None:
        tried = (failed(LARGE_TILES, "OutOfResources"), failed(SMALL_TILES, "OutOfResources"))
        second = tuned(replace(CALL, tried=tried, fastest=""))
        fail = only_failure(CHOICE, replace(second, ending=raised(kind="OutOfResources")))
        assert fail.signature == signature("autotuner-choice", "every config failed")
        assert fail.message == (
            "all 2 configs of layer_norm_bwd_kernel failed while tuning, and [BT: 32, num_warps: 4] was chosen all "
            "the same; the first error: OutOfResources (shared memory)"
        )

    def test_a_slower_choice_is_an_error(self) -> None:
        fail = only_failure(CHOICE, tuned(replace(CALL, chosen=SMALL_TILES)))
        assert fail.signature == signature("autotuner-choice", "not the fastest")

    def test_a_launch_with_other_parameters_is_an_error(self) -> None:
        fail = only_failure(CHOICE, tuned(replace(CALL, overridden=("BT: 64 in place of 32",))))
        assert fail.signature == signature("autotuner-choice", "not the chosen one")
        assert fail.message.endswith("the chosen config [BT: 32, num_warps: 4]: BT: 64 in place of 32")


class TestTuningInvariance:
    def test_passes_if_both_runs_have_the_same_bits(self) -> None:
        assert judge(INVARIANCE, tuned(replace(CALL, changed=("scratch",)))) == ["pass"]

    def test_abstains_if_no_autotuner_tuned(self) -> None:
        assert judge(INVARIANCE, run()) == ["abstain: no autotuner tuned in this case"]

    def test_abstains_if_the_configs_are_not_the_same(self) -> None:
        assert judge(INVARIANCE, tuned(digest="bb", same_configs=False)) == [
            "abstain: a call had another config of its kernel when tuned"
        ]

    def test_a_difference_names_kernel_argument_and_config(self) -> None:
        fail = only_failure(INVARIANCE, tuned(replace(CALL, changed=("dw",), resets=("db",)), digest="bb"))
        assert fail.signature == signature("tuning-invariance", "dw")
        assert fail.message == (
            "y differs in the call that tunes layer_norm_bwd_kernel: 2 configs ran on the same dw before the chosen "
            "one [BT: 32, num_warps: 4]"
        )
        assert "`restore_value` or `reset_to_zero` (declared: reset_to_zero=['db'])" in fail.meaning

    def test_a_difference_without_a_kernel_at_fault_is_the_ops(self) -> None:
        fail = only_failure(INVARIANCE, tuned(digest="bb"))
        assert fail.signature == signature("tuning-invariance", "y", kernel="")

    def test_a_second_run_that_breaks_off_is_an_error(self) -> None:
        assert judge(INVARIANCE, tuned(ending=raised(config_count=2))) == [
            "error: a call that tunes layer_norm_bwd_kernel breaks off, and one that does not tune completes: "
            "RuntimeError was raised in phase backward"
        ]


SWEEP = KeySweep(kernel=KERNEL, argument="NB", dim="T", sizes=(1, 2, 4096), tunings=3, needed=1, is_unused=True)
CLEAN = ForcedRun(ending=Completed(), wrong=(), events=(), builds=("b1",))
ENTRY = SharedEntry(
    kernel=KERNEL,
    key={"T": "129"},
    config=SMALL_TILES,
    other="D=16",
    differing=("D: 16 there, 64 here",),
    is_pruned=True,
    there=CLEAN,
    here=replace(CLEAN, builds=("b2",)),
)


def surveyed(*shared: SharedEntry, sweeps: tuple[KeySweep, ...] = ()) -> Run:
    return replace(run(), keys=KeyCheck(kernels=(KERNEL,), sweeps=sweeps, shared=shared))


class TestAutotunerKey:
    def test_abstains_if_no_key_was_surveyed(self) -> None:
        assert judge(KEY, run()) == ["abstain: the keys of no autotuner were surveyed in this case"]

    def test_passes_if_the_config_of_another_call_works(self) -> None:
        assert judge(KEY, surveyed(ENTRY)) == ["pass"]

    def test_an_argument_that_decides_nothing_is_a_warning(self) -> None:
        fail = only_failure(KEY, surveyed(sweeps=(SWEEP,)))
        assert fail.signature == signature("autotuner-key", "NB", severity=Severity.WARNING)
        assert fail.message == (
            "NB in the key of layer_norm_bwd_kernel makes it tune 3 times where 1 would do, for 3 values of T from 1 "
            "to 4096: its code does not use that argument"
        )

    def test_a_wrong_result_with_the_config_of_another_call_is_an_error(self) -> None:
        fail = only_failure(KEY, surveyed(replace(ENTRY, here=replace(CLEAN, wrong=("y",)))))
        assert fail.signature == signature("autotuner-key", "lacks D")
        assert fail.message == (
            "the case with D=16 shares the key (T=129) of layer_norm_bwd_kernel, and with the config "
            "[BT: 16, num_warps: 4] that it may leave there this case fails, which its own pruning excludes: "
            "y is wrong"
        )

    def test_a_config_that_the_case_may_choose_itself_is_no_fault_of_the_key(self) -> None:
        own = replace(ENTRY, is_pruned=False, here=replace(CLEAN, wrong=("y",), events=("Stray of dx",)))
        assert judge(KEY, surveyed(own)) == ["pass"]

    def test_a_config_that_is_wrong_in_both_cases_is_no_fault_of_the_key(self) -> None:
        wrong = replace(CLEAN, wrong=("y",))
        assert judge(KEY, surveyed(replace(ENTRY, here=wrong, there=wrong))) == ["pass"]

    def test_a_config_that_fits_the_other_case_alone_is_an_error(self) -> None:
        large = replace(SMALL, shared_bytes=200_000)
        shared = surveyed(replace(ENTRY, is_pruned=False))
        fail = only_failure(KEY, shared, resources={"b1": SMALL, "b2": large})
        assert fail.message.endswith(
            "this case fails: needs 200000 bytes of shared memory, where rtx-pro-6000 has 101376"
        )
        assert judge(KEY, shared, resources={"b1": large, "b2": large}) == ["pass"]
        assert judge(KEY, shared, resources={"b1": SMALL}) == ["pass"]


THREADS = AutotunerThreads()
BOTH = InterruptedRun(
    kernel=KERNEL, other="T=258", ending=Completed(), other_ending=Completed(), differing=(), other_differing=()
)


def with_another_thread(**changes: object) -> Run:
    return replace(run(), interrupted=replace(BOTH, **changes))


class TestAutotunerThreads:
    def test_passes_if_both_calls_are_as_alone(self) -> None:
        assert judge(THREADS, with_another_thread()) == ["pass"]

    def test_abstains_if_nothing_was_interrupted(self) -> None:
        for quiet in (run(), with_another_thread(kernel="")):
            assert judge(THREADS, quiet) == ["abstain: no tuning was interrupted by another thread in this case"]

    def test_everything_that_went_wrong_is_one_failure(self) -> None:
        fail = only_failure(THREADS, with_another_thread(ending=raised(), other_ending=None, other_differing=("y",)))
        assert fail.signature == signature("autotuner-threads", "two threads")
        assert fail.message == (
            "while layer_norm_bwd_kernel was tuned in one thread, another one called the op with T=258: in the thread "
            "that tunes, RuntimeError was raised in phase backward; the other thread waits forever; y differs in the "
            "other thread"
        )
