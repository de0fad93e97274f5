"""Four nights on disk, with a bug in each state."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path

from harness.documents.night_log import ChunkTried, NightSighting, RunBegun, RunEnded, sighting_of
from harness.findings.known_issues import KnownIssue, KnownIssues
from harness.model.finding import Finding
from harness.night import night_memory
from harness.night.bug_history import history_of
from harness.night.night_memory import FINDINGS, RunLog, keep_finding
from harness.reports.morning import MorningContents, UnexecutedLines, morning_contents, read_stored
from tests.reports.samples import CAUSE, EVIL, LINK, OVERLAP, STRAY, VALUES, finding
from tests.search.fakes import OP

NIGHTS = ("2026-11-25", "2026-11-26", "2026-11-27", "2026-11-28")
TODAY = date(2026, 11, 28)
OLD, NEW = "fla-core 0.5.2", "fla-core 0.6.0"
H200, B200 = "h200", "b200"

BACK = finding("unwritten")
GONE = finding("row-invariance")
GONE_BEFORE = finding("repeatability")
ELSEWHERE = finding("precision")
LOST = finding("agreement")
STEADY = replace(OVERLAP, symptoms=CAUSE.symptoms[:1])
FLAKY = finding("order-invariance")


def sighting(bug: Finding, release: str = OLD, device: str = H200, search: str = "fla") -> NightSighting:
    seen = sighting_of(bug, search=search, op=OP.id, device=device, release=release)
    return replace(seen, symptoms=())  # each is a bug of its own here


def chunk(*replayed: Finding, release: str = OLD, **fields: object) -> ChunkTried:
    digest = {OLD: "0ld", NEW: "new"}[release]
    tried = ChunkTried(
        search="fla",
        op=OP.id,
        device=H200,
        engine="virtual",
        release=release,
        digest=digest,
        passed=40,
        failed=4,
        abstained=4,
        abstain_reasons={f"{EVIL}: tt.histogram": 4},
        seconds=1800.0,
        replayed=tuple(bug.id for bug in replayed),
    )
    return replace(tried, **fields)


def write_run(
    folder: Path, night: str, *happened: ChunkTried | NightSighting | RunEnded, part: str = "1/1", hour: int = 2
) -> None:
    """Write the log of a run that began at this hour."""
    log = RunLog(folder, night)
    log.write(RunBegun(part=part, searches=("fla", "liger"), seed=7, versions={"triton": "3.6.0"}, units=5))
    for each in happened:
        log.write(each)
    text = log.path.read_text(encoding="utf-8")
    log.path.write_text(re.sub(r'"at": "[^"]*"', f'"at": "{night}T{hour:02}:00:00Z"', text), encoding="utf-8")


def keep(folder: Path, bugs: Iterable[Finding]) -> None:
    for bug in bugs:
        keep_finding(bug, folder, bug.fail.message, {"python": "3.11.7", "triton": "3.6.0"})


def write_nights(folder: Path) -> Path:
    """Write a memory with a bug in each state."""
    ended = RunEnded(seconds=3600.0)
    seen_first = (STEADY, FLAKY, BACK, GONE, GONE_BEFORE)
    write_run(
        folder,
        NIGHTS[0],
        chunk(),
        *map(sighting, seen_first),
        chunk(search="liger", op="suites/liger.py:swiglu", device=B200, passed=0, failed=0, abstained=48),
        sighting(ELSEWHERE, device=B200, search="liger"),
        ended,
    )
    write_run(
        folder,
        NIGHTS[1],
        chunk(*seen_first),
        *map(sighting, (STEADY, GONE)),
        chunk(BACK, GONE_BEFORE, release=NEW),
        ended,
    )
    write_run(folder, NIGHTS[2], chunk(*seen_first), *map(sighting, (STEADY, FLAKY, GONE)), ended)
    fresh = (STEADY, FLAKY, BACK, VALUES, STRAY, LOST)
    write_run(
        folder,
        NIGHTS[3],
        chunk(STEADY, FLAKY, BACK, GONE, release=NEW),
        *(sighting(bug, NEW) for bug in fresh),
        chunk(device=B200, failure=f"the process was killed: {EVIL}", passed=0, failed=0, abstained=0),
        RunEnded(seconds=3600.0, quarantined=("GPU 3: row remapping failed",)),
        part="1/2",
    )
    write_run(folder, NIGHTS[3], chunk(device="a100", passed=0, failed=0, abstained=48), part="2/2", hour=3)
    keep(folder, (STEADY, FLAKY, BACK, GONE, GONE_BEFORE, ELSEWHERE, VALUES, STRAY))
    (folder / FINDINGS / VALUES.id / "repro.py").write_text("print('again')\n", encoding="utf-8")
    (folder / FINDINGS / "broken").mkdir()
    (folder / FINDINGS / "broken" / "finding.json").write_text("{", encoding="utf-8")
    return folder


ISSUES = KnownIssues(
    issues=(
        KnownIssue(signature=str(STEADY.fail.signature), link=LINK, expires=date(2026, 12, 3)),
        KnownIssue(signature=str(GONE.fail.signature), link=LINK, expires=date(2027, 12, 1)),
        KnownIssue(signature="bounds: nothing x", link="javascript:alert(1)", expires=date(2027, 12, 1)),
    ),
    today=TODAY,
)
UNITS = (
    ("fla", OP.id, H200),
    ("fla", OP.id, B200),
    ("fla", OP.id, "a100"),
    ("liger", "suites/liger.py:swiglu", B200),
    ("liger", "suites/liger.py:rope", B200),
)
UNEXECUTED = (UnexecutedLines(file="fla/modules/layernorm.py", kernel="layer_norm_fwd_kernel", lines=(9, 3, 5, 4)),)


def contents_of_nights(folder: Path) -> MorningContents:
    """Return what the morning after these nights shows."""
    history = history_of(night_memory.read(folder))
    return morning_contents(history, ISSUES, stored=read_stored(history), units=UNITS, unexecuted=UNEXECUTED)
