"""Terminal output is complete, at most eighty columns wide, and quotes the source if available."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.model.case import DType, GradMode, Layout, Scale, ValueDistribution
from harness.model.finding import Finding
from harness.model.hardware_blame import Blame
from harness.model.run import Source
from harness.model.verdict import Fail, Severity, Signature
from harness.reports.finding_text import Sources, describe, render
from harness.reports.interrupts import Interrupts
from harness.reports.progress import Progress
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.deadline import Deadline
from harness.search.triage_queue import TriageProgress
from tests.reports.samples import MISCOMPILED
from tests.search.fakes import DEVICE, KERNEL, SIMPLEST, facts, with_dims

CASE = replace(with_dims(T=3), layouts={"x": Layout.STRIDED}, configs={KERNEL: 2})
FINDING = Finding(
    fail=Fail(
        signature=Signature(
            oracle="bounds", severity=Severity.ERROR, op=SIMPLEST.op, kernel=KERNEL, place="layernorm.py:4"
        ),
        message="program 3 loads x[-1], outside the storage (layernorm.py:4)",
        meaning="The kernel reads what does not belong to it.",
        source=Source(file="fla/modules/layernorm.py", line=4),
    ),
    case=CASE,
    launch=facts(CASE, lambda _: False).launches[0],
    first_case=replace(
        with_dims(T=450, D=64), device=DEVICE.with_sm_count(20), values=ValueDistribution.LARGE, seed=77
    ),
    sightings=1234,
    rule="every case with G > 1 and dtype = bf16: 31 of 31; none of 200 others",
    confirmed=True,
    preceding_case=with_dims(T=9),
    libraries=("fla-core==0.5.2",),
)
SOURCE = """\
@triton.jit
def kernel(x, T, BT: tl.constexpr):
    o = tl.program_id(0) * BT + tl.arange(0, BT)
    b = tl.load(x + o)

    tl.store(x + o, b)
"""
PRINTED = """\
ERROR  bounds  layer_norm_bwd_kernel  in layer_norm                     {id}
────────────────────────────────────────────────────────────────────────────────
program 3 loads x[-1], outside the storage (layernorm.py:4)

  fla/modules/layernorm.py
         2 │ def kernel(x, T, BT: tl.constexpr):
         3 │     o = tl.program_id(0) * BT + tl.arange(0, BT)
   >     4 │     b = tl.load(x + o)
         5 │
         6 │     tl.store(x + o, b)

  smallest case  layer_norm  T=3 D=1 G=1  fp32, no residual or weight, x
                 strided, layer_norm_bwd_kernel config 2
  contiguity     x strided: if the library demands a contiguous tensor, declare
                 contiguous=True
  device         rtx-pro-6000: 188 SMs, sm_120 (NVIDIA RTX PRO 6000 Blackwell
                 Workstation Edition)
  launch         grid 188 x 1 x 1; BT: 32, num_warps: 4 (config 3 of 6)
  first seen     layer_norm  T=450 D=64 G=1  fp32, no residual or weight, values
                 large, seed 77 on rtx-pro-6000 (20 SMs, sm_120)
  confirmed      in a fresh process, after the case below
  seen           in 1,234 cases of the search
  fails for      every case with G > 1 and dtype = bf16: 31 of 31; none of 200
                 others
  runs after     layer_norm  T=9 D=1 G=1  fp32, no residual or weight
  with           fla-core==0.5.2

The kernel reads what does not belong to it.

  replay         harness replay {id}
  explain        harness findings --explain bounds
