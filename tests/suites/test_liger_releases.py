"""The Liger suite calls functions of old releases with the parameters that they have."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.suite import beside

SUITE = Path(__file__).resolve().parents[2] / "suites" / "liger" / "norm.py"
LABELS = torch.tensor([3, 1])


class CrossEntropy:
    """A function with the parameters of release 0.1."""

    @staticmethod
    def forward(ctx: Any, _input: Any, target: Any, ignore_index: int) -> None: ...

    @staticmethod
    def apply(*given: Any) -> tuple[Any, ...]:
        return given


class Newer(CrossEntropy):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - another release
        ctx: Any, _input: Any, target: Any, weight: Any, ignore_index: int = -100, reduction: str = "mean"
    ) -> None: ...


class Linear(CrossEntropy):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - another function
        ctx: Any, _input: Any, linear: Any, target: Any, ignore_index: int
    ) -> None: ...


def applied(function: type, **given: Any) -> Any:
    return beside(str(SUITE), "applying.py").apply(function, **given)


@pytest.mark.parametrize(
    "neutral",
    [
        {"reduction": "mean", "label_smoothing": 0.0, "softcap": None, "return_z_loss": False},
        {"weight": None, "gate_multiplier": 1.0, "casting_mode": "llama", "in_place": True, "row_mode": None},
        {"accum_dtype": torch.float32},
    ],
)
def test_a_release_without_a_parameter_has_its_neutral_value(neutral: dict[str, Any]) -> None:
    assert applied(CrossEntropy, _input=1, target=2, ignore_index=-100, **neutral) == (1, 2, -100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reduction", "sum"),
        ("weight", LABELS),
        ("label_smoothing", 0.1),
        ("in_place", False),
        ("casting_mode", "gemma"),
    ],
)
def test_a_release_without_a_parameter_declines_other_values(name: str, value: Any) -> None:
    with pytest.raises(NotImplementedError, match=f"CrossEntropy of this release has no {name}"):
        applied(CrossEntropy, _input=LABELS, target=LABELS, ignore_index=-100, **{name: value})


def test_parameters_that_are_not_given_keep_their_defaults() -> None:
    assert applied(Newer, _input=1, target=2, weight=None, reduction="sum") == (1, 2, None, -100, "sum")


def test_a_parameter_may_have_an_older_name() -> None:
    assert applied(Linear, _input=1, weight=LABELS, target=2, ignore_index=-100)[1] is LABELS
