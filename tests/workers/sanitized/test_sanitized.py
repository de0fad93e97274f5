"""Workers under a fake compute-sanitizer: every report is read and belongs to its case."""

import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.compute_sanitizer_report import Level, Sanitized, SanitizerRecord, Tool, Touch
from harness.model.ending import Source
from harness.model.run import Completed, Crashed, Run
from harness.workers.folder import PoolFolder
from harness.workers.pool import Pool
from harness.workers.sanitized.worker import SanitizedServer, SanitizedWorker
from tests.workers.sanitized.reporting import KERNEL
from tests.workers.setting import DEADLINE_S, DEVICE, ROOT, case, processes_marked, specs, survivors

SUITE = str(Path(__file__).with_name("reporting.py"))
FAKE = str(Path(__file__).with_name("fake_sanitizer.py"))
UNDER_FAKE_TOOL = Sanitizing(
    tool=Tool.MEMCHECK,
    command=(sys.executable, FAKE, "all", "--"),
    version="1",
    self_test="tests.workers.sanitized.reporting:self_test",
    library="libc.so",
)
STRAY = SanitizerRecord(
    kind="Precise",
    text="Invalid __global__ write of size 4 bytes is out of bounds",
    what="out of bounds write",
    level=Level.ERROR,
    at=Touch(
        direction="write",
        kernel=KERNEL,
        source=Source(file="/suite/kernels.py", line=9),
        program=(3, 0, 0),
        thread=(0, 0, 0),
    ),
    space="global",
    size_bytes=4,
    count=5,
)
SILENCE = Sanitized(tool=Tool.MEMCHECK, version="1", launches=1)


def pool(scratch: Path, processes: int = 1, **changes: object) -> Pool:
    spec = specs(
        scratch,
        suites=(SUITE,),
        engine="tests.workers.sanitized.reporting:Launching",
        sanitizing=replace(UNDER_FAKE_TOOL, **changes),
    )
    return Pool(spec, processes=processes, time_limit_s=DEADLINE_S)


def of(op: str, rows: int = 5) -> Case:
    return case(op, rows, suite=SUITE)


def sanitized(run: Run) -> Sanitized:
    assert run.sanitizer is not None
    return run.sanitizer


def test_a_report_costs_its_worker_while_silent_cases_share_one(scratch: Path) -> None:
    with pool(scratch) as under:
        runs = [under.run(of(op)) for op in ("is_quiet", "is_quiet", "strays", "is_quiet")]
    assert [sanitized(run) for run in runs] == [SILENCE, SILENCE, replace(SILENCE, records=(STRAY,)), SILENCE]
    first, second, straying, last = (run.seconds["result"] for run in runs)
    assert first == second == straying != last


def test_two_workers_have_a_sanitizer_process_each(scratch: Path) -> None:
    with pool(scratch, processes=2) as under:
        waiting = [under.submit(of("strays", rows)) for rows in (1, 2, 3)]
        quiet = [under.submit(of("is_quiet")) for _ in range(3)]
        counts = [sum(one.count for one in sanitized(future.result()).records) for future in waiting]
        assert counts == [1, 2, 3]
        assert [sanitized(future.result()) for future in quiet] == [SILENCE] * 3


def test_reports_of_a_case_that_died_are_read(scratch: Path) -> None:
    with pool(scratch) as under:
        run = under.run(of("strays_and_dies"))
    assert isinstance(run.ending, Crashed)
    assert sanitized(run).records == (STRAY,)


def test_an_accepted_report_is_kept_with_the_reason(scratch: Path) -> None:
    accepted = Suppression(kernel="scale_.*", reason="known to the author")
    with pool(scratch, suppressions=(accepted,)) as under:
        assert sanitized(under.run(of("strays"))).records == (replace(STRAY, accepted="known to the author"),)


def test_without_xml_the_printed_lines_are_the_records(scratch: Path) -> None:
    with pool(scratch, command=(sys.executable, FAKE, "nothing", "--")) as under:
        seen = sanitized(under.run(of("strays")))
    assert seen.incomplete == "compute-sanitizer wrote no XML: these are its printed lines"
    (record,) = seen.records
    assert (record.at.kernel, record.at.program, record.count) == (KERNEL, (3, 0, 0), 5)


