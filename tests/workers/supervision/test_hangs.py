"""Who hangs: real processes that hang in each way, and what is concluded from what GPU and threads show."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cuda import coredump
from harness.devices import catalogue
from harness.model.case import Case, DType
from harness.model.run import Crashed, Doing, HungParty, Raised, Source, TimedOut
from harness.ops.flight_recorder import Activity, FlightEvent, Phase
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import stacks
from harness.workers.supervision.hangs import HangEvidence, gpu_of, verdict
from harness.workers.supervision.processes import Thread
from harness.workers.supervision.recorder_reader import Flight
from harness.workers.supervision.time_limits import LONGER, Patience
from tests.cuda import hanging
from tests.workers.setting import DEVICE, MISCHIEF, case, specs

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


def test_a_deadlock_on_a_lock_is_the_host_waiting_in_a_futex_at_its_line(ends: Ends) -> None:
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


def test_an_endless_loop_is_the_host_running_on(ends: Ends) -> None:
    ending = ends("hang")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by, ending.function) == (HungParty.HOST, "", "hang")
    assert any("s of CPU in 0.2 s" in sentence for sentence in ending.evidence)


def test_a_compiler_that_runs_is_what_does_not_end(ends: Ends) -> None:
    ending = ends("hangs_in_a_compiler")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.COMPILER, None)
    assert "ptxas runs" in ending.evidence


def test_a_compilation_that_began_is_what_does_not_end(ends: Ends) -> None:
    ending = ends("hang", "Compiling")
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.COMPILER, "spin_kernel")


def test_a_launch_on_the_virtual_gpu_that_does_not_end_is_the_devices(ends: Ends) -> None:
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


def test_an_exception_that_an_autotuner_swallowed_before_is_told(ends: Ends) -> None:
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


def test_a_process_that_dies_in_a_compilation_says_that_it_compiled(ends: Ends) -> None:
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
def test_the_line_comes_from_a_core_dump_where_cuda_was_told_to_listen(ends: Ends, tmp_path: Path, engine: str) -> None:
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
    with Pool(spec, processes=1, time_limit_s=LIMIT_S, listening=dumps) as pool:
        yield pool
    assert list((tmp_path / "dumps").iterdir()) == []


@pytest.mark.usefixtures("debugger")
@pytest.mark.parametrize("patience", [Patience.USUAL, Patience.LONG])
def test_a_hang_is_looked_at_once_more_in_a_process_that_listens(listening: Pool, patience: Patience) -> None:
    ending = listening.run(case("spins_until_it_is_dumped"), patience=patience).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert ending.source == Source(file="/lib/kernels.py", line=35)
    assert ending.limit_s == LIMIT_S * (LONGER if patience is Patience.LONG else 1)


@pytest.mark.usefixtures("debugger")
def test_a_submitted_hang_is_looked_at_as_well(listening: Pool) -> None:
    ending = listening.submit(case("spins_until_it_is_dumped")).result().ending
    assert isinstance(ending, TimedOut)
    assert ending.source == Source(file="/lib/kernels.py", line=35)


def test_where_nothing_reads_core_dumps_a_hang_says_so_and_is_not_looked_at_again(
    listening: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(coredump, "DEBUGGER_FOLDERS", ())
    ending = listening.run(case("spins_until_it_is_dumped")).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.source) == (HungParty.UNKNOWN, None)
    assert ending.evidence[-1] == "cuda-gdb is not installed: the line is not known"


@pytest.mark.parametrize("patience", list(Patience))
def test_a_fault_is_told_by_a_process_that_does_not_listen(listening: Pool, patience: Patience) -> None:
    ending = listening.run(case("faults_on_the_gpu"), patience=patience).ending
    assert isinstance(ending, Raised)
    assert ending.message == "CUDA error: misaligned address"


@pytest.mark.slow
def test_a_stack_is_told_also_where_triton_has_compiled_and_its_llvm_handles_signals(tmp_path: Path) -> None:
    device = catalogue.find("h200")
    suite = str(Path(hanging.__file__))
    spec = WorkerSpec(device=device, suites=(suite,), scratch=str(tmp_path))
    with Pool(lambda _: spec, processes=1, time_limit_s=3.0) as pool:
        wanted = Case(op=f"{suite}:host_waits_after_a_launch", dims={"T": 16}, dtype=DType.FP32, device=device)
        ending = pool.run(wanted).ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by, ending.launch) == (HungParty.HOST, "futex", "good_kernel")
    assert ending.function == "host_waits_after_a_launch"


# --- what follows from what is seen of a real GPU ------------------------------------------------------------------


def events(*steps: tuple[Activity, Phase]) -> Flight:
    return Flight(
        tuple(
            FlightEvent(time_s=float(n), thread=7, kind=kind, edge=edge, subject="spin_kernel", detail="")
            for n, (kind, edge) in enumerate(steps)
        )
    )


def thread(state: str, ticks: int = 0, held_by: str = "") -> tuple[Thread, ...]:
    return (Thread(id=7, state=state, held_by=held_by, ticks=ticks),)


LAUNCHED = events((Activity.LAUNCH, Phase.BEGINS), (Activity.LAUNCH, Phase.ENDS), (Activity.SYNCHRONISE, Phase.BEGINS))
ON_GPU = HangEvidence(flight=LAUNCHED, engine="cuda", utilisation=(100, 100, 100), threads=(thread("R"),) * 3)


def test_a_gpu_that_works_all_the_time_after_a_launch_is_what_spins() -> None:
    ending = verdict(ON_GPU, 60.0)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert "GPU utilisation 100 %, 100 %, 100 %" in ending.evidence


def test_what_was_waited_for_is_not_what_keeps_a_shared_gpu_busy() -> None:
    done = events(
        (Activity.LAUNCH, Phase.BEGINS), (Activity.SYNCHRONISE, Phase.BEGINS), (Activity.SYNCHRONISE, Phase.ENDS)
    )
    waits = replace(ON_GPU, flight=done, threads=(thread("S", held_by="futex"),) * 3)
    assert verdict(waits, 60.0).waiting is HungParty.HOST


def test_who_waits_for_a_gpu_that_others_share_waits_for_the_device() -> None:
    assert verdict(replace(ON_GPU, utilisation=(100, 40, 100)), 60.0).waiting is HungParty.DEVICE


@pytest.mark.parametrize("utilisation", [(), (100, 0, 100), (0, 0, 3)])
def test_a_gpu_that_works_now_and_then_or_tells_nothing_proves_nothing(utilisation: tuple[int, ...]) -> None:
    assert verdict(replace(ON_GPU, utilisation=utilisation), 60.0).waiting is HungParty.UNKNOWN


def test_a_gpu_that_works_without_a_launch_is_somebody_elses() -> None:
    look = replace(ON_GPU, flight=events((Activity.PHASE, Phase.BEGINS)))
    assert verdict(look, 60.0).waiting is HungParty.HOST


def test_an_idle_gpu_leaves_the_host() -> None:
    waits = replace(ON_GPU, utilisation=(0, 0, 0), threads=(thread("S", held_by="futex"),) * 3)
    ending = verdict(waits, 60.0)
    assert (ending.waiting, ending.held_by, ending.launch) == (HungParty.HOST, "futex", "spin_kernel")
    assert verdict(replace(waits, threads=(thread("D"),) * 3), 60.0).held_by == "state D"
    assert verdict(replace(waits, threads=(thread("R"),) * 3), 60.0).held_by == ""


def test_a_compiler_goes_before_all_else() -> None:
    assert verdict(replace(ON_GPU, compilers=("ptxas",)), 60.0).waiting is HungParty.COMPILER


def test_the_thread_that_noted_last_is_the_one_that_waits() -> None:
    both = (Thread(id=1, state="S", held_by="pipe", ticks=0), *thread("S", held_by="futex"))
    look = replace(ON_GPU, utilisation=(0, 0, 0), threads=(both,) * 3)
    assert verdict(look, 60.0).held_by == "futex"


def test_a_worker_that_sees_one_whole_gpu_is_known_by_its_uuid(scratch: Path) -> None:
    def visible(value: str) -> str | None:
        return gpu_of(specs(scratch, environment=(("CUDA_VISIBLE_DEVICES", value),))(DEVICE))

    assert [visible(value) for value in ("GPU-1", "GPU-1,GPU-2", "MIG-1", "0")] == ["GPU-1", None, None, None]
    assert gpu_of(specs(scratch)(DEVICE)) is None


# --- where Python stands -------------------------------------------------------------------------------------------


def stack(*frames: str) -> str:
    return "\n".join(["Thread 0x00007f0000000000 (most recent call first):", *(f"  File {frame}" for frame in frames)])


OURS = f'"{stacks.HARNESS}ops/execute.py", line 5 in _judged'


def test_the_stack_at_fault_is_that_which_the_harness_called_from_the_librarys_innermost_frame() -> None:
    pool = stack('"/lib/monitor.py", line 1 in watch')
    ours = stack(f'"{stacks.STANDARD[0]}threading.py", line 2 in wait', '"/lib/norm.py", line 3 in norm', OURS)
    (inner, *_) = stacks.at_fault(stacks.parse(f"{pool}\n{ours}"))
    assert (inner.function, str(inner.source)) == ("norm", "norm.py:3")
    assert stacks.at_fault(stacks.parse(stack(OURS))) == ()
    assert stacks.at_fault(stacks.parse(pool))[0].function == "watch"


def test_samples_of_a_loop_share_the_function_that_is_not_left() -> None:
    samples = [
        stacks.at_fault(stacks.parse(stack(*inner, f'"/lib/norm.py", line {line} in norm', OURS)))
        for line, inner in ((3, ['"/lib/a.py", line 1 in a']), (4, ['"/lib/b.py", line 1 in b']), (3, []))
    ]
    shared = stacks.common(samples)
    assert shared is not None
    assert shared.function == "norm"
    assert stacks.common([*samples, ()]) is None