"""


def test_a_finding_is_printed_whole(tmp_path: Path) -> None:
    source = tmp_path / "fla" / "modules" / "layernorm.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    assert render(FINDING, Sources(roots=(tmp_path,))).plain == PRINTED.format(id=FINDING.id)


def test_a_missing_source_file_is_named(tmp_path: Path) -> None:
    printed = render(FINDING, Sources(roots=(tmp_path,))).plain
    assert "\n  fla/modules/layernorm.py:4\n" in printed
    assert "│" not in printed


def test_a_finding_that_did_not_repeat_says_so() -> None:
    printed = render(replace(FINDING, confirmed=False, preceding_case=None, launch=None), Sources()).plain
    assert "  confirmed      NOT TRIED: the case did not run alone, since time was up" in printed
    assert "smallest" not in printed


def test_a_finding_on_hardware_says_who_is_at_fault() -> None:
    printed = render(replace(FINDING, hardware_blame=MISCOMPILED), Sources()).plain
    assert "norm_fwd and norm_bwd: right with ptxas\n12.9.86 and ptxas 12.8.93 -O0\n" in printed
    assert "  evidence       the virtual GPU does not show it; ptxas 12.9.86 does not" in printed


@pytest.mark.parametrize("blame", Blame)
def test_every_blame_has_a_sentence(blame: Blame) -> None:
    found = replace(MISCOMPILED, blame=blame)
    assert found.verdict in " ".join(render(replace(FINDING, hardware_blame=found), Sources()).plain.split())
    assert bool(found.cause) == (blame is Blame.ASSEMBLER)


def test_a_failure_of_no_single_kernel_names_the_op() -> None:
    fail = replace(FINDING.fail, signature=replace(FINDING.fail.signature, kernel="", op=SIMPLEST.op), source=None)
    assert render(replace(FINDING, fail=fail), Sources()).plain.startswith("ERROR  bounds  layer_norm     ")


def test_defaults_of_a_case_are_left_out() -> None:
    assert describe(replace(SIMPLEST, absent=())) == "layer_norm  T=1 D=1 G=1  fp32"
    assert describe(replace(SIMPLEST, dtype=DType.BF16)) == "layer_norm  T=1 D=1 G=1  bf16, no residual or weight"


def test_the_wanted_gradients_and_the_scale_of_a_case_are_named() -> None:
    full = replace(SIMPLEST, absent=())
    frozen = replace(full, frozen=("residual", "x"))
    assert describe(frozen) == "layer_norm  T=1 D=1 G=1  fp32, no gradient wanted of residual or x"
    assert str(frozen).partition(" seed=")[0] == "layer_norm T=1 D=1 G=1 fp32 residual:frozen x:frozen"
    no_grad = replace(full, grad_mode=GradMode.NO_GRAD)
    assert describe(no_grad) == "layer_norm  T=1 D=1 G=1  fp32, under torch.no_grad()"
    assert str(no_grad).partition(" seed=")[0] == "layer_norm T=1 D=1 G=1 fp32 no_grad"
    long = replace(full, dims={"T": 65_536}, scale=Scale.LONG)
    assert describe(long) == "layer_norm  T=65536  fp32, long (past the usual range of a dim)"
    assert str(long).partition(" seed=")[0] == "layer_norm T=65536 fp32 long"


def test_a_terminal_is_left_as_it_was_found() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with Progress(console, Interrupts(), 300) as progress:
        progress.tick(CampaignStatistics(cases=12, passed=12, seconds=2.0), CASE)
        progress.sighted(FINDING.fail, None)  # pyright: ignore[reportArgumentType] -- not looked at
        progress.triaging(TriageProgress(sightings=2, confirmed=1, finished=0, deadline=Deadline.after(60)))
    hidden, shown = screen.getvalue().rfind("\x1b[?25l"), screen.getvalue().rfind("\x1b[?25h")
    assert 0 <= hidden < shown  # the cursor
    assert "seen: error, bounds: layer_norm_bwd_kernel" in screen.getvalue()


class TimedProgress(Progress):
    """Progress at a time that the test sets."""

    time_s = 0.0

    def now(self) -> float:
        return self.time_s


def progress_lines(cases_and_times: Iterable[tuple[int, float]], activity: str = "") -> list[str]:
    """Return the lines of a log about 60 cases, after ticks with so many cases at these times."""
    log = StringIO()
    with TimedProgress(Console(file=log, width=80), Interrupts(), 60, activity=lambda: activity) as progress:
        for cases, progress.time_s in cases_and_times:
            progress.tick(CampaignStatistics(cases=cases, passed=cases, seconds=progress.time_s), None)
    return log.getvalue().splitlines()


def test_progress_says_what_the_first_case_waits_for() -> None:
    ticks = [(0, float(seconds)) for seconds in range(6, 60, 6)]
    assert progress_lines(ticks, "compiling rms_norm_kernel for 4 s") == [
        "no case is done yet: compiling rms_norm_kernel for 4 s",
        "no case is done yet: compiling rms_norm_kernel for 4 s",
    ]


def test_progress_says_how_much_time_is_left() -> None:
    assert progress_lines([(1, 6.0), (11, 16.0), (12, 17.0), (31, 36.0)]) == [
        "1 of 60 cases · 0.2/s · 0 failures seen",
        "11 of 60 cases · 0.7/s · 0 failures seen · about 0:49 left",
        "31 of 60 cases · 0.9/s · 0 failures seen · about 0:29 left",
    ]


def test_progress_says_once_why_a_case_cannot_be_checked() -> None:
    log = StringIO()
    reasons = ["lib.utils.size is called, but it is a stub", "no launch was seen", "a third", "a fourth"]
    with TimedProgress(Console(file=log, width=80), Interrupts(), 60) as progress:
        for cases in range(1, 9):
            counts = Counter(dict.fromkeys(reasons[:cases], cases))
            progress.tick(CampaignStatistics(cases=cases, abstained=cases, seconds=1.0, reasons=counts), None)
    assert log.getvalue().splitlines() == [f"cannot check a case: {reason}" for reason in reasons[:3]]


def test_a_log_gets_a_line_every_few_seconds_at_most() -> None:
    log = StringIO()
    with Progress(Console(file=log, width=80), Interrupts(), Deadline.after(60)) as progress:
        for cases in range(1000):
            progress.tick(CampaignStatistics(cases=cases, seconds=1.0), CASE)
    assert len(log.getvalue().splitlines()) <= 2


@pytest.mark.parametrize(("sightings", "line"), [(1, ""), (2, "  seen           in 2 cases of the search")])
def test_a_finding_of_several_cases_says_in_how_many(sightings: int, line: str) -> None:
    text = render(replace(FINDING, sightings=sightings), Sources()).plain
    assert [row for row in text.splitlines() if row.lstrip().startswith("seen ")] == ([line] if line else [])
