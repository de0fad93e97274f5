"""Real processes hang in each way, and the hung party is found."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.cuda import coredump
from harness.model.case import Case, DType
from harness.model.run import Crashed, Doing, HungParty, Raised, Source, TimedOut
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.time_limits import LONGER, Patience
from tests.engines.cuda import hanging
from tests.workers.setting import MISCHIEF, case, specs

LIMIT_S = 0.5

Ends = Callable[..., TimedOut | Crashed]


@pytest.fixture
def ends(scratch: Path) -> Ends:
    """How a case ends with an engine of the tests."""

    def run(op: str, engine: str = "Calling", **changes: object) -> TimedOut | Crashed:
        spec = specs(scratch, engine=f"tests.workers.engines:{engine}", **changes)
        with Pool(spec, processes=1, time_limit_s=LIMIT_S) as pool:
            ending = pool.run(case(op)).ending
        assert isinstance(ending, TimedOut | Crashed)
        return ending

    return run


def last_line(text: str) -> int:
    """The last line of the mischievous suite that is this."""
    lines = Path(MISCHIEF).read_text(encoding="utf-8").splitlines()
    return max(at for at, line in enumerate(lines, 1) if line.strip() == text)


def test_a_deadlock_on_a_lock_is_a_host_hang_in_a_futex(ends: Ends) -> None:
    ending = ends("hang_in_futex")
    assert ending == TimedOut(
        limit_s=LIMIT_S,
        log_tail=ending.log_tail,
        waiting=HungParty.HOST,
        held_by="futex",
        function="hang_in_futex",
        source=Source(file=MISCHIEF, line=last_line("lock.acquire()")),
    )
    (noted,) = ending.events
    assert noted.startswith("+0.000 s  case hang_in_futex rows=3 ")


def test_an_endless_loop_is_a_host_hang_that_runs(ends: Ends) -> None:
    ending = ends("hang")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by, ending.function) == (HungParty.HOST, "", "hang")
    assert any("s of CPU in 0.2 s" in sentence for sentence in ending.evidence)


def test_a_compiler_that_still_runs_is_the_hung_party(ends: Ends) -> None:
    ending = ends("hangs_in_a_compiler")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.COMPILER, None)
    assert "ptxas runs" in ending.evidence


def test_an_unfinished_compilation_is_the_hung_party(ends: Ends) -> None:
    ending = ends("hang", "Compiling")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.COMPILER, "spin_kernel")


def test_an_endless_launch_on_the_virtual_gpu_is_a_device_hang(ends: Ends) -> None:
    ending = ends("hang", "Launching")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert [line.partition("  ")[2] for line in ending.events[1:]] == [
        "call of spin_kernel begins: BT: 64",
        "launch of spin_kernel begins: grid (4, 1, 1), num_warps: 4",
    ]


def test_a_host_that_waits_after_a_launch_names_the_kernel(ends: Ends) -> None:
    ending = ends("hang_in_futex", "Launched")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by, ending.launch) == (HungParty.HOST, "futex", "spin_kernel")


def test_an_exception_swallowed_by_an_autotuner_is_reported(ends: Ends) -> None:
    ending = ends("hangs_after_an_error_that_was_swallowed")
    assert isinstance(ending, TimedOut)
    assert ending.swallowed == (
        "the autotuner of spin_kernel swallowed OutOfResources (shared memory), for config BT: 64",
    )


@pytest.mark.parametrize(("op", "signal"), [("segfault", "SIGSEGV"), ("killed", "SIGKILL")])
def test_a_process_that_dies_in_a_launch_names_the_kernel(ends: Ends, op: str, signal: str) -> None:
    ending = ends(op, "Launching")
    assert isinstance(ending, Crashed)
    assert (ending.signal, ending.launch, ending.doing) == (signal, "spin_kernel", Doing.LAUNCHED)
    assert ending.events[-1].endswith("launch of spin_kernel begins: grid (4, 1, 1), num_warps: 4")


def test_a_process_that_dies_in_a_compilation_is_reported_as_compiling(ends: Ends) -> None:
    ending = ends("segfault", "Compiling")
    assert isinstance(ending, Crashed)
    assert (ending.launch, ending.doing) == ("spin_kernel", Doing.COMPILED)


@pytest.fixture
def debugger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads the same out of every core dump."""
    program = tmp_path / coredump.DEBUGGER
    frame = "#0  0x00007f8b577a11d0 in spin_kernel<<<(1,1,1),(128,1,1)>>> () at /lib/kernels.py:35"
    program.write_text(f'#!/bin/sh\necho "{frame}"\n', encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("debugger")
@pytest.mark.parametrize("engine", ["Calling", "Launched"])
def test_the_line_comes_from_a_core_dump_if_dumps_are_enabled(ends: Ends, tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    ending = ends("waits_to_be_dumped", engine, environment=coredump.environment(folder))
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert ending.source == Source(file="/lib/kernels.py", line=35)
    assert ending.evidence[-1] == "a core dump of the GPU shows spin_kernel (kernels.py:35)"
    assert list(folder.iterdir()) == []


@pytest.fixture
def listening(scratch: Path, tmp_path: Path) -> Iterator[Pool]:
    """A pool that may have CUDA listen."""
    dumps = coredump.environment(tmp_path / "dumps")
    spec = specs(scratch, engine="tests.workers.engines:Catching")
    with Pool(spec, processes=1, time_limit_s=LIMIT_S, options=PoolOptions(core_dump_environment=dumps)) as pool:
        yield pool
    assert list((tmp_path / "dumps").iterdir()) == []


@pytest.mark.usefixtures("debugger")
@pytest.mark.parametrize("patience", [Patience.USUAL, Patience.LONG])
def test_a_hang_is_repeated_with_core_dumps_enabled(listening: Pool, patience: Patience) -> None:
    ending = listening.run(case("spins_until_it_is_dumped"), patience=patience).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert ending.source == Source(file="/lib/kernels.py", line=35)
    assert ending.limit_s == LIMIT_S * (LONGER if patience is Patience.LONG else 1)


@pytest.mark.usefixtures("debugger")
def test_a_submitted_hang_is_repeated_too(listening: Pool) -> None:
    ending = listening.submit(case("spins_until_it_is_dumped")).result().ending
    assert isinstance(ending, TimedOut)
    assert ending.source == Source(file="/lib/kernels.py", line=35)


def test_without_a_debugger_a_hang_is_not_repeated(listening: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(coredump, "DEBUGGER_FOLDERS", ())
    ending = listening.run(case("spins_until_it_is_dumped")).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.source) == (HungParty.UNKNOWN, None)
    assert ending.evidence[-1] == "cuda-gdb is not installed: the line is not known"


@pytest.mark.parametrize("patience", list(Patience))
def test_a_fault_is_reported_by_a_process_without_core_dumps(listening: Pool, patience: Patience) -> None:
    ending = listening.run(case("faults_on_the_gpu"), patience=patience).ending
    assert isinstance(ending, Raised)
    assert ending.message == "CUDA error: misaligned address"


@pytest.mark.slow
def test_a_stack_is_printed_though_llvm_handles_signals(tmp_path: Path) -> None:
    device = catalogue.find("h200")
    suite = str(Path(hanging.__file__))
    spec = WorkerSpec(device=device, suites=(suite,), scratch=str(tmp_path))
    with Pool(lambda _: spec, processes=1, time_limit_s=3.0) as pool:
        wanted = Case(op=f"{suite}:host_waits_after_a_launch", dims={"T": 16}, dtype=DType.FP32, device=device)
        ending = pool.run(wanted).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by, ending.launch) == (HungParty.HOST, "futex", "good_kernel")
    assert ending.function == "host_waits_after_a_launch"
