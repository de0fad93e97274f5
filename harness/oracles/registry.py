"""All oracles, and the outcome of a case under them.

Each file of this room exports its oracles as `ORACLES`, and their traits decide where they stand and who asks them.
Causes come before consequences in `ALL`, so the first failure of a case usually explains the others.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from harness import oracles as room
from harness.errors import unknown
from harness.model.case import Case, Scale, ValueDistribution
from harness.model.kernel_resources import Resources
from harness.model.paired_run import PairedRun
from harness.model.run import Completed, Run
from harness.model.verdict import Abstain, Fail, Outcome, Pass, Signature, Verdict
from harness.oracles.base import Evidence, Oracle
from harness.oracles.completes import Completes
from harness.oracles.endings import NO_LAUNCH
from harness.oracles.lasting_places import lasting_place
from harness.oracles.traits import UNKNOWN, Need, PromiseScope, Proof, Traits


def _all() -> Iterator[Oracle]:
    """Yield the oracles that the files of this room export as `ORACLES`."""
    for module in iter_modules(room.__path__):
        if module.name != __name__.rpartition(".")[2]:
            yield from getattr(import_module(f"{room.__name__}.{module.name}"), "ORACLES", ())


ALL: tuple[Oracle, ...] = tuple(sorted(_all(), key=lambda oracle: oracle.traits.rank))
_BY_NAME = {oracle.name: oracle for oracle in ALL}

NOT_REQUESTED = frozenset[str]().union(*(oracle.traits.not_requested for oracle in ALL))
"""Reasons to abstain that concern engines or tools that were not requested; left out if there are others."""
OVERSIZED = "of an oversized case a few programs run and nothing is compared"
NO_VALUES = "FpSan computes in integers, and nothing but bits can be compared"
NAN_TAINTED = "what infinity or NaN reaches may differ from run to run"
NO_DEFINITION = "the op has no definition, or one that is still to be written: no result was compared"
NO_SUCH_RESULT = "no result has the structure of the definition's, so none was compared"


def find(name: str) -> Oracle:
    """Return the oracle of that name.

    Raises:
        UsageError: there is none; the text names the nearest.
    """
    if name not in _BY_NAME:
        raise unknown("oracle", name, _BY_NAME)
    return _BY_NAME[name]


def traits_of(name: str) -> Traits:
    """Return the traits of the oracle of that name; `UNKNOWN` if this release has none."""
    return _BY_NAME[name].traits if name in _BY_NAME else UNKNOWN


def names_with(has: Callable[[Traits], bool]) -> tuple[str, ...]:
    """Return the names of the oracles with such traits, in their order."""
    return tuple(oracle.name for oracle in ALL if has(oracle.traits))


def names_of(scope: PromiseScope) -> tuple[str, ...]:
    return names_with(lambda traits: traits.scope is scope)


def promised(waives: Collection[str], oracles: Iterable[Oracle] = ALL) -> tuple[Oracle, ...]:
    """Return the oracles whose promises an op makes; `waives` are the names of those that it does not make."""
    waived = frozenset[str]().union(*map(family, waives))
    return tuple(oracle for oracle in oracles if oracle.name not in waived)


def related(oracle: str) -> frozenset[str]:
    """Return the oracles that may judge what this one judged, in another run of the case."""
    head = traits_of(oracle).family
    return frozenset({oracle, *names_with(lambda traits: bool(head) and traits.family == head)})


def family(oracle: str) -> frozenset[str]:
    """Return the oracles that one name stands for: with that of a family's head, all of the family."""
    return related(oracle) if traits_of(oracle).family == oracle else frozenset({oracle})


