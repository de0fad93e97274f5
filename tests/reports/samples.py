"""Sample findings, a region, and campaign reports for the tests of reports."""

from dataclasses import replace
from datetime import date
from math import inf

from harness.documents.bisection import BisectedBorder, BisectionDocument, CheckedMember
from harness.documents.campaign import CampaignReport, KernelLines, KnownFinding, RowCount, SizeCount, VerdictCount
from harness.model.avoided import AvoidedDraws, SetAsideOp
from harness.model.finding import Excerpt, Finding, ReplayCount, Symptom
from harness.model.hardware_blame import Blame, HardwareBlame
from harness.model.picture import Amount, ElementSpan, Shading, Span, Spread
from harness.model.region import SMS, Axis, AxisKind, Ended, Point, Region
from harness.model.row_check import RowBits
from harness.model.run import Source
from harness.model.verdict import Fail, Outcome, Severity, Signature
from harness.reports.contents import ReportContents
from tests.findings.test_recorded_cases import FINDING
from tests.search.fakes import OP, with_dims

EVIL = "<script>alert('1 & 2')</script>"
"""What no page, table or document may take for its own."""
LINK = "https://github.com/fla-org/flash-linear-attention/pull/1249"

TILES = Shading(
    tensor="dx",
    caption="stored by more than one program",
    amount=Amount.SHARE,
    spread=Spread(shape=(450, 64), marks=((0, 0, 0.25), (1, 3, 0.5), (23, 31, 1.0))),
    worst=(2, 0),
)
WRONG = Shading(
    tensor="d:x",
    caption="further from the truth than rounding explains",
    amount=Amount.TOLERANCES,
    spread=Spread(shape=(2, 3, 5), marks=((0, 0, 0.7), (1, 1, 4.0), (2, 2, 40.0), (5, 3, 4e5), (5, 4, inf))),
    worst=(1, 2, 4),
)
BESIDE = Span(
    tensor="x",
    caption="load, outside the storage",
    elements=ElementSpan(shape=(4, 8), extent=32, storage=(0, 40), touched=(40, 47)),
)

OVERLAP = replace(
    FINDING,
    fail=replace(FINDING.fail, pictures=(replace(TILES, spread=Spread(shape=(3, 1), marks=((2, 0, 1.0),))),)),
    first_pictures=(TILES,),
    repeats=ReplayCount(shown=5, runs=5),
    excerpt=Excerpt(
        file="fla/modules/layernorm.py", first=429, lines=("    if a < b:", "", "        tl.store(p, x)", "")
    ),
)


def finding(oracle: str, **fields: object) -> Finding:
    signature = Signature(oracle=oracle, severity=Severity.ERROR, op=OP.id, kernel="", place="d:x")
    fail = Fail(signature=signature, message="d:x[1, 2, 4] is nan", meaning="A term is wrong.", pictures=(WRONG,))
    return replace(FINDING, fail=replace(fail, **fields), launch=None)


VALUES = replace(
    finding("float64-values"),
    rule="every case with G > 1: 9 of 9; none of 22 others",
    repeats=ReplayCount(shown=3, runs=10, other_result="passed"),
    case=with_dims(T=450),
)
STRAY = replace(
    finding(
        "bounds",
        signature=Signature(oracle="bounds", severity=Severity.ERROR, op="", kernel=EVIL, place="a|b.py:3"),
        message=f"program 3 of {EVIL} loads `8 lanes`",
        source=Source(file=f"/nowhere/{EVIL}.py", line=3),
        pictures=(BESIDE,),
    ),
    confirmed=False,
    excerpt=Excerpt(file=f"{EVIL}.py", first=3, lines=(f"# {EVIL}",)),
)
MISCOMPILED = HardwareBlame(
    blame=Blame.ASSEMBLER,
    assembler="ptxas 12.8.93 for sm_90a",
    kernels=("norm_fwd", "norm_bwd"),
    mended_by=("ptxas 12.9.86", "ptxas 12.8.93 -O0"),
    evidence=("the virtual GPU does not show it", "ptxas 12.9.86 does not show it"),
)
CAUSE = replace(
    OVERLAP,
    fail=replace(OVERLAP.fail, idiom="rows of neighbours"),
    symptoms=(
        Symptom(
            signature=VALUES.fail.signature,
            message=VALUES.fail.message,
            source=Source(file="/x/a.py", line=7),
            sightings=12,
        ),
        Symptom(signature=STRAY.fail.signature, message=EVIL, sightings=1),
    ),
)
"""A warning with errors as its symptoms."""
REGION = Region(
    finding=OVERLAP.id,
    signature=OVERLAP.fail.signature,
    case=OVERLAP.case,
    axes=(Axis(kind=AxisKind.DIM, name="T", low=1, high=9), Axis(kind=AxisKind.SM_COUNT, name=SMS, low=1, high=188)),
    plane=(SMS, "T"),
    points=tuple(
        Point(sizes={**OVERLAP.case.dims, "T": size, SMS: sms}, outcome=Outcome.FAIL if size < sms else Outcome.PASS)
        for size in (1, 3, 9)
        for sms in (2, 188)
    ),
    rule=None,
    seconds=3.0,
    stop_reason=Ended.COMPLETE,
)
BISECTION = BisectionDocument(
    finding=OVERLAP.id,
    subject="fla-core",
    conclusion=f"{OVERLAP.fail.signature} came with fla-core 0.5.0 (0.4.2 is good).",
    checked=(
        CheckedMember(name="0.4.2", note="", result="good", explanation="does not show it"),
        CheckedMember(name="0.5.0", note="", result="bad", explanation=str(OVERLAP.fail.signature)),
    ),
    borders=(BisectedBorder(direction="introduced", ending="found", bad="0.5.0", good="0.4.2", skipped_between=()),),
)
GONE = finding("unwritten")

