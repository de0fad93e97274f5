"""What the user's Hypothesis settings say of a search: the loaded profile, or `@settings` on a test.

Deadlines and verbosity have no effect here: a case compiles kernels, and runs in another process.
"""

from dataclasses import dataclass
from typing import Any

import hypothesis

USUAL_EXAMPLES = 100
"""Hypothesis's own default: whoever leaves it has not chosen a number of cases."""
OWN_SETTINGS = "_hypothesis_internal_use_settings"
"""The attribute by which `@settings` marks a function, in all releases since 3.56."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisProfile:
    """The settings that have a meaning here."""

    cases: int | None
    """`max_examples`; None if it is the default."""
    is_deterministic: bool
    """`derandomize`: equal cases in every run."""
    replays: bool
    """False without a `database`, or without the phase `reuse`: failures of earlier runs are not tried first."""
    shrinks: bool
    """False without the phase `shrink`."""


def profile_of(*functions: object) -> HypothesisProfile:
    """Return the settings of the first function that has its own, or else of the loaded profile."""
    own = (getattr(function, OWN_SETTINGS, None) for function in functions)
    chosen: Any = next((settings for settings in own if settings is not None), hypothesis.settings())
    examples: int = chosen.max_examples
    return HypothesisProfile(
        cases=None if examples == USUAL_EXAMPLES else examples,
        is_deterministic=chosen.derandomize,
        replays=chosen.database is not None and hypothesis.Phase.reuse in chosen.phases,
        shrinks=hypothesis.Phase.shrink in chosen.phases,
    )
