"""Flaws of a candidate, named from the runs of its cases and the failures that oracles saw."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.checks.answer import BACKWARD, BACKWARD_WORK, CHANCE, CONTROL, LEGAL, NO_BACKWARD, WORK, OriginFault
from harness.checks.check_verdict import CandidateFlaw, TorchShare
from harness.model.engine_traits import PTX
from harness.model.flaw_kind import FlawKind
from harness.model.run import (
    Completed,
    Crashed,
    Deadlocked,
    Faulted,
    HungParty,
    OutOfMemory,
    Raised,
    Refused,
    Result,
    Role,
    Run,
    TimedOut,
    Unsupported,
)
from harness.model.verdict import Fail, Severity
from harness.oracles import registry
from harness.oracles.endings import describe
from harness.oracles.traits import Causality

RAISED: Mapping[str, FlawKind] = {
    "InputChanged": FlawKind.INPUT_CHANGED,
    "ReferenceCalled": FlawKind.REFERENCE_CALLED,
    "ProcessForked": FlawKind.TAMPERING,
    "OutsideReached": FlawKind.TAMPERING,
    "RefusalForged": FlawKind.EXCEPTION,
    "OutputForged": FlawKind.TAMPERING,
    "LeftRunning": FlawKind.TAMPERING,
    "RefereeDisagrees": FlawKind.TAMPERING,
    "OutputsMissing": FlawKind.TAMPERING,
}
"""The kinds of failures by the class of an exception that the harness raises itself."""
BY_NOTE: Mapping[str, FlawKind] = {
    "zeros": FlawKind.ZEROS,
    "constant": FlawKind.CONSTANT,
    "repeated": FlawKind.REPEATED,
}
MEANING: Mapping[FlawKind, str] = {
    FlawKind.ZEROS: "every output is zero, whatever the inputs",
    FlawKind.CONSTANT: "every output has one value in all its elements",
    FlawKind.REPEATED: "the output is that of an earlier call with other inputs",
}
ORIGINS: Mapping[OriginFault, tuple[FlawKind, str]] = {
    OriginFault.COPIED: (FlawKind.COPIED, "{kernel} stores what others had computed"),
    OriginFault.CHANGED: (FlawKind.NO_KERNEL, "an output changes after {kernel} stored it last"),
    OriginFault.UNSEEN: (FlawKind.TAMPERING, "the candidate ends that launches are watched"),
    OriginFault.KEPT: (FlawKind.COPIED, "most of the output is not what {kernel} or another kernel stored"),
    OriginFault.EARLIER: (FlawKind.REPEATED, "the output was there before the call, and no kernel stored to it"),
    OriginFault.UNCOMPARED: (FlawKind.TAMPERING, "the memory of {kernel} is larger than can be compared"),
    OriginFault.READ: (FlawKind.NO_KERNEL, "host code reads the numbers of a tensor"),
    OriginFault.ELSEWHERE: (FlawKind.NO_KERNEL, "values come from outside torch and Triton, before {kernel}"),
}
CHANCE_SHARE = 0.5
SLOW = frozenset({HungParty.COMPILER, HungParty.DEVICE})
"""Who takes long because it is emulated; the host does not."""
MOST_TORCH = 0.5
"""The share of the reference's arithmetic that operators of torch may do unless a task allows them."""
MOST_NAMED = 3
ENOUGH = 2
"""The number of cases from which on all of them mean something."""


@dataclass(slots=True)
class Evidences:
    """What the cases of one check showed."""

    runs: list[Run] = field(default_factory=list[Run])
    failures: list[tuple[Fail, str, str]] = field(default_factory=list[tuple[Fail, str, str]])
    """Each failure with a case that shows it, and the id of its finding."""
    flaws: list[CandidateFlaw] = field(default_factory=list[CandidateFlaw])
    """What is known beside the cases."""
    allowed: frozenset[str] = frozenset()
    """Operators of torch that may do any part of the work."""

    @property
    def completed(self) -> list[Run]:
        return [run for run in self.runs if isinstance(run.ending, Completed)]

    @property
    def lost(self) -> list[Run]:
        """The runs of legal cases that show nothing: the engine, the memory or the time did not suffice."""
        return list(filter(self.is_lost, self.runs))

    def is_lost(self, run: Run) -> bool:
        return isinstance(run.ending, Unsupported | OutOfMemory) or self.is_slow(run)

    def is_slow(self, run: Run) -> bool:
        """Return True if a kernel is slow to emulate or to compile, as far as other cases show: it may be right."""
        return isinstance(run.ending, TimedOut) and run.ending.waiting in SLOW and bool(self.completed)


