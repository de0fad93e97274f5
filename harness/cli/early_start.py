"""The zygote of a command that will run cases, started before the command's own imports.

Loading torch and Triton takes longer than all that the command does before its first case.  So both happen at once.  A
zygote that turns out not to be needed ends with the command, and costs what it loaded until then.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from harness.model.engine_traits import VIRTUAL, find_engine
from harness.workers.fork_servers.started_zygote import start_early, stop_unused

ENGINE = "--engine"
ELSEWHERE = frozenset({"-h", "--help", "--help-all", "--ray", "--chunk", "--survey", "--sanitizer"})
"""Options with which a command runs no case, or not in processes of the usual engine's zygote."""


@contextmanager
def zygote_started(words: Sequence[str]) -> Generator[None]:
    """Start the zygote that a command with these arguments will need, if they show which; stop it if nobody used it."""
    if engine := _engine_of(words):
        start_early(engine)
    try:
        yield
    finally:
        stop_unused()


def _engine_of(words: Sequence[str]) -> str:
    """Return the factory of the engine; empty if it is not certain."""
    name = VIRTUAL.name
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in ELSEWHERE:
            return ""
        if option == ENGINE:
            name = value or next(iter(words[at + 1 :]), "")
    engine = find_engine(name)
    return engine.factory if engine is not None else ""
