"""The compilers of a matrix: some children that compile builds next to each other.

Facts are kept in the cache as soon as they are known.  A failure of this machine is not kept.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import Self

from harness import wire
from harness.compiling.build_cache import BuildCache
from harness.compiling.compiler_child import CompilerChild, Unanswered, program
from harness.model.kernel_build import BuildFacts, BuildRequest

TIME_LIMIT_S = 600.0
"""Of one build, in wall-clock time."""


class Compilers:
    """A context manager that owns the children; it kills them all when it is left."""

    def __init__(
        self,
        cache: BuildCache,
        processes: int,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        command: tuple[str, ...] | None = None,
    ) -> None:
        self._cache = cache
        command = (*(command or program()), str(cache.folder))
        self._children = [CompilerChild(command, cache.folder, time_limit_s=time_limit_s) for _ in range(processes)]
        self._idle = SimpleQueue[CompilerChild]()
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(processes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.kill()
        self._threads.shutdown()
        for child in self._children:
            child.close()

    def compile(self, requests: Iterable[BuildRequest]) -> Iterator[tuple[BuildRequest, BuildFacts]]:
        """Compile the builds and yield each with its facts, as they are ready.

        Raises:
            OSError: a child cannot be started, or the cache cannot be written.
        """
        for compiled in as_completed([self._threads.submit(self._compile, request) for request in requests]):
            yield compiled.result()

    def _compile(self, request: BuildRequest) -> tuple[BuildRequest, BuildFacts]:
        child = self._idle.get()
        try:
            answer = child.ask(wire.to_json(request), BuildFacts)
        finally:
            self._idle.put(child)
        if isinstance(answer, Unanswered):
            failed = answer.is_refusal
            answer = BuildFacts(failure=answer.reason) if failed else BuildFacts(unknown=answer.reason)
        if not answer.unknown:
            self._cache.keep_facts(request.key, answer)
        return request, answer
