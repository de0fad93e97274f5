"""A child that makes a mistake on purpose, of the kind that the tool it runs under looks for, and ends.

If the tool reports it, the tool does instrument Triton's kernels in the children of this fork server; Triton's own
sanitizers likewise.
"""

import os
import sys
import traceback

from harness.cuda.sanitizers import instrumentation
from harness.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.model.compute_sanitizer_report import Tool
from harness.workers.supervision import linux


def main(fds: tuple[int, ...]) -> int:
    """Launch the kernel of what the environment names, and wait for it; the result is the exit status."""
    _, log_fd, _ = fds
    os.setsid()
    linux.die_with(os.getppid())
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log_fd, stream.fileno())
    try:
        _err()
    except Exception:  # noqa: BLE001 — the process's own boundary; memcheck's mistake ends its CUDA context, and should
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # torch would abort at its end, for it cannot free memory of a context that is lost


def _err() -> None:
    """Each imports its own kernels, and Triton, which the parent does not."""
    if checked := instrumentation.of_this_process():
        from harness.cuda.sanitizers import kernels_instrumented  # noqa: PLC0415

        kernels_instrumented.err(checked.mode)
    else:
        from harness.cuda.sanitizers import kernels_self_test  # noqa: PLC0415

        kernels_self_test.err(Tool(os.environ[VARIABLE]))
