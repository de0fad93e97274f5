"""Residents outlive the pools that use them, and end when nobody needs them or their files have changed."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import psutil
import pytest
from filelock import FileLock

from harness.errors import LibraryError, UsageError, WorkerError
from harness.model.run import Completed
from harness.settings import Settings
from harness.workers.fork_servers import device_server, shared_zygotes
from harness.workers.fork_servers.residents import Residents, found_residents, residents_folder
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.pool import Pool, PoolOptions
from tests.workers.setting import DEADLINE_S, DEVICE, Fifo, case, specs
from tests.workers.zygote.test_loading import library, suite

COUNTS_IMPORTS = "import os; os.write(os.open(os.environ['MISCHIEF_FOLDER'] + '/imports', 1 | 64 | 1024), b'x')"
WAITS_THE_FIRST_TIME = """
import os, signal
once = os.environ["MISCHIEF_FOLDER"] + "/once"
if not os.path.exists(once):
    open(once, "w").close()
    with open(os.environ["MISCHIEF_FIFO"], "w") as fifo:
        fifo.write("loading\\n")
    signal.pause()
"""
FEWER_RIGHTS = """
import ctypes, socket, sys
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
print(connection.recv(16))
"""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_server, "LOOK_S", 0.2)
    monkeypatch.setattr("harness.workers.fork_servers.residents.OTHERS_LOAD_LIMIT_S", 0.5)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of residents, which are ended after the test.  Its name is short, since that of a socket must be."""
    monkeypatch.setattr(shared_zygotes, "_stays", lambda _: True)
    with TemporaryDirectory() as folder:
        made = residents_folder(Path(folder))
        assert made is not None
        yield made
        end(made)


def run(scratch: Path, residents: Residents, suites: str, op: str = "one", **changes: object) -> float:
    """Run one case as a command of its own would, and return the result of its op."""
    with (
        closing(SharedZygotes(residents)) as zygotes,
        Pool(specs(scratch, suites=(suites,), **changes), 1, DEADLINE_S, PoolOptions(shared_zygotes=zygotes)) as opened,
    ):
        made = opened.run(case(op, suite=suites))
        assert made.ending == Completed()
        return made.seconds["result"]


def pids(runtime: Path) -> list[int]:
    """The residents that are ready."""
    return [found.pid for found in found_residents(runtime) if found.is_ready]


def end(runtime: Path) -> None:
    for pid in pids(runtime):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def stopped(*processes: int) -> Generator[None]:
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


def test_the_next_command_finds_the_library_imported(scratch: Path, folder: Path, runtime: Path) -> None:
    residents = Residents(runtime, DEADLINE_S)
    paths = (library(folder, COUNTS_IMPORTS + "; server = os.getpid()"),)
    file = suite(folder, "import kernels_under_test as k; rows = k.server")
    first, second = (run(scratch, residents, file, library_paths=paths) for _ in range(2))
    assert first == second
    assert (folder / "imports").read_text(encoding="ascii") == "x"
    assert len(pids(runtime)) == 2  # of the engine, and of the library
    assert first in pids(runtime)


def test_a_changed_library_is_imported_again(scratch: Path, folder: Path, runtime: Path) -> None:
    residents = Residents(runtime, DEADLINE_S)
    paths = (library(folder, "number = 1"),)
    file = suite(folder, "import kernels_under_test as k; rows = k.number")
    assert run(scratch, residents, file, library_paths=paths) == 1
    before = pids(runtime)
    Path(paths[0], "kernels_under_test.py").write_text("number = 23", encoding="utf-8")
    assert run(scratch, residents, file, library_paths=paths) == 23
    assert len(set(before) & set(pids(runtime))) == 1  # that of the engine stays


def test_a_library_that_changes_while_it_loads_is_imported_again(scratch: Path, folder: Path, runtime: Path) -> None:
    residents = Residents(runtime, DEADLINE_S)
    changes_itself = "from pathlib import Path; number = 1; Path(__file__).write_text('number = 23')"
    paths = (library(folder, changes_itself),)
    file = suite(folder, "import kernels_under_test as k; rows = k.number")
    assert [run(scratch, residents, file, library_paths=paths) for _ in range(3)] == [1, 23, 23]
    assert len(pids(runtime)) == 2


