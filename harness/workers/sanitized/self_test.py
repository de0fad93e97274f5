"""The sanitizer self-test: a child launches a kernel with a planted mistake and ends.

The mistake is of the kind that the sanitizer looks for.  A report of it proves that the sanitizer instruments Triton's
kernels in the children of this fork server.  This goes for compute-sanitizer and for Triton's own sanitizers.
"""

import os
import sys
import traceback

from harness.engines.cuda.sanitizers import instrumentation
from harness.engines.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.model.compute_sanitizer_report import Tool
from harness.workers.supervision import linux


def main(fds: tuple[int, ...]) -> int:
    """Launch the kernel for the sanitizer that the environment names, and wait for it."""
    _, log_fd, _ = fds
    os.setsid()
    linux.die_with(os.getppid())
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log_fd, stream.fileno())
    try:
        _launch_mistake()
    except Exception:  # noqa: BLE001 - the process's own boundary; memcheck's mistake loses the CUDA context by design
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # torch would abort at its end, for it cannot free memory of a context that is lost


def _launch_mistake() -> None:
    # Both modules import Triton, which the parent must not load.
    if instrumenting := instrumentation.instrumentation_from(os.environ):
        from harness.engines.cuda.sanitizers import kernels_instrumented  # noqa: PLC0415

        kernels_instrumented.launch_mistake(instrumenting.mode)
    else:
        from harness.engines.cuda.sanitizers import kernels_self_test  # noqa: PLC0415

        kernels_self_test.launch_mistake(Tool(os.environ[VARIABLE]))
