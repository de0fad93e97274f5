"""Core dumps of a GPU are requested without waiting, and every answer or failure of cuda-gdb is a value."""

import os
from pathlib import Path

import pytest

from harness.engines.cuda import coredump
from harness.engines.cuda.coredump import CoredumpFiles, GpuLocation, parse
from harness.model.run import Source

SPINNING = """Opening GPU coredump: /tmp/core.20
[Current focus set to CUDA kernel 0, grid 1, block (0,0,0), thread (0,0,0), device 0, sm 0, warp 0, lane 0]
#0  0x00007f8b577a11d0 in spin<<<(1,1,1),(128,1,1)>>> () at /work/kernels.py:35
"""


@pytest.fixture
def files(tmp_path: Path) -> CoredumpFiles:
    expected = CoredumpFiles(pipe=tmp_path / "cdpipe.20", core=tmp_path / "core.20")
    assert coredump.files_of(coredump.environment(tmp_path), 20) == expected
    return expected


def program(folder: Path, body: str) -> str:
    file = folder / "cuda-gdb"
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    file.chmod(0o755)
    return str(file)


def test_a_backtrace_names_kernel_and_line() -> None:
    assert parse(SPINNING) == GpuLocation(kernel="spin", source=Source(file="/work/kernels.py", line=35))


def test_the_innermost_frame_with_a_line_is_reported() -> None:
    inlined = (
        "#0  0x00007f8b577a11d0 in lock_acquire (p=<optimized out>) at /lib/locks.py:8\n"
        "#1  spin<<<(1,1,1),(128,1,1)>>> () at /lib/kernels.py:35\n"
    )
    assert parse(inlined) == GpuLocation(kernel="spin", source=Source(file="/lib/locks.py", line=8))


def test_a_kernel_without_line_numbers_is_named() -> None:
    assert parse("#0  0x00007f8b577a11d0 in spin<<<(1,1,1),(128,1,1)>>> ()\n") == GpuLocation(
        kernel="spin", source=None
    )


def test_a_backtrace_without_a_kernel_has_no_location() -> None:
    assert parse("No stack.\n#0  0x00007f00 in main () at main.c:3\n") is None


def test_the_dump_folder_is_created_at_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = dict(coredump.environment(Path("new", "dumps")))
    assert made[coredump.PIPE] == str(tmp_path / "new/dumps/cdpipe.%p")
    assert (tmp_path / "new/dumps").is_dir()


def test_a_process_without_core_dumps_has_no_files(tmp_path: Path) -> None:
    assert coredump.files_of((), 20) is None
    assert coredump.files_of((*coredump.environment(tmp_path), (coredump.ENABLED, "0")), 20) is None


def test_a_request_never_waits_for_a_listener(files: CoredumpFiles) -> None:
    assert coredump.request_dump(files) == f"CUDA does not listen at {files.pipe}: No such file or directory"
    os.mkfifo(files.pipe)
    assert coredump.request_dump(files) == f"CUDA does not listen at {files.pipe}: No such device or address"
    listening = os.open(files.pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert coredump.request_dump(files) == ""
    assert os.read(listening, 8) == b"1"
    os.close(listening)
    files.remove()
    files.remove()


def test_the_debugger_reads_the_backtrace_of_this_dump(files: CoredumpFiles, tmp_path: Path) -> None:
    assert coredump.read_dump(files, "/bin/true") == "the driver wrote no core dump of the GPU"
    files.core.write_bytes(b"a core dump")
    asked = tmp_path / "asked"
    script = program(tmp_path, f"echo \"$@\" > {asked}\ncat <<'END'\n{SPINNING}END")
    assert coredump.read_dump(files, script) == GpuLocation(
        kernel="spin", source=Source(file="/work/kernels.py", line=35)
    )
    assert asked.read_text(encoding="ascii") == f"-batch -nx -ex target cudacore {files.core} -ex bt\n"


def test_a_debugger_that_fails_or_hangs_gives_a_reason(files: CoredumpFiles, tmp_path: Path) -> None:
    files.core.write_bytes(b"a core dump")
    failing = program(tmp_path, "echo 'not a core dump' >&2; exit 1")
    assert coredump.read_dump(files, failing) == "cuda-gdb found no kernel in the core dump: not a core dump"
    hanging = coredump.read_dump(files, program(tmp_path, "exec sleep 1000"), limit_s=0.1)
    assert isinstance(hanging, str)
    assert "timed out after 0.1 seconds" in hanging
    missing = coredump.read_dump(files, str(tmp_path / "missing"))
    assert isinstance(missing, str)
    assert missing.startswith("cuda-gdb did not read the core dump: ")
