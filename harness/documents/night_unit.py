"""What nights keep of one op of a search on one device, besides its counts: where to go on."""

from dataclasses import dataclass, field

from harness.documents.campaign import KernelLines
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.merging import PROMISING, ROWS
from harness.model.promising import PromisingCase


@dataclass(frozen=True, slots=True, kw_only=True)
class NightUnit:
    """One op of a search on one device."""

    kind: Kind = Kind.NIGHT_UNIT
    schema_version: int = SCHEMA_VERSION
    search: str
    op: str
    device: str
    """The slug."""
    digest: str
    """Of the sources that the op reaches; executed lines are those of these sources."""
    release: str
    promising: tuple[PromisingCase, ...] = field(default=(), metadata=PROMISING)
    """Cases that the next night tries first."""
    kernel_lines: tuple[KernelLines, ...] = field(default=(), metadata=ROWS)
    """The lines of kernels, and how many launches executed them."""