def test_a_library_on_an_engine_that_has_changed_is_not_kept(
    scratch: Path, folder: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "part_of_the_engine.py").write_text("number = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    file = suite(folder, "import part_of_the_engine as p; rows = p.number")
    zygotes = SharedZygotes(Residents(runtime, DEADLINE_S))
    options = PoolOptions(shared_zygotes=zygotes)
    of_spec = specs(scratch, suites=(file,), engine="tests.workers.engines:OfParts")
    with closing(zygotes), Pool(of_spec, 1, DEADLINE_S, options) as opened:
        zygotes.of("tests.workers.engines:OfParts").zygote.start()
        deadline = monotonic() + DEADLINE_S
        while not pids(runtime):
            assert monotonic() < deadline
        (folder / "part_of_the_engine.py").write_text("number = 23", encoding="utf-8")
        assert opened.run(case("one", suite=file)).ending == Completed()
    again = run(scratch, Residents(runtime, DEADLINE_S), file, engine="tests.workers.engines:OfParts")
    assert again == 23


def test_a_changed_suite_is_loaded_again(scratch: Path, folder: Path, runtime: Path) -> None:
    residents = Residents(runtime, DEADLINE_S)
    for number in (1, 23):
        assert run(scratch, residents, suite(folder, f"rows = {number}")) == number


def test_each_command_has_its_own_variables_folder_and_mask(
    scratch: Path, folder: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    residents = Residents(runtime, DEADLINE_S)
    file = suite(folder, "import os; mask = os.umask(0); rows = mask * 1000 + int(os.environ.get('COLUMNS', '0'))")
    found: list[float] = []
    for columns, mask in (("40", 0o022), ("50", 0o077)):
        monkeypatch.setenv("COLUMNS", columns)
        before = os.umask(mask)
        found.append(run(scratch, residents, file))
        os.umask(before)
    assert found == [18_040, 63_050]
    assert len(pids(runtime)) == 2
    monkeypatch.setenv("LIBRARY_READS_ME", "1")
    run(scratch, residents, file)
    assert len(pids(runtime)) == 4  # what a library may read at its import makes another resident


def test_a_pool_goes_on_when_its_residents_are_killed(scratch: Path, folder: Path, runtime: Path) -> None:
    residents = Residents(runtime, DEADLINE_S)
    file = suite(folder, "rows = 7")
    zygotes = SharedZygotes(residents)
    options = PoolOptions(shared_zygotes=zygotes)
    with closing(zygotes), Pool(specs(scratch, suites=(file,)), 1, DEADLINE_S, options) as opened:
        assert opened.run(case("one", suite=file)).ending == Completed()
        end(runtime)
        assert opened.run_alone(case("one", suite=file)).ending == Completed()


@pytest.mark.parametrize("environment", [(), (("LOADED_FOR", "one command"),)], ids=["library", "engine"])
def test_a_command_goes_on_when_residents_are_killed_while_they_load(
    scratch: Path, folder: Path, runtime: Path, fifo: Fifo, environment: tuple[tuple[str, str], ...]
) -> None:
    paths = (library(folder, WAITS_THE_FIRST_TIME),)
    file = suite(folder, "import kernels_under_test; rows = 7")
    running = partial(run, scratch, Residents(runtime, DEADLINE_S), file, library_paths=paths, environment=environment)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(running)
        fifo.read()
        for pid in pids(runtime):
            for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                process.kill()
        assert result.result(DEADLINE_S) == 7


def test_a_command_goes_without_residents_that_are_stopped(scratch: Path, folder: Path, runtime: Path) -> None:
    file = suite(folder, "rows = 7")
    assert run(scratch, Residents(runtime, DEADLINE_S), file) == 7
    with stopped(*pids(runtime)):
        assert run(scratch, Residents(runtime, DEADLINE_S), file) == 7


@pytest.mark.usefixtures("short_waits")
def test_a_pool_goes_on_when_its_residents_are_stopped(scratch: Path, folder: Path, runtime: Path) -> None:
    file = suite(folder, "rows = 7")
    others = [replace(DEVICE, slug=slug) for slug in ("other", "another")]
    zygotes = SharedZygotes(Residents(runtime, DEADLINE_S))
    options = PoolOptions(shared_zygotes=zygotes)
    with closing(zygotes), Pool(specs(scratch, suites=(file,)), 2, DEADLINE_S, options) as opened:
        assert opened.run(case("one", suite=file)).ending == Completed()
        with stopped(*pids(runtime)):
            runs = [opened.submit(case("one", suite=file, device=other)) for other in others]
            assert [run.result(DEADLINE_S / 2).ending for run in runs] == [Completed(), Completed()]
            opened.close()


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("hanging", ["library", "engine"])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_commands_do_not_wait_for_a_resident_that_hangs_while_it_loads(
    scratch: Path, folder: Path, runtime: Path, fifo: Fifo, hanging: str, *, is_stopped: bool
) -> None:
    paths = (library(folder, WAITS_THE_FIRST_TIME if hanging == "library" else ""),)
    file = suite(folder, "import kernels_under_test; rows = 7")
    engine = f"tests.workers.engines:{'Waiting' if hanging == 'engine' else 'Calling'}"
    running = partial(run, scratch, Residents(runtime, DEADLINE_S), file, library_paths=paths, engine=engine)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(running)
        fifo.read()
        loading = [found.pid for found in found_residents(runtime) if not found.is_ready and found.pid != os.getpid()]
        with stopped(*loading) if is_stopped else nullcontext():
            assert running() == 7
            assert not is_stopped or first.result(DEADLINE_S) == 7
        for pid in loading:
            os.kill(pid, signal.SIGKILL)
        assert first.result(DEADLINE_S) == 7


def test_a_command_goes_without_residents_while_the_lock_is_held(scratch: Path, folder: Path, runtime: Path) -> None:
    with FileLock(runtime / "lock"):
        assert run(scratch, Residents(runtime, DEADLINE_S), suite(folder, "rows = 7")) == 7
    assert pids(runtime) == []


def test_a_library_that_fails_is_reported_and_has_no_resident(scratch: Path, folder: Path, runtime: Path) -> None:
    paths = (library(folder, "1 / 0"),)
    file = suite(folder, "import kernels_under_test as k")
    with pytest.raises(LibraryError, match="ZeroDivisionError"):
        run(scratch, Residents(runtime, DEADLINE_S), file, library_paths=paths)
    assert len(pids(runtime)) == 1  # of the engine


def test_an_engine_that_cannot_be_made_is_reported_each_time(scratch: Path, folder: Path, runtime: Path) -> None:
    file = suite(folder, "rows = 0")
    of_spec = specs(scratch, suites=(file,), engine="tests.workers.engines:Missing")
    for _ in range(4):  # one worker may be told why before or after another one's resident has ended
        zygotes = SharedZygotes(Residents(runtime, DEADLINE_S))
        options = PoolOptions(shared_zygotes=zygotes)
        with closing(zygotes), Pool(of_spec, 3, DEADLINE_S, options) as opened:
            for failed in [opened.submit(case("one", rows=rows, suite=file)) for rows in (1, 2, 3)]:
                with pytest.raises(WorkerError, match="has no attribute 'Missing'"):
                    failed.result()
    assert pids(runtime) == []


def test_an_unused_resident_ends_by_itself(runtime: Path) -> None:
    connection = Residents(runtime, 0.1).of_engine("tests.workers.engines:Calling")
    assert connection.recv(16)
    (resident,) = map(psutil.Process, pids(runtime))
    connection.close()
    resident.wait(DEADLINE_S)
    assert [path.name for path in runtime.iterdir()] == ["lock"]


def test_temporary_files_of_an_import_go_with_the_resident(
    scratch: Path, folder: Path, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    paths = (library(folder, "import tempfile, os; made = tempfile.mkdtemp()"),)
    file = suite(folder, "import kernels_under_test as k, os; rows = os.path.isdir(k.made)")
    zygotes = SharedZygotes(Residents(runtime, 0.1))
    options = PoolOptions(shared_zygotes=zygotes)
    of_spec = specs(scratch, suites=(file,), library_paths=paths)
    with closing(zygotes), Pool(of_spec, 1, DEADLINE_S, options) as opened:
        assert opened.run(case("one", suite=file)).seconds["result"] == 1
        residents = [psutil.Process(pid) for pid in pids(runtime)]
        assert len(residents) == 2
    for resident in residents:
        resident.wait(DEADLINE_S)
    assert list(temporary.iterdir()) == []


def test_temporary_files_of_a_killed_resident_go_with_the_next_one(
    scratch: Path, folder: Path, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    paths = (library(folder, ""),)
    file = suite(folder, "rows = 0")
    residents = Residents(runtime, DEADLINE_S)
    run(scratch, residents, file, library_paths=paths)
    (first,) = temporary.iterdir()
    killed = [psutil.Process(pid) for pid in pids(runtime)]
    end(runtime)
    psutil.wait_procs(killed, DEADLINE_S)
    run(scratch, residents, file, library_paths=paths)
    (second,) = temporary.iterdir()
    assert first != second


def test_a_process_with_fewer_rights_is_turned_down(runtime: Path) -> None:
    with Residents(runtime, DEADLINE_S).of_engine("tests.workers.engines:Calling") as connection:
        assert connection.recv(16)
        (path,) = runtime.glob("*.sock")
        child = subprocess.run([sys.executable, "-c", FEWER_RIGHTS, str(path)], capture_output=True, check=True)
        assert child.stdout == b"b''\n"


def test_a_folder_that_is_a_link_holds_no_residents(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kernel-harness-residents").symlink_to(tmp_path / "elsewhere")
    assert residents_folder(tmp_path) is None


def test_nothing_is_made_in_the_runtime_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "runtime").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)  # as under `sudo -E`
    residents_folder(tmp_path / "runtime")
    assert list((tmp_path / "runtime").iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "minutes"), [({}, 10.0), ({"CI": "true"}, 0.0), ({"CI": "1", "HARNESS_RESIDENT_MINUTES": "3"}, 3.0)]
)
def test_ci_leaves_no_resident_unless_it_asks_for_one(variables: dict[str, str], minutes: float) -> None:
    assert Settings.from_environment(variables).resident_minutes == minutes


@pytest.mark.parametrize("text", ["abc", "-1", "nan", "inf"])
def test_minutes_of_a_resident_are_a_number(text: str) -> None:
    with pytest.raises(UsageError, match="HARNESS_RESIDENT_MINUTES"):
        Settings.from_environment({"HARNESS_RESIDENT_MINUTES": text})
