"""One file, one verdict, one exit status: what a reproducer does when it is run."""

from collections.abc import Mapping
from pathlib import Path

from harness.devices import catalogue
from harness.errors import HarnessError
from harness.model.case import LaneFill, ProgramOrder, Scale
from harness.model.run import Raised
from harness.model.verdict import Abstain, Fail, Verdict
from harness.oracles import registry
from harness.oracles.endings import describe
from harness.repro_runtime.file_runner import FileRunner
from harness.repro_runtime.request import Asked
from harness.search.judge import Examination

GONE, THERE, CANNOT_TELL = 0, 1, 125
"""Exit statuses as `git bisect run` takes them."""
NOT_INSTALLED = frozenset({"ImportError", "ModuleNotFoundError"})


def judge(  # noqa: PLR0913 - each is a word of a reproducer's one call
    file: str,
    *,
    oracle: str,
    device: str,
    kernel: str = "",
    sm_count: int | None = None,
    configs: Mapping[str, int] | None = None,
    lane_fill: str = LaneFill.ZERO,
    order: str = ProgramOrder.FORWARD,
    scale: str = Scale.USUAL,
    seed: int = 0,
) -> int:
    """Run the file's `run()` as on the device, and print what the oracle says of the kernel: of any, if none is named.

    `sm_count` instead of the device's own; `configs`, by kernel, which autotune config it takes; the others as
    `harness.model.case.Case` has them.  The result is the exit status: 1 while the promise is broken, 0 once it is
    kept, 125 where that cannot be told.
    """
    try:
        (profile,) = catalogue.find_all(device, sm_count=sm_count)
        asked = Asked(
            oracle=oracle,
            kernel=kernel,
            device=profile,
            configs=configs or {},
            lane_fill=LaneFill(lane_fill),
            order=ProgramOrder(order),
            scale=Scale(scale),
            seed=seed,
        )
        with FileRunner(asked) as bench:
            status, text = status_of(bench.examine(Path(file)), asked)
    except HarnessError as error:
        status, text = CANNOT_TELL, str(error)
    print(text)  # noqa: T201 - a reproducer's product
    return status


def status_of(examination: Examination, asked: Asked) -> tuple[int, str]:
    """The exit status, and the line that says why."""
    ending = examination.run.ending
    if isinstance(ending, Raised) and ending.kind in NOT_INSTALLED:
        return CANNOT_TELL, f"cannot run here: {ending.kind}: {ending.message}"
    if isinstance(ending, Raised) and ending.kind == "SuiteError":
        return CANNOT_TELL, ending.message
    if fail := at_fault(examination, asked):
        return THERE, f"{asked.oracle}: {fail.message}"
    verdicts = [verdict for verdict in examination.verdicts if verdict.oracle == asked.oracle]
    if verdicts and not any(isinstance(verdict, Abstain) for verdict in verdicts):
        others = "".join(f"; elsewhere: {verdict.message}" for verdict in verdicts if isinstance(verdict, Fail))
        return GONE, f"{asked.oracle}: kept{_of(asked.kernel)}: {registry.find(asked.oracle).promise}{others}"
    reasons = "; ".join(registry.reasons(verdicts)) or describe(ending)
    return CANNOT_TELL, f"{asked.oracle}: cannot be told: {reasons}"


def at_fault(examination: Examination, asked: Asked) -> Fail | None:
    """The failure that was asked about, if the run shows it."""
    return next((fail for fail in examination.fails if _is_it(fail, asked)), None)


def _is_it(verdict: Verdict, asked: Asked) -> bool:
    if not isinstance(verdict, Fail) or verdict.oracle != asked.oracle:
        return False
    return not asked.kernel or verdict.signature.kernel == asked.kernel


def _of(kernel: str) -> str:
    return f" by {kernel}" if kernel else ""
