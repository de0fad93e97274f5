"""The zygote of a command that will run cases, started before the command's own imports.

Loading torch and Triton takes longer than all that the command does before its first case.  So both happen at once.
With a hardware GPU, the zygote of the compilers starts too: the GPU waits for them.  A zygote that turns out not to be
needed ends with the command, and costs what it loaded until then.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from harness.errors import UsageError
from harness.model.engine_traits import COMPILE_AHEAD, VIRTUAL, EngineTraits, find_engine
from harness.settings import Settings
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.started_zygote import start_early, stop_unused

ENGINE = "--engine"
NO_RESIDENT = "--no-resident"
ELSEWHERE = frozenset({"-h", "--help", "--help-all", "--ray", "--chunk", "--survey", "--sanitizer"})
"""Options with which a command runs no case, or not in processes of the usual engine's zygote."""


@contextmanager
def zygote_started(words: Sequence[str], environment: Mapping[str, str]) -> Generator[None]:
    """Start the zygote that a command with these arguments will need, if they show which; stop it if nobody used it."""
    engine = _engine_of(words)
    if engine is not None:
        with suppress(UsageError):  # the command reports a wrong variable itself
            settings = Settings.from_environment(environment)
            may_stay = NO_RESIDENT not in words and not engine.needs_gpu
            start_early(engine.factory, Residents.allowed_by(settings) if may_stay else None)
            if engine.is_hardware:
                start_early(COMPILE_AHEAD.factory, None)
    try:
        yield
    finally:
        stop_unused()


def _engine_of(words: Sequence[str]) -> EngineTraits | None:
    """Return the engine; None if it is not certain."""
    name = VIRTUAL.name
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in ELSEWHERE:
            return None
        if option == ENGINE:
            name = value or next(iter(words[at + 1 :]), "")
    return find_engine(name)
