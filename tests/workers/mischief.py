"""A suite whose ops do to their process what kernels and libraries do."""

import atexit
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.engines.cuda import coredump
from harness.execution import flight_recorder
from harness.suite import Declaration, op, tokens


def mischief(function: Callable[[int], int]) -> Declaration:
    declared = op(dims={"rows": tokens()}, inputs={})(function)
    declared.reference(lambda: None)
    return declared


@mischief
def good(rows: int) -> int:
    return rows * rows


@mischief
def pid(rows: int) -> int:
    return os.getpid() + 0 * rows


@mischief
def folders(rows: int) -> int:
    """Note the folders of the process in a file; `rows` names it."""
    seen = (Path.cwd(), os.environ["TRITON_CACHE_DIR"], tempfile.gettempdir())
    Path(os.environ["MISCHIEF_FOLDER"], str(rows)).write_text("\n".join(map(str, seen)), encoding="utf-8")
    return rows


@mischief
def works(rows: int) -> int:
    """About so many hundreds of microseconds of work."""
    return sum(value % 7 for value in range(rows * 1000))


@mischief
def hang(rows: int) -> int:
    while rows:
        pass
    return rows


@mischief
def stops(rows: int) -> int:
    """As a process of a terminal's background does that asks its user something."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return rows


@mischief
def hang_without_a_core(rows: int) -> int:
    """Another process, which has precedence, is busy on the only core that this one may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]):
        os.nice(10)
        return hang._call(rows)


@mischief
def hang_in_futex(rows: int) -> int:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return rows


@mischief
def takes_three_quarters_of_a_second(rows: int) -> int:
    time.sleep(0.75)
    return rows


@mischief
def hangs_in_a_compiler(rows: int) -> int:
    """Waits for a program that has the name of NVIDIA's assembler."""
    ptxas = Path(tempfile.mkdtemp()) / "ptxas"
    ptxas.symlink_to("/bin/sleep")
    return subprocess.run([ptxas, "1000"], check=False).returncode + rows


@mischief
def compiles_one_kernel_without_end(rows: int) -> int:
    with flight_recorder.compiling("slow_kernel"):
        return hangs_in_a_compiler._call(rows)


@mischief
def hangs_after_an_error_that_was_swallowed(rows: int) -> int:
    flight_recorder.swallowed("spin_kernel", "OutOfResources (shared memory)", "BT: 64")
    return hang_in_futex._call(rows)


@mischief
def waits_to_be_dumped(rows: int) -> int:
    """Writes a core dump on request, as CUDA's driver does."""
    with flight_recorder.launching("spin_kernel", (4, 1, 1)):
        files = coredump.files_of(os.environ.items(), os.getpid())
        assert files is not None
        os.mkfifo(files.pipe)
        with files.pipe.open("rb") as pipe:
            pipe.read(1)
        files.core.write_bytes(b"a core dump")
        os.abort()
    return rows


@mischief
def spins_until_it_is_dumped(rows: int) -> int:
    """As above if core dumps are enabled; otherwise it never ends."""
    if coredump.files_of(os.environ.items(), os.getpid()):
        return waits_to_be_dumped._call(rows)
    with flight_recorder.launching("spin_kernel", (4, 1, 1)):
        threading.Event().wait()
    return rows


@mischief
def faults_on_the_gpu(rows: int) -> int:
    """Aborts if core dumps are enabled, as CUDA's driver does when a kernel faults."""
    del rows
    if coredump.files_of(os.environ.items(), os.getpid()):
        os.abort()
    raise RuntimeError("CUDA error: misaligned address")


@mischief
def hang_with_grandchild(rows: int) -> int:
    """Writes the grandchild's process id to the pipe that MISCHIEF_FIFO names."""
    grandchild = subprocess.Popen(["/bin/sleep", "1000"])
    Path(os.environ["MISCHIEF_FIFO"]).write_text(f"{grandchild.pid}\n", encoding="ascii")
    return hang._call(rows)


@mischief
def crash_with_grandchild(rows: int) -> int:
    grandchild = subprocess.Popen(["/bin/sleep", "1000"])
    Path(os.environ["MISCHIEF_FIFO"]).write_text(f"{grandchild.pid}\n", encoding="ascii")
    os._exit(rows)


@mischief
def segfault(rows: int) -> int:
    ctypes.string_at(0)
    return rows


@mischief
def killed(rows: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return rows


@mischief
def aborts_at_exit(rows: int) -> int:
    atexit.register(os.abort)
    return rows


@mischief
def leaves(rows: int) -> int:
    os._exit(rows)


@mischief
def exits(rows: int) -> int:
    sys.exit(rows)


@mischief
def allocates_at_once(rows: int) -> int:
    return len(bytearray(rows << 33))


@mischief
def allocates_by_and_by(rows: int) -> int:
    hoard: list[bytes] = []
    while rows:
        hoard.append(bytes(1 << 24))
    return len(hoard)


@mischief
def grows(rows: int) -> int:
    """Holds so many MiB for ever."""
    HOARD.append(bytes(rows << 20))
    return rows


@mischief
def prints(rows: int) -> int:
    sys.stdout.write("hello from a kernel\n" * 100_000)
    sys.stderr.write("x" * 1_000_000)
    os.write(1, b"\x00\x00\x00\x02 not a frame")
    return rows


@mischief
def prints_and_leaves(rows: int) -> int:
    sys.stdout.write("the last words\n")
    os._exit(rows)


@mischief
def prints_much_and_leaves(rows: int) -> int:
    os.write(1, b"the last words\n" * 10_000)
    os._exit(rows)


@mischief
def answers_at_length(rows: int) -> int:
    """An engine of the tests puts so many megabytes into its answer."""
    return rows


@mischief
def forgets_a_file(rows: int) -> int:
    descriptor, _ = tempfile.mkstemp()
    os.write(descriptor, bytes(rows))
    os._exit(1)


@mischief
def counts_company(rows: int) -> int:
    """The number of cases that run at this moment."""
    folder = Path(os.environ["MISCHIEF_FOLDER"])
    mine = folder / str(os.getpid())
    mine.touch()
    works._call(rows)
    running = len(list(folder.iterdir()))
    mine.unlink()
    return running


@mischief
def torch_allocates(rows: int) -> int:
    torch = importlib.import_module(
        "torch"
    )  # not by a statement, which every fork server would execute when it loads the suite
    return torch.ones(rows << 33, dtype=torch.uint8).numel()


@mischief
def threads(rows: int) -> int:
    """The number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir())) + 0 * rows


@mischief
def value_of_a_variable(rows: int) -> int:
    """The number in MISCHIEF_LEVEL, as it was when the suite was loaded; else so many rows."""
    return LEVEL_AT_IMPORT or rows


@mischief
def age(rows: int) -> int:
    """How many processes lie between this one and the test, and whether the suite was loaded in this process: +100."""
    depth, process = 0, os.getpid()
    while process != int(os.environ["MISCHIEF_TEST"]):
        process = int(Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
        depth += 1
    return depth + 100 * (os.getpid() == PID_AT_IMPORT) + 0 * rows


@mischief
def raises(rows: int) -> int:
    raise ZeroDivisionError(f"a bug of the engine at {rows}")


PID_AT_IMPORT = os.getpid()
LEVEL_AT_IMPORT = int(os.environ.get("MISCHIEF_LEVEL", "0"))
HOARD: list[bytes] = []