def test_records_before_the_break_of_an_xml_are_kept(scratch: Path) -> None:
    with pool(scratch, command=(sys.executable, FAKE, "half", "--")) as under:
        seen = sanitized(under.run(of("strays")))
    assert seen.incomplete == "compute-sanitizer's XML breaks off"
    assert [(record.at, record.count < STRAY.count) for record in seen.records] == [(STRAY.at, True)]


def test_a_tool_that_fails_its_self_test_proves_nothing(scratch: Path) -> None:
    with pool(scratch, self_test="tests.workers.sanitized.reporting:silent") as under:
        unproven = sanitized(under.run(of("is_quiet"))).unproven
    assert unproven == "memcheck did not report a mistake that was made on purpose: nothing was printed"


def test_a_tool_that_is_not_in_the_process_proves_nothing(scratch: Path) -> None:
    with pool(scratch, library="libnowhere") as under:
        assert sanitized(under.run(of("is_quiet"))).unproven == "compute-sanitizer's libnowhere is not in the process"


def test_a_tool_that_may_leave_out_kernels_proves_nothing(scratch: Path) -> None:
    with pool(scratch, filtered="--launch-count") as under:
        unproven = sanitized(under.run(of("is_quiet"))).unproven
    assert unproven == "--launch-count may leave out kernels or reports of this case"


def test_a_tool_that_does_not_start_python_is_a_one_line_error(scratch: Path) -> None:
    program = "import pathlib, sys; pathlib.Path(sys.argv[5]).write_text('========= Error: no driver\\n')"
    for command, problem in (
        (("/bin/false",), "it ended at once"),
        ((sys.executable, "-c", program), "Error: no driver"),
    ):
        with pool(scratch, command=command) as under, pytest.raises(WorkerError) as failed:
            under.run(of("is_quiet"))
        text = str(failed.value)
        assert text.startswith(f"compute-sanitizer 1 does not run Python here: {problem}. Another release"), text
        assert "\n" not in text


@pytest.mark.usefixtures("folder")
def test_sanitizer_processes_for_two_workers_start_in_parallel(scratch: Path) -> None:
    sanitizing = replace(UNDER_FAKE_TOOL, self_test="tests.workers.sanitized.reporting:self_test_of_a_pair")
    spec = specs(scratch, suites=(SUITE,), engine="tests.workers.sanitized.reporting:Launching", sanitizing=sanitizing)(
        DEVICE
    )
    folder = PoolFolder(str(scratch))
    server = SanitizedServer(spec, sanitizing, folder, count().__next__)
    with ThreadPoolExecutor(2) as threads:
        forked: list[Future[SanitizedWorker]] = []
        for number in (100, 101):
            server.prewarm()
            forked.append(threads.submit(server.fork, number))
            while server._prewarmed is not None:
                pass
        workers = [future.result() for future in forked]
    runs = [worker.ask(of("is_quiet"), time_limit_s=DEADLINE_S)() for worker in workers]
    for worker in workers:
        worker.close()
    server.close()
    folder.remove()
    assert [sanitized(run).unproven for run in runs] == ["", ""]


def test_a_case_that_is_run_alone_has_a_fresh_process(scratch: Path) -> None:
    with pool(scratch) as under:
        runs = [under.run(of("is_quiet")), under.run_alone(of("is_quiet"))]
    assert all(isinstance(run.ending, Completed) for run in runs)
    assert len({run.seconds["result"] for run in runs}) == 2


def test_after_sigkill_of_the_parent_the_tool_and_its_children_end(tmp_path: Path, mark: str) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.workers.sanitized.test_sanitized import of, pool\n"
        f"with pool(Path({str(tmp_path)!r})) as under:\n"
        "    under.run(of('is_quiet')); print('ready', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        assert len(processes_marked(mark)) >= 5  # parent, tool, two fork servers, worker
        parent.kill()
    assert survivors(mark) == []
