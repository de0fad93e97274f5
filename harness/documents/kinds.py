"""The kinds of documents, and the version of their schema."""

from enum import StrEnum

SCHEMA_VERSION = 2
"""One number for all kinds.  A release reads documents of its own version alone; a change of any key raises it."""


class Kind(StrEnum):
    """The value of a document's `kind`."""

    FINDING = "finding"
    REGRESSION = "regression"
    CASE = "case"
    CAMPAIGN = "campaign"
    REGION = "region"
    BISECTION = "bisection"
    CORPUS = "corpus"
    MUTATION = "mutation"
    MATRIX = "matrix"
    UPGRADE = "upgrade"
    CHUNK = "chunk"
    SHARD = "shard"
    VERDICT = "verdict"
    NIGHT = "night"
    NIGHT_UNIT = "night-unit"
    MORNING = "morning"
    GATE = "gate"
