"""Runs of a case in a child process of the worker, for cases whose op is called in a forked or in a spawned child.

A forked child has the worker's memory: the library with what it set at import.  A spawned child is a new interpreter,
which loads engine, device, the op's suite and its libraries again.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from signal import Signals

from harness import wire
from harness.errors import ReplayError, WorkerError
from harness.model.case import CallContext
from harness.model.ending import Crashed, Unsupported
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, case_of
from harness.model.run import Run
from harness.workers.protocol import REQUEST_TYPES, FrameKind, kind_of
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import linux
from harness.workers.zygote.loading import Loaded, load, prepare

LOG_BYTES = 4096
CUDA_IN_A_FORK = "a forked child of a process that uses CUDA, which cannot use it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOrders:
    """What a spawned child has to do; it reads them from its standard input."""

    spec: WorkerSpec
    kind: str
    """The name of the request's frame kind."""
    request: str


def run_in_child(loaded: Loaded, request: RunRequest, run: Callable[[], Run]) -> Run:
    """Return the run of a request whose case asks for a child process; `run` runs it in the process that calls it."""
    engine = loaded.engine.traits
    if case_of(request).context is CallContext.SPAWNED:
        return _spawned(loaded, request)
    if engine.needs_gpu:
        return _unanswered(
            request, engine.name, Unsupported(what=CUDA_IN_A_FORK, kernel="", source=None, triton_version="")
        )
    return _forked(engine.name, request, run)


def run_one(loaded: Loaded, op: Op, request: RunRequest) -> Run:
    """Run a case or a paired run in this process."""
    if isinstance(request, PairedRunRequest):
        return loaded.engine.run_paired(op, request)
    return loaded.engine.run(op, case_of(request))


def _forked(engine: str, request: RunRequest, run: Callable[[], Run]) -> Run:
    read_end, write_end = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            linux.die_with(parent)
            os.close(read_end)
            with os.fdopen(write_end, "wb") as file:
                file.write(wire.reply_to_json(run()).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - the child's own boundary: its parent reports how it ended
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        answer = file.read()
    _, waited = os.waitpid(child, 0)
    return _answer(engine, request, os.waitstatus_to_exitcode(waited), answer, "")


def _spawned(loaded: Loaded, request: RunRequest) -> Run:
    spec = replace(loaded.spec, suites=(loaded.ops[case_of(request).op].suite,))
    orders = SpawnOrders(spec=spec, kind=kind_of(request).name, request=wire.request_to_json(request))
    # Not a pipe: nobody would read it while the child writes, and it holds 64 KiB.
    with os.fdopen(os.memfd_create("answer"), "rb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(file.fileno())],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(file.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _, printed = process.communicate(wire.to_json(orders).encode())
        file.seek(0)
        answer = file.read()
    log = printed[-LOG_BYTES:].decode(errors="replace")
    return _answer(loaded.engine.traits.name, request, process.returncode, answer, log)


def _answer(engine: str, request: RunRequest, status: int, answer: bytes, log: str) -> Run:
    """Return the child's run, or how the child ended without one."""
    if status == 0:
        try:
            kind = PairedRun if isinstance(request, PairedRunRequest) else Run
            return wire.reply_from_json(answer, kind, case_of(request))
        except ReplayError as error:
            raise WorkerError(f"a child of a worker broke the protocol: {error}") from None
    signal = Signals(-status).name if status < 0 else None
    return _unanswered(request, engine, Crashed(signal=signal, status=None if signal else status, log_tail=log))


def _unanswered(request: RunRequest, engine: str, ending: Crashed | Unsupported) -> Run:
    return Run(case=case_of(request), engine=engine, ending=ending)


def main() -> None:
    """Load as a fork server does, and run one request."""
    linux.die_with(os.getppid())
    orders = wire.from_json(sys.stdin.buffer.read(), SpawnOrders)
    loaded = load(orders.spec, prepare(orders.spec.engine))
    if not isinstance(loaded, Loaded):
        raise loaded.error()
    if problem := loaded.engine.begin():
        raise WorkerError(problem)
    kind = REQUEST_TYPES[FrameKind[orders.kind]]
    request = wire.request_from_json(orders.request.encode(), orders.spec.device, kind)
    run = run_one(loaded, loaded.ops[case_of(request).op], request)
    with os.fdopen(int(sys.argv[1]), "wb") as file:
        file.write(wire.reply_to_json(run).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the case is answered: a thread of torch that still runs may abort an interpreter that ends


if __name__ == "__main__":
    main()
