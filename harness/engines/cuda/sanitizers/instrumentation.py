"""Triton's own sanitizers: checks that the installed ones can run here, and configures workers to use one.

The compiler adds checks to every kernel; a check that fails is a device assertion.  This module imports no Triton,
because parent processes use it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version

from harness.engines.cuda.cuda_errors import Assertion, parse_assertions
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.sanitizer_command import SELF_TEST_MAIN, split_words
from harness.engines.cuda.sanitizers.sanitizer_records import mark_accepted
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.errors import MissingPart, UsageError, unknown
from harness.model.compute_sanitizer_report import Index, Level, SanitizerRecord, Touch
from harness.model.run import Faulted, FaultOf, Run
from harness.model.triton_sanitizer_report import Instrumentation

VARIABLE = "KERNEL_HARNESS_INSTRUMENTATION"
"""In the environment of workers: the sanitizer and its options, as `--sanitizer` takes them."""
MIN_TRITON = (3, 9)
"""In earlier releases GSan was experimental, and ConSan did not compile for compute capability 9.0."""
_MIN_RELEASE = ".".join(map(str, MIN_TRITON))
INSTALL = f"pip install 'triton=={_MIN_RELEASE}.*'"
MIN_CAPABILITY = {Instrumentation.GSAN: (8, 0), Instrumentation.CONSAN: (9, 0), Instrumentation.FPSAN: (8, 0)}
WRITE_ONCE = "--write-once"
OPTIONS = {Instrumentation.GSAN: (WRITE_ONCE,), Instrumentation.CONSAN: (), Instrumentation.FPSAN: ()}
SELF_TEST_OUTPUT = "harness self-test: computed in integers"
"""The output of a self-test that no device assertion ends (FpSan's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumenting:
    """The instrumentation with which workers compile kernels."""

    mode: Instrumentation
    version: str
    """The Triton release."""
    options: tuple[str, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    self_test: str = SELF_TEST_MAIN
    """Module and function of the self-test, which runs in a child of the same fork server as workers."""

    def __str__(self) -> str:
        """Return the text that `--sanitizer` takes."""
        return " ".join((self.mode, *self.options))

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """The variables of workers; they keep line numbers in kernels, which reports need."""
        return ((VARIABLE, str(self)), ("TRITON_DISABLE_LINE_INFO", "0"))

    def check(self, gpu: RealGpu) -> None:
        """Check that a GPU can run the instrumented kernels.

        Raises:
            UsageError: its compute capability is too low.
        """
        minimum = MIN_CAPABILITY[self.mode]
        if gpu.capability < minimum:
            raise UsageError(
                f"{self.mode} needs a GPU of compute capability {minimum[0]}.{minimum[1]} or later, "
                f"and the {gpu.name} has {gpu.capability[0]}.{gpu.capability[1]}: "
                "--sanitizer racecheck watches shared memory there"
            )


def instrumenting(wanted: str, suppressions: tuple[Suppression, ...] = ()) -> Instrumenting:
    """Parse the value of `--sanitizer` if it names one of Triton's own.

    Raises:
        UsageError: the sanitizer has no such option.
        MissingPart: the installed Triton has no working sanitizers.
    """
    name, *options = split_words(wanted)
    mode = Instrumentation(name)
    for option in options:
        if option not in OPTIONS[mode]:
            raise unknown(f"option of {mode}", option, OPTIONS[mode])
    installed = version("triton")
    if not works_in(installed):
        raise MissingPart(f"{mode} is a part of Triton {_MIN_RELEASE}, and {installed} is installed: {INSTALL}")
    return Instrumenting(mode=mode, version=installed, options=tuple(options), suppressions=suppressions)


def works_in(release: str) -> bool:
    """Return True if the sanitizers of this Triton release work."""
    return tuple(map(int, release.split(".")[:2])) >= MIN_TRITON


def names_triton_sanitizer(wanted: str) -> bool:
    """Return True if `--sanitizer` names one of Triton's own, and False for a tool of compute-sanitizer."""
    return wanted.split(maxsplit=1)[:1] in [[mode] for mode in Instrumentation]


def instrumentation_from(environment: Mapping[str, str]) -> Instrumenting | None:
    """Return the sanitizer of a worker with this environment, without suppressions; None if it has none."""
    text = environment.get(VARIABLE)
    return instrumenting(text) if text else None


def with_records(run: Run, log: str, suppressions: tuple[Suppression, ...]) -> Run:
    """Add the failed checks from the log to a run that a device assertion ended.

    Assertions that a kernel's own source contains are no reports of the sanitizer.
    """
    report = run.instrumented
    if report is None or not isinstance(run.ending, Faulted) or run.ending.fault is not FaultOf.DEVICE_ASSERT:
        return run
    printed = [assertion for assertion in parse_assertions(log) if assertion.text not in report.asserts]
    first = {(assertion.source, assertion.text): assertion for assertion in reversed(printed)}
    times = Counter((assertion.source, assertion.text) for assertion in printed)
    records = [_record(report.mode, run.ending.launch or "", first[key], count) for key, count in times.items()]
    return replace(run, instrumented=replace(report, records=mark_accepted(records, report.mode, suppressions)))


def _record(mode: Instrumentation, kernel: str, first: Assertion, count: int) -> SanitizerRecord:
    at = Touch(
        direction="", kernel=kernel, source=first.source, program=_index(first.program), thread=_index(first.thread)
    )
    return SanitizerRecord(kind=mode, text=first.text, what=first.text, level=Level.ERROR, at=at, count=count)


def _index(text: str) -> Index:
    x, y, z = map(int, text.split(","))
    return x, y, z
