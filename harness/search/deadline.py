"""The moment at which a part of a search must end."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 if it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.at
