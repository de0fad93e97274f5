"""The kinds of flaws that `harness check` names."""

from enum import StrEnum


class FlawKind(StrEnum):
    """What is wrong with a candidate."""

    REFERENCE_CALLED = "reference called"
    NO_KERNEL = "no kernel computes the result"
    COPIED = "a kernel copies what torch computed"
    ZEROS = "all zeros"
    CONSTANT = "constant output"
    REPEATED = "cached output"
    INPUT_CHANGED = "input changed"
    UNINITIALISED = "uninitialised memory"
    RACE = "race"
    OUT_OF_BOUNDS = "out of bounds"
    WRONG_VALUES = "wrong values"
    WRONG_GRADIENT = "wrong gradient"
    WRONG_FORM = "wrong shape or type"
    EXCEPTION = "exception"
    HANG = "hang"
    CRASH = "crash"
    TAMPERING = "tampering"
    PROMISE = "broken promise"
    """Another promise of kernels, which the message names."""
