"""A kernel with two bugs in two results, each under its own condition; and one bug that shows in every result."""

from typing import Any

from harness.suite import beside, op, tensor, tokens

ROWS = {"x": tensor("T")}


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS)
def two_bugs(x: Any) -> Any:
    return beside(__file__, "two_bugs_suite_kernels.py").doubled_and_tripled(x, bugs=2)


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS)
def one_bug(x: Any) -> Any:
    return beside(__file__, "two_bugs_suite_kernels.py").doubled_and_tripled(x, bugs=1)


@two_bugs.reference
@one_bug.reference
def both(x: Any) -> Any:
    return 2 * x, 3 * x
