"""What a process takes over from the command that it works for: variables, folder, file mode mask and cores.

A process that is forked from a resident began for another command.  So it takes them over after the fork.  What a
process cannot change, or what was read while modules were loaded, is part of the resident's key instead.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

CHANGING = frozenset(
    {
        *("PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLORTERM", "COLUMNS", "LINES", "WINDOWID"),
        *("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"),
    }
)
"""Variables that differ from one command to the next, and that no library reads while it is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """The context of one command."""

    environment: tuple[tuple[str, str], ...]
    directory: str
    file_mode_mask: int
    cores: tuple[int, ...]

    @classmethod
    def of_this_process(cls) -> "ProcessContext":
        mask = os.umask(0o077)
        os.umask(mask)
        return cls(
            environment=tuple(sorted(os.environ.items())),
            directory=os.getcwd(),  # noqa: PTH109 - a text
            file_mode_mask=mask,
            cores=tuple(sorted(os.sched_getaffinity(0))),
        )

    @property
    def lasting_environment(self) -> tuple[tuple[str, str], ...]:
        """The variables that a library may read while it is imported."""
        return tuple((name, value) for name, value in self.environment if name not in CHANGING)


class EnvironmentChanges:
    """The changes that the harness makes to a process's variables while it loads; they outlast a new context."""

    def __init__(self) -> None:
        self._changed: dict[str, str | None] = {}

    def note(self, before: Mapping[str, str]) -> None:
        """Add the changes since `before`."""
        now = os.environ
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                self._changed[name] = now.get(name)

    def assume(self, context: ProcessContext) -> None:
        """Give this process the context, with the changes."""
        all_of_both = dict(context.environment) | self._changed
        wanted = {name: value for name, value in all_of_both.items() if value is not None}
        for name in os.environ.keys() - wanted.keys():
            del os.environ[name]
        os.environ.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})
        os.umask(context.file_mode_mask)
        os.sched_setaffinity(0, context.cores)
        os.chdir(context.directory)
