"""The child: takes case after case from its socket, hands them to the engine and sends back what came of them."""

import faulthandler
import os
import socket
import sys
import traceback
from dataclasses import replace
from time import monotonic, perf_counter
from typing import TextIO, cast

from harness import wire
from harness.errors import ReplayError
from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, case_of
from harness.model.run import Faulted, OutOfMemory, Run
from harness.ops import flight_recorder
from harness.workers.protocol import COST, ChildError, FaultKind, Frame, FrameKind, Inbox, send
from harness.workers.supervision import linux, memory_limit
from harness.workers.zygote import preload
from harness.workers.zygote.loading import Loaded

PIECE_BYTES = 65536


def main(fds: tuple[int, ...]) -> int:
    """Serve cases until the stream ends.  Runs in a process just forked; the result is its exit status."""
    stream_fd, log_fd, recorder_fd = fds
    os.setsid()  # the leader of a group, so that all it starts can be killed with it
    os.set_inheritable(stream_fd, False)  # noqa: FBT003 — takes no keyword
    _print_to(log_fd)
    flight_recorder.attach(recorder_fd)
    with socket.socket(fileno=stream_fd) as stream:
        match preload.state.outcome:
            case None:
                _complain(stream, ChildError(kind=FaultKind.WORKER, message="the fork server has no orders"))
            case ChildError() as fault:
                _complain(stream, fault)
            case Loaded() as loaded:
                try:
                    _serve(stream, loaded)
                except SystemExit as leaving:  # the library called sys.exit()
                    return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0


def _serve(stream: socket.socket, loaded: Loaded) -> None:
    linux.die_with(loaded.server)
    linux.offer_to_oom_killer()
    linux.keep_freed_memory()
    held = memory_limit.limit_growth(loaded.spec.memory_limit_bytes)
    if problem := loaded.engine.begin():
        _complain(stream, ChildError(kind=FaultKind.GPU, message=problem))
        return
    send(stream, FrameKind.HELLO, loaded.engine.name.encode())
    inbox = Inbox()
    while piece := stream.recv(PIECE_BYTES):
        inbox.add(piece)
        while frame := inbox.take():
            started = perf_counter()
            match _attempt(loaded, frame):
                case ChildError() as fault:
                    _complain(stream, fault)
                case Run() as run:
                    seconds = perf_counter() - started
                    grown = max(0, linux.data_bytes() - held)
                    sys.stdout.flush()
                    kind = FrameKind.COMPANION if isinstance(run, PairedRun) else FrameKind.RUN
                    is_lost = isinstance(run.ending, OutOfMemory | Faulted)
                    answer = wire.answer_to_json(run).encode()
                    send(stream, kind, COST.pack(seconds, grown, is_lost, monotonic()) + answer)


def _attempt(loaded: Loaded, frame: Frame) -> Run | ChildError:
    """One case.  Only what is the harness's fault, or the suite's, is a fault."""
    try:
        kind = PairedRunRequest if frame.kind is FrameKind.BESIDE else Case
        wanted = wire.order_from_json(frame.payload, loaded.spec.device, kind)
    except ReplayError as error:
        return ChildError(kind=FaultKind.WORKER, message=f"a worker was sent a case that it cannot read: {error}")
    case = case_of(wanted)
    op = loaded.ops.get(case.op)
    if op is None:
        known = ", ".join(loaded.ops) or "none at all"
        return ChildError(kind=FaultKind.SUITE, message=f"no suite declares the op {case.op!r}; known: {known}")
    limit = loaded.spec.memory_limit_bytes
    try:
        run = _run(loaded, op, wanted)
    except Exception as error:  # noqa: BLE001 — the process's own boundary: the parent is told, and replaces this child
        memory_limit.lift_limit()
        if memory_limit.is_out_of_memory(error):
            message = f"{type(error).__name__}: {error}"
            return Run(case=case, engine=loaded.engine.name, ending=OutOfMemory(limit_bytes=limit, message=message))
        return ChildError(kind=FaultKind.WORKER, message=f"the engine failed on {case}:\n{traceback.format_exc()}")
    ending = memory_limit.reclassified(run.ending, limit)
    return run if ending is run.ending else replace(run, ending=ending)


def _run(loaded: Loaded, op: Op, wanted: RunRequest) -> Run:
    with flight_recorder.running(str(case_of(wanted))):
        match wanted:
            case Case():
                return loaded.engine.run(op, wanted)
            case PairedRunRequest():
                return loaded.engine.run_beside(op, wanted)


def _complain(stream: socket.socket, fault: ChildError) -> None:
    sys.stdout.flush()
    send(stream, FrameKind.FAULT, wire.to_json(fault).encode())


def _print_to(log_fd: int) -> None:
    """All output, native code's and this process's dying words too, goes to the parent's log."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log_fd, stream.fileno())
        cast("TextIO", stream).reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    os.close(log_fd)
    faulthandler.enable(file=2)
    faulthandler.register(linux.STACK_SIGNAL, file=2, all_threads=True)
