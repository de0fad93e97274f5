"""How far repetitions of a launch with random rounding lie from its results."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class RoundingSpread:
    """The distances of the two furthest repetitions from a tensor, element by element, in float64."""

    furthest: torch.Tensor
    second: torch.Tensor

    @classmethod
    def none_around(cls, values: torch.Tensor) -> "RoundingSpread":
        """Return the spread of no repetition."""
        zeros = torch.zeros(values.shape, dtype=torch.float64)
        return cls(zeros, zeros)

    def including(self, apart: torch.Tensor) -> "RoundingSpread":
        """Return the spread with one more repetition, whose distances are given."""
        return RoundingSpread(
            furthest=torch.maximum(self.furthest, apart),
            second=torch.maximum(self.second, torch.minimum(self.furthest, apart)),
        )
