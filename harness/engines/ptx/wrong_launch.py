"""A launch whose PTX is wrong, executed again with other builds of its kernel: whether they are wrong, too."""

from collections.abc import Iterable, Mapping

import torch

from harness.engines.comparison.executed_launches import ExecutedLaunch, explained_differences, unrecorded
from harness.engines.comparison.launches import CannotRepeat
from harness.engines.comparison.rounding_spread import RoundingSpread
from harness.engines.comparison.storages import like_tensor, storage_views, write_storages
from harness.engines.ptx.ptx_builds import PtxBuild
from harness.engines.ptx.ptx_machine import PtxMachine
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.virtual.launches import Launches
from harness.model.launch_difference import Difference
from harness.model.miscompilation import InquiryRequest
from harness.model.run import CompiledFlaw, MemoryEvent


class WrongLaunch:
    """Repeats a launch that the virtual GPU has executed.  Memory stays as that left it."""

    def __init__(self, launches: Launches, machine: PtxMachine, done: ExecutedLaunch, asked: InquiryRequest) -> None:
        self._launches, self._machine = launches, machine
        self.done, self.asked = done, asked
        self._spreads = dict[str, RoundingSpread]()

    def is_wrong(self, build: PtxBuild | None = None) -> bool:
        """Return True if a build shows the fault; by default the usual one.

        Raises:
            CannotRepeat: the machine cannot execute it.
        """
        done = self.done
        with unrecorded(self._launches) as facts:
            try:
                if build is None:
                    after = self._machine.repeat(done.request, done.before, None)
                else:
                    after = self._machine.repeat_build(done.request, done.before, build)
            except CannotRepeat:
                if self._has_flaw(facts.memory):  # it may be what stops the machine
                    return True
                raise
        if self.asked.flaw:
            return self._has_flaw(facts.memory)
        differences = explained_differences(self._launches, done, results(done, after), self._spreads)
        return not all(difference.is_explained for difference in differences.values())

    def _has_flaw(self, memory: Iterable[MemoryEvent]) -> bool:
        return any(isinstance(event, CompiledFlaw) and event.kind == self.asked.flaw for event in memory)

    def compare(
        self, request: LaunchRequest, before: Mapping[int, bytes]
    ) -> tuple[dict[str, Difference], Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
        """Execute a variant of the launch on both machines.

        Returns the differences of its tensors, and the tensors of the virtual GPU and of the PTX machine.

        Raises:
            CannotRepeat, CannotExecute: a machine cannot execute it.
        """
        tensors = tensors_of(request)
        storages = dict(storage_views(tensors.values()))
        kept = {address: bytes(view) for address, view in storages.items()}
        try:
            write_storages(storages, before)
            with unrecorded(self._launches):
                self._launches(request)
                after = self._machine.repeat(request, before, None)
            variant = ExecutedLaunch(request, tensors, before)
            others = results(variant, after)
            differences = explained_differences(self._launches, variant, others, {})
            return differences, {name: tensor.detach().clone() for name, tensor in tensors.items()}, others
        finally:
            write_storages(storages, kept)


def results(done: ExecutedLaunch, after: Mapping[int, bytearray]) -> dict[str, torch.Tensor]:
    """Return the tensors of a launch over the bytes that another machine left."""
    return {
        name: like_tensor(tensor, after[tensor.untyped_storage().data_ptr()]) for name, tensor in done.tensors.items()
    }
