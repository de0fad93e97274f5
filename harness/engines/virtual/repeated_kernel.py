"""One compiled kernel that is launched again and again: what its launches have in common is computed once."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.foreign_arguments import ArgumentPromises
from harness.engines.triton.kernel_facts import KernelFacts, launch_of
from harness.engines.triton.triton_seam import ChosenConfig
from harness.engines.virtual.native.native_code import NativeBackend, RepeatableLaunch
from harness.engines.virtual.plain_arguments import PlainParameters
from harness.model.run import Launch

MOST_PATTERNS = 64
"""Patterns of arguments that are remembered for each kernel."""
MOST_RECORDS = 256


@dataclass(frozen=True, slots=True)
class KeptLaunch:
    """What launches with one pattern of arguments have in common."""

    native: RepeatableLaunch
    may_race: bool
    """The threads of a program may race."""


class RepeatedKernel:
    """What follows from a kernel's source, metadata and text, whatever the arguments are."""

    def __init__(self, facts: KernelFacts, request: LaunchRequest) -> None:
        self.facts = facts
        self._kernel = request.source, request.metadata, request.ttir
        self.promises = ArgumentPromises(request.source)
        self.parameters = PlainParameters.of(request.source, facts.module.kernel)
        """None if the arguments are not read as plain ones."""
        self._records: dict[Hashable, Launch] = {}
        self._native_records: dict[int, tuple[Launch, Launch]] = {}
        """By identity of a record, the record itself and that of the same launch in native code."""
        self._native: NativeBackend | None = None
        self._launches: dict[Hashable, KeptLaunch] = {}

    def is_of(self, request: LaunchRequest) -> bool:
        """Return True if a request launches this kernel; one that was changed may launch another."""
        source, metadata, ttir = self._kernel
        return source is request.source and metadata is request.metadata and ttir == request.ttir

    def record(
        self,
        request: LaunchRequest,
        chosen: ChosenConfig,
        scratch_bytes: int,
        builds: tuple[str, ...],
    ) -> Launch:
        """Return the record of a launch; equal ones are the same value."""
        key = (
            *(request.grid, request.model, request.is_benchmark, scratch_bytes, builds),
            *(chosen.text, chosen.index, chosen.count, chosen.refused),
        )
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= MOST_RECORDS:
                self._records.clear()
                self._native_records.clear()
            record = launch_of(self.facts, request, chosen, scratch_bytes, builds)
            self._records[key] = record
        return record

    def native_record(self, record: Launch) -> Launch:
        """Return the record of `record` as that of a launch in native code."""
        known = self._native_records.get(id(record))
        if known is None or known[0] is not record:
            known = self._native_records[id(record)] = record, replace(record, executor="native")
        return known[1]

    def repeatable(self, pattern: Hashable, native: NativeBackend) -> "KeptLaunch | None":
        """Return what repeats a launch with this pattern of arguments in this native code; None if none is kept."""
        return self._launches.get(pattern) if self._native is native else None

    def keep(self, pattern: Hashable, native: NativeBackend, launch: "KeptLaunch") -> None:
        """Keep what repeats a launch with this pattern of arguments."""
        if self._native is not native or len(self._launches) >= MOST_PATTERNS:
            self._native, self._launches = native, {}
        self._launches[pattern] = launch

    def drop(self, pattern: Hashable) -> None:
        self._launches.pop(pattern, None)