KNOWN = KnownFinding(finding=OVERLAP.id, signature=str(OVERLAP.fail.signature), link=LINK, expires=date(2999, 1, 1))
REPORT = CampaignReport(
    findings=(OVERLAP, VALUES, STRAY),
    cases=60,
    passed=40,
    failed=15,
    abstained=5,
    abstain_reasons={f"{EVIL}: tt.histogram": 5},
    uncompiled={"its backend is eager": 4},
    seconds=12.5,
    seed=7,
    devices=("h200 (132 SMs, sm_90)",),
    versions={"python": "3.11.7", "triton": "3.6.0"},
    builds=9,
    compiled_builds=8,
    libraries=("fla-core==0.5.2",),
    verdicts=(
        VerdictCount(op=OP.id, device="h200", oracle="bounds", outcome=Outcome.PASS, cases=20),
        VerdictCount(op=OP.id, device="h200", oracle="bounds", outcome=Outcome.FAIL, cases=2),
        VerdictCount(op=OP.id, device="h200", oracle="completes", outcome=Outcome.PASS, cases=25),
        VerdictCount(op=OP.id, device="h200", oracle="float64-values", outcome=Outcome.ABSTAIN, cases=5),
        VerdictCount(op="suites/a.py:other", device="b200", oracle="completes", outcome=Outcome.PASS, cases=3),
    ),
    kernel_lines=(
        KernelLines(
            file="fla/a.py", function=EVIL, line=10, lines=((12, 14, 7), (16, 17, 0), (20, 20, 0), (25, 25, 2))
        ),
        KernelLines(file="fla/a.py", function="device", line=30, lines=((31, 31, 0), (33, 33, 0))),
        KernelLines(file="fla/b.py", function="device", line=1, lines=((2, 3, 1),)),
        KernelLines(file="fla/b.py", function="device", line=7, lines=((8, 8, 3),)),
    ),
    row_checks=(
        RowCount(op=OP.id, device="b200", kernel=EVIL, config="BT: 16", bits=RowBits.ROUNDING, cases=2),
        RowCount(op=OP.id, device="b200", kernel=EVIL, config="BT: 16", bits=RowBits.SAME, cases=3),
        RowCount(op=OP.id, device="b200", kernel=EVIL, config="BT: 32", bits=RowBits.ROUNDING, cases=1),
        RowCount(op=OP.id, device="h200", kernel=EVIL, config="BT: 32", bits=RowBits.SAME, cases=1),
        RowCount(op=OP.id, device="h200", kernel="", config="", bits=RowBits.WRONG, cases=4),
    ),
    tested_sizes=(
        SizeCount(op=OP.id, dim="T", size=1, sm_count=132, outcome=Outcome.PASS, cases=9),
        SizeCount(op=OP.id, dim="T", size=450, sm_count=188, outcome=Outcome.FAIL, cases=2),
        SizeCount(op=OP.id, dim="T", size=64, sm_count=132, outcome=Outcome.ABSTAIN, cases=1),
        SizeCount(op="suites/a.py:other", dim="", size=1, sm_count=1, outcome=Outcome.PASS, cases=3),
    ),
    avoided=(AvoidedDraws(op=OP.id, rule=f"mode = {EVIL}", cases=31, failed=31, dropped=120),),
    set_aside=(SetAsideOp(op="suites/a.py:other", device="b200", cases=25, completed=0, batches=7),),
    known_findings=(KNOWN,),
    notices=("write-overlap: old_kernel old.py:1: known, and not seen in this search; is it fixed?",),
)
OLDER = replace(REPORT, findings=(OVERLAP, GONE), cases=30, seconds=10.0, known_findings=(), notices=())
MISSING = "shard 2 of 8 (3 of 24 chunks)"


def with_missing(contents: ReportContents) -> ReportContents:
    """Return the same contents, of searches that lack a shard."""
    campaigns = (replace(one, report=replace(one.report, missing=(MISSING,))) for one in contents.campaigns)
    return replace(contents, campaigns=tuple(campaigns))
