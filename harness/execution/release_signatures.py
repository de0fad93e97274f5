"""Exceptions of calls that a suite makes and that this release of the library does not take.

A suite is written for some releases.  Another one may lack a keyword, a parameter or a function: that is no failure of
the library.  Only the suite's own calls count.  A library that calls itself wrongly is broken.
"""

import inspect
import re
from collections.abc import Iterator
from types import FrameType, ModuleType

from harness.suite_files import MODULE_PREFIX

UNBOUND = re.compile(
    r"got an unexpected keyword argument|got multiple values for argument|missing \d+ required .*argument"
    r"|takes .*positional argument.* given|takes no (keyword )?arguments"
)
"""Python's words for arguments that fit no parameters."""
UNKNOWN_OPTION = re.compile(r"Keyword argument (\w+) was specified but unrecogni[sz]ed")
"""Triton's words for an argument that a kernel does not have."""
NOT_UNDER_TEST = frozenset({"torch", "triton", "harness"})
FORWARDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def unfitting_call(error: BaseException) -> str | None:
    """Return which call of the suite does not fit this release, as a clause; None if the exception is another one."""
    if not _is_of_suite(error):
        return None
    match error:
        case TypeError() if UNBOUND.search(str(error)):
            return f"a call that this release does not take ({error})"
        case KeyError() if option := UNKNOWN_OPTION.search(str(error)):
            return f"a launch that this release does not take (the kernel has no {option[1]})"
        case AttributeError(obj=ModuleType(__name__=str(module)), name=str(name)) if (
            _root(module) not in NOT_UNDER_TEST
        ):
            return f"{module}.{name}, which is not in this release"
        case _:
            return None


def _is_of_suite(error: BaseException) -> bool:
    """Return True if the suite's call failed to bind, by itself or through wrappers that pass all arguments on."""
    frames = [frame for frame in _frames(error) if _root(_module_of(frame)) not in NOT_UNDER_TEST]
    own = [at for at, frame in enumerate(frames) if _module_of(frame).startswith(MODULE_PREFIX)]
    return bool(own) and all(frame.f_code.co_flags & FORWARDS == FORWARDS for frame in frames[own[-1] + 1 :])


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _root(module: str) -> str:
    return module.partition(".")[0]