def flaws_of(seen: Evidences) -> tuple[CandidateFlaw, ...]:
    """Return the flaws, each kind and message once, the gravest first."""
    flaws = [
        *seen.flaws,
        *_of_makers(seen.completed),
        *_of_work(seen),
        *_of_forms(seen.completed),
        *(_of_failure(*failure, seen) for failure in seen.failures),
        *_of_endings(seen),
        *_of_refusals(seen),
    ]
    once: dict[tuple[FlawKind, str], CandidateFlaw] = {}
    for flaw in flaws:
        once.setdefault((flaw.kind, flaw.message), flaw)
    ranks = list(FlawKind)
    return tuple(sorted(once.values(), key=lambda flaw: ranks.index(flaw.kind)))


def replaced_names(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names in torch and the harness that the candidate replaced."""
    start = f"{CONTROL}replaces "
    return tuple(sorted({note.removeprefix(start) for run in runs for note in run.notes if note.startswith(start)}))


def _of_makers(completed: Sequence[Run]) -> Iterator[CandidateFlaw]:
    """Yield flaws of outputs that torch computed."""
    by_torch = [(run, result) for run in completed for result in run.results if _is_by_torch(result)]
    if by_torch:
        run, result = by_torch[0]
        cases = len({id(by) for by, _ in by_torch})
        launched = "" if run.launches else ": no kernel is launched"
        message = f"torch computes {result.name}, no kernel does, in {cases} of {len(completed)} cases{launched}"
        yield CandidateFlaw(kind=FlawKind.NO_KERNEL, message=message, case=str(run.case), cases=cases)
    for fault, (kind, text) in ORIGINS.items() if not by_torch else ():
        yield from _of_origin(fault, kind, text, completed)
    for fault, (kind, text) in ORIGINS.items():
        yield from _of_origin(fault, kind, f"in the backward pass, {text}", completed, BACKWARD)


def _of_origin(
    fault: OriginFault, kind: FlawKind, text: str, completed: Sequence[Run], heading: str = CONTROL
) -> Iterator[CandidateFlaw]:
    """Yield a flaw if notes with this heading show the fault in enough cases."""
    sure = [run for run in completed if f"{heading}{fault}" in run.notes]
    showing = sure or [run for run in completed if f"{heading}{fault}{CHANCE}" in run.notes]
    # A candidate may take another way for large tensors, so a few cases suffice where chance does nothing.
    if len(showing) >= ENOUGH and (sure or len(showing) > CHANCE_SHARE * len(completed)):
        kernel = showing[0].launches[-1].kernel if showing[0].launches else "a kernel"
        message = f"{text.format(kernel=kernel)}, in {len(showing)} of {len(completed)} cases"
        yield CandidateFlaw(kind=kind, message=message, case=str(showing[0].case), cases=len(showing))


def torch_shares(run: Run) -> tuple[TorchShare, ...]:
    """Return the arithmetic of torch's operators in a run, of each pass the largest share first."""
    return (*_shares(run, is_backward=False), *_shares(run, is_backward=True))


def _shares(run: Run, *, is_backward: bool) -> Iterator[TorchShare]:
    heading = BACKWARD_WORK if is_backward else WORK
    texts = [note.removeprefix(heading) for note in run.notes if note.startswith(heading)]
    shares: dict[str, float] = json.loads(texts[0]) if texts else {}
    return (TorchShare(operator=name, share=share, is_backward=is_backward) for name, share in shares.items())


def _of_work(seen: Evidences) -> Iterator[CandidateFlaw]:
    """Yield a flaw for a pass if operators of torch did most of its work that the task does not leave to them."""
    large = [run for run in seen.completed if any(_elements(result) > 1 for result in run.results)] or seen.completed
    for is_backward, of_what in ((False, ""), (True, "backward ")):
        counted = [(run, tuple(_shares(run, is_backward=is_backward))) for run in large]
        refused = [(run, [share for share in shares if share.operator not in seen.allowed]) for run, shares in counted]
        showing = [(sum(each.share for each in shares), run, shares) for run, shares in refused]
        showing = [each for each in showing if each[0] > MOST_TORCH]
        if len(showing) >= ENOUGH:
            total, run, shares = showing[0]
            names = ", ".join(map(str, shares[:MOST_NAMED]))
            message = (
                f"torch does {total:.0%} of the reference's {of_what}arithmetic, "
                f"in {len(showing)} of {len(large)} cases: {names}"
            )
            yield CandidateFlaw(kind=FlawKind.NO_KERNEL, message=message, case=str(run.case), cases=len(showing))


def _of_forms(completed: Sequence[Run]) -> Iterator[CandidateFlaw]:
    """Yield a flaw if outputs have another form than the reference's; gradients have their own oracles."""
    mismatches = [
        (run, mismatch) for run in completed for mismatch in run.mismatches if not mismatch.name.startswith("d:")
    ]
    if mismatches:
        run, mismatch = mismatches[0]
        got = "nothing" if mismatch.got is None else str(mismatch.got)
        wanted = "nothing" if mismatch.expected is None else str(mismatch.expected)
        message = f"{mismatch.name} is {got} where the reference returns {wanted}"
        cases = len({id(by) for by, _ in mismatches})
        yield CandidateFlaw(kind=FlawKind.WRONG_FORM, message=message, case=str(run.case), cases=cases)


def _of_endings(seen: Evidences) -> Iterator[CandidateFlaw]:
    """Yield a flaw for an ending that no oracle judges: by SIGKILL, or in a search that ended before any verdict."""
    is_judged = bool(seen.completed or seen.failures)
    for run in seen.runs:
        if is_judged and not (isinstance(run.ending, Crashed) and run.ending.was_killed):
            continue
        match run.ending:
            case Crashed() | Faulted():
                kind = FlawKind.CRASH
            case TimedOut() | Deadlocked():
                kind = FlawKind.HANG
            case Completed() | Raised() | Refused() | Unsupported() | OutOfMemory():
                continue
        yield CandidateFlaw(kind=kind, message=describe(run.ending), case=str(run.case))
        return


def _of_refusals(seen: Evidences) -> Iterator[CandidateFlaw]:
    """Yield a flaw if the backward of a legal case is refused: the reference has one."""
    for run in seen.runs:
        match run.ending:
            case Refused(message=message) if f"{CONTROL}{LEGAL}" in run.notes and not message.startswith(NO_BACKWARD):
                text = f"the candidate's backward refuses what the reference computes: {message}"
                yield CandidateFlaw(kind=FlawKind.EXCEPTION, message=text, case=str(run.case))
                return
            case _:
                pass


def _is_by_torch(result: Result) -> bool:
    return result.role is Role.OUTPUT and result.writer is None and all(result.shape)


def _of_failure(fail: Fail, case: str, finding: str, seen: Evidences) -> CandidateFlaw:
    kind, message = _named(fail, case, seen)
    return CandidateFlaw(kind=kind, message=message, case=case, finding=finding)


def _named(fail: Fail, case: str, seen: Evidences) -> tuple[FlawKind, str]:
    oracle = fail.signature.oracle
    traits = registry.traits_of(oracle)
    if traits.causality is Causality.ENDING:
        return _ended(fail, case, seen)
    kind = traits.flaw
    if kind is FlawKind.WRONG_VALUES:
        if fail.message.startswith("d:"):
            return FlawKind.WRONG_GRADIENT, f"{oracle}: {fail.message}"
        for note, by_note in BY_NOTE.items():
            if _have(seen.completed, note):
                return by_note, f"{MEANING[by_note]} ({fail.message})"
    return kind, f"{oracle}: {fail.message}"


def _have(completed: Sequence[Run], note: str) -> bool:
    """Return True if the outputs of the candidate are so: zeros in nearly all cases, repeated ones in any."""
    notes = {f"{CONTROL}{note}"} | ({f"{CONTROL}{OriginFault.EARLIER}"} if note == "repeated" else set[str]())
    having = sum(not notes.isdisjoint(run.notes) for run in completed)
    sized = [run for run in completed if any(_elements(result) > 1 for result in run.results)]
    return having > 0 if note == "repeated" else ENOUGH <= len(sized) <= having


def _elements(result: Result) -> int:
    count = 1
    for size in result.shape:
        count *= size
    return count


def _ended(fail: Fail, case: str, seen: Evidences) -> tuple[FlawKind, str]:
    """Return the kind that follows from the ending of a case that did not complete."""
    named = next((kind for name, kind in RAISED.items() if name in fail.message), None)
    if named is not None:
        return named, fail.message.partition(": ")[2] or fail.message
    run = next((run for run in seen.runs if str(run.case) == case), None)
    match run.ending if run else None:
        case TimedOut() | Deadlocked():
            return FlawKind.HANG, fail.message
        case Crashed() | Faulted():
            return FlawKind.CRASH, fail.message
        case Completed() | Raised() | Refused() | Unsupported() | OutOfMemory() | None:
            return FlawKind.EXCEPTION, fail.message


def counts_as_flaw(fail: Fail) -> bool:
    """Return True for an error.  A warning is benign as it stands, and becomes a note."""
    return fail.signature.severity is Severity.ERROR


def obstacle(runs: Sequence[Run]) -> str:
    """Return why no case was checked."""
    for run in runs:
        match run.ending:
            case Refused(message=message):
                return f"every case was refused: {message}"
            case Unsupported(what=what):
                machine = "PTX machine" if run.engine_traits is PTX else "virtual GPU"
                return f"the {machine} cannot execute {what}"
            case OutOfMemory(message=message):
                return f"out of memory: {message}"
            case Completed() | Raised() | Crashed() | Faulted() | TimedOut() | Deadlocked():
                pass
    return "no case could be checked"
