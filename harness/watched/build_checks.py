"""Whether the kernels of a watched command fit the resources of the emulated GPU.

The processes of the command compile to TTIR only.  Beside them, the background compiler takes each build to its end.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.compiling.background_compiler import BackgroundCompiler
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.model.kernel_resources import Resources
from harness.model.run import Completed, Run
from harness.model.verdict import Abstain, Fail, Outcome
from harness.oracles import registry
from harness.oracles.resources import FitsResources
from harness.watched.watch_records import LaunchedBuild, LaunchedBuilds, LaunchFailure

POLL_S = 1.0
WAIT_S = 30.0
"""For builds that wait when the command has ended.  The next run goes on with the others."""
FITS = FitsResources()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildVerdicts:
    """What the compiler says about the builds of a command."""

    failures: tuple[LaunchFailure, ...] = ()
    builds: int = 0
    """Distinct builds that were launched."""
    compiled: int = 0
    """Those whose resources are known."""
    outcomes: tuple[Outcome, ...] = ()
    """One for each build, as far as it is known."""


class BuildChecks:
    """Compiles the builds of a command while it runs, as a context."""

    def __init__(self, folder: Path, builds: Path, device: DeviceProfile) -> None:
        """Make the checks.

        Args:
            folder: where the command's processes write what they launch.
            builds: where they leave their builds.
            device: the emulated GPU.
        """
        self._records = LaunchedBuilds(folder)
        self._launched: list[LaunchedBuild] = []
        self._device = device
        builds.mkdir(parents=True, exist_ok=True)
        self._compiler = BackgroundCompiler(builds, settle_s=WAIT_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._request, name="build-requests", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._compiler.close()

    def verdicts(self, *, is_patient: bool) -> BuildVerdicts:
        """Return the verdicts on all builds; `is_patient` waits for builds that are not compiled yet.

        Raises:
            Exception: the error that ended the compiler's thread.
        """
        self._stop()
        self._launched += self._records.new()
        launched = self._launched
        known = self._known(launched)
        if is_patient and len(known) < len({record.launch.build for record in launched}):
            with suppress(KeyboardInterrupt):  # what was found is reported all the same
                self._compiler.settle()
            known = self._known(launched)
        failures: list[LaunchFailure] = []
        outcomes: dict[str, Outcome] = {}
        for record in launched:
            run = Run(
                case=Case(op="", dims={}, dtype=record.dtype, device=self._device),
                engine=VIRTUAL.name,
                ending=Completed(),
                launches=(record.launch,),
            )
            verdicts = registry.judge_all(run, {}, known, (), (FITS,))
            fails = [verdict for verdict in verdicts if isinstance(verdict, Fail)]
            failures += (
                LaunchFailure(
                    test=record.test,
                    fail=fail,
                    dtype=record.dtype,
                    launch=record.launch,
                    called_from=record.called_from,
                )
                for fail in fails
            )
            is_unknown = any(isinstance(verdict, Abstain) for verdict in verdicts)
            outcomes[record.launch.build] = Outcome.FAIL if fails else Outcome.ABSTAIN if is_unknown else Outcome.PASS
        return BuildVerdicts(
            failures=tuple(failures),
            builds=len(outcomes),
            compiled=sum(not needs.unknown for needs in known.values()),
            outcomes=tuple(outcomes.values()),
        )

    def _known(self, launched: Iterable[LaunchedBuild]) -> dict[str, Resources]:
        compiled = {record.launch.build: self._compiler.of(record.launch) for record in launched}
        return {build: resources for build, resources in compiled.items() if resources is not None}

    def _request(self) -> None:
        """Request each build soon after its first launch."""
        while not self._is_over.wait(POLL_S):
            new = self._records.new()
            self._launched += new
            self._known(new)

    def _stop(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
