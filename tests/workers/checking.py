"""Ops that print failed checks as the driver does, with their engine and self-tests."""

import os

from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Faulted, FaultOf, Run
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented
from tests.workers.engines import Calling
from tests.workers.sanitized.reporting import case_of_rows

KERNEL = "scale_kernel"
RACE = "Write after write race detected"


def printed(file: str, threads: int) -> str:
    return "".join(
        f"{file}:9: : block: [3,0,0], thread: [{x},0,0] Assertion `{RACE}` failed.\n" for x in range(threads)
    )


def self_test(fds: tuple[int, ...]) -> int:
    os.write(fds[1], printed("/site-packages/harness/engines/cuda/sanitizers/kernels_instrumented.py", 1).encode())
    return 0


def silent(fds: tuple[int, ...]) -> int:
    os.write(fds[1], b"no checks here\n")
    return 0


class Checking(Calling):
    """Says of every case that it launched one kernel; the case ends in a device assertion where the op prints one."""

    def run(self, op: Op, case: Case) -> Run:
        plain = super().run(op, case)
        fault = Faulted(fault=FaultOf.DEVICE_ASSERT, message="device-side assert triggered", launch=KERNEL)
        return Run(
            case=case,
            engine="cuda",
            ending=fault if op.name == "races" else plain.ending,
            instrumented=Instrumented(mode=Instrumentation.GSAN, version="3.9.0", launches=1),
            seconds=plain.seconds,
        )


@case_of_rows
def is_quiet(rows: int) -> int:
    return os.getpid() + 0 * rows


@case_of_rows
def races(rows: int) -> int:
    """A check fails in so many threads."""
    os.write(1, printed("/suite/kernels.py", rows).encode())
    return os.getpid()
