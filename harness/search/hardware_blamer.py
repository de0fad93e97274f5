"""Blame for failures on a hardware GPU: repeats of the case there and elsewhere show who is at fault.

A case is repeated as it is, on the virtual GPU, with the other assembler that Triton ships, and with an assembler that
does not optimise.  If another assembly mends the case, the kernels are reduced to those that it has to assemble.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from threading import Lock
from typing import Protocol

from harness.engines.triton.assemblers import Assembler, Assemblers
from harness.errors import HarnessError
from harness.model.hardware_blame import Blame, HardwareBlame
from harness.model.kernel_assembly import KernelAssembly
from harness.model.run import Completed, Faulted, Raised, Run, TimedOut
from harness.model.verdict import Abstain, Fail, Severity, Signature
from harness.search.judge import Examination
from harness.search.runner import mapped

AS_IT_IS = 3
"""How often the case runs as it is, the run that confirmed it included."""
LUCK = 0.05
"""The greatest chance that a failure which another build does not mend stays away in all of its runs."""
MOST_RUNS = 8
"""Runs of one build.  A failure so rare that these do not suffice has no known cause."""
UNOPTIMISED = KernelAssembly(optimises=False)


class CaseRuns(Protocol):
    """Repeats one case, each time alone in a fresh process."""

    def as_it_is(self) -> Examination: ...

    def assembled(self, assembly: KernelAssembly, /) -> Examination:
        """Repeat it on the hardware GPU with kernels assembled in another way."""
        ...

    def on_virtual_gpu(self) -> Examination:
        """Repeat it on the virtual GPU, under all oracles."""
        ...


class _Effect(Enum):
    """The result of a repeat."""

    SHOWN = auto()
    GONE = auto()
    UNCLEAR = auto()
    """It showed neither the failure nor a checked result."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """All repeats of one kind."""

    effect: _Effect
    runs: int = 0
    why: str = ""
    """The reason of an unclear result."""


@dataclass(slots=True)
class HardwareBlamer:
    """Finds who is at fault; it remembers miscompilations, since one causes many failures.  Thread-safe."""

    assemblers: Assemblers
    target: str
    """The compile target of the hardware GPU: `sm_90a`."""
    _known: list[KernelAssembly] = field(default_factory=list[KernelAssembly])
    """Assemblies of few kernels that mended earlier failures."""
    _lock: Lock = field(default_factory=Lock)

    def blames(self, fail: Fail, confirmed: Examination, runs: CaseRuns) -> Generator[HardwareBlame]:
        """Yield who is at fault for a failure that a run alone has just confirmed, and then more about it.

        That an assembler is at fault is known some time before its kernels are.
        """
        inquiry = _Inquiry(self, fail.signature, confirmed, runs)
        known = False
        try:
            for blame in inquiry.results():
                known = True
                yield blame
        except HarnessError as error:
            if not known:
                yield inquiry.closed(Blame.UNKNOWN, f"a repeat failed: {str(error).splitlines()[0]}")

    def remember(self, assembly: KernelAssembly) -> None:
        """Remember that these kernels, assembled so, mend a failure."""
        with self._lock:
            if assembly not in self._known:
                self._known.append(assembly)

    @property
    def known(self) -> tuple[KernelAssembly, ...]:
        with self._lock:
            return tuple(self._known)

    @property
    def assemblies(self) -> tuple[KernelAssembly, ...]:
        """The other ways to assemble kernels, the one that is closer to the usual way first."""
        other = self.assemblers.other
        return (*((KernelAssembly(ptxas=other.path),) if other else ()), UNOPTIMISED)

    def name_of(self, assembly: KernelAssembly) -> str:
        """Return the assembler's name and options: `ptxas 12.8.93 -O0`."""
        by = self.assemblers.other if assembly.ptxas else self.assemblers.usual
        return f"{_name(by)}{'' if assembly.optimises else ' -O0'}"


