"""What the two releases leave of each case: the old one its launches with their bytes, the new one the comparison.

Files are named by the digest of the case, and each is written whole or not at all: an interrupted upgrade goes on.  The
bytes of a case are removed once it is compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness import wire
from harness.documents.files import write_text
from harness.model.launch_difference import Difference

T = TypeVar("T")
FORMAT = 1
"""Raised when a record changes."""
FOLDER = f"upgrade-{FORMAT}"
"""The folder's name inside the harness's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """A place in the file of a case's bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """One launch with the old release."""

    kernel: str
    config_index: int
    before: Mapping[str, str]
    """By argument, the digest of its storage's bytes before the launch.  Arguments of one storage count once."""
    after: Mapping[str, StoredBytes]
    """The bytes of the storages that the launch changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCase:
    ending: str
    """Empty if the case completed."""
    launches: tuple[RecordedLaunch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLaunch:
    """One launch with the new release, from the bytes of the old one's."""

    kernel: str
    config_index: int
    differences: tuple[Difference, ...] = ()
    """Those that have a differing element."""
    skipped: str = ""
    """Why it was not compared; empty if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCase:
    old_ending: str
    """Empty if the case completed."""
    new_ending: str
    launches: tuple[ComparedLaunch, ...]

    @property
    def differs(self) -> bool:
        return any(launch.differences for launch in self.launches)


@dataclass(frozen=True, slots=True)
class CaseRecords:
    """The records of the cases of one suite on one device."""

    folder: Path

    def recorded(self, case: str) -> RecordedCase | None:
        """Return the record of a case by its digest, if its bytes are there too."""
        known = wire.read_kept(self._place(case, "recorded"), RecordedCase)
        return known if known is not None and self._bytes(case).exists() else None

    def keep_recorded(self, case: str, record: RecordedCase, contents: Iterable[bytes]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        wire.write_bytes(contents, self._bytes(case))
        self._keep(case, "recorded", record)

    def bytes_of(self, case: str, span: StoredBytes) -> bytearray:
        """Return the bytes of a storage that a launch changed.

        Raises:
            OSError: they are gone.
        """
        with self._bytes(case).open("rb") as file:
            file.seek(span.offset)
            return bytearray(file.read(span.size))

    def compared(self, case: str) -> ComparedCase | None:
        return wire.read_kept(self._place(case, "compared"), ComparedCase)

    def keep_compared(self, case: str, record: ComparedCase) -> None:
        """Keep the comparison, and remove the bytes."""
        self._keep(case, "compared", record)
        self._bytes(case).unlink(missing_ok=True)

    def judged(self, case: str, release: str, expected: type[T]) -> T | None:
        return wire.read_kept(self._place(case, release), expected)

    def keep_judged(self, case: str, release: str, judgement: object) -> None:
        self._keep(case, release, judgement)

    def _keep(self, case: str, what: str, record: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(wire.to_json(record), self._place(case, what))

    def _place(self, case: str, what: str) -> Path:
        return self.folder / f"{case}.{what}.json"

    def _bytes(self, case: str) -> Path:
        return self.folder / f"{case}.bytes"
