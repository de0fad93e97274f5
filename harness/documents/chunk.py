"""A chunk: a part of a search that any machine can run by itself; what it reports, and the report of a shard."""

from dataclasses import dataclass

from harness.documents.campaign import CampaignReport
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """New cases of one op on one device, from one seed.  Equal chunks draw equal cases, on any machine."""

    kind: Kind = Kind.CHUNK
    schema_version: int = SCHEMA_VERSION
    search: str
    """The id of the search: equal for all its chunks, and for no other search."""
    number: int
    """Its place in the search, from 1."""
    count: int
    """How many chunks the search has."""
    search_seed: int
    plan: Plan
    """Its seed is derived from that of the search."""

    @property
    def id(self) -> str:
        """The search, and the chunk's place in it: `5d1c07a2-3`."""
        return f"{self.search}-{self.number}"

    def __str__(self) -> str:
        return f"chunk {self.number} of {self.count}: {', '.join(self.plan.op)} on {self.plan.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReport:
    """What one chunk found."""

    chunk: Chunk
    report: CampaignReport

    @property
    def is_whole(self) -> bool:
        """False if the chunk was interrupted."""
        return not self.report.interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """The report of one shard: of the chunks that one machine ran, in their order."""

    kind: Kind = Kind.SHARD
    schema_version: int = SCHEMA_VERSION
    search: str
    chunk_count: int
    """How many chunks the whole search has."""
    shard: int
    """The number of the shard, from 1; 0 for chunks that were run by themselves."""
    shard_count: int
    """How many there are; 0 as above."""
    chunks: tuple[ChunkReport, ...]


def shard_of(chunk: int, shards: int) -> int:
    """Return the number of the shard, of so many, that runs the chunk of this number."""
    return (chunk - 1) % shards + 1
