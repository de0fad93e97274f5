"""The emulation of a GPU in a process of the user's own: while it is suspended, nothing is left of it."""

import os

from harness.engines.torch.torch_seam import function_modes
from harness.engines.triton.triton_seam import forget_kernels
from harness.patches import PATCHES
from harness.watched.attaching import prepare_environment
from harness.watched.launch_watch import watch_process
from harness.watched.watch_records import WatchPlan


class BlockEmulation:
    """The emulated GPU of one plan.  Blocks of code enter and leave it."""

    def __init__(self, plan: WatchPlan) -> None:
        """Emulate the GPU, for a first block that has entered."""
        variables, modes = dict(os.environ), function_modes()
        forget_kernels()
        prepare_environment(os.environ, plan)
        self.recorder = watch_process(plan, None)
        self._modes = [mode for mode in function_modes() if not any(mode is other for other in modes)]
        self._environment = {
            name: (variables.get(name), os.environ.get(name)) for name in variables.keys() | os.environ.keys()
        }
        """The variables outside and inside of blocks."""
        self._blocks = 1

    def enter(self) -> None:
        """Emulate the GPU again."""
        self._blocks += 1
        if self._blocks > 1:
            return
        forget_kernels()
        self._set_environment(to=1)
        PATCHES.resume()
        for mode in self._modes:
            mode.__enter__()

    def leave(self) -> None:
        """Put back what was replaced in torch, Triton and the environment, after the outermost block."""
        self._blocks -= 1
        if self._blocks:
            return
        forget_kernels()
        for mode in reversed(self._modes):
            mode.__exit__(None, None, None)
        PATCHES.suspend()
        self._set_environment(to=0)

    def _set_environment(self, *, to: int) -> None:
        for name, values in self._environment.items():
            if values[0] == values[1] or os.environ.get(name) != values[1 - to]:
                continue  # it was not ours, or the user has set it since
            if (value := values[to]) is None:
                del os.environ[name]
            else:
                os.environ[name] = value
