"""Parsing of compute-sanitizer's XML and log; the samples are shortened output of release 2025.3.1 on an H200."""

from dataclasses import replace
from pathlib import Path

from harness.engines.cuda.sanitizers.sanitizer_log import LiveLog, count_not_printed, records_printed, tool_errors
from harness.engines.cuda.sanitizers.sanitizer_records import describe_mistake, kernel_name, mark_accepted, read_records
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.model.compute_sanitizer_report import Level, SanitizerRecord, Tool, Touch
from harness.model.ending import Source
from harness.wire import from_json, to_json

MEMCHECK = Path(__file__).with_name("sanitizer_memcheck.xml").read_text(encoding="utf-8")
INITCHECK = Path(__file__).with_name("sanitizer_initcheck.xml").read_text(encoding="utf-8")
RACECHECK = Path(__file__).with_name("sanitizer_racecheck.xml").read_text(encoding="utf-8")
KERNELS = "/home/user/project/kernels.py"

OUT_OF_BOUNDS = SanitizerRecord(
    kind="Precise",
    text="Invalid __global__ write of size 4 bytes is out of bounds",
    what="out of bounds write",
    level=Level.ERROR,
    at=Touch(
        direction="write",
        kernel="oob",
        source=Source(file=KERNELS, line=9),
        program=(0, 0, 0),
        thread=(96, 0, 0),
    ),
    space="global",
    size_bytes=4,
    address="0x7f43a6804180",
    host=("child.py:13", "child.py:26"),
    count=3,
)

PRINTED = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(float*, int):0x160 in kernels.py:6
=========     by thread (5,0,0) in block (2,0,0)
=========     Address 0x7f6510c00001 is misaligned
========= Error: Race reported between Write access at total(int *, int *)+0x90 in /home/user/total.py:41
=========     and Read access at total(int *, int *)+0x100 in /home/user/total.py:51 [508 hazards]
=========
========= Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at total(int *, int *)+0x90 in /home/user/total.py:44
=========     Read Thread (32,0,0) at total(int *, int *)+0x120 in /home/user/total.py:56
========= Target application returned an error
========= ERROR SUMMARY: 1223 errors
========= ERROR SUMMARY: 1123 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""


def touch(direction: str, kernel: str, line: int, thread: int | None = None) -> Touch:
    place = None if thread is None else (thread, 0, 0)
    return Touch(direction=direction, kernel=kernel, source=Source(file="/home/user/total.py", line=line), thread=place)


def test_reports_of_one_line_are_merged_and_counted() -> None:
    saved = read_records(MEMCHECK)
    assert (saved.records, saved.is_truncated) == ((OUT_OF_BOUNDS,), False)


def test_a_record_without_level_is_an_error_described_by_its_text() -> None:
    (record,) = read_records(INITCHECK).records
    assert (record.what, record.level, record.count) == ("uninitialized global memory read", Level.ERROR, 2)
    assert record.at == Touch(
        direction="", kernel="uninit", source=Source(file=KERNELS, line=23), program=(0, 0, 0), thread=(32, 0, 0)
    )