def is_shown_by(signature: Signature, other: Signature) -> bool:
    """Return True if a failure with the other signature shows the first one.

    It is equal, or the head of their family has one of the two.  An engine without exact arithmetic, or a case that
    exact arithmetic cannot follow, shows only that a value is off.
    """
    if signature == other:
        return True
    head = traits_of(signature.oracle).family
    is_one_family = bool(head) and traits_of(other.oracle).family == head and head in {signature.oracle, other.oracle}
    first, second = ((compared.op, compared.kernel, compared.place) for compared in (signature, other))
    return is_one_family and first == second


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
        if run.case.scale is Scale.OVERSIZED and not oracle.traits.judges_oversized:
            verdicts.append(Abstain(oracle=oracle.name, reason=OVERSIZED))
        elif not _has_values(run) and not oracle.traits.judges_without_values:
            verdicts.append(Abstain(oracle=oracle.name, reason=NO_VALUES))
        elif _compares_nan_taint(oracle, run.case):
            verdicts.append(Abstain(oracle=oracle.name, reason=NAN_TAINTED))
        elif _lacks_results(oracle, run):
            reason = NO_DEFINITION if run.is_undefined else NO_SUCH_RESULT
            verdicts.append(Abstain(oracle=oracle.name, reason=reason))
        else:
            cases = oracle.paired_runs(run)
            known = tuple(paired_runs[case.digest] for case in cases if case.digest in paired_runs)
            is_complete = bool(known) and len(known) == len(cases)
            verdicts += oracle.judge(replace(without_pairs, paired_runs=known) if is_complete else without_pairs)
    return _each_once(_with_statement(_with_model(verdict, run)) for verdict in verdicts)


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


def _with_statement(verdict: Verdict) -> Verdict:
    """Return a failure whose signature names the statement instead of its line, where the file can be read."""
    if not isinstance(verdict, Fail) or verdict.source is None:
        return verdict
    signature = verdict.signature
    place = lasting_place(signature.place, verdict.source, signature.kernel)
    return replace(verdict, signature=replace(signature, place=place))


def _each_once(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts without failures of equal signatures: two lines of one statement are one failure."""
    chosen: dict[object, Verdict] = {}
    for verdict in verdicts:
        chosen.setdefault(verdict.signature if isinstance(verdict, Fail) else verdict, verdict)
    return tuple(chosen.values())


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
    return case.values is ValueDistribution.NAN_TAINTED and Need.COMPARABLE_RESULTS in oracle.traits.needs


def _lacks_results(oracle: Oracle, run: Run) -> bool:
    needs_results = not oracle.traits.needs.isdisjoint({Need.RESULTS, Need.COMPARABLE_RESULTS})
    return bool(run.mismatches or run.is_undefined) and not run.results and needs_results


def is_missing_definition(run: Run, verdicts: Iterable[Verdict]) -> bool:
    """Return True if a result was to be compared with a definition, and there is none."""
    return run.is_undefined and any(traits_of(verdict.oracle).proof is Proof.TRUTH for verdict in verdicts)


def outcome(run: Run, verdicts: Sequence[Verdict]) -> Outcome:
    """Return the outcome of a case with these verdicts.

    A case passes if it completed and at least one further promise was checked and kept, where others were to be
    checked.  It fails if any oracle fails.  Everything else abstains.  So a case that launched no kernel, one with a
    kernel that was not executed, and one that was refused never count as tested.
    """
    if any(isinstance(verdict, Fail) for verdict in verdicts):
        return Outcome.FAIL
    further = tuple(verdict for verdict in verdicts if verdict.oracle != Completes.name)
    checked = any(isinstance(verdict, Pass) for verdict in further or verdicts)
    return Outcome.PASS if isinstance(run.ending, Completed) and checked else Outcome.ABSTAIN


def reasons(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the reasons why oracles abstained, each once, without those in `NOT_REQUESTED` if there are others.

    A case without a kernel has no other reason.
    """
    abstained = tuple(dict.fromkeys(verdict.reason for verdict in verdicts if isinstance(verdict, Abstain)))
    if NO_LAUNCH in abstained:
        return (NO_LAUNCH,)
    return tuple(reason for reason in abstained if reason not in NOT_REQUESTED) or abstained
