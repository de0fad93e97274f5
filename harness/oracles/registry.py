"""All oracles, and what a case comes to under them.

Owns their order: causes before consequences, so that the first failure of a case is usually its explanation.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.errors import unknown
from harness.model.case import Case, Scale, ValueDistribution
from harness.model.kernel_resources import Resources
from harness.model.paired_run import PairedRun
from harness.model.run import Completed, Run
from harness.model.verdict import Abstain, Fail, Outcome, Pass, Verdict
from harness.oracles.agreement import NOT_BOTH, Agrees
from harness.oracles.base import Evidence, Oracle
from harness.oracles.bounds import Bounds
from harness.oracles.completes import Completes
from harness.oracles.compute_sanitizer import NOT_UNDER_IT, ComputeSanitizer
from harness.oracles.config_invariance import ConfigInvariance
from harness.oracles.descriptor_alignment import DescriptorAlignment
from harness.oracles.device_assert import DeviceAsserts
from harness.oracles.float64_values import Float64Values
from harness.oracles.launch_limits import LaunchLimits
from harness.oracles.order_dependence import OrderDependent
from harness.oracles.order_invariance import OrderInvariance
from harness.oracles.repeatability import NOT_REPEATED, Repeatability
from harness.oracles.resources import Fits
from harness.oracles.scratch_memory import ScratchMemory
from harness.oracles.sm_invariance import SmInvariance
from harness.oracles.triton_sanitizer import NOT_CHECKED, TritonSanitizer
from harness.oracles.undefined_lanes import UndefinedLaneIndependence
from harness.oracles.uninitialised_read import UninitialisedReads
from harness.oracles.unwritten import Unwritten
from harness.oracles.write_overlap import WriteOverlap

COMPLETES = Completes()
BOUNDS = Bounds()
LIMITS, FITS, SCRATCH = LaunchLimits(), Fits(), ScratchMemory()
TRITONS = TritonSanitizer()

ALL: tuple[Oracle, ...] = (
    COMPLETES,
    LIMITS,
    FITS,
    SCRATCH,
    ComputeSanitizer(),
    TRITONS,
    BOUNDS,
    DescriptorAlignment(),
    DeviceAsserts(),
    WriteOverlap(),
    OrderDependent(),
    UninitialisedReads(),
    Unwritten(),
    UndefinedLaneIndependence(),
    Float64Values(),
    Agrees(),
    Repeatability(),
    OrderInvariance(),
    SmInvariance(),
    ConfigInvariance(),
)


JUDGE_GIANTS = frozenset({COMPLETES.name, LIMITS.name, FITS.name, SCRATCH.name, BOUNDS.name})
"""The oracles that need neither values, nor every program of a launch."""
UNASKED = frozenset({NOT_UNDER_IT, NOT_CHECKED, NOT_REPEATED, NOT_BOTH})
"""What nobody asked for is no reason beside others."""
GIANT = "of a giant case a few programs run and nothing is compared"
NO_VALUES = "FpSan computes in integers, and nothing but bits can be compared"
SPOILED = "what infinity or NaN reaches may differ from run to run"
COMPARE_RUNS = frozenset({"sm-invariance", "config-invariance", "order-invariance", "undefined-lanes"})
"""They compare all of a result, where `float64-values` knows which of it the definition determines."""


def find(name: str) -> Oracle:
    """The oracle of that name.

    Raises:
        UsageError: there is none; the text names the nearest.
    """
    by_name = {oracle.name: oracle for oracle in ALL}
    if name not in by_name:
        raise unknown("oracle", name, by_name)
    return by_name[name]


def promised(waives: Collection[str], oracles: Iterable[Oracle] = ALL) -> tuple[Oracle, ...]:
    """The oracles whose promise an op makes that waives these."""
    return tuple(oracle for oracle in oracles if oracle.name not in waives)


def companions(run: Run, oracles: Iterable[Oracle] = ALL) -> tuple[Case, ...]:
    """The cases that these oracles want run to judge this one, each once."""
    if run.case.scale is Scale.GIANT or not _has_values(run):
        return ()
    oracles = [oracle for oracle in oracles if not _is_out_of_place(oracle, run.case)]
    return tuple({case.digest: case for oracle in oracles for case in oracle.companions(run)}.values())


def judge_all(
    run: Run,
    companion_runs: Mapping[str, Run],
    resources: Mapping[str, Resources],
    waives: Collection[str] = (),
    oracles: Iterable[Oracle] = ALL,
) -> tuple[Verdict, ...]:
    """What every promised oracle says, in the oracles' order.

    Args:
        run: the case's own run.
        companion_runs: the runs of `companions`, by the digest of their case; an oracle with one missing abstains.
        resources: what is known of the launched builds, by `Launch.build`.
        waives: names of oracles whose promise the op does not make.
        oracles: those to ask.
    """
    assert not isinstance(run, PairedRun), f"{run.case} was compared with no reference: it cannot be judged by itself"
    verdicts: list[Verdict] = []
    alone = Evidence(run=run, companions=(), resources=resources)
    for oracle in promised(waives, oracles):
        if run.case.scale is Scale.GIANT and oracle.name not in JUDGE_GIANTS:
            verdicts.append(Abstain(oracle=oracle.name, reason=GIANT))
        elif not _has_values(run) and oracle.name != TRITONS.name:
            verdicts.append(Abstain(oracle=oracle.name, reason=NO_VALUES))
        elif _is_out_of_place(oracle, run.case):
            verdicts.append(Abstain(oracle=oracle.name, reason=SPOILED))
        else:
            wanted = oracle.companions(run)
            known = tuple(companion_runs[case.digest] for case in wanted if case.digest in companion_runs)
            is_complete = bool(known) and len(known) == len(wanted)
            verdicts += oracle.judge(replace(alone, companions=known) if is_complete else alone)
    return tuple(verdicts)


def _has_values(run: Run) -> bool:
    return run.instrumented is None or run.instrumented.has_values


def _is_out_of_place(oracle: Oracle, case: Case) -> bool:
    return case.values is ValueDistribution.SPOILED and oracle.name in COMPARE_RUNS


def outcome(run: Run, verdicts: Sequence[Verdict]) -> Outcome:
    """What the verdicts on one case come to.

    A case passes if it completed and some promise beyond that was checked and kept; everything else that is no failure
    abstains, so that an engine that cannot execute a kernel, or a library that declines, never counts as tested.
    """
    if any(isinstance(verdict, Fail) for verdict in verdicts):
        return Outcome.FAIL
    checked = any(isinstance(verdict, Pass) and verdict.oracle != COMPLETES.name for verdict in verdicts)
    return Outcome.PASS if isinstance(run.ending, Completed) and checked else Outcome.ABSTAIN


def reasons(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Why a case was not judged, each reason once; what nobody asked for is none beside others."""
    said = tuple(dict.fromkeys(verdict.reason for verdict in verdicts if isinstance(verdict, Abstain)))
    return tuple(reason for reason in said if reason not in UNASKED) or said
