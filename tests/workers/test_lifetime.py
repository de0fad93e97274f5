"""No child outlives its parent, however that ends, and the case that was running is on disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model.case import HARNESS_FOLDER
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.workers.folder import PoolFolder, left_behind
from tests.workers.setting import DEADLINE_S, ROOT, Fifo, case, processes_marked, survivors

PARENT = Path(__file__).with_name("parent.py")


def start_parent(scratch: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PARENT), str(scratch)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def killed_with_a_folder(scratch: Path) -> Path:
    """The folder of a process that made one and was killed."""
    program = (
        f"from harness.workers.folder import PoolFolder; print(PoolFolder({str(scratch)!r}).path, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout
        left = Path(owner.stdout.readline().strip())
        owner.kill()
        owner.communicate(timeout=DEADLINE_S)
    return left


def test_after_ctrl_c_no_process_and_no_file_is_left(scratch: Path, fifo: Fifo, mark: str) -> None:
    with start_parent(scratch) as parent:
        fifo.read()
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: the whole group
        output, _ = parent.communicate(timeout=DEADLINE_S)
    assert output.splitlines()[-1] == "KeyboardInterrupt"
    assert parent.returncode == -signal.SIGINT
    assert survivors(mark) == []


def test_after_sigkill_of_the_parent_no_process_is_left(tmp_path: Path, fifo: Fifo, mark: str) -> None:
    with start_parent(tmp_path) as parent:
        fifo.read()
        assert len(processes_marked(mark)) >= 4  # parent, fork server, worker, what the case started
        parent.kill()
        parent.communicate(timeout=DEADLINE_S)
    assert survivors(mark) == []


def test_after_sigkill_of_the_parent_the_running_case_is_on_disk(tmp_path: Path, fifo: Fifo) -> None:
    with start_parent(tmp_path) as parent:
        fifo.read()
        assert left_behind(str(tmp_path)) == ()  # it is alive
        parent.kill()
        parent.communicate(timeout=DEADLINE_S)
    assert left_behind(str(tmp_path)) == (case("hang_with_grandchild"),)


def test_the_next_session_reports_what_a_killed_one_was_running(
    tmp_path: Path, fifo: Fifo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_parent(tmp_path / HARNESS_FOLDER / "scratch") as parent:
        fifo.read()
        parent.kill()
        parent.communicate(timeout=DEADLINE_S)
    monkeypatch.chdir(tmp_path)
    messages: list[str] = []
    with Session(Options(suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=1), messages.append):
        assert messages == [f"a search that was killed here was running {case('hang_with_grandchild')}"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_files_of_a_killed_parent_are_removed_when_the_next_one_starts(
    tmp_path: Path, fifo: Fifo, mark: str, number: signal.Signals
) -> None:
    with start_parent(tmp_path) as parent:
        fifo.read()
        parent.send_signal(number)
        parent.communicate(timeout=DEADLINE_S)
    assert survivors(mark) == []
    assert len(list(tmp_path.glob("pool-*"))) == 1
    folder = PoolFolder(str(tmp_path))
    assert list(tmp_path.glob("pool-*")) == [folder.path]
    folder.remove()
    assert list(tmp_path.glob("pool-*")) == []


def test_files_of_a_living_parent_stay_when_another_one_starts(tmp_path: Path, fifo: Fifo) -> None:
    with start_parent(tmp_path) as parent:
        fifo.read()
        theirs = set(tmp_path.glob("pool-*/*"))
        own, second = PoolFolder(str(tmp_path)), PoolFolder(str(tmp_path))
        assert own.path.is_dir()
        own.remove()
        second.remove()
        assert set(tmp_path.glob("pool-*/*")) >= theirs
        parent.kill()
        parent.communicate(timeout=DEADLINE_S)


def test_a_folder_is_removed_though_its_owners_process_id_is_reused(tmp_path: Path) -> None:
    left = killed_with_a_folder(tmp_path)
    left.rename(left.with_name(f"pool-{os.getpid()}-reused"))
    PoolFolder(str(tmp_path)).remove()
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_stays_though_its_owners_process_id_is_unknown(tmp_path: Path) -> None:
    folder = PoolFolder(str(tmp_path))  # as one of another container, which shares no process numbers with this one
    elsewhere = folder.path.rename(folder.path.with_name("pool-99999999-elsewhere"))
    PoolFolder(str(tmp_path)).remove()
    assert elsewhere.is_dir()
    assert left_behind(str(tmp_path)) == ()
    folder.remove()  # it lets the lock go


def test_a_folder_without_a_lock_goes_with_the_process_in_its_name(tmp_path: Path) -> None:
    """As an earlier release made them, and as one looks just before its lock is there."""
    (tmp_path / "pool-99999999-old").mkdir()
    (tmp_path / f"pool-{os.getpid()}-new").mkdir()
    (tmp_path / "pool-of-another").mkdir()
    PoolFolder(str(tmp_path)).remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pool-{os.getpid()}-new", "pool-of-another"]


def test_a_parent_killed_while_a_library_loads_leaves_nothing(tmp_path: Path, fifo: Fifo, mark: str) -> None:
    suite = tmp_path / "hanging.py"
    suite.write_text(
        "import os\nopen(os.environ['MISCHIEF_FIFO'], 'w').write('loading\\n')\nwhile True: pass\n", encoding="utf-8"
    )
    program = (
        "from dataclasses import replace; from pathlib import Path; from harness.workers.pool import Pool\n"
        "from tests.workers.setting import DEVICE, specs\n"
        f"Pool(specs(Path({str(tmp_path)!r}), suites=({str(suite)!r},)), 1, 1.0).prepare(DEVICE)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as parent:
        assert fifo.read() == "loading\n"
        parent.kill()
    assert survivors(mark) == []


def test_the_parent_never_imports_torch_or_triton_though_its_children_do(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from harness.workers.pool import Pool\n"
        "from tests.workers.setting import case, specs\n"
        f"spec = specs(Path({str(tmp_path)!r}), engine='tests.workers.engines:WithTorch')\n"
        "with Pool(spec, processes=1, time_limit_s=60) as pool:\n"
        "    print(pool.run(case('threads')).seconds['result'])\n"
        "print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.stdout, ended.stderr) == ("1.0\n[]\n", "")


def test_an_allocation_that_fails_in_torch_is_out_of_memory(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from harness.workers.pool import Pool\n"
        "from tests.workers.setting import case, specs\n"
        "for engine in ('Calling', 'Catching'):\n"
        f"    spec = specs(Path({str(tmp_path)!r}), engine=f'tests.workers.engines:{{engine}}')\n"
        "    with Pool(spec, processes=1, time_limit_s=60) as pool:\n"
        "        print(type(pool.run(case('torch_allocates')).ending).__name__)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.stdout, ended.stderr) == ("OutOfMemory\nOutOfMemory\n", "")
