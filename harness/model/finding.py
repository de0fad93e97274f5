"""The finding: a confirmed and minimised failure, the unit of reports."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from harness.model.case import Case
from harness.model.hardware_blame import HardwareBlame
from harness.model.miscompilation import Miscompilation
from harness.model.picture import Picture
from harness.model.run import Launch, Source
from harness.model.verdict import Fail, Severity, Signature

Z = 1.96
"""Standard normal deviate of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCount:
    """The number of times that a case shows its failure when it runs alone, each time in a fresh process."""

    shown: int
    runs: int
    other_result: str = ""
    """The result of the other runs: `passed`, or the failure that they showed instead."""

    @property
    def is_flaky(self) -> bool:
        return 0 < self.shown < self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that contains the true rate with 95 % confidence.

        Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
        """
        if not self.runs:
            return 0.0, 1.0
        rate, spread = self.shown / self.runs, Z * Z / self.runs
        middle = rate + spread / 2
        reach = Z * sqrt(rate * (1 - rate) / self.runs + spread / (4 * self.runs))
        return max(0.0, (middle - reach) / (1 + spread)), min(1.0, (middle + reach) / (1 + spread))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.shown} of {self.runs} times alone (rate {100 * low:.0f} to {100 * high:.0f} %)"


class Confirmation(StrEnum):
    """The answer to whether a failure repeats when its case runs alone in a fresh process."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    """The case ran alone, and did not show the failure."""
    NOT_TRIED = "not tried"
    """The case did not run alone: time was up, or the search was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of the kernel's source, kept because the library may be missing when the finding is read."""

    file: str
    """The path relative to site-packages: `fla/modules/layernorm.py`."""
    first: int
    """The number of the first line."""
    lines: tuple[str, ...]
    """The lines with their indentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Another failure that has the cause of a finding."""

    signature: Signature
    message: str
    """What was seen and where, in the case that showed it first."""
    source: Source | None = None
    sightings: int
    """The number of cases of the search that showed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeen:
    """The first case of a search that showed a failure."""

    case_number: int
    """Counted from 1, in the order of the draws."""
    seconds: float
    """Since the search began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLaunch:
    """Where `harness run` saw a failure: a test or script of a command, which no suite declares."""

    command: tuple[str, ...]
    """The words of `harness run` that repeat the test: `("harness", "run", "--device", "b200", "--", "pytest", …)`."""
    test: str
    """As pytest names it: `tests/test_norm.py::test_backward[64]`; for a script its name."""
    called_from: Source | None = None
    """The line outside installed packages that led to the launch; None if there is none."""
    captured_at: Source | None = None
    """The line from which a CUDA graph captured the launch; `called_from` is that of the replay."""


NEVER_REPEATED = ReplayCount(shown=0, runs=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bug: the smallest known case that shows it, and how it was found."""

    fail: Fail
    """The oracle's verdict on the smallest case."""
    case: Case
    """The smallest case with this signature."""
    launch: Launch | None
    """The launch at fault in the smallest case, if there is one."""
    first_case: Case
    """The case that showed it first."""
    sightings: int
    """The number of cases of the search that showed it."""
    confirmed: bool
    """True if it repeated alone in a fresh process."""
    repeats: ReplayCount = NEVER_REPEATED
    """The repeats of the smallest case."""
    cases: tuple[Case, ...] = ()
    """All cases of the search that showed it, in the order of sightings."""
    preceding_case: Case | None = None
    """An earlier case that must run first in the same process; None if the failure repeats alone."""
    libraries: tuple[str, ...] = ()
    """The releases under test, as given to `--with`."""
    import_paths: tuple[str, ...] = ()
    """Folders of the project, relative to it, that pytest had put on `sys.path` for its tests."""
    engine_options: tuple[str, ...] = ()
    """Command-line options of the engine that found it: `("--engine", "cuda")`; empty for the virtual GPU."""
    first_pictures: tuple[Picture, ...] = ()
    """Pictures of the first case: its larger tensors show more of a pattern than the smallest case's."""
    first_seen: FirstSeen | None = None
    """None for a watched command."""
    rule: str = ""
    """What cases of the search with this failure have in common: `every case with G > 1: 31 of 31; none of 9 others`.

    Empty if they have nothing in common, or are too few.
    """
    excerpt: Excerpt | None = None
    """The source around the line at fault; None if the source was missing."""
    hardware_blame: HardwareBlame | None = None
    """Who is at fault for a failure on a hardware GPU; None for the virtual GPU, or if nothing was repeated for it."""
    miscompilation: Miscompilation | None = None
    """What is known of the wrong code of a kernel; None if nobody looked into it."""
    symptoms: tuple[Symptom, ...] = ()
    """Other failures with the same cause, the first consequences first."""
    watched: WatchedLaunch | None = None
    """None unless `harness run` saw it.  The cases are then tests, which have no dims."""

    @property
    def severity(self) -> Severity:
        """The worst severity of the failure and its symptoms; a warning if the case ran alone and did not fail."""
        return (
            Severity.ERROR
            if self.confirmation is not Confirmation.NOT_CONFIRMED
            and any(signature.severity is Severity.ERROR for signature in self.signatures)
            else Severity.WARNING
        )

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of the failure and of its symptoms."""
        return (self.fail.signature, *(symptom.signature for symptom in self.symptoms))

    @property
    def id(self) -> str:
        """The signature's id."""
        return self.fail.signature.id

    @property
    def confirmation(self) -> Confirmation:
        if self.confirmed:
            return Confirmation.CONFIRMED
        return Confirmation.NOT_CONFIRMED if self.repeats.runs else Confirmation.NOT_TRIED

    @property
    def replay_command(self) -> str:
        if self.watched is not None and not self.confirmed:
            return shlex.join(self.watched.command)
        return shlex.join(("harness", "replay", self.id, *self.engine_options))
