"""Triton's own sanitizers: whether those that are installed can be used here, and what a process under one is told.

The compiler adds checks to every kernel; one that fails is a device assertion.  Imports no Triton: parents have none.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version

from harness.cuda.cuda_errors import Assertion, assertions
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.sanitizers.sanitizer_command import WITNESS_MAIN, words
from harness.cuda.sanitizers.sanitizer_records import accept
from harness.cuda.sanitizers.suppressions import Suppression
from harness.errors import MissingPart, UsageError, unknown
from harness.model.compute_sanitizer_report import Index, Level, SanitizerRecord, Touch
from harness.model.run import Faulted, FaultOf, Run
from harness.model.triton_sanitizer_report import Instrumentation

VARIABLE = "KERNEL_HARNESS_INSTRUMENTATION"
"""In the environment of workers: the sanitizer, and its options behind it."""
LEAST_TRITON = (3, 9)
"""Before it, GSan was an experiment, and kernels with ConSan did not compile for compute capability 9.0."""
_LEAST = ".".join(map(str, LEAST_TRITON))
PROVIDE = f"pip install 'triton=={_LEAST}.*'"
LEAST_CAPABILITY = {Instrumentation.GSAN: (8, 0), Instrumentation.CONSAN: (9, 0), Instrumentation.FPSAN: (8, 0)}
WRITE_ONCE = "--write-once"
OPTIONS = {Instrumentation.GSAN: (WRITE_ONCE,), Instrumentation.CONSAN: (), Instrumentation.FPSAN: ()}
TESTIMONY = "harness witness: computed in integers"
"""What a witness prints that no device assertion ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumenting:
    """How worker processes compile their kernels."""

    mode: Instrumentation
    version: str
    """Of Triton."""
    options: tuple[str, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    witness: str = WITNESS_MAIN
    """Module and function that makes a mistake on purpose in a child of the same fork server, as a worker is."""

    def __str__(self) -> str:
        """As `--sanitizer` takes it."""
        return " ".join((self.mode, *self.options))

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """The variables of processes that compile so: a report without its line is worth little."""
        return ((VARIABLE, str(self)), ("TRITON_DISABLE_LINE_INFO", "0"))

    def check(self, gpu: RealGpu) -> None:
        """See whether a GPU can run what it makes of kernels.

        Raises:
            UsageError: it cannot.
        """
        least = LEAST_CAPABILITY[self.mode]
        if gpu.capability < least:
            raise UsageError(
                f"{self.mode} needs a GPU of compute capability {least[0]}.{least[1]} or later, and the {gpu.name} has "
                f"{gpu.capability[0]}.{gpu.capability[1]}: --sanitizer racecheck watches shared memory there"
            )


def instrumenting(wanted: str, suppressions: tuple[Suppression, ...] = ()) -> Instrumenting:
    """What `--sanitizer` asks for where it names one of Triton's own.

    Raises:
        UsageError: it has no such option.
        MissingPart: the Triton that is installed has none that works.
    """
    name, *options = words(wanted)
    mode = Instrumentation(name)
    for option in options:
        if option not in OPTIONS[mode]:
            raise unknown(f"option of {mode}", option, OPTIONS[mode])
    installed = version("triton")
    if not works_in(installed):
        raise MissingPart(f"{mode} is a part of Triton {_LEAST}, and {installed} is installed: {PROVIDE}")
    return Instrumenting(mode=mode, version=installed, options=tuple(options), suppressions=suppressions)


def works_in(release: str) -> bool:
    """Whether the sanitizers of a release of Triton work."""
    return tuple(map(int, release.split(".")[:2])) >= LEAST_TRITON


def names_one(wanted: str) -> bool:
    """Whether `--sanitizer` names a sanitizer of Triton's rather than a tool of compute-sanitizer."""
    return wanted.split(maxsplit=1)[:1] in [[mode] for mode in Instrumentation]


def of_this_process(environment: Mapping[str, str] = os.environ) -> Instrumenting | None:
    """What the parent told this process, less the suppressions; None where kernels are compiled as they are."""
    told = environment.get(VARIABLE)
    return instrumenting(told) if told else None


def with_records(run: Run, log: str, suppressions: tuple[Suppression, ...]) -> Run:
    """The run with what failed checks printed, where they ended it: all that no kernel's source asserts itself."""
    watched = run.instrumented
    if watched is None or not isinstance(run.ending, Faulted) or run.ending.fault is not FaultOf.DEVICE_ASSERT:
        return run
    printed = [one for one in assertions(log) if one.text not in watched.asserts]
    first = {(one.source, one.text): one for one in reversed(printed)}
    times = Counter((one.source, one.text) for one in printed)
    records = [_record(watched.mode, run.ending.launch or "", first[key], count) for key, count in times.items()]
    return replace(run, instrumented=replace(watched, records=accept(records, watched.mode, suppressions)))


def _record(mode: Instrumentation, kernel: str, first: Assertion, count: int) -> SanitizerRecord:
    at = Touch(
        direction="", kernel=kernel, source=first.source, program=_index(first.program), thread=_index(first.thread)
    )
    return SanitizerRecord(kind=mode, text=first.text, what=first.text, level=Level.ERROR, at=at, count=count)


def _index(text: str) -> Index:
    x, y, z = map(int, text.split(","))
    return x, y, z
