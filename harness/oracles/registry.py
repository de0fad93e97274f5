"""All oracles, and the outcome of a case under them.

Causes come before consequences in `ALL`, so the first failure of a case usually explains the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.errors import unknown
from harness.model.case import Case, Scale, ValueDistribution
from harness.model.kernel_resources import Resources
from harness.model.paired_run import PairedRun
from harness.model.run import Completed, Run
from harness.model.verdict import FLOAT64_VALUES, VALUE_ORACLES, Abstain, Fail, Outcome, Pass, Verdict
from harness.oracles import scratch_buffer
from harness.oracles.agreement import NOT_BOTH, GpuAgreement
from harness.oracles.autotuner_choice import NOT_TUNED, AutotunerChoice
from harness.oracles.autotuner_key import NO_KEYS, AutotunerKey
from harness.oracles.autotuner_threads import NOT_INTERRUPTED, AutotunerThreads
from harness.oracles.base import Evidence, Oracle
from harness.oracles.bounds import InBounds
from harness.oracles.completes import Completes
from harness.oracles.compute_sanitizer import NOT_UNDER_IT, ComputeSanitizerClean
from harness.oracles.config_invariance import ConfigInvariance
from harness.oracles.descriptor_alignment import DescriptorAlignment
from harness.oracles.device_assert import DeviceAssertsHold
from harness.oracles.endings import NO_LAUNCH
from harness.oracles.exact_values import NO_EXACT_RUN, Precision, WrongValue
from harness.oracles.float64_values import DECIDED_EXACTLY, Float64Values
from harness.oracles.launch_limits import WithinLaunchLimits
from harness.oracles.order_dependence import NoOrderDependence
from harness.oracles.order_invariance import OrderInvariance
from harness.oracles.repeatability import NOT_REPEATED, Repeatability
from harness.oracles.resources import FitsResources
from harness.oracles.result_structure import ResultStructure
from harness.oracles.scratch_memory import ScratchContext, ScratchMemory
from harness.oracles.sm_invariance import SmInvariance
from harness.oracles.thread_race import NoThreadRace
from harness.oracles.triton_sanitizer import NOT_CHECKED, TritonSanitizerClean
from harness.oracles.tuning_invariance import TuningInvariance
from harness.oracles.undefined_lanes import UndefinedLaneIndependence
from harness.oracles.uninitialised_read import NoUninitialisedReads
from harness.oracles.unwritten import FullyWritten
from harness.oracles.write_overlap import NoWriteOverlap

COMPLETES = Completes()
BOUNDS = InBounds()
LIMITS, FITS, SCRATCH = WithinLaunchLimits(), FitsResources(), ScratchMemory()
KEYS = AutotunerKey()
STRUCTURE = ResultStructure()
TRITONS = TritonSanitizerClean()

ALL: tuple[Oracle, ...] = (
    COMPLETES,
    LIMITS,
    FITS,
    SCRATCH,
    ScratchContext(),
    *scratch_buffer.ALL,
    AutotunerChoice(),
    ComputeSanitizerClean(),
    TRITONS,
    BOUNDS,
    DescriptorAlignment(),
    DeviceAssertsHold(),
    NoWriteOverlap(),
    NoOrderDependence(),
    NoThreadRace(),
    NoUninitialisedReads(),
    FullyWritten(),
    UndefinedLaneIndependence(),
    STRUCTURE,
    WrongValue(),
    Precision(),
    Float64Values(),
    GpuAgreement(),
    Repeatability(),
    OrderInvariance(),
    SmInvariance(),
    ConfigInvariance(),
    TuningInvariance(),
    KEYS,
    AutotunerThreads(),
)


CHECK_OVERSIZED = frozenset({COMPLETES.name, LIMITS.name, FITS.name, SCRATCH.name, BOUNDS.name})
"""The oracles that need neither values nor every program of a launch."""
READ_RESOURCES = frozenset({FITS.name, KEYS.name})
"""The oracles that read the resources of builds, which the compiler may report after the run was judged."""
NOT_REQUESTED = frozenset(
    {
        scratch_buffer.NO_SCRATCH,
        NOT_UNDER_IT,
        NOT_CHECKED,
        NOT_REPEATED,
        NOT_BOTH,
        NO_EXACT_RUN,
        DECIDED_EXACTLY,
        NOT_TUNED,
        NO_KEYS,
        NOT_INTERRUPTED,
    }
)
"""Reasons to abstain that concern engines or tools that were not requested; left out if there are others."""
OVERSIZED = "of an oversized case a few programs run and nothing is compared"
NO_VALUES = "FpSan computes in integers, and nothing but bits can be compared"
NAN_TAINTED = "what infinity or NaN reaches may differ from run to run"
COMPARE_WHOLE_RESULTS = frozenset(
    {"sm-invariance", "config-invariance", "order-invariance", "tuning-invariance", "undefined-lanes"}
)
"""Oracles that compare every element; only `float64-values` knows which elements the definition determines."""
NEED_RESULTS = COMPARE_WHOLE_RESULTS | VALUE_ORACLES | {"unwritten", "repeatability"}
NO_SUCH_RESULT = "no result has the structure of the definition's, so none was compared"


def find(name: str) -> Oracle:
    """Return the oracle of that name.

    Raises:
        UsageError: there is none; the text names the nearest.
    """
    by_name = {oracle.name: oracle for oracle in ALL}
    if name not in by_name:
        raise unknown("oracle", name, by_name)
    return by_name[name]


def promised(waives: Collection[str], oracles: Iterable[Oracle] = ALL) -> tuple[Oracle, ...]:
    """Return the oracles whose promises an op makes; `waives` are the names of those that it does not make."""
    waived = frozenset[str]().union(*map(family, waives))
    return tuple(oracle for oracle in oracles if oracle.name not in waived)


def related(oracle: str) -> frozenset[str]:
    """Return the oracles that may judge what this one judged, in another run of the case."""
    return VALUE_ORACLES if oracle in VALUE_ORACLES else frozenset({oracle})


def family(oracle: str) -> frozenset[str]:
    """Return the oracles that one name stands for: with `float64-values`, those that decide in exact arithmetic."""
    return VALUE_ORACLES if oracle == FLOAT64_VALUES else frozenset({oracle})


def paired_runs(run: Run, oracles: Iterable[Oracle] = ALL) -> tuple[Case, ...]:
    """Return the cases that these oracles need to judge this run, each once."""
    if run.case.scale is Scale.OVERSIZED or not _has_values(run):
        return ()
    asking = [
        oracle for oracle in oracles if not (_compares_nan_taint(oracle, run.case) or _lacks_results(oracle, run))
    ]
    return tuple({case.digest: case for oracle in asking for case in oracle.paired_runs(run)}.values())


def judge_all(
    run: Run,
    paired_runs: Mapping[str, Run],
    resources: Mapping[str, Resources],
    waives: Collection[str] = (),
    oracles: Iterable[Oracle] = ALL,
) -> tuple[Verdict, ...]:
    """Return the verdicts of all promised oracles, in the oracles' order.

    Args:
        run: the case's own run.
        paired_runs: the runs of the cases that `paired_runs` returned, by the digest of their case.  An oracle abstains
            if one of its cases is missing.
        resources: what the launched builds take, by `Launch.build`, as far as it is known.
        waives: names of oracles whose promise the op does not make.
        oracles: the oracles to ask.
    """
    assert not isinstance(run, PairedRun), f"{run.case} has no reference: a paired run cannot be checked by itself"
    verdicts: list[Verdict] = []
    without_pairs = Evidence(run=run, paired_runs=(), resources=resources)
    for oracle in promised(waives, oracles):
        if run.case.scale is Scale.OVERSIZED and oracle.name not in CHECK_OVERSIZED:
            verdicts.append(Abstain(oracle=oracle.name, reason=OVERSIZED))
        elif not _has_values(run) and oracle.name != TRITONS.name:
            verdicts.append(Abstain(oracle=oracle.name, reason=NO_VALUES))
        elif _compares_nan_taint(oracle, run.case):
            verdicts.append(Abstain(oracle=oracle.name, reason=NAN_TAINTED))
        elif _lacks_results(oracle, run):
            verdicts.append(Abstain(oracle=oracle.name, reason=NO_SUCH_RESULT))
        else:
            cases = oracle.paired_runs(run)
            known = tuple(paired_runs[case.digest] for case in cases if case.digest in paired_runs)
            is_complete = bool(known) and len(known) == len(cases)
            verdicts += oracle.judge(replace(without_pairs, paired_runs=known) if is_complete else without_pairs)
    return tuple(_with_model(verdict, run) for verdict in verdicts)


def _with_model(verdict: Verdict, run: Run) -> Verdict:
    """Return a failure of modelled launches with the words that say so; other verdicts as they are."""
    if not isinstance(verdict, Fail):
        return verdict
    kernel = verdict.signature.kernel
    models = (launch.model for launch in run.launches if launch.model and kernel in {launch.kernel, ""})
    model = next(models, None)
    return (
        verdict
        if model is None
        else replace(verdict, meaning=f"{verdict.meaning}  The launches follow a model {model}.")
    )


def without_unlaunched_passes(run: Run, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts; if the run launched no kernel, oracles that pass abstain instead.

    Right values that torch computed say nothing about the kernels of a library.  Failures stay: a library that skips
    its kernel returns what was never stored.
    """
    if run.launches or not isinstance(run.ending, Completed):
        return tuple(verdicts)
    return tuple(
        Abstain(oracle=verdict.oracle, reason=NO_LAUNCH) if isinstance(verdict, Pass) else verdict
        for verdict in verdicts
    )


