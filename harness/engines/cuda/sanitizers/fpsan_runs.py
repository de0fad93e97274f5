"""FpSan: compares two runs of a case that compute in integers, with two autotune configs of one kernel.

FpSan's integers add and multiply exactly and in any order.  A config changes only the order, so it must not change a
bit.  Three things are not exact and therefore not judged: comparisons of numbers, infinities, and atomic additions.
"""

import re
from collections.abc import Mapping, Sequence

from harness.model.paired_run import launch_of
from harness.model.run import Launch, Writer
from harness.model.triton_sanitizer_report import Differing, Exact

INEXACT = re.compile(
    r"arith\.(?:maximumf|maxnumf|minimumf|minnumf)\b|tt\.atomic_rmw fadd\b"
    r"|\b0x(?:7C00|FC00|7F80|FF80|7F800000|FF800000)\b"
)
"""In TTIR: maxima and minima, atomic sums, and the infinities of float16, bfloat16 and float32."""

Bits = Mapping[str, tuple[str, Writer]]
"""By result, a digest of its bits and the launch that stored it."""


def compare_configs(
    kernel: str, launches: tuple[Sequence[Launch], Sequence[Launch]], first: Bits, second: Bits
) -> Exact:
    """Compare the results that kernels stored in two runs, with two configs of `kernel`."""
    stored = {name: writer for name, (_, writer) in first.items() if writer is not None and name in second}
    before, after = (launch_of(some, kernel) for some in launches)
    return Exact(
        kernel=kernel,
        configs=(before.config if before else "", after.config if after else ""),
        compared=tuple(stored),
        differing=tuple(
            Differing(name=name, writer=writer) for name, writer in stored.items() if second[name][0] != first[name][0]
        ),
    )
