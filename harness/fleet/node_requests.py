"""What the chunks of a search ask of a node, and what its processes are told of that."""

from collections.abc import Sequence

from harness.fleet.ray_cluster import Node, NodeRequest, gpu_type_of
from harness.model.device import DeviceProfile
from harness.search.options import Options

CHUNK_CPUS = 2
"""Cores that a chunk asks for: with one, its next batch waits for the slowest case of the last."""
GPU_CPUS = 4
"""With a GPU, whose kernels the other cores compile."""


def wanted_of(options: Options, device: DeviceProfile, nodes: Sequence[Node]) -> NodeRequest:
    """Return what a chunk on a device asks of a node."""
    if options.engine.needs_gpu:
        return NodeRequest(cpus=options.processes or GPU_CPUS, gpus=1, gpu_type=gpu_type_of(device.name, nodes))
    largest = max((node.cpus for node in nodes), default=CHUNK_CPUS)
    return NodeRequest(cpus=options.processes or max(1, min(CHUNK_CPUS, largest)))


def passed_on(wanted: NodeRequest) -> tuple[str, ...]:
    """Return the options of the processes that are no part of a chunk."""
    on_gpu = ("--gpus", "1", "--compilers", str(max(0, wanted.cpus - 2))) if wanted.gpus else ()
    processes = () if wanted.gpus else ("--processes", str(wanted.cpus))
    return (*processes, *on_gpu)
