"""Launch handlers of the two releases: one keeps what launches leave, the other begins each with the same bytes.

A launch of the new release is compared if its storages hold the bytes that they held with the old one.  Afterwards
they get what the old release left there.  So a difference of one kernel reaches no other one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from harness.engines.comparison.executed_launches import ExecutedLaunch, explained_differences
from harness.engines.comparison.storages import like_tensor, storage_views
from harness.engines.triton.driver import LaunchHandler, LaunchRequest, tensors_of
from harness.engines.virtual.launches import Launches
from harness.model.launch_difference import Difference
from harness.upgrade.case_records import CaseRecords, ComparedLaunch, RecordedLaunch, StoredBytes


@dataclass(slots=True)
class OldLaunches:
    """Keeps the launches of a case of the old release."""

    launches: list[RecordedLaunch] = field(default_factory=list[RecordedLaunch])
    contents: list[bytes] = field(default_factory=list[bytes])
    _offset: int = 0

    def run(self, request: LaunchRequest, execute: LaunchHandler, config_index: int) -> None:
        storages = _storages(tensors_of(request))
        before = {name: _digest(storage.view) for name, storage in storages.items()}
        execute(request)
        changed = [name for name, storage in storages.items() if _digest(storage.view) != before[name]]
        after = {name: self._keep(storages[name].view) for name in changed}
        kernel = request.source.fn.__name__
        self.launches.append(RecordedLaunch(kernel=kernel, config_index=config_index, before=before, after=after))

    def _keep(self, view: memoryview) -> StoredBytes:
        span = StoredBytes(offset=self._offset, size=len(view))
        self.contents.append(bytes(view))
        self._offset += span.size
        return span


@dataclass(slots=True)
class NewLaunches:
    """Compares the launches of a case of the new release with those of the old one."""

    virtual: Launches
    """Repeats launches with random rounding."""
    records: CaseRecords
    case: str
    recorded: tuple[RecordedLaunch, ...]
    launches: list[ComparedLaunch] = field(default_factory=list[ComparedLaunch])

    def run(self, request: LaunchRequest, execute: LaunchHandler, config_index: int) -> None:
        kernel, tensors = request.source.fn.__name__, tensors_of(request)
        storages = _storages(tensors)
        before = {name: bytes(storage.view) for name, storage in storages.items()}
        number = len(self.launches)
        known = self.recorded[number] if number < len(self.recorded) else None
        reason = _reason(known, kernel, config_index, before)
        execute(request)
        launch = ComparedLaunch(kernel=kernel, config_index=config_index, skipped=reason)
        if known is not None and not reason:
            old = before | {name: bytes(self.records.bytes_of(self.case, span)) for name, span in known.after.items()}
            if any(bytes(storages[name].view) != content for name, content in old.items()):
                executed = ExecutedLaunch(request, tensors, _by_address(storages, before))
                launch = replace(launch, differences=self._differences(executed, _by_address(storages, old)))
                for name, content in old.items():
                    storages[name].view[:] = content
        self.launches.append(launch)

    def _differences(self, executed: ExecutedLaunch, old: Mapping[int, bytes]) -> tuple[Difference, ...]:
        others = {
            name: like_tensor(tensor, bytearray(old.get(tensor.untyped_storage().data_ptr(), b"")))
            for name, tensor in executed.tensors.items()
        }
        differences = explained_differences(self.virtual, executed, others, {}).values()
        return tuple(difference for difference in differences if difference.differing)


def _reason(known: RecordedLaunch | None, kernel: str, config_index: int, before: Mapping[str, bytes]) -> str:
    """Return why a launch cannot be compared; empty if it can."""
    if known is None:
        return "the old release has no such launch"
    if (known.kernel, known.config_index) != (kernel, config_index):
        return f"the old release launches {known.kernel} there"
    changed = [name for name, content in before.items() if known.before.get(name) != _digest(content)]
    return f"{', '.join(changed)} hold other bytes before it" if changed else ""


@dataclass(frozen=True, slots=True)
class _Storage:
    address: int
    view: memoryview


def _storages(tensors: Mapping[str, torch.Tensor]) -> dict[str, _Storage]:
    """Return the storages that are not empty, each by the first argument that has it."""
    named: dict[int, str] = {}
    storages: dict[str, _Storage] = {}
    for name, (address, view) in zip(tensors, storage_views(tensors.values()), strict=True):
        if len(view) and address not in named:
            named[address] = name
            storages[name] = _Storage(address, view)
    return storages


def _by_address(storages: Mapping[str, _Storage], contents: Mapping[str, bytes]) -> dict[int, bytes]:
    return {storages[name].address: content for name, content in contents.items()}


def _digest(content: memoryview | bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()
