"""Shards: which of several machines this one is, as `--shard` says or the variables of a CI system."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of several machines that share a search."""

    number: int
    """From 1."""
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


NO_SHARD = Shard(number=0, count=0)
"""For chunks that are run by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variables:
    """Where a CI system tells a job its number and how many there are."""

    system: str
    number: str
    count: str
    first: str | int
    """The first number, or the variable that tells it."""
    step: str = ""
    """The variable that tells the difference of two numbers; empty: 1."""


SYSTEMS = (
    _Variables(system="GitLab CI", number="CI_NODE_INDEX", count="CI_NODE_TOTAL", first=1),
    _Variables(system="Buildkite", number="BUILDKITE_PARALLEL_JOB", count="BUILDKITE_PARALLEL_JOB_COUNT", first=0),
    _Variables(system="CircleCI", number="CIRCLE_NODE_INDEX", count="CIRCLE_NODE_TOTAL", first=0),
    _Variables(
        system="Slurm",
        number="SLURM_ARRAY_TASK_ID",
        count="SLURM_ARRAY_TASK_COUNT",
        first="SLURM_ARRAY_TASK_MIN",
        step="SLURM_ARRAY_TASK_STEP",
    ),
)
"""Sources: the documentation of each system's predefined variables."""


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Return the shard of `3/8`, or with `auto` that of the CI system that runs this job.

    Raises:
        UsageError: the text names no shard, or no CI system tells one.
    """
    if text == AUTO:
        return _of_environment(environment)
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None:
        raise UsageError(f"--shard {text}: write the number of the shard and how many there are, such as 3/8, or auto")
    return _checked(int(match[1]), int(match[2]), f"--shard {text}")


def _of_environment(environment: Mapping[str, str]) -> Shard:
    for system in SYSTEMS:
        if system.number not in environment or system.count not in environment:
            continue
        first = _number(environment, system.first) if isinstance(system.first, str) else system.first
        step = _number(environment, system.step) if system.step in environment else 1
        number = (_number(environment, system.number) - first) // max(1, step) + 1
        return _checked(
            number, _number(environment, system.count), f"{system.system}'s {system.number} and {system.count}"
        )
    known = ", ".join(f"{system.number} ({system.system})" for system in SYSTEMS)
    raise UsageError(f"--shard auto: no CI system tells this job its number: none of {known} is set; write 3/8")


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"\d{1,9}", text):
        raise UsageError(f"--shard auto: {name} is {text!r}, which is no number")
    return int(text)


def _checked(number: int, count: int, source: str) -> Shard:
    if not 1 <= number <= count:
        raise UsageError(f"{source}: there is no shard {number} of {count}")
    return Shard(number=number, count=count)
