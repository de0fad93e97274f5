"""`harness.check` and `harness.Checker`: candidates are checked one after another, by processes that stay warm."""

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from harness.checks.candidate_check import CandidateCheck, CheckOrder
from harness.checks.check_processes import CheckProcesses
from harness.checks.check_verdict import CheckVerdict
from harness.checks.code_places import Code, checked_code
from harness.errors import unknown
from harness.model.engine_traits import ENGINES, VIRTUAL, EngineTraits, find_engine
from harness.model.paired_run import SecondRun
from harness.oracles import registry
from harness.oracles.traits import Need, Traits
from harness.search import USUAL_DEVICE
from harness.search.options import load_devices
from harness.settings import Settings

USUAL_CASES = 20
TIME_LIMIT_S = 20.0
LIMIT_S = 600.0

Sizes = Mapping[str, Sequence[int]]


@dataclass(kw_only=True)
class Checker:
    """A context manager that checks candidates.  One check at a time runs in it; a checker belongs to one thread.

    The first check starts the processes.  A device that does not exist raises `UsageError` at once.
    """

    device: str = USUAL_DEVICE
    """GPUs to emulate, as `--device` of `harness fuzz` takes them."""
    engine: str = VIRTUAL.name
    """Where cases of the search run: `virtual`, `ptx`, or both compared, as `virtual,ptx`."""
    cases: int = USUAL_CASES
    """Drawn cases of each check, over all devices.  A few of rare values and long dims are added."""
    time_limit_s: float = TIME_LIMIT_S
    """The time limit of one case."""
    limit_s: float = LIMIT_S
    """The time limit of a whole check: what is not settled by then is not checked."""
    allows: Collection[str] = ()
    """Operators of torch that may do any part of the work, as a verdict names them: `convolution`."""
    resources: bool = False
    """Also compile each kernel for the devices, and check that it fits them: a second for each kernel."""
    other_sm_counts: bool = False
    """Also repeat a case on another SM count, in a process of its own."""
    processes: int | None = None
    """Processes that run cases of one check at once; None: one for each core.  With one, and as many checkers as cores
    in threads, more checks end in a second, and each of them later."""
    stops_at_flaw: bool = True
    """A check ends at its first failure."""
    stores_findings: bool = False
    """Failures are stored as findings, for `harness replay`."""
    settings: Settings = Settings()

    def __post_init__(self) -> None:
        self._processes = CheckProcesses(
            devices=load_devices(self.device, None),
            engine=check_engine(self.engine),
            oracles=registry.names_with(self._asks),
            time_limit_s=self.time_limit_s,
            settings=self.settings,
            processes=self.processes,
        )

    def _asks(self, traits: Traits) -> bool:
        return (self.resources or Need.RESOURCES not in traits.needs) and (
            self.other_sm_counts or traits.second_run is not SecondRun.SM_COUNT
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._processes.close()

    def check(  # noqa: PLR0913 - keywords of a user's call
        self,
        new: Code,
        reference: Code | None = None,
        inputs: Code | None = None,
        *,
        sizes: Sizes | None = None,
        cases: int | None = None,
        seed: int | None = None,
        allows: Collection[str] | None = None,
    ) -> CheckVerdict:
        """Check a candidate against its reference: arguments and errors as of `harness.check`."""
        begun = time.monotonic()
        order = CheckOrder(
            code=checked_code(new, reference, inputs),
            declared=tuple((name, tuple(values)) for name, values in (sizes or {}).items()),
            allowed=frozenset(self.allows if allows is None else allows),
            cases=cases or self.cases,
            seed=secrets.randbelow(2**32) if seed is None else seed,
            limit_s=self.limit_s,
            stops_at_flaw=self.stops_at_flaw,
            stores_findings=self.stores_findings,
        )
        verdict = CandidateCheck(order, self._processes).run()
        return replace(verdict, seconds=round(time.monotonic() - begun, 3))


def check_engine(name: str) -> EngineTraits:
    """Return the engine of a check.

    Raises:
        UsageError: it does not exist, or it needs a GPU.
    """
    known = [engine.name for engine in ENGINES if engine.is_virtual]
    found = find_engine(name)
    if found is None or not found.is_virtual:
        raise unknown("engine of a check", name, known)
    return found


def check(  # noqa: PLR0913 - keywords of a user's call
    new: Code,
    reference: Code | None = None,
    inputs: Code | None = None,
    *,
    device: str = USUAL_DEVICE,
    engine: str = VIRTUAL.name,
    cases: int = USUAL_CASES,
    seed: int | None = None,
    sizes: Sizes | None = None,
    allows: Collection[str] = (),
) -> CheckVerdict:
    """Check one candidate against its reference, in processes that end with it.

    Take a `Checker` for more than one candidate: it keeps its processes.

    Args:
        new: a function, `module:function` or `file.py:function`; or a file with `ModelNew`.
        reference: the same; or a file with `Model`, `get_inputs` and `get_init_inputs`, by default `new`.
        inputs: a function that returns the arguments of one call, or a list of several; none with models.
        device: GPUs to emulate, as `--device` of `harness fuzz` takes them.
        engine: where cases run: `virtual`, `ptx`, or both compared, as `virtual,ptx`.
        cases: how many, over all devices.
        seed: equal seeds draw equal cases; by default one that nobody knows beforehand.
        sizes: the sizes of some dims, by the size in the sample: `{"128": (64, 127)}`.
        allows: operators of torch that may do any part of the work, as a verdict names them.

    Raises:
        UsageError: a file, function, device or engine does not exist, or the samples cannot be generalised.
        HarnessError: the harness cannot work here, for example because the disk is full.
    """
    with Checker(device=device, engine=engine, cases=cases, allows=allows) as checker:
        return checker.check(new, reference, inputs, seed=seed, sizes=sizes)
