"""What a watched script does while it launches nothing: a line on the standard error says so.

On the emulated GPU torch's operators run on the CPU, where large tensors take minutes.  Nothing is wrong then, but
whoever waits for a launch cannot see it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from triton import JITFunction, KernelInterface

import harness
from harness.model.run import Source

WAIT_S = 5.0
"""A line that waits in torch for so long is named."""
LOOK_S = 1.0
PACKAGE = str(Path(harness.__file__).parent) + os.sep
MAIN = "__main__"
LineOf = Callable[[FrameType], Source | None]


def say(text: str) -> None:
    """Print one line for the user of the command."""
    sys.stderr.write(f"harness: {text}\n")
    sys.stderr.flush()


class TorchWaits:
    """Looks at the main thread now and then, and names each line that waits in an operator of torch."""

    def __init__(self, line_of: LineOf) -> None:
        self._line_of = line_of
        self._main = threading.main_thread()
        self._latest: Source | None = None
        self._since = 0.0
        self._named = set[Source]()

    def start(self) -> None:
        """Look until the process ends."""
        threading.Thread(target=self._look, name="harness torch waits", daemon=True).start()

    def _look(self) -> None:
        while self._main.is_alive():
            frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
            frame = frames.get(self._main.ident or 0)
            if frame is not None and (text := self.text_at(frame, time.monotonic())):
                say(text)
            del frame, frames
            time.sleep(LOOK_S)

    def text_at(self, frame: FrameType, now: float) -> str:
        """Return what to say of the frame that runs now; empty for nothing."""
        is_in_torch = frame.f_code.co_name == "__torch_function__" and frame.f_code.co_filename.startswith(PACKAGE)
        line = self._line_of(frame) if is_in_torch else None
        if line != self._latest:
            self._latest, self._since = line, now
        waited_s = now - self._since
        if line is None or line in self._named or waited_s < WAIT_S:
            return ""
        self._named.add(line)
        name = getattr(frame.f_locals.get("func"), "__name__", "operators")
        place = f"{os.path.relpath(line.file)}:{line.line}"
        return f"{place} waits for torch's {name}, {waited_s:.0f} s so far: here torch runs on the CPU"


def unlaunched(script: str) -> str:
    """Return what to say of a script that has ended without a launch; empty if it defines no kernel."""
    kernels = map(_kernel_in, vars(sys.modules[MAIN]).values())
    names = [kernel.fn.__name__ for kernel in kernels if kernel is not None and kernel.fn.__module__ == MAIN]
    if not names:
        return ""
    return f"{script} defines {', '.join(dict.fromkeys(names))}, and launches no kernel: only launches are checked"


def _kernel_in(value: object) -> JITFunction[Any] | None:
    """Return the kernel behind a value of a module: itself, or what autotuners and heuristics hold."""
    while isinstance(value, KernelInterface) and not isinstance(value, JITFunction):
        value = getattr(value, "fn", None)
    return value if isinstance(value, JITFunction) else None
