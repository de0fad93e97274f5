"""One launch, bound to its arguments and ready to execute."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.engines.ttir.ir import Module
from harness.engines.virtual.binding import Binding
from harness.engines.virtual.machine import LaunchContext
from harness.engines.virtual.numbers.elements import Array
from harness.model.device import DeviceProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLaunch:
    """The part of a launch that all executors share."""

    kernel: str
    """The kernel's name in Python."""
    text: str
    """A digest of the TTIR without source locations, which decides what the launch computes."""
    device: DeviceProfile
    context: LaunchContext
    binding: Binding
    bind: Callable[[], Binding]
    """Binds the same arguments again, with empty shadow memory, for one more execution."""
    ids: Array
    """Linear ids of the programs to execute, in the order in which they begin."""
    is_oversized: bool
    """The case is oversized, and `ids` is a sample of the programs."""
    is_long: bool
    """The case is long, so the machine would take many times as long as native code."""
    is_exact: bool
    """It computes exact values too, and is not checked for hazards again."""
    may_wait: bool
    """A program may wait for another one."""
    has_atomics: bool

    @property
    def module(self) -> Module:
        return self.context.module
