"""A whole command under compute-sanitizer: the words before it, and the proof that the tool works."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing, environment
from harness.engines.cuda.sanitizers.sanitizer_log import LiveLog, tool_errors
from harness.model.compute_sanitizer_report import Tool
from harness.watched.watch_records import SanitizerPlan
from harness.workers.fork_servers.device_server import SELF_TEST_LIMIT_S

SELF_TEST = """\
from harness.engines.cuda.sanitizers.kernels_self_test import launch_mistake
from harness.model.compute_sanitizer_report import Tool
launch_mistake(Tool("{tool}"))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedCommand:
    """How to run a command under a tool."""

    words: tuple[str, ...]
    """The tool and its options, which the command's own words follow."""
    environment: Mapping[str, str]
    plan: SanitizerPlan


def under_sanitizer(sanitizing: Sanitizing, folder: Path, variables: Mapping[str, str]) -> SanitizedCommand:
    """Return how to run a command under this tool, after a child with a planted mistake has run under it.

    Args:
        sanitizing: the tool.
        folder: where it prints.
        variables: the environment of the command.
    """
    log, own = folder / "sanitizer.log", {**variables, **environment(sanitizing.tool)}
    return SanitizedCommand(
        words=(*sanitizing.command, "--log-file", str(log)),
        environment=own,
        plan=SanitizerPlan(
            tool=sanitizing.tool,
            version=sanitizing.version,
            log=str(log),
            unproven=_filtered(sanitizing) or _self_test(sanitizing, folder / "self-test.log", own),
        ),
    )


def _filtered(sanitizing: Sanitizing) -> str:
    return f"{sanitizing.filtered} may leave out kernels or reports" if sanitizing.filtered else ""


def _self_test(sanitizing: Sanitizing, log: Path, variables: Mapping[str, str]) -> str:
    """Return why the tool does not report a planted mistake; empty if it does."""
    if sanitizing.tool is Tool.SYNCCHECK:
        return ""  # its planted mistake could hang; each process checks that the tool is in it
    code = SELF_TEST.format(tool=sanitizing.tool)
    words = (*sanitizing.command, "--log-file", str(log), sys.executable, "-c", code)
    # The folders of the harness come first, those of the startup file do not: the child watches nothing.
    path = str(Path(__file__).parents[2])
    try:
        ended = subprocess.run(
            words,
            env={**variables, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SELF_TEST_LIMIT_S,
            check=False,
        )
        said = ended.stderr.strip().rpartition("\n")[2]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if LiveLog(log).self_test_reported():
        return ""
    text = log.read_text(errors="replace") if log.exists() else ""
    problem = tool_errors(text) or said or "nothing was printed"
    return f"{sanitizing.tool} did not report a mistake that was made on purpose: {problem}"
