"""Which name of Triton an error says is gone: one that is missing, or one that is left only to say so."""

from collections.abc import Iterator
from types import FrameType, ModuleType

PACKAGE = "triton"
LANGUAGE = "triton.language"


def removed_name(error: BaseException) -> str:
    """Return the name that this release of Triton lacks, `triton.language.make_block_ptr`; empty if it lacks none.

    The errors of Triton's front end have theirs as causes or contexts (3.6 to 3.9).  A release keeps some removed
    functions, which raise `NotImplementedError` (block pointers in 3.9).
    """
    for cause in _causes(error):
        match cause:
            case AttributeError(name=str(name), obj=owner) if _is_of_triton(owner):
                return f"{_name_of(owner)}.{name}"
            case ImportError(name=str(module)) if module.partition(".")[0] == PACKAGE:
                return module
            case NotImplementedError():
                frame = _innermost(cause)
                module = str(frame.f_globals.get("__name__", "")) if frame else ""
                if frame is not None and module.startswith(LANGUAGE):
                    return f"{LANGUAGE}.{frame.f_code.co_name}"
            case _:
                pass
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_of_triton(owner: object) -> bool:
    return _name_of(owner).partition(".")[0] == PACKAGE


def _name_of(owner: object) -> str:
    """Return the name of a module or class, or that of an object's class."""
    if isinstance(owner, ModuleType):
        return owner.__name__
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _innermost(error: BaseException) -> FrameType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame if trace else None