class _Inquiry:
    """The repeats of one failure."""

    def __init__(self, blamer: HardwareBlamer, signature: Signature, confirmed: Examination, runs: CaseRuns) -> None:
        self._blamer = blamer
        self._signature = signature
        self._confirmed = confirmed
        self._runs = runs
        self._evidence: list[str] = []
        self._rate = 1.0
        """The share of runs that show the failure."""
        self._varies = False
        self._exact: Fail | None = None

    def results(self) -> Generator[HardwareBlame]:
        """Repeat the case until the one at fault is known, and then until its kernels are.

        The virtual GPU comes first: most failures are the library's, and need no repeats on the hardware.
        """
        virtual = self._on_virtual_gpu()
        if virtual.effect is _Effect.SHOWN:
            yield self.closed(Blame.LIBRARY)
            return
        if isinstance(self._confirmed.run.ending, TimedOut):
            yield self.closed(Blame.UNKNOWN, "a case that hangs is not repeated with other builds")
            return
        self._as_it_is()
        if mended := self._mended_as_before():
            yield self._miscompiled(mended, [mended])
            return
        assemblies = self._blamer.assemblies
        effects = dict(zip(assemblies, mapped(self._assembled, assemblies, len(assemblies)), strict=True))
        self._evidence += (_sentence(self._blamer.name_of(assembly), tried) for assembly, tried in effects.items())
        mending = [assembly for assembly, tried in effects.items() if tried.effect is _Effect.GONE]
        if mending:
            yield self._miscompiled(mending[0], mending)
            reduced = self._reduced(mending[0])
            self._blamer.remember(reduced)
            yield self._miscompiled(reduced, mending)
        elif not all(tried.effect is _Effect.SHOWN for tried in effects.values()):
            yield self.closed(Blame.UNKNOWN)  # an assembler's mistake can also show in some runs only
        elif self._varies:
            yield self.closed(Blame.RACE)
        else:
            yield self.closed(Blame.TRITON if virtual.effect is _Effect.GONE else Blame.UNKNOWN)

    def closed(self, blame: Blame, *evidence: str) -> HardwareBlame:
        return HardwareBlame(blame=blame, evidence=(*self._evidence, *evidence), exact=self._exact)

    def _miscompiled(self, mending: KernelAssembly, mending_ways: Sequence[KernelAssembly]) -> HardwareBlame:
        return replace(
            self.closed(Blame.ASSEMBLER),
            assembler=f"{_name(self._blamer.assemblers.usual)} for {self._blamer.target}",
            kernels=mending.kernels,
            mended_by=tuple(map(self._blamer.name_of, mending_ways)),
        )

    def _on_virtual_gpu(self) -> _Tried:
        examined = self._runs.on_virtual_gpu()
        tried = _Tried(self._on_virtual_effect(examined), 1, _why_unclear(examined.run, self._signature.oracle))
        self._evidence.append(_sentence("the virtual GPU", tried))
        shown = examined.fail_with(self._signature)
        if (
            shown is not None and shown.oracle != self._signature.oracle
        ):  # it has exact arithmetic, and hardware has not
            self._evidence.append(f"there exact arithmetic decides: a failure of `{shown.oracle}`")
            self._exact = shown
        return tried

    def _on_virtual_effect(self, examined: Examination) -> _Effect:
        """Return the effect.  Of the same kernel any error counts: wrong values may be what a stray access becomes."""
        kernel = self._signature.kernel
        errors = [fail.signature for fail in examined.fails if fail.signature.severity is Severity.ERROR]
        if examined.fail_with(self._signature) or any(kernel and error.kernel == kernel for error in errors):
            return _Effect.SHOWN
        return _Effect.GONE if isinstance(examined.run.ending, Completed) else _Effect.UNCLEAR

    def _as_it_is(self) -> None:
        examined = [self._confirmed, *self._again(AS_IT_IS - 1)]
        shown = sum(self._effect(repeat) is _Effect.SHOWN for repeat in examined)
        if shown < len(examined):  # how often it shows decides how many runs of other builds prove something
            examined += self._again(MOST_RUNS - AS_IT_IS)
            shown = sum(self._effect(repeat) is _Effect.SHOWN for repeat in examined)
        self._rate = (shown + 0.5) / (len(examined) + 1)
        values = {_digest(repeat.run) for repeat in examined}
        uses_atomics = any(launch.atomics for repeat in examined for launch in repeat.run.launches)
        self._varies = shown < len(examined) or (len(values) > 1 and not uses_atomics)
        other = ", with other values each time" if shown == len(examined) and self._varies else ""
        self._evidence.append(f"as it is, {shown} of {len(examined)} runs show it{other}")

    def _again(self, runs: int) -> list[Examination]:
        """Repeat the case as it is, several times at once."""
        return mapped(lambda _: self._runs.as_it_is(), range(runs), AS_IT_IS)

    def _mended_as_before(self) -> KernelAssembly | None:
        """Return the assembly of an earlier miscompilation that mends this failure too."""
        for known in self._blamer.known:
            tried = self._assembled(known)
            if tried.effect is _Effect.GONE:
                self._evidence.append(_sentence(self._kernels_by(known), tried))
                return known
        return None

    def _reduced(self, mending: KernelAssembly) -> KernelAssembly:
        """Return the same assembly for a smallest set of kernels that mends the case, at best the blamed one."""
        launched = dict.fromkeys(launch.kernel for launch in self._confirmed.run.launches)
        if isinstance(ending := self._confirmed.run.ending, Faulted) and ending.launch:
            launched.setdefault(ending.launch)
        if not launched:
            return mending
        first = [name for name in launched if name == self._signature.kernel]
        kernels = next(self._mending(mending, [first]), None) or self._smallest(mending, list(launched))
        reduced = replace(mending, kernels=tuple(kernels))
        self._evidence.append(_sentence(self._kernels_by(reduced), _Tried(_Effect.GONE, 1)))
        return reduced

    def _smallest(self, mending: KernelAssembly, kernels: list[str]) -> list[str]:
        """Leave out halves, then smaller parts, as long as the rest mends the case."""
        part = math.ceil(len(kernels) / 2)
        while len(kernels) > 1:
            rests = [kernels[:at] + kernels[at + part :] for at in range(0, len(kernels), part)]
            smaller = next(self._mending(mending, rests), None)
            if smaller is not None:
                kernels, part = smaller, min(part, math.ceil(len(smaller) / 2))
            elif part == 1:
                break
            else:
                part = math.ceil(part / 2)
        return kernels

    def _mending(self, assembly: KernelAssembly, candidates: list[list[str]]) -> Iterator[list[str]]:
        """Yield the candidates, sets of kernels, that mend the case when they alone are assembled so."""
        for kernels in candidates:
            if kernels and self._assembled(replace(assembly, kernels=tuple(kernels))).effect is _Effect.GONE:
                yield kernels

    def _assembled(self, assembly: KernelAssembly) -> _Tried:
        """Repeat the case with kernels assembled so, until a failure that it does not mend would have shown."""
        needed = math.ceil(math.log(LUCK) / math.log(1 - self._rate))
        for number in range(1, min(needed, MOST_RUNS) + 1):
            examined = self._runs.assembled(assembly)
            if (effect := self._effect(examined)) is not _Effect.GONE:
                return _Tried(effect, number, _why_unclear(examined.run, self._signature.oracle))
        if needed > MOST_RUNS:
            return _Tried(_Effect.UNCLEAR, MOST_RUNS, "it shows too seldom to tell")
        return _Tried(_Effect.GONE, needed)

    def _effect(self, examined: Examination) -> _Effect:
        if examined.fail_with(self._signature):
            return _Effect.SHOWN
        verdicts = [verdict for verdict in examined.verdicts if not isinstance(verdict, Fail)]
        is_judged = any(not isinstance(verdict, Abstain) for verdict in verdicts) or bool(examined.fails)
        return _Effect.GONE if isinstance(examined.run.ending, Completed) and is_judged else _Effect.UNCLEAR

    def _kernels_by(self, assembly: KernelAssembly) -> str:
        return f"{self._blamer.name_of(assembly)} for {', '.join(assembly.kernels) or 'all kernels'} alone"


def _why_unclear(run: Run, oracle: str) -> str:
    match run.ending:
        case Completed():
            return f"{oracle} abstained"
        case Raised(kind=kind):
            return f"it raised {kind}"
        case other:
            return f"the run ended as {type(other).__name__}"


def _sentence(how: str, tried: _Tried) -> str:
    match tried.effect:
        case _Effect.SHOWN:
            return f"{how} shows it"
        case _Effect.GONE:
            return f"{how} does not show it{'' if tried.runs == 1 else f' in {tried.runs} runs'}"
        case _Effect.UNCLEAR:
            return f"{how} leaves it open: {tried.why}"


def _digest(run: Run) -> tuple[str, ...]:
    return tuple(result.digest for result in run.results)


def _name(assembler: Assembler | None) -> str:
    return str(assembler) if assembler else "ptxas of an unknown version"
