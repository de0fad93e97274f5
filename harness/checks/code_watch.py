"""Notices calls of a function by the place of its code, under whatever name it was imported.

All code that runs meanwhile is watched: also a compiler, which makes a hundred thousand calls for a kernel.  So no line
of Python runs for each call, but in threads that begin meanwhile.
"""

import cProfile
import sys
import threading
from types import CodeType, FrameType
from typing import Any, Protocol

Place = tuple[str, str, int]
"""File, name and first line."""


def place_of(code: CodeType) -> Place:
    return code.co_filename, code.co_name, code.co_firstlineno


class CodeWatch(Protocol):
    """Watches between `begin` and `end`, once."""

    def begin(self) -> None: ...

    def end(self) -> bool:
        """Return True if code of the place was called."""
        ...


def watch_of(place: Place | None) -> CodeWatch:
    """Return a watch; it sees nothing if there is no place."""
    if place is None:
        return _Blind()
    return _Monitor(place) if sys.version_info >= (3, 12) else _Profile(place)


class _Blind:
    def begin(self) -> None:
        pass

    def end(self) -> bool:
        return False


class _Profile:
    """Lets Python's profiler, which is written in C, list the code that was called."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._profile = cProfile.Profile(subcalls=False, builtins=False)
        self._is_called = False

    def begin(self) -> None:
        threading.setprofile(self._see)  # in threads to come
        self._profile.enable()

    def end(self) -> bool:
        self._profile.disable()
        sys.setprofile(None)
        threading.setprofile(None)
        called: list[Any] = self._profile.getstats()
        return self._is_called or any(
            isinstance(entry.code, CodeType) and place_of(entry.code) == self._place for entry in called
        )

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        del argument
        if event == "call" and not self._is_called:
            self._is_called = place_of(frame.f_code) == self._place


if sys.version_info >= (3, 12):
    TOOLS = range(6)

    class _Monitor:
        """Has `sys.monitoring` report each code once, in all threads."""

        def __init__(self, place: Place) -> None:
            self._place = place
            self._is_called = False

        def begin(self) -> None:
            monitoring = sys.monitoring
            self._tool = next(tool for tool in reversed(TOOLS) if monitoring.get_tool(tool) is None)
            monitoring.use_tool_id(self._tool, "harness check")
            monitoring.register_callback(self._tool, monitoring.events.PY_START, self._see)
            monitoring.set_events(self._tool, monitoring.events.PY_START)
            monitoring.restart_events()

        def end(self) -> bool:
            monitoring = sys.monitoring
            if monitoring.get_tool(self._tool) is not None:
                monitoring.set_events(self._tool, 0)
                monitoring.free_tool_id(self._tool)
            return self._is_called

        def _see(self, code: CodeType, offset: int) -> Any:
            del offset
            self._is_called = self._is_called or place_of(code) == self._place
            return sys.monitoring.DISABLE
