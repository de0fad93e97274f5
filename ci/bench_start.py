"""The time from a command to its first verdict, as a ratio to `import torch, triton` in a fresh Python of the same run.

`bench_start.py FOLDER`: scratch files lie in the folder.  The first search compiles the kernels and is not counted.  So
the files that Python and Triton read are in Linux's cache, as for a person who runs the command again.  A cold command
finds no resident zygote, a warm one finds that of the command before.

It prints medians, and where the time goes.  The parent's own imports and the zygote's loading go on at the same time.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from harness.cli import main as run_command
from harness.engines.torch.import_hooks import Execute, on_import
from harness.settings import RESIDENT_VARIABLE
from harness.workers.fork_servers.residents import found_residents, residents_folder

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 7
IMPORT = "import torch, triton"
SUITE = str(ROOT / "suites/fla/norm.py")
LIBRARY, DEVICE, OP = "fla-core==0.6.0", "rtx-pro-6000", "layer_norm"
COMMAND = ("fuzz", SUITE, "--with", LIBRARY, "--device", DEVICE, "--op", OP, "--cases", "1", "--seed", "1")
STAGES = {
    "imported": "the command is imported",
    "prepared": "zygote has torch, Triton and the engine, or a resident has the libraries, too",
    "loaded": "device's server has the suite and the library, first worker is there",
    "ended": "first case has ended: the verdict",
}
"""What each moment is called that the probe notes, in order."""
PROBE = "--probe"
POLL_S = 0.002


def main(folder: str) -> None:
    """Print the figures."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, each start compiles the harness anew

    def python(*arguments: str) -> float:
        begun_s = time.monotonic()
        subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=2
        )
        return time.monotonic() - begun_s

    def probed() -> dict[str, float]:
        notes = Path(folder, "moments.json")
        begun_s = time.monotonic()
        python(__file__, PROBE, str(notes))
        return {name: at_s - begun_s for name, at_s in json.loads(notes.read_text(encoding="utf-8")).items()}

    runtime = Path(folder, "runtime")
    environment |= {"XDG_RUNTIME_DIR": str(runtime), RESIDENT_VARIABLE: "5"}
    runtime.mkdir(exist_ok=True)
    probed()
    imports: list[float] = []
    cold: list[dict[str, float]] = []
    warm: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        _end_residents(runtime)
        imports.append(python("-c", IMPORT))
        cold.append(probed())
        warm.append(probed())
    _end_residents(runtime)
    print(f"`{IMPORT}` takes {median(imports):.2f} s")
    for what, commands in (("cold", cold), ("warm", warm)):
        ratio = median(moments["ended"] / seconds for seconds, moments in zip(imports, commands, strict=True))
        print(f"{what} start: first verdict after {ratio:.2f} times that")
        for name, text in STAGES.items():
            noted = [moments[name] for moments in commands if name in moments]
            if noted:
                print(f"  {median(noted) / median(imports):5.2f}  {text}")


def _end_residents(runtime: Path) -> None:
    if folder := residents_folder(runtime):
        for resident in found_residents(folder):
            if resident.is_ready:
                os.kill(resident.pid, signal.SIGKILL)


class Moments:
    """The moments of a command, on the monotonic clock, by name.  The first one of each name counts."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}

    def note(self, name: str) -> None:
        self.at_s.setdefault(name, time.monotonic())

    def watch(self) -> None:
        """Note the moments of the command that this process is about to run."""
        on_import("harness.cli.search_run", self._imported)
        on_import(
            "harness.workers.fork_servers.device_server", self._replacing("DeviceServer", "_await_hello", self._hello)
        )
        on_import("harness.reports.progress", self._replacing("Progress", "tick", self._tick))

    def _imported(self, module: ModuleType, execute: Execute) -> None:
        del module
        execute()
        self.note("imported")

    def _replacing(self, name: str, method: str, around: Callable[..., Any]) -> Callable[[ModuleType, Execute], None]:
        def run(module: ModuleType, execute: Execute) -> None:
            execute()
            owner = getattr(module, name)
            original = getattr(owner, method)
            setattr(owner, method, wraps(original)(lambda *arguments: around(original, *arguments)))

        return run

    def _hello(self, original: Callable[..., str], server: Any, *arguments: Any) -> str:
        threading.Thread(target=self._await_pid, args=(server,), daemon=True).start()
        engine = original(server, *arguments)
        self.note("loaded")
        return engine

    def _await_pid(self, server: Any) -> None:
        """The zygote forks the device's server, and reports its id, as soon as it is prepared."""
        while server._server.pid is None:  # noqa: SLF001 - a measurement
            time.sleep(POLL_S)
        self.note("prepared")

    def _tick(self, original: Callable[..., None], progress: Any, statistics: Any, *arguments: Any) -> None:
        if statistics.cases:
            self.note("ended")
        original(progress, statistics, *arguments)


def probe(notes: str) -> None:
    """Run the command in this process, and write its moments to a file."""
    moments = Moments()
    moments.watch()
    sys.argv = ["harness", *COMMAND]
    run_command()
    Path(notes).write_text(json.dumps(moments.at_s), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == PROBE:
        probe(sys.argv[2])
    else:
        main(sys.argv[1])
