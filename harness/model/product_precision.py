"""How exactly tensor cores multiply float32 numbers."""

from collections.abc import Iterable, Mapping

PRODUCT_EPSILONS: Mapping[str, float] = {"tf32": 2.0**-9, "bf16x3": 2.0**-14, "bf16x6": 2.0**-21, "tf32x3": 2.0**-20}
"""The relative error of float32 products in matrix units, by `tl.dot`'s input precision: tf32 keeps ten bits."""


def product_epsilon(precisions: Iterable[str]) -> float:
    """Return the epsilon of the coarsest input precision; 0 if none rounds."""
    return max((PRODUCT_EPSILONS.get(precision, 0.0) for precision in precisions), default=0.0)