def test_a_truncated_file_gives_the_records_before_the_break() -> None:
    for end in (len(MEMCHECK) // 2, len(MEMCHECK) - 3):
        saved = read_records(MEMCHECK[:end])
        assert saved.is_truncated
        assert [replace(one, count=3) for one in saved.records] == [OUT_OF_BOUNDS]
    assert read_records("") == replace(read_records(MEMCHECK), records=(), is_truncated=True)


def test_a_race_names_both_accesses() -> None:
    (record,) = read_records(RACECHECK).records
    here = Source(file=KERNELS, line=38)
    assert (record.what, record.level) == ("race", Level.ERROR)
    assert record.at == Touch(direction="write", kernel="race_in_shared_memory", source=here)
    assert record.others == (Touch(direction="read", kernel="race_in_shared_memory", source=here),)


def test_a_race_is_parsed_at_any_position_of_its_accesses() -> None:
    xml = """<ComputeSanitizerOutput><record><kind>Analysis</kind><level>Warning</level>
        <what><text>Race reported between Write access and Read access [4 hazards]</text></what>
        <first><direction>Write</direction><frame><func>total</func><path>/home/user/total.py</path><line>41</line></frame>
        </first><second><direction>Read</direction><threadIdx><x>7</x><y>0</y><z>0</z></threadIdx>
        <frame><func>total</func><path>/home/user/total.py</path><line>51</line></frame></second>
        <hostStack><frame><path>/home/user/run.py</path><line>3</line></frame></hostStack>
        </record></ComputeSanitizerOutput>"""
    (record,) = read_records(xml).records
    assert (record.what, record.level, record.host) == ("race", Level.WARNING, ("run.py:3",))
    assert (record.at, record.others) == (touch("write", "total", 41), (touch("read", "total", 51, thread=7),))


def test_a_record_of_unknown_shape_keeps_its_text() -> None:
    record = "<record><novel><thing>Barrier 3</thing> leaked</novel></record>"
    (record,) = read_records(f"<ComputeSanitizerOutput>{record}<odd/></ComputeSanitizerOutput>").records
    assert (record.kind, record.text, record.at) == ("unknown", "Barrier 3 leaked", Touch(direction="", kernel=""))


def test_a_line_in_tritons_library_is_replaced_by_the_kernels() -> None:
    inlined = MEMCHECK.replace(
        f"<path>{KERNELS}</path>\n      <line>9</line>",
        "<path>/venv/triton/language/standard.py</path><line>290</line>",
    ).replace(
        "<hostStack>",
        f"<deviceStack><frame><path>/venv/triton/language/standard.py</path><line>290</line></frame>"
        f"<frame><func>oob</func><path>{KERNELS}</path><line>12</line></frame></deviceStack><hostStack>",
    )
    (record,) = read_records(inlined).records
    assert record.at.source == Source(file=KERNELS, line=12)


def test_the_printed_log_gives_the_same_facts_without_xml() -> None:
    misaligned, race, hazard = records_printed(PRINTED)
    assert (misaligned.at.kernel, misaligned.at.program, misaligned.at.thread) == ("scale", (2, 0, 0), (5, 0, 0))
    assert misaligned.what == "misaligned write"  # as in the XML
    assert (race.what, race.level) == ("race", Level.ERROR)
    assert (race.at, race.others) == (touch("write", "total", 41), (touch("read", "total", 51),))
    assert (hazard.what, hazard.level) == ("race", Level.WARNING)
    assert (hazard.at, hazard.others) == (
        touch("write", "total", 44, thread=35),
        (touch("read", "total", 56, thread=32),),
    )
    assert count_not_printed(PRINTED) == 1123


def test_a_live_log_separates_reports_from_notices_and_self_tests(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "log")
    states = [(log.reported(), log.self_test_reported())]
    for text in (
        "========= COMPUTE-SANITIZER\n========= Error: process didn't terminate successfully\n",
        "========= Invalid __global__ write of size 4 bytes\n=========     at harness_self_test_memcheck+0x100\n",
        "========= Invalid __global__ write of size 4 by",
        "tes\n=========     at scale+0x160 in kernels.py:6\n",
    ):
        with (tmp_path / "log").open("a", encoding="utf-8") as file:
            file.write(text)
        states.append((log.reported(), log.self_test_reported()))
    assert states == [(False, False), (False, False), (False, True), (False, True), (True, True)]


def test_earlier_reports_belong_to_no_case(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "log")
    (tmp_path / "log").write_text("========= CUDA_COREDUMP_PIPE is not supported by compute-sanitizer, clearing it\n")
    assert not log.reported()
    with (tmp_path / "log").open("a", encoding="utf-8") as file:
        file.write("========= Something that nobody foresaw\n")
        file.flush()
        assert log.reported()
        log.begin()
        assert not log.reported()
        file.write("========= Invalid __global__ read of size 4 bytes\n")
    assert log.reported()


def test_errors_of_the_tool_are_joined_on_one_line() -> None:
    text = "========= COMPUTE-SANITIZER\n========= Error: no driver\n========= Target application terminated\n"
    assert tool_errors(text) == "Error: no driver; Target application terminated"
    assert not tool_errors("========= Error: Race reported between Write access\n========= Invalid __global__ read\n")


def test_names_and_kinds_are_equal_in_every_run() -> None:
    assert kernel_name("void at::native::fill<4, float>(int, float)") == "at::native::fill"
    assert kernel_name("void (anonymous namespace)::copy<int>(int)") == "copy"
    assert describe_mistake("Leaked 64 bytes at 0x400200200") == describe_mistake("Leaked 32 bytes at 0x400200aaa")


def test_an_accepted_record_carries_the_first_matching_reason() -> None:
    entries = (
        Suppression(tool="racecheck", kernel="oob", reason="another tool"),
        Suppression(file="project/kernels.py", line=10, reason="another line"),
        Suppression(file="project/kernels.py", line=9, reason="agreed upon"),
    )
    assert mark_accepted((OUT_OF_BOUNDS,), Tool.MEMCHECK, entries) == (replace(OUT_OF_BOUNDS, accepted="agreed upon"),)
    assert mark_accepted((OUT_OF_BOUNDS,), Tool.MEMCHECK, entries[:2]) == (OUT_OF_BOUNDS,)


def test_records_cross_process_borders_as_json() -> None:
    assert from_json(to_json(OUT_OF_BOUNDS), SanitizerRecord) == OUT_OF_BOUNDS
