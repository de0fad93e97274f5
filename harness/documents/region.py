"""The document of a region: where around its smallest case a finding shows, in sentences and as data."""

from dataclasses import dataclass

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.region import Region


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDocument:
    """A region; the sentences are derived from it for the reader."""

    kind: Kind = Kind.REGION
    schema_version: int = SCHEMA_VERSION
    sentences: tuple[str, ...] = ()
    region: Region
