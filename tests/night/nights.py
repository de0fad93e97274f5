"""Nights that are written down without a search."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.documents.night_log import ChunkTried, RunBegun, RunEnded, sighting_of
from harness.model.finding import Finding
from harness.night import night_memory
from harness.night.bug_history import BugHistory, NightHistory, history_of
from harness.night.night_memory import RunLog, keep_finding
from tests.findings.test_recorded_cases import FINDING

CONFIRMED = replace(FINDING, confirmed=True)
OTHER_CASE = replace(CONFIRMED, case=replace(CONFIRMED.case, seed=CONFIRMED.case.seed + 1))
"""The same bug in another case, which is as small."""
OP = CONFIRMED.case.op
DEVICE = CONFIRMED.case.device.slug


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """Writes the logs of a search of one op on one device."""

    folder: Path

    def run(
        self,
        night: str,
        *,
        sees: Finding | None = None,
        looks: bool = True,
        release: str = "lib 1.0",
        digest: str = "a1",
        search: str = "one",
    ) -> RunLog:
        """Write what a run saw; `looks` says that it ran the smallest case of the bug."""
        log = RunLog(self.folder, night)
        log.write(RunBegun(part="1/1", searches=(search,), seed=0, versions={"triton": "3.6.0"}, units=1))
        if sees is not None:
            log.write(sighting_of(sees, search=search, op=OP, device=DEVICE, release=release))
            keep_finding(sees, self.folder, "text", {})
        log.write(
            ChunkTried(
                search=search,
                op=OP,
                device=DEVICE,
                engine="virtual",
                release=release,
                digest=digest,
                passed=3,
                failed=1 if sees else 0,
                seconds=2.0,
                replayed=(CONFIRMED.id,) if looks else (),
            )
        )
        log.write(RunEnded(seconds=3.0))
        return log

    @property
    def history(self) -> NightHistory:
        return history_of(night_memory.read(self.folder))

    @property
    def bug(self) -> BugHistory:
        """The only one."""
        (bug,) = self.history.bugs
        return bug


def files_of(folder: Path) -> Mapping[str, int]:
    """Return the sizes of all files of a memory, by their names."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
