"""The seam to Ray: each chunk is a task, and its events come back through an actor.

Ray schedules the tasks, and runs one again on another node if its node dies.  Nothing is scheduled here.
"""

import logging
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.documents import files
from harness.documents.chunk import Chunk, ChunkReport, ShardReport
from harness.errors import UsageError
from harness.extras import require
from harness.fleet.chunk_process import ENDING_S, ChunkOrder, run_chunk
from harness.fleet.project_archive import packed, unpacked
from harness.settings import Settings
from harness.wording import counted

PROJECTS = "projects"
"""The folder in a node's cache for copies of projects.  Each keeps the compiled kernels of earlier searches."""
RETRIES = 5
"""How often Ray runs a chunk again whose node has died."""
GPU_TYPE = "accelerator_type:"
"""How the name of a resource begins that tells the GPUs of a node."""
GPU_TYPE_SHARE = 0.001
"""The part of that resource that a task asks for: it only chooses the node."""
WAIT_S = 0.5
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """What a chunk asks of a node."""

    cpus: int
    gpus: int = 0
    gpu_type: str = ""
    """As Ray names it: `H100`; empty for any."""

    def __str__(self) -> str:
        gpu = f" and {self.gpus} GPU {self.gpu_type}".rstrip() if self.gpus else ""
        return f"{counted(self.cpus, 'CPU')}{gpu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of the cluster."""

    name: str
    cpus: int
    gpus: int
    gpu_type: str
    """Empty if Ray knows none."""

    def offers(self, wanted: NodeRequest) -> bool:
        """Return True if a chunk may run there when the node is free."""
        is_type = not wanted.gpu_type or self.gpu_type == wanted.gpu_type
        return self.cpus >= wanted.cpus and self.gpus >= wanted.gpus and is_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A chunk that ended: with its report, or with what prevented one."""

    chunk: Chunk
    report: ChunkReport | None = None
    failure: str = ""


class RayCluster:
    """A context manager: the connection to a cluster, and the chunks that run there."""

    def __init__(self, address: str, project: Path | None = None) -> None:
        """Connect.  The nodes get a copy of the project's folder before they run a chunk.

        Raises:
            MissingPart: Ray is not installed.
            UsageError: there is no cluster at this address, or the folder is too large.
        """
        require("cluster", "harness fuzz --ray")
        _reach(address)
        import ray  # noqa: PLC0415 - an extra, and slow

        self._ray: Any = ray
        try:
            ray.init(
                address=address,
                namespace="kernel-harness",
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _no_cluster(address, error) from None
        self._project = str(project or "")
        self._archive = ray.put(packed(project)) if project else None
        self._inbox = _inbox(ray)
        self._running: dict[Any, Chunk] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.cancel()
        self._ray.shutdown()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that are alive."""
        return tuple(_node(node) for node in self._ray.nodes() if node["Alive"])

    def submit(self, chunk: Chunk, options: Sequence[str], wanted: NodeRequest) -> None:
        """Let Ray run a chunk on a node that offers what it wants, now or later."""
        order = ChunkOrder(chunk=files.dumps(chunk), project=self._project, options=tuple(options))
        task = self._ray.remote(_run_chunk).options(
            name=f"chunk {chunk.number} of {chunk.count}",
            num_cpus=wanted.cpus,
            num_gpus=wanted.gpus,
            resources={f"{GPU_TYPE}{wanted.gpu_type}": GPU_TYPE_SHARE} if wanted.gpu_type else {},
            max_retries=RETRIES,
            retry_exceptions=False,
        )
        self._running[task.remote(order, self._archive, chunk.id, self._inbox)] = chunk

    @property
    def pending(self) -> int:
        """How many chunks have not ended."""
        return len(self._running)

    def ended(self) -> Iterator[Done]:
        """Yield the chunks that have ended, after waiting a moment for one."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=WAIT_S)
        for task in ready:
            yield self._done(task, self._running.pop(task))

    def _done(self, task: Any, chunk: Chunk) -> Done:
        try:
            document = files.loads(self._ray.get(task), ShardReport)
        except self._ray.exceptions.RayTaskError as error:
            return Done(chunk=chunk, failure=str(error.cause))
        except self._ray.exceptions.RayError as error:
            return Done(chunk=chunk, failure=f"{type(error).__name__}: {str(error).splitlines()[0]}")
        (report,) = document.chunks
        return Done(chunk=chunk, report=replace(report, chunk=chunk))

    def events(self) -> list[tuple[str, str]]:
        """Return what chunks have told since the last call: the id of the chunk, and a line."""
        try:
            return self._ray.get(self._inbox.take.remote())
        except self._ray.exceptions.RayActorError:  # its node has died; Ray starts it on another one
            return []

    def cancel(self) -> None:
        """End all chunks, and wait until their processes have ended."""
        for task in self._running:
            self._ray.cancel(task, force=False)
        deadline = time.monotonic() + ENDING_S
        while self._running and time.monotonic() < deadline:
            ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=WAIT_S)
            for task in ready:
                del self._running[task]
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._running.clear()


def _reach(address: str) -> None:
    """Refuse an address where nothing listens: Ray would try for two minutes, and then abort this process."""
    match = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return UsageError(
        f"--ray {address}: no Ray cluster answers: {reason}: start one with ray start --head, or name its address"
    )


def _run_chunk(order: ChunkOrder, archive: bytes, chunk: str, inbox: Any) -> str:
    """Run a chunk on this node: the body of a Ray task."""
    project = unpacked(archive, Settings.from_environment(os.environ).cache / PROJECTS)
    return run_chunk(order, project, lambda line: inbox.put.remote(chunk, line))


class _Inbox:
    """What chunks tell, until the program that asked for them reads it: a Ray actor."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []

    def put(self, chunk: str, line: str) -> None:
        self._lines.append((chunk, line))

    def take(self) -> list[tuple[str, str]]:
        lines, self._lines = self._lines, []
        return lines


def _inbox(ray: Any) -> Any:
    """Start the inbox on the node of this process: it should not die with another one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - an extra

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    options = {"num_cpus": 0, "scheduling_strategy": here, "max_restarts": -1}
    return ray.remote(_Inbox).options(**options).remote()


def gpu_type_of(name: str, nodes: Sequence[Node]) -> str:
    """Return the type by which Ray knows the GPU of this name: `NVIDIA H100 PCIe` is `H100`.

    Ray shortens names.  The longest type counts whose words begin the name.  If no node has such a type, it is the word
    after the manufacturer.
    """
    words = _words(name)
    known = {node.gpu_type: _words(node.gpu_type) for node in nodes if node.gpu_type}
    types = [name for name, its_words in known.items() if words[: len(its_words)] == its_words]
    return max(types, key=len, default=name.removeprefix("NVIDIA ").split(" ")[0])


def _words(name: str) -> list[str]:
    return re.split(r"[\s-]+", name.removeprefix("NVIDIA ").lower())


def _node(description: Mapping[str, Any]) -> Node:
    resources: Mapping[str, float] = description.get("Resources", {})
    types = (name.removeprefix(GPU_TYPE) for name in resources if name.startswith(GPU_TYPE))
    return Node(
        name=str(description.get("NodeManagerHostname", description.get("NodeID", ""))),
        cpus=int(resources.get("CPU", 0)),
        gpus=int(resources.get("GPU", 0)),
        gpu_type=next(types, ""),
    )


def nodes_at(address: str) -> tuple[Node, ...]:
    """Return the nodes of a cluster.

    Raises:
        MissingPart, UsageError: as `RayCluster`.
    """
    with RayCluster(address) as cluster:
        return cluster.nodes
