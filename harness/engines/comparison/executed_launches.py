"""A launch that the virtual GPU has executed, and how its results differ from those of the same launch elsewhere.

Rounding explains a difference if random rounding, in repetitions of the launch, moves the results as far.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from harness.engines.comparison.differences import compare, distance, doubt, roundings
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
    def elements(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors.values())


def explained_differences(
    launches: Launches,
    launch: ExecutedLaunch,
    others: Mapping[str, torch.Tensor],
    errors: dict[str, torch.Tensor],
) -> dict[str, Difference]:
    """Return the difference of each tensor of a launch from the other results; beyond a few roundings with its doubt.

    `errors` caches the sampled rounding errors by tensor, since they take `SAMPLES` launches.
    """
    kernel, rounds = launch.request.source.fn.__name__, roundings(launch.request.ttir)
    differences = {
        name: replace(compare(kernel, name, tensor, others[name]), rounds=rounds)
        for name, tensor in launch.tensors.items()
    }
    far = [name for name, seen in differences.items() if seen.is_floating and not seen.is_explained]
    if (new := [name for name in far if name not in errors]) and launch.elements <= MAX_SAMPLED_ELEMENTS:
        wanted = {name: launch.tensors[name] for name in new}
        errors |= _rounding_errors(launches, launch.request, wanted, launch.before)
    for name in errors.keys() & far:
        differences[name] = replace(
            differences[name], doubt=doubt(differences[name], launch.tensors[name], others[name], errors[name])
        )
    return differences


def _rounding_errors(
    launches: Launches, request: LaunchRequest, tensors: Mapping[str, torch.Tensor], before: Mapping[int, bytes]
) -> dict[str, torch.Tensor]:
    """Return the largest error that random rounding causes in each element of these tensors, in float64.

    Memory is afterwards as the launch has left it.
    """
    unperturbed = {name: tensor.detach().double().clone() for name, tensor in tensors.items()}
    errors = {name: torch.zeros_like(value) for name, value in unperturbed.items()}
    storages = dict(storage_views(tensors_of(request).values()))
    computed = {address: bytes(view) for address, view in storages.items()}
    with unrecorded(launches):
        for seed in range(SAMPLES):
            write_storages(storages, before)
            launches.handlers = rounded_at_random(HANDLERS, seed)
            launches(request)
            for name, tensor in tensors.items():
                errors[name] = torch.maximum(errors[name], distance(unperturbed[name], tensor.detach().double()))
    write_storages(storages, computed)
    return errors


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
