"""The engine that executes each launch twice: its TTIR on the virtual GPU, and its PTX from the same bytes."""

from collections.abc import Mapping

import numpy as np

from harness.engines.comparison.comparing_engine import ComparingEngine
from harness.engines.comparison.launches import CannotRepeat
from harness.engines.ptx.executor import PtxExecutor
from harness.engines.ptx.ptx_builds import PtxBuilds
from harness.engines.ptx.threads import Array
from harness.engines.triton.driver import LaunchRequest
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.launches import Launches
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.errors import CannotExecute
from harness.execution.reruns import Rerun
from harness.model.engine_traits import PTX_COMPARISON
from harness.model.launch_difference import Plainer


class PtxMachine:
    """Executes the PTX of launches of the virtual GPU."""

    name = "PTX machine"
    plainer: tuple[Plainer, ...] = (Plainer.UNFUSED,)

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self.arch = launches.device.arch
        self._builds = PtxBuilds(
            launches.settings.builds,
            launches.settings.executor,
            lambda seconds: launches.case_launches.add_seconds("ptx", seconds),
        )

    def repeat(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None
    ) -> dict[int, bytearray]:
        """Execute a launch on copies of the storages."""
        contents = {address: bytearray(content) for address, content in before.items()}
        try:
            self._execute(request, contents, plainer)
        except CannotExecute as error:
            raise CannotRepeat(f"the PTX machine cannot execute {error.what}") from error
        return contents

    def _execute(self, request: LaunchRequest, contents: Mapping[int, bytearray], plainer: Plainer | None) -> None:
        compiled, case = self._launches.compiled(request), self._launches.case_launches
        options, digest = dict(compiled.facts.options), compiled.facts.build
        if plainer is Plainer.UNFUSED:
            options["enable_fp_fusion"], digest = False, f"{digest}-unfused"
        build = self._builds.of(digest, request.ttir, self.arch, options)
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
            most_ctas=lambda: self._launches.resident(compiled, request, launch).capacity * build.num_ctas,
            add_event=case.memory.append,
            number=len(case.launches) - 1,
            content_of=content_of,
        )
        outcome = executor.run()
        if outcome.deadlocked is not None:
            raise CannotRepeat("its threads wait for ever")


class PtxComparisonEngine(ComparingEngine):
    """Runs cases on the virtual GPU, and compares each launch with its PTX."""

    traits = PTX_COMPARISON
    reruns = frozenset({Rerun.EXACT})

    def make_machine(self, launches: Launches) -> PtxMachine:
        return PtxMachine(launches)
