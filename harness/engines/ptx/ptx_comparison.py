"""The engine that executes each launch twice: its TTIR on the virtual GPU, and its PTX from the same bytes."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from harness.engines.comparison.launches import CannotRepeat, LaunchComparison
from harness.engines.ptx.executor import PtxExecutor
from harness.engines.ptx.ptx_builds import PtxBuilds
from harness.engines.ptx.threads import Array
from harness.engines.triton.driver import LaunchRequest
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.launches import Launches
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.errors import CannotExecute
from harness.execution.reruns import Rerun
from harness.model.case import Case
from harness.model.engine_traits import PTX_COMPARISON
from harness.model.launch_difference import CaseAgreement, Plainer
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Run

MACHINE = "PTX machine"
"""What stands in reports for the hardware GPU."""


class PtxMachine:
    """Executes the PTX of launches of the virtual GPU."""

    plainer: tuple[Plainer, ...] = (Plainer.UNFUSED,)

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self.arch = launches.device.arch
        self._builds = PtxBuilds(launches.settings.builds, launches.settings.executor)

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
        before = self._builds.seconds
        build = self._builds.of(digest, request.ttir, self.arch, options)
        case.add_seconds("ptx", self._builds.seconds - before)
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


class PtxComparisonEngine(VirtualEngine):
    """Runs cases on the virtual GPU, and compares each launch with its PTX."""

    traits = PTX_COMPARISON
    reruns = frozenset({Rerun.EXACT})

    def __init__(self) -> None:
        super().__init__(self._compare_launches)
        self._comparison: LaunchComparison | None = None

    def run(self, op: Op, case: Case) -> Run:
        assert self._comparison is not None, "emulate a device first"
        self._comparison.begin()
        run = super().run(op, case)
        agreement = CaseAgreement(
            gpu=MACHINE,
            launches=self._comparison.launches,
            differences=tuple(self._comparison.differences),
            skipped=tuple(self._comparison.skipped),
        )
        return replace(run, agreement=agreement)

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case on the virtual GPU alone."""
        assert self._comparison is not None, "emulate a device first"
        with self._comparison.paused():
            return super().run_paired(op, request)

    def _compare_launches(self, launches: Launches) -> LaunchComparison:
        self._comparison = LaunchComparison(launches, PtxMachine(launches))
        return self._comparison