def _has_values(run: Run) -> bool:
    return run.instrumented is None or run.instrumented.has_values


def _compares_nan_taint(oracle: Oracle, case: Case) -> bool:
    return case.values is ValueDistribution.NAN_TAINTED and oracle.name in COMPARE_WHOLE_RESULTS


def _lacks_results(oracle: Oracle, run: Run) -> bool:
    return bool(run.mismatches) and not run.results and oracle.name in NEED_RESULTS


def outcome(run: Run, verdicts: Sequence[Verdict]) -> Outcome:
    """Return the outcome of a case with these verdicts.

    A case passes if it completed and at least one further promise was checked and kept, where others were to be
    checked.  It fails if any oracle fails.  Everything else abstains.  So a case that launched no kernel, one with a
    kernel that was not executed, and one that was refused never count as tested.
    """
    if any(isinstance(verdict, Fail) for verdict in verdicts):
        return Outcome.FAIL
    others = tuple(verdict for verdict in verdicts if verdict.oracle != COMPLETES.name)
    checked = any(isinstance(verdict, Pass) for verdict in others or verdicts)
    return Outcome.PASS if isinstance(run.ending, Completed) and checked else Outcome.ABSTAIN


def reasons(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the reasons why oracles abstained, each once, without those in `NOT_REQUESTED` if there are others.

    A case without a kernel has no other reason.
    """
    given = tuple(dict.fromkeys(verdict.reason for verdict in verdicts if isinstance(verdict, Abstain)))
    if NO_LAUNCH in given:
        return (NO_LAUNCH,)
    return tuple(reason for reason in given if reason not in NOT_REQUESTED) or given
