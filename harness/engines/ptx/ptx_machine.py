"""The PTX machine as one that repeats launches of the virtual GPU, from the same bytes."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from harness.engines.comparison.launches import CannotRepeat
from harness.engines.ptx.executor import PtxExecutor
from harness.engines.ptx.ptx_builds import PtxBuild, PtxBuilds
from harness.engines.ptx.threads import Array
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.omitted_passes import VariantBuild
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.launches import Launches
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.errors import CannotExecute
from harness.model.launch_difference import Plainer


@contextmanager
def _as_machine_limit() -> Generator[None]:
    try:
        yield
    except CannotExecute as error:
        raise CannotRepeat(f"the PTX machine cannot execute {error.what}") from error


class PtxMachine:
    """Executes the PTX of launches of the virtual GPU."""

    name = "PTX machine"
    plainer: tuple[Plainer, ...] = (Plainer.UNFUSED,)

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self.arch = launches.device.sm
        self._builds = PtxBuilds(
            launches.settings.builds,
            launches.settings.executor,
            lambda seconds: launches.case_launches.add_seconds("ptx", seconds),
        )

    def repeat(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None
    ) -> dict[int, bytearray]:
        """Execute a launch on copies of the storages."""
        with _as_machine_limit():
            build = self.build_of(request, plainer)
        return self.repeat_build(request, before, build)

    def build_of(self, request: LaunchRequest, plainer: Plainer | None = None) -> PtxBuild:
        """Return the PTX of a launch's kernel.

        Raises:
            CannotExecute: the kernel does not compile.
        """
        facts = self._launches.compiled(request).facts
        options, digest = dict(facts.options), facts.build
        if plainer is Plainer.UNFUSED:
            options["enable_fp_fusion"], digest = False, f"{digest}-unfused"
        return self._builds.of(digest, request.ttir, self.arch, options)

    def builds_without_passes(
        self, request: LaunchRequest, until: float
    ) -> Iterator[tuple[VariantBuild, PtxBuild | None]]:
        """Yield a build of a launch's kernel without each pass of the compiler, with its PTX; None if there is none.

        `until` is the moment of the monotonic clock at which it ends.
        """
        facts = self._launches.compiled(request).facts
        yield from self._builds.without_passes(request.ttir, self.arch, facts.options, until)

    def repeat_build(
        self, request: LaunchRequest, before: Mapping[int, bytes], build: PtxBuild
    ) -> dict[int, bytearray]:
        """Execute a build of a launch's kernel, as `repeat` does.

        Raises:
            CannotRepeat: the machine cannot execute the build.
        """
        contents = {address: bytearray(content) for address, content in before.items()}
        with _as_machine_limit():
            self._execute(request, contents, build)
        return contents

    def _execute(self, request: LaunchRequest, contents: Mapping[int, bytearray], build: PtxBuild) -> None:
        compiled, case = self._launches.compiled(request), self._launches.case_launches
        grid = LaunchGrid(*request.grid)
        if not grid.programs:
            return
        launch = self._launches.prepare(compiled, request, grid)
        copies: dict[int, Array] = {address: np.frombuffer(content, np.uint8) for address, content in contents.items()}

        def content_of(buffer: Buffer) -> Array:
            return copies[buffer.address] if buffer.address in copies else buffer.bytes.copy()

        executor = PtxExecutor(
            launch=launch,
            build=build,
            events=EventCollector(),
            resident=self._launches.resident(compiled, request, launch),
            add_event=case.memory.append,
            number=len(case.launches) - 1,
            content_of=content_of,
        )
        outcome = executor.run()
        if outcome.deadlocked is not None:
            raise CannotRepeat("its threads wait for ever")
