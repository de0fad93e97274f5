"""One line of what `harness doctor` says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that the harness uses."""

    name: str
    found: str
    """What is there, in words; empty where it is missing."""
    needed: bool
    """Nothing runs without it."""
    provide: str
    """The command that provides it, or what it would be good for."""
    is_doubtful: bool = False
    """It is there, and what was found is a reason not to rely on it."""
