"""Which streams take part in a capture of the emulated GPU, and which of its steps follow which.

As in CUDA: a capture begins on one stream, its origin.  A stream that waits for an event of the capture takes part from
then on.  A step follows the step before it on its stream, and what its stream has waited for.  At the end the origin
must have waited for the other streams.

Streams are numbers here, as torch's `cuda_stream`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

DEFAULT_STREAM = 0
"""The legacy stream of CUDA, which no capture can take part in."""
UNJOINED = "capturing stream has unjoined work (cudaErrorStreamCaptureUnjoined)"
ISOLATION = "dependency created on uncaptured work in another stream (cudaErrorStreamCaptureIsolation)"
IMPLICIT = (
    "operation would make the legacy stream depend on a capturing blocking stream (cudaErrorStreamCaptureImplicit)"
)
UNSUPPORTED = "operation not permitted when stream is capturing (cudaErrorStreamCaptureUnsupported)"
CAPTURED_EVENT = "operation not permitted on an event last recorded in a capturing stream (cudaErrorCapturedEvent)"
INVALIDATED = "operation failed due to a previous error during capture (cudaErrorStreamCaptureInvalidated)"


class CaptureOrder:
    """The streams of one capture, and the order that they give its steps."""

    active: ClassVar["CaptureOrder | None"] = None
    """That of the capture in progress; None usually."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._last: dict[int, frozenset[int]] = {origin: frozenset()}
        """By stream, the steps that its next step follows."""
        self._after: list[frozenset[int]] = []
        """For each step, those that it follows directly."""
        self._is_invalid = False

    def has(self, stream: int) -> bool:
        """Return True if work on this stream is captured."""
        return stream in self._last

    def add_step(self, stream: int) -> None:
        self._after.append(self._last[stream])
        self._last[stream] = frozenset({len(self._after) - 1})

    def point(self, stream: int) -> "CapturePoint | None":
        """Return what an event that is recorded on the stream stands for; None if the stream does not take part."""
        return CapturePoint(self, self._last[stream]) if stream in self._last else None

    def wait(self, stream: int, steps: frozenset[int]) -> None:
        """Let the next step on the stream follow these steps; the stream takes part from now on."""
        if stream == DEFAULT_STREAM:
            raise self.failure(IMPLICIT)
        self._last[stream] = self._last.get(stream, frozenset()) | steps

    def failure(self, text: str) -> torch.AcceleratorError:
        """Return CUDA's error for a call that a capture forbids.  The capture fails with it."""
        self._is_invalid = True
        return torch.AcceleratorError(f"CUDA error: {text}")

    def end(self, stream: int) -> None:
        """End the capture on this stream.

        Raises:
            RuntimeError: as on a GPU: it began on another one, a call failed, or a stream was not waited for.
        """
        if stream != self._origin:
            raise RuntimeError("Capture must end on the same stream it began on.")
        if self._is_invalid:
            raise self.failure(INVALIDATED)
        if not frozenset().union(*self._last.values()) <= self._before_and(self._last[self._origin]):
            raise self.failure(UNJOINED)

    def other_orders(self) -> tuple[Sequence[int], ...]:
        """Return orders of all steps that the streams allow, other than that of the capture.

        In one the streams take turns.  In the other, of the steps that are ready, the last one goes first.
        """
        captured = [*range(len(self._after))]
        depths: list[int] = []
        for after in self._after:
            depths.append(1 + max((depths[step] for step in after), default=0))
        in_turns = sorted(captured, key=lambda step: depths[step])
        return tuple(order for order in (in_turns, self._latest_first()) if order != captured)

    def _latest_first(self) -> list[int]:
        order: list[int] = []
        done: set[int] = set()
        left = set(range(len(self._after)))
        while left:
            step = max(step for step in left if self._after[step] <= done)
            order.append(step)
            done.add(step)
            left.remove(step)
        return order

    def _before_and(self, steps: frozenset[int]) -> frozenset[int]:
        """Return the steps, and all that come before them."""
        reached, pending = set[int](), [*steps]
        while pending:
            step = pending.pop()
            if step not in reached:
                reached.add(step)
                pending += self._after[step]
        return frozenset(reached)


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """An event of a capture."""

    order: CaptureOrder
    steps: frozenset[int]
    """The last steps before it."""
