"""The main function of a reproducer: run the file, print the verdict, and return the exit status."""

import json
from collections.abc import Mapping
from pathlib import Path

from harness import catalogue
from harness.documents import files
from harness.errors import HarnessError
from harness.model.run import Raised
from harness.model.verdict import Abstain, Fail, Verdict
from harness.oracles import registry
from harness.oracles.endings import describe
from harness.repro_runtime.file_runner import FileRunner
from harness.repro_runtime.request import CheckRequest, file_case
from harness.search.judge import Examination

FIXED, PRESENT, UNTESTABLE = 0, 1, 125
"""Exit statuses of `git bisect run`: good, bad, skip."""
NOT_INSTALLED = frozenset({"ImportError", "ModuleNotFoundError"})


def judge(  # noqa: PLR0913 - generated files pass each by keyword, so that they read well
    file: str,
    *,
    oracle: str,
    device: str,
    kernel: str = "",
    sm_count: int | None = None,
    environment: Mapping[str, str] | None = None,
    **settings: object,
) -> int:
    """Run the file's `run()` on the emulated device, print the oracle's verdict, and return the exit status.

    Args:
        file: the reproducer.
        oracle: the oracle that found the failure.
        device: the slug of the device.
        kernel: the kernel at fault; empty for any.
        sm_count: replaces that of the device.
        environment: variables that are set before the file runs.
        settings: other fields of `harness.model.case.Case` as its JSON has them: `order="shuffled", seed=3`.

    Returns:
        1 if the failure shows, 0 if it is fixed, 125 if it cannot be tested here.
    """
    try:
        (profile,) = catalogue.find_all(device, sm_count=sm_count)
        usual = files.plain_of(file_case(profile, environment=tuple(sorted((environment or {}).items()))))
        case = files.read_case(json.dumps({**usual, **settings}))
        request = CheckRequest(oracle=oracle, kernel=kernel, settings=case)
        with FileRunner(request) as runner:
            status, text = status_of(runner.examine(Path(file)), request)
    except HarnessError as error:
        status, text = UNTESTABLE, str(error)
    print(text)  # noqa: T201 - a reproducer's product
    return status


def status_of(examination: Examination, request: CheckRequest) -> tuple[int, str]:
    """Return the exit status, and the line that explains it."""
    ending = examination.run.ending
    if isinstance(ending, Raised) and ending.kind in NOT_INSTALLED:
        return UNTESTABLE, f"cannot run here: {ending.kind}: {ending.message}"
    if isinstance(ending, Raised) and ending.kind == "SuiteError":
        return UNTESTABLE, ending.message
    if fail := at_fault(examination, request):
        return PRESENT, f"{request.oracle}: {fail.message}"
    verdicts = [verdict for verdict in examination.verdicts if verdict.oracle == request.oracle]
    if verdicts and not any(isinstance(verdict, Abstain) for verdict in verdicts):
        rest = "".join(f"; other kernels: {verdict.message}" for verdict in verdicts if isinstance(verdict, Fail))
        return FIXED, f"{request.oracle}: passed{_for(request.kernel)}: {registry.find(request.oracle).promise}{rest}"
    reasons = "; ".join(registry.reasons(verdicts)) or describe(ending)
    return UNTESTABLE, f"{request.oracle}: cannot be tested: {reasons}"


def at_fault(examination: Examination, request: CheckRequest) -> Fail | None:
    """Return the failure of the requested oracle and kernel, if the run shows it."""
    return next((fail for fail in examination.fails if _is_it(fail, request)), None)


def _is_it(verdict: Verdict, request: CheckRequest) -> bool:
    if not isinstance(verdict, Fail) or verdict.oracle != request.oracle:
        return False
    return not request.kernel or verdict.signature.kernel == request.kernel


def _for(kernel: str) -> str:
    return f" for {kernel}" if kernel else ""
