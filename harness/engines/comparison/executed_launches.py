"""A launch that the virtual GPU has executed, and how its results differ from those of the same launch elsewhere.

Rounding explains a difference if random rounding, in repetitions of the launch, moves the results as far.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile

import torch

from harness.engines.comparison.differences import (
    SAMPLING_MARGIN,
    compare,
    distance,
    doubt,
    roundings,
    sums_in_any_order,
)
from harness.engines.comparison.rounding_spread import RoundingSpread
from harness.engines.comparison.storages import storage_views, write_storages
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import NativeCode
from harness.engines.virtual.operations.random_rounding import rounded_at_random
from harness.engines.virtual.operations.table import HANDLERS
from harness.execution.reruns import recording
from harness.model.launch_difference import Difference

SAMPLES = 8
"""Repetitions with random rounding of a launch whose results differ by more than a few roundings."""
MOST_SAMPLES = 64
"""Repetitions where an integer differs: at a tie, few of them move a rounded number to the other side."""
MAX_SAMPLED_ELEMENTS = 1 << 22
"""The largest launch, in elements of all its tensors, that is repeated with random rounding."""


@dataclass(frozen=True, slots=True)
class ExecutedLaunch:
    """A launch that the virtual GPU has executed."""

    request: LaunchRequest
    tensors: Mapping[str, torch.Tensor]
    """By argument, with the virtual GPU's results."""
    before: Mapping[int, bytes]
    """By address, the bytes of all storages before the launch."""

    @property
    def in_any_order(self) -> bool:
        """As `sums_in_any_order` says of the kernel."""
        return sums_in_any_order(self.request.ttir)

    @property
    def elements(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors.values())


def explained_differences(
    launches: Launches,
    launch: ExecutedLaunch,
    others: Mapping[str, torch.Tensor],
    spreads: dict[str, RoundingSpread],
) -> dict[str, Difference]:
    """Return the difference of each tensor of a launch from the other results; beyond a few roundings with its doubt.

    `spreads` caches what random rounding does to each tensor, since that takes `SAMPLES` launches.
    """
    kernel, rounds = launch.request.source.fn.__name__, roundings(launch.request.ttir)
    differences = {
        name: replace(compare(kernel, name, tensor, others[name]), rounds=rounds)
        for name, tensor in launch.tensors.items()
    }
    far = [name for name, seen in differences.items() if not seen.is_explained]
    if (new := [name for name in far if name not in spreads]) and launch.elements <= MAX_SAMPLED_ELEMENTS:
        spreads |= _rounding_spreads(launches, launch, {name: differences[name] for name in new}, others)
    for name in spreads.keys() & far:
        seen = differences[name]
        differences[name] = replace(
            seen, doubt=doubt(seen, launch.tensors[name], others[name], spreads[name], in_any_order=launch.in_any_order)
        )
    return differences


def _rounding_spreads(
    launches: Launches, launch: ExecutedLaunch, far: Mapping[str, Difference], others: Mapping[str, torch.Tensor]
) -> dict[str, RoundingSpread]:
    """Return what random rounding does to tensors.

    The margin belongs to the roundings themselves: behind an exponential, eight times the error is not eight times
    the result.  So a number in doubt gets repetitions with so much more rounding.  An integer gets more repetitions.

    Memory is afterwards as the launch has left it.
    """
    unperturbed = {name: launch.tensors[name].detach().clone() for name in far}
    spreads = {name: RoundingSpread.none_around(value) for name, value in unperturbed.items()}
    storages = dict(storage_views(tensors_of(launch.request).values()))
    computed = {address: bytes(view) for address, view in storages.items()}

    def is_in_doubt(*, integers: bool) -> bool:
        return any(
            doubt(seen, unperturbed[name], others[name], spreads[name], in_any_order=launch.in_any_order) > 1.0
            for name, seen in far.items()
            if seen.is_floating is not integers
        )

    def repeat(seed: int, times: float) -> None:
        write_storages(storages, launch.before)
        launches.handlers = rounded_at_random(HANDLERS, seed, times)
        launches(launch.request)
        for name, value in unperturbed.items():
            moved = distance(value.double(), launch.tensors[name].detach().double())
            spreads[name] = spreads[name].including(moved / times if far[name].is_floating else moved)

    with unrecorded(launches):
        for seed in range(SAMPLES):
            repeat(seed, 1.0)
        if is_in_doubt(integers=False):
            for seed in range(SAMPLES):
                repeat(seed, SAMPLING_MARGIN)
        for seed in takewhile(lambda _: is_in_doubt(integers=True), range(SAMPLES, MOST_SAMPLES)):
            repeat(seed, 1.0)
    write_storages(storages, computed)
    return spreads


@contextmanager
def unrecorded(launches: Launches) -> Generator[VirtualCaseLaunches]:
    """While active, launches run in the interpreter; their facts are those of no case."""
    case, native = launches.case_launches, launches.native
    launches.native = NativeCode()
    try:
        own = VirtualCaseLaunches(lane_fill=case.lane_fill, order=case.order, seed=case.seed, checks_threads=False)
        with recording(launches, own):
            yield own
    finally:
        launches.native, launches.handlers = native, HANDLERS
